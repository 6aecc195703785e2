"""What gives way, entry by entry, with the event behind each; and texts of it as packets show them.

A message counts as it was shown: what a preview left out the model never saw.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sawlog.builder.contents import Contents, preview_of, text_of
from sawlog.builder.packet import Entry
from sawlog.builder.state import Ref
from sawlog.compaction.calls import Calls
from sawlog.compaction.past import Past
from sawlog.store.content import TextPart
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.conversation import MessageAssistant, MessageUser
from sawlog.store.text import BlobMissing, Text, TextObject

REAL = ("full", "preview", "late", "stub", "outdated")
"""Forms of a result that there is."""


class Gone(msgspec.Struct, frozen=True):
    """One entry that gives way."""

    ref: Ref
    entry: Entry
    event: Event


class Said(msgspec.Struct, frozen=True):
    """A text of the user or the assistant; `gone` when it gives way.

    `covered`: this is the first checkpoint that covers it, be it that it goes on being shown. What
    is taken from it now has its later words read as well; those of an older one are covered by
    the checkpoint before, and what was taken from it then was carried or settled.
    """

    event: Event
    text: str
    by_user: bool
    gone: bool
    covered: bool


class Reading:
    """A past read once: what gives way, what was said, what became of calls.

    `events` are those of the past and all that give way, in seq order: what stayed in an earlier
    compaction is older than the past. `citable` are the ids of those that lie in the region, with
    those in it that no packet shows, and of the evidence of the checkpoint before. `open_before`
    are the calls that it told of as without a result.
    """

    def __init__(self, past: Past) -> None:
        self.past = past
        self.by_seq: dict[int, Event] = {event.seq: event for event in past.events}
        self.gone: list[Gone] = []
        late: list[Event] = []
        for ref, entry in zip(past.region.refs, past.region.entries, strict=True):
            event = self.event(ref.seq) if ref.seq else None
            if event is None:
                continue
            self.gone.append(Gone(ref, entry, event))
            call = dict(ref.args).get("call")
            asked = self.event(call) if ref.form == "late" and isinstance(call, int) else None
            if asked is not None:
                late.append(asked)
        self.seqs = frozenset(one.ref.seq for one in self.gone)
        shown = {one.event.seq: one.event for one in self.gone}
        shown.update((event.seq, event) for event in late)
        shown.update(self.by_seq)
        self.events = [shown[seq] for seq in sorted(shown)]
        self.calls = Calls(self.events)
        previous = past.previous
        self.open_before = frozenset(() if previous is None else (c.call for c in previous.calls))
        through, kept = past.region.through, frozenset(past.region.kept)
        self.citable = frozenset(
            {
                *(one.event.id for one in self.gone),
                *(e.id for e in past.events if e.seq <= through and e.seq not in kept),
                *(() if previous is None else previous.evidence),
            }
        )

    def event(self, seq: int) -> Event | None:
        """The event of that seq; None where the caller did not provide it."""
        found = self.by_seq.get(seq)
        if found is not None:
            return found
        try:
            return self.past.contents.event(seq)
        except KeyError:
            return None

    def text(self, text: Text) -> str:
        """The whole text. Raises BlobMissing."""
        return text_of(text, self.past.contents)

    def is_unfinished(self, id: EventId) -> bool:
        """True of a call or a result that is no finished work: failed, cut off, without a result,
        or known only as a call without a result of the checkpoint before."""
        outcome = self.calls.outcome(id)
        return outcome != "ok" if outcome else id in self.open_before

    def said(self) -> Iterator[Said]:
        """What user and assistant said, in seq order: all that gives way, and what is new since.

        A text for one step alone, and one that a foreign tool added in the user's name, are none.
        """
        found: list[tuple[int, int, Said]] = []
        for one in self.gone:
            by_user = one.entry.kind == "user"
            if not (by_user or one.entry.kind == "assistant") or one.entry.trust != "trusted":
                continue
            if by_user and not _is_users(one.event):
                continue
            covered = self.past.previous is None or one.event.seq in self.by_seq
            said = Said(one.event, one.entry.text, by_user, True, covered)
            found.append((one.ref.seq, one.ref.part, said))
        for event in self.past.events:
            if event.seq not in self.seqs:
                found.extend(self._still_shown(event))
        found.sort(key=lambda each: each[:2])
        return (said for _, _, said in found)

    def _still_shown(self, event: Event) -> Iterator[tuple[int, int, Said]]:
        content = event.content
        if not isinstance(content, MessageUser | MessageAssistant) or content.copy:
            return
        by_user = isinstance(content, MessageUser)
        if by_user and not (_is_users(event) and _is_trusted(event)):
            return
        for at, part in enumerate(content.parts, 1):
            if isinstance(part, TextPart):
                text = shown_text(part.text, self.past.contents)
                covered = event.seq <= self.past.region.through
                yield event.seq, at, Said(event, text, by_user, False, covered)


def shown_text(text: Text, contents: Contents) -> str:
    """A text as packets show it: previews as such. Raises BlobMissing."""
    if isinstance(text, TextObject) and text.is_preview:
        return preview_of(text)
    return text_of(text, contents)


def offered_text(parts: tuple[object, ...], contents: Contents) -> str:
    """The texts of an item's parts; one whose blob is gone counts as its preview."""
    out: list[str] = []
    for part in parts:
        if isinstance(part, TextPart):
            try:
                out.append(text_of(part.text, contents))
            except BlobMissing:
                out.append(shown_text(part.text, contents))
    return "\n".join(out)


def _is_users(event: Event) -> bool:
    content = event.content
    return isinstance(content, MessageUser) and not content.once and content.origin != "harness"


def _is_trusted(event: Event) -> bool:
    # As packets give a message of the user its standing: by its channel alone.
    channel = event.source.partition(":")[0]
    return channel in ("import", "user", "system", "developer", "harness")

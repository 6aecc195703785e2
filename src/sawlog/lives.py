"""In which packets of a session parts could be read, and what took them out."""

from __future__ import annotations

import msgspec

from sawlog.builder.contents import Contents
from sawlog.builder.projector import fold
from sawlog.builder.state import Ref, State
from sawlog.holding import Held, Key, Wanted
from sawlog.store.event import Event
from sawlog.store.events.inbox import InboxCancelled, InboxClaimed
from sawlog.store.events.steps import PacketBuilt


class Life(msgspec.Struct):
    """The first and the last step whose packet had a part, the first after that without it.

    `reason` is what took it out, or why it was in none.
    """

    first: int = 0
    last: int = 0
    out: int = 0
    reason: str = "not_shown"


class Lives:
    """The lives of some parts, followed event by event."""

    def __init__(self, parts: dict[Key, Held], contents: Contents, wanted: Wanted) -> None:
        self.state = State()
        """The state after the newest event that was followed."""
        self._held = parts
        self._contents = contents
        self._wanted = wanted
        self._lives = {key: Life() for key in parts}
        self._parts: dict[int, list[Key]] = {}
        for key in parts:
            self._parts.setdefault(key[0], []).append(key)
        self._ids = {one.event.id: key for key, one in parts.items()}
        self._now: set[Key] = set()

    def of(self, key: Key) -> Life:
        """What is known of a part."""
        return self._lives[key]

    def see(self, event: Event) -> None:
        """Follow the session by one event."""
        before = self.state
        self.state = fold(before, event)
        content = event.content
        if len(self.state.cuts) > len(before.cuts):
            self._cut(before, self.state.cuts[-1])
        if isinstance(content, PacketBuilt):
            self._packet(event.step, before)
        elif isinstance(content, InboxClaimed | InboxCancelled):
            rejected = isinstance(content, InboxClaimed) and content.rejected
            gone = "cancelled" if isinstance(content, InboxCancelled) else "claimed"
            for id in content.messages:
                if id in self._ids:
                    self._give(self._ids[id][0], "rejected" if rejected else gone)
        self._flagged(event)

    def _flagged(self, event: Event) -> None:
        if event.seq not in self._parts or not self.state.news:
            return
        news = self.state.news[-1]
        if news.seq == event.seq and news.flag in ("duplicate", "no_call", "copy"):
            self._give(event.seq, news.flag)

    def _cut(self, before: State, cause: str) -> None:
        """An event cut the history: what it took out has that reason."""
        if cause == "trimmed":
            for seq in set(self.state.trims) - set(before.trims):
                self._give(seq, cause)
            return
        offered = cause == "rewound"
        for seq in _there(before, offered=offered) - _there(self.state, offered=offered):
            self._give(seq, cause)

    def _give(self, seq: int, reason: str) -> None:
        for key in self._parts.get(seq, ()):
            self._lives[key].reason = reason

    def _packet(self, step: int, before: State) -> None:
        """A packet was built: what it does not show any more and nothing else took, it cut."""
        sent = self.state.sent
        grew = sent.grew_from(before.sent) and len(before.sent) > 0
        fresh = sent.between(len(before.sent) if grew else 0, len(sent))
        was = {ref.seq: ref.section for ref in before.sent} if not grew else {}
        if not grew:
            self._now = set()
        self._now.update((ref.seq, ref.part) for ref in fresh if self._shows(ref))
        for key, life in self._lives.items():
            if key in self._now:
                life.first = life.first or step
                life.last, life.out, life.reason = step, 0, "not_shown"
            elif life.last and not life.out:
                life.out = step
                if life.reason == "not_shown" and key[0] in was:
                    header = was[key[0]] in ("system", "tools")
                    life.reason = "header_changed" if header else "block_cut"

    def _shows(self, ref: Ref) -> bool:
        one = self._held.get((ref.seq, ref.part))
        return one is not None and one.shown_by(ref, self._contents, self._wanted)


def _there(state: State, *, offered: bool) -> set[int]:
    """Seqs of what stands in a state's history; with `offered` of what may come into it, too."""
    there = {*(one.seq for one in state.news), *(ref.seq for ref in state.sent)}
    return there | {one.seq for one in state.offers} if offered else there

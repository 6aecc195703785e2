"""What a part of the log says of itself: its source, version, place and labels, and an excerpt."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from sawlog.audit.findings import Version, Why
from sawlog.audit.holding import Held
from sawlog.builder.compacted import SECTION
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.state import Ref
from sawlog.store.event import Event
from sawlog.store.events.compaction import Checkpoint, CompactionCompleted
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.events.items import ItemOffered
from sawlog.store.events.world import ObservationRecorded, Saw, WorldChanged
from sawlog.work.searching import is_said

_AROUND = 60
"""Characters of a line that are shown on each side of what was asked for."""


def excerpt(text: str, what: str) -> str:
    """The line that holds what was asked for, or the lines, cut around it.

    A text that is meant as a whole and does not hold it: its first line that says something.
    """
    at = text.find(what)
    if at < 0:
        at = len(text) - len(text.lstrip())
        what = ""
    end = at + len(what)
    start = max(text.rfind("\n", 0, at) + 1, at - _AROUND)
    stop = text.find("\n", end)
    reach = _AROUND if what else 2 * _AROUND
    return text[start : min(len(text) if stop < 0 else stop, end + reach)]


def digest(text: str) -> str:
    """The hex SHA-256 of a text as it is stored."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def labels(one: Held) -> tuple[tuple[str, str], ...]:
    """How far a part is trusted and what keeps it, as far as it says so."""
    content = one.event.content
    if isinstance(content, ItemOffered):
        label = content.label
        return (
            ("authority", label.authority),
            ("trust", label.trust),
            ("retention", label.retention),
            ("sensitivity", label.sensitivity),
        )
    if one.entry is None:
        return ()
    return (("authority", one.entry.authority), ("trust", one.entry.trust))


def sourced(answer: Why, one: Held, contents: Contents) -> Why:
    """The answer with what the source says of itself."""
    content = one.event.content
    match content:
        case ItemOffered():
            return msgspec.structs.replace(
                answer,
                source_id=text_of(content.source_id, contents),
                named=text_of(content.version, contents),
                locator=text_of(content.locator, contents) or text_of(content.path, contents),
            )
        case WorldChanged():
            return msgspec.structs.replace(answer, source_id=content.sections[one.part - 1].name)
        case ToolFinished() | ObservationRecorded() if content.saw:
            first = content.saw[0]
            path = text_of(first.path, contents)
            where = f"{path}:{first.range}" if first.range else path
            return msgspec.structs.replace(
                answer, source_id=path, named=first.version, locator=where
            )
        case _:
            return answer


# --- where a compaction left it -------------------------------------------------------------------


def fetched_by(event: Event, refs: Sequence[Ref], contents: Contents) -> str:
    """The name by which a model that sees these entries can read what a compaction took away.

    What the checkpoint cites has its evidence's name; all else that it stands for is found by a
    search in it, and then has the name of its place. Empty when no checkpoint stands for it.
    """
    at = next((ref.seq for ref in refs if ref.section == SECTION), 0)
    checkpoint = contents.event(at).content if at else None
    ended = contents.event(at + 1).content if at else None
    if not isinstance(checkpoint, Checkpoint) or not isinstance(ended, CompactionCompleted):
        return ""
    if event.id in checkpoint.evidence:
        return f"k{checkpoint.number}.{checkpoint.evidence.index(event.id) + 1}"
    if is_said(event) and event.seq <= ended.through:
        return f"k{checkpoint.number}@{event.seq}"
    return ""


# --- which version went out -----------------------------------------------------------------------


def went_out(one: Held, refs: Sequence[Ref], contents: Contents) -> tuple[Version, ...]:
    """The versions of the part's source that a packet of these entries shows."""
    subject = _subject(one.event.content, one.event.source, contents)
    if subject is None:
        return ()
    found: list[Version] = []
    for at, ref in enumerate(refs):
        if ref.form not in ("full", "preview", "late", "item") or not ref.seq:
            continue
        event = contents.event(ref.seq)
        other = _subject(event.content, event.source, contents)
        if other is not None and other[0] == subject[0]:
            found.append(Version(ref.seq, ref.part, other[1], ref.form, at))
    return tuple(found)


def _subject(content: object, source: str, contents: Contents) -> tuple[str, str] | None:
    """What an event tells of, and in which version."""
    if isinstance(content, ItemOffered):
        of = text_of(content.canonical, contents)
        of = of or f"{source}:{text_of(content.source_id, contents)}"
        return f"item {of}", text_of(content.version, contents)
    if isinstance(content, ToolFinished | ObservationRecorded) and content.saw:
        first: Saw = content.saw[0]
        return f"file {text_of(first.path, contents)}", first.version
    return None

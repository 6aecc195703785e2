"""What a summariser may cite: names for events of the region, and what each of them is.

A name is the event's place in the checkpoint to be written (`k2.5`: the fifth piece of checkpoint
2), so nothing that the summariser reads comes from an event's id. What code cites stands first and
keeps its place, whatever the summariser cites besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from sawlog.builder.contents import Contents, text_of
from sawlog.compaction.past import Past
from sawlog.compaction.wording import cut
from sawlog.store.content import TextPart
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import Checkpoint
from sawlog.store.events.conversation import MessageUser, ToolFinished, ToolRequested
from sawlog.store.events.world import FileChanged, FileObserved, ObservationRecorded
from sawlog.store.text import BlobMissing, Text

MOST = 200
"""Events that are named besides those that code cites: the newest of the region."""

SHOWN = 120
"""Characters of what an event is."""

_CITED = (MessageUser, ToolFinished, ObservationRecorded, FileChanged)


class Evidence(msgspec.Struct, frozen=True):
    """Events by name, in the order of the checkpoint: name, event, what it is."""

    pieces: tuple[tuple[str, EventId, str], ...] = ()

    def id_of(self, name: str) -> EventId:
        """The event of a name; the name itself where there is none, which is no event's id."""
        return next((id for known, id, _ in self.pieces if known == name), name)

    @property
    def ids(self) -> tuple[EventId, ...]:
        """The events in their order."""
        return tuple(id for _, id, _ in self.pieces)


def evidence_of(past: Past, known: Checkpoint) -> Evidence:
    """What may be cited in the checkpoint that code began. Raises BlobMissing."""
    events = {event.id: event for event in past.events}
    kept = frozenset(past.region.kept)
    rest = [
        event.id
        for event in past.events
        if event.seq <= past.region.through and event.seq not in kept
        if isinstance(event.content, _CITED) and event.id not in known.evidence
    ]
    return Evidence(
        tuple(
            (f"k{past.number}.{at}", id, _what(events.get(id), events, past.contents))
            for at, id in enumerate((*known.evidence, *rest[-MOST:]), 1)
        )
    )


def _what(event: Event | None, events: Mapping[EventId, Event], contents: Contents) -> str:
    if event is None:
        return "evidence of the checkpoint before"
    content = event.content

    def read(text: Text) -> str:
        return text_of(text, contents)

    match content:
        case ToolRequested():
            return f"call {_call(content, read(content.name), contents)}"
        case ToolFinished():
            asked = events.get(content.call)
            if asked is None or not isinstance(asked.content, ToolRequested):
                return shortened(f"result of {read(content.name)}, status {content.status}")
            call = _call(asked.content, read(asked.content.name), contents)
            return f"result, status {content.status}, of {call}"
        case MessageUser():
            said = "".join(_texts(content.parts, contents))
            return f"message of the user: {shortened(said)}"
        case ObservationRecorded():
            return f"observation {shortened(read(content.name))}".rstrip()
        case FileChanged() | FileObserved():
            return f"file {shortened(read(content.path))} is {content.state}"
        case _:
            return event.type


def _call(call: ToolRequested, name: str, contents: Contents) -> str:
    return shortened(f"{name} {text_of(call.arguments, contents)}")


def _texts(parts: Iterable[object], contents: Contents) -> Iterator[str]:
    for part in parts:
        if isinstance(part, TextPart):
            try:
                yield text_of(part.text, contents)
            except BlobMissing:
                if isinstance(part.text, str) or part.text.head is None:
                    raise
                yield part.text.head  # a preview: its blob need not be at hand


def shortened(text: str, most: int = SHOWN) -> str:
    """A text on one line, of at most so many characters; a cut is to be seen."""
    flat = " ".join(text.replace("\r", "\n").split("\n"))
    return cut(flat, most)

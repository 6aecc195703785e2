"""What a checkpoint is written from: the region, the events behind it, the checkpoint before."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sawlog.builder.contents import Contents
from sawlog.builder.state import State
from sawlog.compaction.region import Region
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import Checkpoint
from sawlog.store.events.lifecycle import HistoryRewound


class Past(msgspec.Struct, frozen=True):
    """All that code may look at while it writes a checkpoint.

    `state` is the session's as the compaction began. `events` are those of the surviving branch in
    seq order, from behind what the checkpoint before covers (or the first) to the newest; those
    with a seq above `region.through` go on being shown, or say what became of what gives way.
    `previous` is the checkpoint that stands in the packet now, `previous_id` its event's id.
    `started` is the id of the bracket's first event.
    """

    state: State
    region: Region
    events: tuple[Event, ...]
    contents: Contents
    started: EventId
    previous: Checkpoint | None = None
    previous_id: EventId = ""

    @property
    def number(self) -> int:
        """The number of the checkpoint to be written."""
        return 1 if self.previous is None else self.previous.number + 1


_OF_THE_BRANCH = frozenset(
    ("message", "tool", "approval", "observation", "packet", "attempt", "step", "compaction")
)
"""Families of events that a rewind takes back; what is told of the world and noted stays."""


def surviving(events: Iterable[Event]) -> list[Event]:
    """These events without those that a rewind among them took back."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event.content, HistoryRewound):
            to = event.content.to
            kept = [
                one
                for one in kept
                if one.seq <= to or one.type.partition(".")[0] not in _OF_THE_BRANCH
            ]
        kept.append(event)
    return kept

"""What a checkpoint is written from: the region, the events behind it, the checkpoint before."""

from __future__ import annotations

import msgspec

from sawlog.builder.contents import Contents
from sawlog.builder.state import State
from sawlog.compaction.region import Region
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import Checkpoint


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

"""Whether the compactions of a log are whole: their halves fit, their regions are what was shown.

A checkpoint and the end that puts it in place are one append. One without the other was not written
by a session, and is found here (CONTRACTS S3-15); a bracket without an end is a crash and no fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sawlog.builder.contents import Contents
from sawlog.builder.state import State
from sawlog.compaction.history import digest_of, history_of
from sawlog.compaction.region import region_places
from sawlog.store.event import Event
from sawlog.store.events.base import Named
from sawlog.store.events.compaction import (
    Checkpoint,
    CompactionCompleted,
    CompactionStarted,
)
from sawlog.store.events.lifecycle import SessionForked

_ANY = Named("utf8-bytes", 1)
"""What is looked at has no units."""


_TELLING = frozenset((SessionForked, CompactionStarted, Checkpoint, CompactionCompleted))
"""Types of the events that a bracket is made of, or ends with."""


class Brackets:
    """Looks at each event in turn; `seen` counts the compactions that were completed."""

    def __init__(self) -> None:
        self.seen = 0
        self._pending = 0
        self._begun: CompactionStarted | None = None

    def see(self, event: Event, before: State, contents: Contents) -> Iterable[str]:
        """What is wrong with this event; `before` is the state until then. Raises BlobMissing."""
        if not self._pending and type(event.content) not in _TELLING:
            return ()
        return self._seen(event, before, contents)

    def _seen(self, event: Event, before: State, contents: Contents) -> Iterator[str]:
        pending, self._pending = self._pending, 0
        content = event.content
        if isinstance(content, SessionForked):
            # A fork may be made inside of a bracket: the rest of that one is the parent's.
            self._begun = None
            return
        if pending and not (isinstance(content, CompactionCompleted) and content.checkpoint):
            yield f"the checkpoint of event {pending} has no end behind it: half of it is missing"
        match content:
            case CompactionStarted(through=through) if through:
                self._begun = content
                places = region_places(
                    history := history_of(before, _ANY, contents), through, content.kept
                )
                if digest_of([history.entries[at] for at in places]) != content.region:
                    yield f"the region of the compaction of event {event.seq} is not what was shown"
            case Checkpoint():
                self._pending = event.seq
            case CompactionCompleted(checkpoint=at) if at:
                self.seen += 1
                if at != pending:
                    yield f"the end of event {event.seq} has no checkpoint in front of it"
                begun, self._begun = self._begun, None
                if begun is None or (begun.through, begun.kept) != (content.through, content.kept):
                    yield f"the end of event {event.seq} covers another region than its start"
            case _:
                pass

    def end(self) -> Iterator[str]:
        """What is wrong at the end of the log."""
        if self._pending:
            yield f"the checkpoint of event {self._pending} has no end: half of it is missing"

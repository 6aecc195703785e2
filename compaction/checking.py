"""Whether a checkpoint may stand in the place of a region: everything that speaks against it.

Finishing a compaction says nothing about the work: what is done has to be shown by events that
finished, and what had to hold must still be there (CONTRACTS S3-13, S3-14, S3-19; CASES 36, 37).
"""

from __future__ import annotations

from collections.abc import Iterator

from sawlog.compaction.bounds import cited
from sawlog.compaction.carried import HOLDING, lines_by_field
from sawlog.compaction.extractive import SUMMARISER
from sawlog.compaction.facts import known
from sawlog.compaction.gone import Reading
from sawlog.compaction.past import Past
from sawlog.compaction.wording import asks_for_work, is_plain_id
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import (
    Checkpoint,
    Closed,
    Line,
    NoteClosed,
    NoteRecorded,
)
from sawlog.store.events.conversation import MessageUser, ToolFinished
from sawlog.store.events.effects import EffectReconciled, EffectSettled
from sawlog.store.events.items import ItemOffered, ItemWithdrawn, TaskSet
from sawlog.store.events.world import FileChanged, FileObserved

CODES = {
    "missing_goal": "the goal that code knows is gone",
    "missing_constraint": "a constraint is neither there in its words nor closed with a reason",
    "dropped_open": "an open item is neither there in its words nor closed with a reason",
    "missing_file": "a file that the work changed is gone",
    "bad_citation": "a finished line cites no finished work, or work that did not finish well",
    "outside_region": "a citation of what neither gives way nor was evidence before",
    "wrong_digest": "a file's version is another than the log's",
    "larger": "it takes as much as what it replaces, or more",
    "empty_prose": "a summariser is named that wrote nothing",
    "imperative": "a finished line asks for work instead of telling of it",
    "duplicate_id": "two lines have one id",
    "bad_id": "an id that could be read as something else",
}
"""Why a checkpoint does not count. These codes stay as they are; new ones may be added."""

_SETTLES: dict[str, tuple[type, ...]] = {
    "constraints": (MessageUser, NoteClosed, NoteRecorded, TaskSet, ItemOffered, ItemWithdrawn),
    "open": (MessageUser, NoteClosed, NoteRecorded, TaskSet, ItemOffered, ItemWithdrawn)
    + (ToolFinished, EffectSettled, EffectReconciled),
}
_FINISHED = (ToolFinished, NoteRecorded, EffectSettled, EffectReconciled, FileChanged, FileObserved)


def check(past: Past, checkpoint: Checkpoint, units: int) -> tuple[tuple[str, str], ...]:
    """Why a checkpoint may not count: (code, what it is about), each once; empty when it may.

    `units` is what it takes in packets, in the measure of the region. Codes are those of CODES;
    what they are about is a line's id, a path, or an event's id. What code knows of the past counts
    by itself, but for its size. Raises BlobMissing.
    """
    judge = _Judge(past)
    found = [*judge.lost(checkpoint), *judge.wrong(checkpoint), *judge.unlike_lines(checkpoint)]
    if units >= past.region.units:
        found.append(("larger", f"{units} of {past.region.units} units"))
    if _wrote_nothing(checkpoint, judge.known):
        found.append(("empty_prose", ""))
    return tuple(dict.fromkeys(found))


def _wrote_nothing(checkpoint: Checkpoint, known: Checkpoint) -> bool:
    """True when all words of a checkpoint with a summariser are code's, or those from before."""
    if checkpoint.summariser is None or checkpoint.narrative or checkpoint.block is not None:
        return False
    before = {(line.id, line.text) for lines in lines_by_field(known).values() for line in lines}
    return all(
        (line.id, line.text) in before
        for lines in lines_by_field(checkpoint).values()
        for line in lines
    )


class _Judge:
    """What one past allows."""

    def __init__(self, past: Past) -> None:
        self.known = known(past)
        self.previous = past.previous or Checkpoint("")
        self._reading = Reading(past)
        self._events: dict[EventId, Event] = {event.id: event for event in self._reading.events}
        self._known_lines = {
            line.id: line for lines in lines_by_field(self.known).values() for line in lines
        }
        self._citable = self._reading.citable | frozenset(self.known.evidence)
        self._code_closes = {one.id: one for one in self.known.closed}
        self._was_finished = frozenset(
            ref
            for lines in (self.previous.confirmed, self.previous.changed)
            for line in lines
            for ref in line.refs
        )

    # --- what is gone -----------------------------------------------------------------------------

    def lost(self, checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
        """What had to be there and is not."""
        if self.known.goal and not checkpoint.goal:
            yield "missing_goal", ""
        there = {line.id: line for field in HOLDING for line in lines_by_field(checkpoint)[field]}
        closed = {one.id: one for one in checkpoint.closed}
        for field, code in (("constraints", "missing_constraint"), ("open", "dropped_open")):
            for line in (*lines_by_field(self.previous)[field], *lines_by_field(self.known)[field]):
                stands = there.get(line.id)
                one = closed.get(line.id)
                if stands is not None:
                    kept = self._is_kept(stands)
                else:
                    kept = one is not None and self._settles(one, field)
                if not kept:
                    yield code, line.id
        changed = {file.path for file in checkpoint.changed}
        for file in self.known.changed:
            if file.path not in changed:
                yield "missing_file", self._reading.text(file.path)

    def _is_kept(self, line: Line) -> bool:
        """True of a line whose words are still those of code or the user; a summariser's own may
        be worded anew."""
        known = self._known_lines.get(line.id)
        return known is None or known.by == SUMMARISER or known.text == line.text

    def _settles(self, closed: Closed, field: str) -> bool:
        """True when something that is cited may settle a line: code's own word always does."""
        if closed == self._code_closes.get(closed.id):
            return True
        for ref in closed.refs:
            event = self._events.get(ref)
            if event is None or ref not in self._citable or self._reading.is_unfinished(ref):
                continue
            if isinstance(event.content, _SETTLES[field]):
                return True
        return False

    # --- what is not so ---------------------------------------------------------------------------

    def wrong(self, checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
        """Citations and versions that the log does not bear out."""
        for line in checkpoint.confirmed:
            if any(self._reading.is_unfinished(ref) for ref in line.refs) or not any(
                self._is_finished(ref) for ref in line.refs
            ):
                yield "bad_citation", line.id
        for ref in dict.fromkeys((*cited(checkpoint), *checkpoint.evidence)):
            if ref not in self._citable:
                yield "outside_region", ref
        versions = {file.path: (file.version, file.state) for file in self.known.changed}
        for file in checkpoint.changed:
            if versions.get(file.path, ("", "present")) != (file.version, file.state):
                yield "wrong_digest", self._reading.text(file.path)
        shown = {(file.path, file.version) for file in self.known.files}
        for seen in checkpoint.files:
            if (seen.path, seen.version) not in shown:
                yield "wrong_digest", self._reading.text(seen.path)

    def _is_finished(self, ref: EventId) -> bool:
        if ref in self._was_finished:
            return True
        event = self._events.get(ref)
        if event is None:
            return False
        return self._reading.calls.outcome(ref) == "ok" or isinstance(event.content, _FINISHED)

    # --- what is no line --------------------------------------------------------------------------

    def unlike_lines(self, checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
        """Lines that are worded or named as none may be."""
        for line in checkpoint.confirmed:
            if asks_for_work(self._reading.text(line.text)):
                yield "imperative", line.id
        seen: dict[str, None] = {}
        for lines in lines_by_field(checkpoint).values():
            for line in lines:
                if line.id in seen:
                    yield "duplicate_id", line.id
                seen[line.id] = None
        for id in (*seen, *(closed.id for closed in checkpoint.closed)):
            if not is_plain_id(id):
                yield "bad_id", id

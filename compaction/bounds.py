"""What a checkpoint takes in packets, and how it is kept below a bound.

Constraints, open items, changed files, what was closed and calls without a result are never left
out: when those alone are too large, `units` of what comes back says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from sawlog.builder.contents import Contents
from sawlog.builder.forms import checkpoint_entries
from sawlog.builder.measure import measure_of
from sawlog.store.events.base import EventId, Named
from sawlog.store.events.compaction import ChangedFile, Checkpoint, Closed, Dropped, Line

MEASURE = Named("utf8-quarter", 1)
"""The measure of the default rules."""

CONFIRMED = 100
"""Lines of finished work that a checkpoint holds; the oldest go first."""

NEXT = 20
FILES = 50
WITHDRAWN = 50
INSTRUCTIONS = 200

_SOFT = 10  # of finished work and of files so many stay as long as the other can give some


def cited(checkpoint: Checkpoint) -> tuple[EventId, ...]:
    """All events that a checkpoint cites, each once, in the order in which it does."""
    refs = (
        *_refs((*checkpoint.constraints, *checkpoint.confirmed)),
        *_refs(checkpoint.changed),
        *_refs((*checkpoint.open, *checkpoint.next)),
        *(call.call for call in checkpoint.calls),
        *(file.ref for file in checkpoint.files if file.ref),
        *_refs(checkpoint.closed),
        *_refs(checkpoint.dropped),
    )
    return tuple(dict.fromkeys(refs))


def _refs(some: Iterable[Line | ChangedFile | Closed | Dropped]) -> Iterator[EventId]:
    for one in some:
        yield from one.refs


def measured(checkpoint: Checkpoint, contents: Contents, measure: Named = MEASURE) -> Checkpoint:
    """The checkpoint with the evidence that it cites and the units that it takes.

    Raises BlobMissing, and UnknownNumber for a measure that is not installed.
    """
    checkpoint = replace(checkpoint, evidence=cited(checkpoint))
    units = sum(map(measure_of(measure), checkpoint_entries(checkpoint, contents)))
    return replace(checkpoint, units=units)


def bounded(
    checkpoint: Checkpoint, contents: Contents, most: int = 0, measure: Named = MEASURE
) -> Checkpoint:
    """The checkpoint in at most so many units, as far as it can be (0: no bound).

    What goes first is the oldest: files that were read, then finished work, each down to ten; then
    the rest of them, what was planned, the narrative, what was withdrawn.
    """
    whole = measured(checkpoint, contents, measure)
    if not most or whole.units <= most:
        return whole
    fields = list(_steps(checkpoint))
    low, high = 0, len(fields)
    best = measured(_without(checkpoint, fields), contents, measure)
    while low < high:
        middle = (low + high) // 2
        tried = measured(_without(checkpoint, fields[:middle]), contents, measure)
        if tried.units <= most:
            best, high = tried, middle
        else:
            low = middle + 1
    return best


def _steps(checkpoint: Checkpoint) -> Iterator[str]:
    """What is left out one after the other: the name of a field for each of its members."""
    files, confirmed = len(checkpoint.files), len(checkpoint.confirmed)
    yield from ["files"] * max(0, files - _SOFT)
    yield from ["confirmed"] * max(0, confirmed - _SOFT)
    yield from ["files"] * min(files, _SOFT)
    yield from ["confirmed"] * min(confirmed, _SOFT)
    yield from ["next"] * len(checkpoint.next)
    yield from ["narrative"] * bool(checkpoint.narrative)
    yield from ["withdrawn"] * len(checkpoint.withdrawn)


def _without(checkpoint: Checkpoint, steps: Sequence[str]) -> Checkpoint:
    count = {name: steps.count(name) for name in steps}
    return replace(
        checkpoint,
        files=checkpoint.files[: len(checkpoint.files) - count.get("files", 0)],  # newest first
        confirmed=checkpoint.confirmed[count.get("confirmed", 0) :],
        next=checkpoint.next[: len(checkpoint.next) - count.get("next", 0)],
        narrative="" if "narrative" in count else checkpoint.narrative,
        withdrawn=checkpoint.withdrawn[count.get("withdrawn", 0) :],
    )

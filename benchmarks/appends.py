"""Rows 1 and 2: durable appends, one by one and a step at a time, against the bare database."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.events import event_of
from benchmarks.floors import Floor
from benchmarks.measuring import Run, say, seconds
from benchmarks.places import Place, SqlitePlace, opened
from benchmarks.results import Line, ratio
from benchmarks.workload import Part, Steps, load
from sawlog.store.envelope import NewEvent


def measure(run: Run, place: Place) -> list[Line]:
    """Each round writes the same steps into a new floor and a new session, four times."""
    steps = load(20 if run.quick else 300)
    parts = [part for step in steps for part in step]
    floor: list[float] = []
    ours: list[float] = []
    lax: list[float] = []
    floor_batch: list[float] = []
    our_batch: list[float] = []
    for turn in range(run.rounds):
        say(f"{place.kind}: appends, round {turn + 1} of {run.rounds}")
        floor.append(len(parts) / _of_floor(place.floor(f"one{turn}"), _single(parts)))
        ours.append(len(parts) / _of_sawlog(place, f"one{turn}", [(part,) for part in parts]))
        if isinstance(place, SqlitePlace):
            lax.append(len(parts) / _of_floor(place.lax_floor(f"one{turn}"), _single(parts)))
        floor_batch.append(
            1e3 * _of_floor(place.floor(f"step{turn}"), _batches(steps)) / len(steps)
        )
        our_batch.append(1e3 * _of_sawlog(place, f"step{turn}", steps) / len(steps))
    lines: list[Line] = []
    if place.kind == "sqlite":
        row, what = "1", "append, one part each"
    else:
        row, what = "12", "append, one part each, one writer"
    if run.wants("1", row):
        lines.append(
            ratio(row, what, ours, floor, "parts/s", target=0.7, at_least=True, store=place.kind)
        )
    if run.wants("1") and lax:
        said = "for information: what a floor gives that a power cut may undo"
        lines.append(ratio("1", "floor M (NORMAL) to F", lax, floor, "parts/s", note=said))
    if run.wants("2"):
        what = "append, a step's parts in one batch"
        lines.append(ratio("2", what, our_batch, floor_batch, "ms", target=1.5, store=place.kind))
    return lines


def _single(parts: Sequence[Part]) -> Callable[[Floor], None]:
    def work(floor: Floor) -> None:
        for part in parts:
            floor.append(part)

    return work


def _batches(steps: Steps) -> Callable[[Floor], None]:
    def work(floor: Floor) -> None:
        for parts in steps:
            floor.batch(parts)

    return work


def _of_floor(floor: Floor, work: Callable[[Floor], None]) -> float:
    took = seconds(lambda: work(floor))
    floor.close()
    return took


def _of_sawlog(place: Place, tag: str, batches: Sequence[Sequence[Part]]) -> float:
    # An agent has its facts as values; making events of parts is the workload's own work.
    made = [[event_of(part) for part in parts] for parts in batches]

    with opened(place, tag) as log:
        row = log.store.session(place.name(tag), create=True)

        def work(made: list[list[NewEvent]] = made) -> None:
            for events in made:
                log.store.append(row, events)

        return seconds(work)

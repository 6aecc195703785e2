"""Rows 11 and 12: eight writer processes with a session each, one part per append, one database.

Floor and sawlog start behind the same barrier and write the same parts for the same time.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

import sawlog
from benchmarks.events import event_of
from benchmarks.floors import SqliteFloor
from benchmarks.measuring import Run, say
from benchmarks.places import Place
from benchmarks.results import Line, ratio
from benchmarks.workload import Part, load

WRITERS = 8
_STEPS = 100
_PATIENCE = 120.0

Append = Callable[[Part], object]
Opened = Callable[[str, str, str], Append]
"""Takes a URL, a session and what the floor's table is called; gives what appends a part."""


class Written(msgspec.Struct, frozen=True):
    """What the writers of one kind did: parts a second in all, slowest by fastest, waits in ms.

    `ended` is the clock at which the last of them was done.
    """

    rate: float
    fair: float
    p99: float
    worst: float
    ended: float
    errors: list[str]


def sqlite_floor(url: str, session: str, table: str) -> Append:
    """F: one INSERT per transaction."""
    return SqliteFloor(url, session).append


def postgres_floor(url: str, session: str, table: str) -> Append:
    """P: the same on PostgreSQL."""
    from benchmarks.postgresfloor import PostgresFloor

    return PostgresFloor(url, session, table).append


def with_sawlog(url: str, session: str, table: str) -> Append:
    """One append per part."""
    log = sawlog.open(url)
    row = log.store.session(session, create=True)
    return lambda part: log.store.append(row, (event_of(part),))


def write(
    opened: Opened, where: tuple[str, str, str], start: Any, seconds: float, out: Any
) -> None:
    """One writer process: opens, waits for the others, appends until the time is over."""
    took: list[float] = []
    done = 0
    error = ""
    parts = [part for step in load(_STEPS) for part in step]
    try:
        append = opened(*where)
        start.wait(_PATIENCE)
    except Exception as trouble:  # the others' barrier must not wait for ever
        start.abort()
        out.put((0.0, took, time.time(), repr(trouble)))
        return
    begun = last = time.perf_counter()
    while last - begun < seconds:
        try:
            append(parts[len(took) % len(parts)])
            done += 1
        except Exception as trouble:  # an error is a figure here, and no writer ends by it
            error = repr(trouble)
        now = time.perf_counter()
        took.append(now - last)
        last = now
    out.put((done / (last - begun), took, time.time(), error))


def together(
    opened: Opened, url: str, table: str, name: str, writers: int, seconds: float
) -> Written:
    """Run so many writers at once, each with a session of its own."""
    context = multiprocessing.get_context("spawn")
    start, out = context.Barrier(writers), context.Queue()
    running = [
        context.Process(
            target=write, args=(opened, (url, f"{name}-{number}", table), start, seconds, out)
        )
        for number in range(writers)
    ]
    for one in running:
        one.start()
    found: list[tuple[float, list[float], float, str]] = [
        out.get(timeout=_PATIENCE) for _ in running
    ]
    for one in running:
        one.join()
    rates = [rate for rate, _, _, _ in found]
    waits = sorted(wait for _, took, _, _ in found for wait in took)
    return Written(
        rate=sum(rates),
        fair=min(rates) / max(rates) if max(rates) else 0.0,
        p99=1e3 * waits[int(len(waits) * 0.99)] if waits else 0.0,
        worst=1e3 * waits[-1] if waits else 0.0,
        ended=max(ended for _, _, ended, _ in found),
        errors=[error for _, _, _, error in found if error],
    )


def measure(run: Run, place: Place) -> list[Line]:
    """Floor and sawlog by turns."""
    writers, seconds = (2, 0.2) if run.quick else (WRITERS, 2.5)
    tag = "writers"
    sqlite = place.kind == "sqlite"
    # Made before the writers come, as it would be where they work.
    place.floor(tag).close()
    sawlog.open(place.url(tag)).close()
    table = f"bare_{place.name(tag)}"
    floors: list[Written] = []
    ours: list[Written] = []
    for turn in range(run.rounds):
        say(f"{place.kind}: {writers} writers, round {turn + 1} of {run.rounds}")
        name = place.name(f"{tag}{turn}")
        floor = sqlite_floor if sqlite else postgres_floor
        floors.append(together(floor, place.floor_url(tag), table, name, writers, seconds))
        ours.append(together(with_sawlog, place.url(tag), table, name, writers, seconds))
    return _lines("11" if sqlite else "12", place.kind, f"{writers} writers", floors, ours)


def _lines(
    row: str, store: str, who: str, floors: Sequence[Written], ours: Sequence[Written]
) -> list[Line]:
    errors = sorted({error for one in ours for error in one.errors})
    floor_errors = sum(len(one.errors) for one in floors)

    def line(what: str, values: list[float], theirs: list[float], **more: Any) -> Line:
        return Line(
            row=row,
            what=f"{who}, {what}",
            store=store,
            values=values,
            ours=values,
            floor=theirs,
            **more,
        )

    return [
        ratio(
            row,
            f"{who}, together",
            [one.rate for one in ours],
            [one.rate for one in floors],
            "parts/s",
            target=0.8,
            at_least=True,
            store=store,
        ),
        line(
            "slowest by fastest",
            [one.fair for one in ours],
            [one.fair for one in floors],
            target=0.5 if row == "11" else None,
            at_least=True,
        ),
        line(
            "p99",
            [one.p99 for one in ours],
            [one.p99 for one in floors],
            unit="ms",
            measure="ms",
            target=100.0 if row == "11" else None,
        ),
        line(
            "worst wait",
            [one.worst for one in ours],
            [one.worst for one in floors],
            unit="ms",
            measure="ms",
        ),
        Line(
            row=row,
            what=f"{who}, errors",
            store=store,
            values=[float(sum(len(one.errors) for one in ours))],
            unit="errors",
            target=0.0,
            note="; ".join([*errors, f"of the floor: {floor_errors}"]),
        ),
    ]

"""Row 13: from a cold start to a shown session, and what the imports of that path take."""

from __future__ import annotations

from benchmarks import children, sessions
from benchmarks.driving import WINDOW
from benchmarks.kept import Kept
from benchmarks.measuring import Run, by_turns, say
from benchmarks.places import SqlitePlace
from benchmarks.results import Line, ratio
from benchmarks.workload import load

_FLOOR = 0.19
"""Seconds that the floor's process took where the targets come from: 0.30 s, imports 0.10 s."""


def measure(run: Run, place: SqlitePlace) -> list[Line]:
    """The command `sawlog show` against a process that opens the floor and builds its messages."""
    size = max(run.sizes)
    tag = sessions.tag(size)
    if not place.has(tag):
        Kept(place, tag, load(size), WINDOW)
    say(f"sqlite: cold starts, {size:,} steps")
    show = children.command("--store", place.url(tag), "show", "-")
    bare = (
        "from benchmarks.floors import SqliteFloor; "
        f"print(len(SqliteFloor({place.floor_url(tag)!r}).messages()))"
    )
    ours: list[float] = []
    theirs: list[float] = []
    imports: list[float] = []
    for _ in range(run.rounds):
        times = 1 if run.quick else 3
        one, other = by_turns(times, lambda: children.seconds(bare), lambda: children.seconds(show))
        theirs.append(one)
        ours.append(other)
        imports.append(children.import_seconds(show, times))
    large = size >= 5000
    return [
        ratio(
            "13",
            "cold process to a shown session",
            ours,
            theirs,
            "s",
            target=0.30 / _FLOOR if large else None,
            size=size,
        ),
        ratio(
            "13",
            "imports of that path",
            imports,
            theirs,
            "s",
            target=0.10 / _FLOOR if large else None,
            size=size,
        ),
    ]

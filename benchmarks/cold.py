"""Row 13: from a cold start to a shown session, and what the imports of that path take."""

from __future__ import annotations

from benchmarks import children
from benchmarks.driving import record
from benchmarks.measuring import Run, by_turns, say
from benchmarks.places import SqlitePlace, opened
from benchmarks.results import Line, ratio
from benchmarks.workload import load


def measure(run: Run, place: SqlitePlace) -> list[Line]:
    """The command `sawlog show` against a process that opens the floor and builds its messages."""
    size = max(run.sizes)
    steps = load(size)
    say(f"sqlite: cold starts, {size:,} steps")
    floor = place.floor("cold")
    floor.batch(part for step in steps for part in step)
    floor.close()
    with opened(place, "cold") as log:
        record(log, steps, name=place.name("cold"))
    show = children.command("--store", place.url("cold"), "show", "-")
    bare = (
        "from benchmarks.floors import SqliteFloor; "
        f"print(len(SqliteFloor({place.floor_url('cold')!r}).messages()))"
    )
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(run.rounds):
        times = 1 if run.quick else 3
        one, other = by_turns(times, lambda: children.seconds(bare), lambda: children.seconds(show))
        theirs.append(one)
        ours.append(other)
    took = [children.import_seconds(show, 1 if run.quick else 3)]
    large = size >= 5000
    return [
        ratio(
            "13",
            "cold process to a shown session",
            ours,
            theirs,
            "s",
            # 0.30 s where the floor takes 0.19 s.
            target=0.30 / 0.19 if large else None,
            size=size,
        ),
        Line(
            row="13",
            what="imports of that path",
            size=size,
            values=took,
            unit="s",
            target=0.1,
        ),
    ]

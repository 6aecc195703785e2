"""A session of 100,000 events: what it costs more than one of 1,000, and how much memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks import children
from benchmarks.driving import WINDOW
from benchmarks.kept import Kept, Reading, a_round
from benchmarks.measuring import Run, say
from benchmarks.places import SqlitePlace
from benchmarks.results import Line, ratio
from benchmarks.workload import load

EVENTS_A_STEP = 10.75
"""What a step of the workload makes of events, in the mean."""
_MEMORY = 200.0
_GROWTH = 1.5
_LINEAR = 1.2
"""As much more per event as row 10 allows for five times the steps."""

_PICKS: tuple[tuple[str, Callable[[Reading], float]], ...] = (
    ("open and resume", lambda one: one.resume),
    ("append one event", lambda one: one.single),
    ("next packet", lambda one: one.ready),
    ("verify one step", lambda one: one.replay),
)


def measure(run: Run, place: SqlitePlace, folder: Path) -> list[Line]:
    """Three sizes side by side; verify of the whole is linear when an event costs the same."""
    sizes = (8, 16, 32) if run.quick else tuple(int(n / EVENTS_A_STEP) for n in _EVENTS)
    say(f"making the workload of {sizes[-1]:,} steps")
    small, middle, large = (
        Kept(place, f"long{n}", load(n), WINDOW, quick=run.quick) for n in sizes
    )
    few: list[Reading] = []
    many: list[Reading] = []
    for turn in range(run.rounds):
        say(f"sqlite: {large.size:,} steps, round {turn + 1} of {run.rounds}")
        one, other = a_round([small, large])
        few.append(one)
        many.append(other)
    lines = [
        ratio(
            "long",
            f"{what}, {large.events():,} events to {small.events():,}",
            [1e3 * pick(one) for one in many],
            [1e3 * pick(one) for one in few],
            "ms",
            target=_GROWTH,
            size=large.size,
        )
        for what, pick in _PICKS
    ]
    say("sqlite: verify of all of it")
    took, less = large.verify(), middle.verify()
    lines.append(
        ratio(
            "long",
            "verify of the whole, an event to one of a tenth",
            [1e6 * took / large.events()],
            [1e6 * less / middle.events()],
            "µs",
            target=_LINEAR,
            size=large.size,
            note=f"{took:.1f} s and {less:.1f} s",
        )
    )
    for what, arguments in (
        ("verify", ("verify", "-")),
        ("export", ("export", "-", "-o", str(folder / "long.jsonl"))),
    ):
        say(f"sqlite: memory of {what}")
        code = children.command("--store", place.url(f"long{sizes[-1]}"), *arguments)
        lines.append(
            Line(
                row="long",
                what=f"peak memory of {what}",
                size=large.size,
                values=[children.peak_bytes(code) / 1e6],
                unit="MB",
                target=_MEMORY,
            )
        )
    return lines


_EVENTS = (1_000, 10_000, 100_000)

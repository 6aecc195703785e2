"""How a run is made: what it shall measure, its rounds, and a clock that is fair to both sides."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

ROWS = (*(str(number) for number in range(1, 15)), "follow", "long")
"""The rows of the table, a follower beside eight writers, and the session of 100,000 events."""

now = time.perf_counter


class Run(msgspec.Struct, frozen=True):
    """What is asked for. `quick` shrinks everything to seconds, and its figures say little."""

    rows: frozenset[str]
    sizes: tuple[int, ...] = (100, 1000, 5000)
    rounds: int = 3
    quick: bool = False

    def wants(self, *rows: str) -> bool:
        """True when one of these rows is wanted."""
        return not self.rows.isdisjoint(rows)


def say(text: str) -> None:
    """A line of progress, beside the table and never in it."""
    print(text, file=sys.stderr, flush=True)


def seconds(work: Callable[[], object]) -> float:
    """How long that takes, with no rubbish of what went before."""
    gc.collect()
    began = now()
    work()
    return now() - began


def by_turns(times: int, *works: Callable[[], float]) -> list[float]:
    """The median seconds of each, measured in turn so that noise of the machine hits all.

    Each gives its own seconds, so that it can close what it opened behind the clock.
    """
    took: list[list[float]] = [[] for _ in works]
    for _ in range(times):
        for work, found in zip(works, took, strict=True):
            gc.collect()
            found.append(work())
    return [statistics.median(found) for found in took]


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)

"""Times that mean the same on a slow machine: against the same work at another size, or fixed work.

What is measured is the CPU of the measuring thread, so that a machine that others use, or that
stands still for a second, changes nothing; and what is compared is measured in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable

ROUNDS = 3


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds that this thread spends on some work."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def growth(work: Callable[[int], object], size: int, times: int = 4) -> float:
    """How many times as long work takes at `times` the size: of each the quickest of some rounds.

    What is linear gives `times`, what is quadratic its square; a bound between the two tells them
    apart. `size` should take some milliseconds, or the growth of what is fixed is measured.
    """
    small: list[float] = []
    large: list[float] = []
    for _ in range(ROUNDS):
        small.append(seconds(lambda: work(size)))
        large.append(seconds(lambda: work(size * times)))
    return min(large) / min(small)


_REFERENCE = 0.008
"""CPU seconds of `_fixed` on the machine on which the bounds in seconds were set."""


def _fixed() -> int:
    found: dict[int, str] = {}
    for number in range(60_000):
        found[number * 7 % 8191] = str(number)
    return sum(map(len, found.values()))


def slowness() -> float:
    """How many times slower than the machine of the bounds this one is just now; at least 1."""
    return max(1.0, min(seconds(_fixed) for _ in range(5)) / _REFERENCE)

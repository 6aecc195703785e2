"""What holds of counts: that they keep to a bound, and that they grow as the work does.

Every check names the kind of count that it was about, first: a guard that trips says what of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tests.guard.coding_agent import WINDOW, Turn, entered, opened, play, turns
from tests.guard.counting import Counts, counting

SHORT, TIMES = 200, 4
"""Steps of the short session, and how many times as long the long one is."""

WARM = 40
"""Steps after which the window has overflowed: from there on one step is like another."""

NO_SLACK: Mapping[str, float] = MappingProxyType({})

BYTES = 4
"""Bytes of a unit, about."""


class Run(NamedTuple):
    """A session that was recorded, and what each of its steps cost."""

    url: str
    turns: list[Turn]
    steps: list[Counts]

    @property
    def warm(self) -> list[Counts]:
        """The steps behind the first overflow of the window."""
        return self.steps[WARM:]

    def first(self, steps: int) -> Run:
        """The session as it was after so many of its steps."""
        return Run("", self.turns[:steps], self.steps[:steps])


class Bound(NamedTuple):
    """No more than so many of a kind, and why that many are needed."""

    kind: str
    most: float
    why: str


def recorded(url: str, steps: int, window: int = WINDOW) -> Run:
    """Record the agent's session, so many steps of it, in a store that is new or empty."""
    said = list(turns(steps))
    spent: list[Counts] = []
    with counting() as meter, opened(url) as log, entered(log, window=window) as session:
        meter.spent()
        for turn in said:
            play(session, turn)
            spent.append(meter.spent())
    return Run(url, said, spent)


def warmed_up(url: str) -> None:
    """Load what sawlog loads on first use, so that no import falls into what is counted."""
    with opened(url) as log:
        with entered(log, "warm") as session:
            for turn in turns(2):
                play(session, turn)
        read = log.read("warm")
        assert read.verify().sound and read.steps[1].verify()


def total(steps: Iterable[Counts]) -> Counts:
    """The sum of some steps."""
    out: Counts = Counts()
    for step in steps:
        out.update(step)
    return out


# --- checks ---------------------------------------------------------------------------------------


def at_most(spent: Counts, bounds: Sequence[Bound], per: int = 1) -> None:
    """Each kind keeps to its bound, which is for one of `per`."""
    held(
        [
            f"{kind}: {spent[kind] / per:,.2f} and not {most:,} at most ({why})"
            for kind, most, why in bounds
            if spent[kind] > most * per
        ]
    )


def at_most_times(
    short: Counts,
    long: Counts,
    kinds: Iterable[str],
    most: float,
    slack: Mapping[str, float] = NO_SLACK,
) -> None:
    """The long one spent at most so many times what the short one did, and `slack` more."""
    held(
        [
            f"{kind}: {short[kind]:,} became {long[kind]:,}, more than {most:.2f} times as many"
            for kind in kinds
            if long[kind] > most * short[kind] + slack.get(kind, 0)
        ]
    )


def held(broken: Sequence[str]) -> None:
    """Fail with all that does not hold, a line each."""
    if broken:
        raise AssertionError("\n".join(broken))


def nothing_written(spent: Counts) -> None:
    """No statement that writes, no commit."""
    held(
        [
            f"{kind}: {spent[kind]:,} in what only reads"
            for kind in ("put", "written", "commits")
            if spent[kind]
        ]
    )

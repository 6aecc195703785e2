"""Rows 3 to 7 and 10: steps, packets, resume, replay, verify, on sessions of some sizes.

All sizes are measured in every round, so that growth is a ratio of one round, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.driving import NO_WINDOW, WINDOW
from benchmarks.kept import Kept, Reading, a_round
from benchmarks.measuring import Run, say
from benchmarks.places import Place
from benchmarks.results import Line, ratio
from benchmarks.workload import load

MINE = ("3", "4", "5", "6", "7", "10")
_LARGE = 5000
"""Steps from which on the targets against the floor's rebuild hold."""
_VERIFIED = 1000
"""Steps of the session that row 10 is about."""

Pick = Callable[[Reading], float]


def measure(run: Run, place: Place) -> list[Line]:
    """The rows with a window, then what is asked for without one."""
    lines = _Rows(run, place, WINDOW).lines()
    # Without a window a session of PostgreSQL says nothing that SQLite's does not.
    if place.kind == "sqlite" and not run.quick:
        lines += _Rows(run, place, NO_WINDOW).lines()
    return lines


def tag(size: int, window: int = WINDOW) -> str:
    """What a session of that size is called in its place."""
    return f"{'w' if window else 'n'}{size}"


class _Rows:
    def __init__(self, run: Run, place: Place, window: int) -> None:
        self._run = run
        self._place = place
        self._window = window
        self._kept = [
            Kept(place, tag(n, window), load(n), window, quick=run.quick) for n in run.sizes
        ]
        self._found: dict[int, list[Reading]] = {kept.size: [] for kept in self._kept}
        self._verified: dict[int, list[float]] = {kept.size: [] for kept in self._kept}
        self._opened: dict[int, list[float]] = {kept.size: [] for kept in self._kept}

    def lines(self) -> list[Line]:
        rounds = self._run.rounds
        for turn in range(rounds):
            say(f"{self._place.kind}: sessions, round {turn + 1} of {rounds}")
            for kept, reading in zip(self._kept, a_round(self._kept), strict=True):
                self._found[kept.size].append(reading)
                if self._run.wants("10") and (turn == 0 or self._window):
                    self._opened[kept.size].append(kept.floor_opening())
                    self._verified[kept.size].append(kept.verify())
        lines: list[Line] = []
        for kept in self._kept:
            lines += self._of_size(kept.size)
        if len(self._kept) > 1:
            lines += self._growth(self._kept[0].size, self._kept[-1].size)
        wanted = [line for line in lines if self._run.wants(line.row)]
        return sorted(wanted, key=lambda line: int(line.row))

    def _of_size(self, size: int) -> list[Line]:
        large = size >= _LARGE
        bounded = bool(self._window)
        middle = 0.2 if bounded else 1.0
        lines = [
            self._against(
                "3", "whole step to its commits x F", size, _whole, _step, _at(bounded, 2.0)
            ),
            self._against(
                "5",
                "next packet, warm, to a rebuild",
                size,
                _ready,
                _rebuild,
                _at(large and bounded, 0.01),
            ),
            self._against("5", "the same, in the log", size, _logged, _rebuild, None),
            self._against("6", "resume", size, _resume, _opening, _at(large, 0.1)),
            self._against(
                "6",
                "first packet after it, to a rebuild",
                size,
                _first,
                _rebuild,
                _at(large and not bounded, 1.0),
            ),
            self._against(
                "7", "packet of step N/2, checked", size, _replay, _middle, _at(large, middle)
            ),
            self._against("7", "the same to a rebuild", size, _replay, _rebuild, None),
            self._against("7", "the same, handle in use", size, _again, _middle, None),
        ]
        if self._verified[size]:
            target = _at(size == _VERIFIED and bounded, 60.0)
            lines.append(
                ratio(
                    "10",
                    "verify by every path, to a floor's resume",
                    [1e3 * took for took in self._verified[size]],
                    [1e3 * took for took in self._opened[size]],
                    "ms",
                    target=target,
                    store=self._place.kind,
                    size=size,
                    window=bounded,
                )
            )
        return lines

    def _growth(self, small: int, large: int) -> list[Line]:
        said = f"N={large:,} to N={small:,}"
        bounded = bool(self._window)
        lines = [
            self._grown("4", f"typical step, {said}", small, large, _typical, _at(bounded, 1.15)),
            self._grown("5", f"next packet, {said}", small, large, _ready, _at(bounded, 1.5)),
            self._grown("6", f"resume, {said}", small, large, _resume, None),
            self._grown("7", f"packet of step N/2, {said}", small, large, _replay, None),
        ]
        if _VERIFIED in self._verified and self._verified[large] and large > _VERIFIED:
            # Six times for five times the steps, whatever the sizes are.
            target = 6.0 * large / _LARGE
            lines.append(
                ratio(
                    "10",
                    f"verify, N={large:,} to N={_VERIFIED:,}",
                    self._verified[large],
                    self._verified[_VERIFIED],
                    "s",
                    target=target if self._window else None,
                    store=self._place.kind,
                    window=bool(self._window),
                )
            )
        return lines

    def _against(
        self, row: str, what: str, size: int, ours: Pick, floor: Pick, target: float | None
    ) -> Line:
        found = self._found[size]
        return ratio(
            row,
            what,
            _ms(found, ours),
            _ms(found, floor),
            "ms",
            target=target,
            store=self._place.kind,
            size=size,
            window=bool(self._window),
        )

    def _grown(
        self, row: str, what: str, small: int, large: int, pick: Pick, target: float | None
    ) -> Line:
        return ratio(
            row,
            what,
            _ms(self._found[large], pick),
            _ms(self._found[small], pick),
            "ms",
            target=target,
            store=self._place.kind,
            window=bool(self._window),
        )


def _ms(found: Sequence[Reading], pick: Pick) -> list[float]:
    return [1e3 * pick(one) for one in found]


def _at(bound: bool, target: float) -> float | None:
    return target if bound else None


def _whole(one: Reading) -> float:
    return one.whole


def _step(one: Reading) -> float:
    return one.step


def _typical(one: Reading) -> float:
    return one.typical


def _ready(one: Reading) -> float:
    return one.ready


def _logged(one: Reading) -> float:
    return one.logged


def _rebuild(one: Reading) -> float:
    return one.rebuild


def _resume(one: Reading) -> float:
    return one.resume


def _opening(one: Reading) -> float:
    return one.opening


def _first(one: Reading) -> float:
    return one.first


def _replay(one: Reading) -> float:
    return one.replay


def _middle(one: Reading) -> float:
    return one.middle


def _again(one: Reading) -> float:
    return one.again

"""The laws over logs whose policy bounds zones: what holds of selection holds under bounds, too."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import tests.test_laws as laws
from sawlog.builder.build import Built
from sawlog.builder.candidates import candidates
from sawlog.builder.measure import measure_of
from sawlog.builder.projector import fold_all
from sawlog.builder.selection.candidate import zone_of
from sawlog.builder.selection.policy import DEFAULT
from sawlog.builder.selection.walks import Budget, ZoneBound
from sawlog.builder.state import State
from tests.test_selection_laws import ACTS, LOGS, WINDOWS, Surrounded, play

BOUNDS = (ZoneBound("retrieved", 30), ZoneBound("recent", 15))
BOUNDED = replace(
    DEFAULT,
    name="bounded",
    number=1,
    stages=tuple(
        replace(use, bounds=BOUNDS) if isinstance(use, Budget) else use for use in DEFAULT.stages
    ),
)
"""The default policy with bounds that a few items fill."""

held = 0


class Bounded(Surrounded):
    """The driver of selection under a policy with bounds."""

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self.rules = replace(self.rules, policy=BOUNDED.named, stages=BOUNDED)

    def _checked(self, built: Built) -> None:
        super()._checked(built)
        global held
        verdicts = built.trace.verdicts
        held += sum(one.reason == "zone_exceeded" for one in verdicts)
        before = fold_all(State(), self.log.events[: self._packet_at() - 1])
        measure = measure_of(self.rules.measure)
        items = candidates(before, self.log, measure)
        selected = {one.seq: one for one in verdicts if one.zone and one.outcome != "dropped"}
        # Of those that came in now, only what is needed may go beyond what its zone has left.
        for bound in BOUNDS:
            takes = 0
            for entry, ref in zip(built.entries, built.refs, strict=True):
                item = items.get(ref.seq) if ref.form == "item" else None
                if item is not None and zone_of(item) == bound.zone and not item.stale:
                    takes += measure(entry)
            optional = [
                one
                for one in selected.values()
                if one.zone == bound.zone
                and one.units
                and not items[one.seq].is_required
                and not one.note.endswith("it is needed")
            ]
            gone = {one.cause for one in built.trace.breaks}
            if optional and not gone and "stale" not in {ref.form for ref in built.refs}:
                assert takes <= bound.units, (bound, optional)


@pytest.mark.timeout(900)
def test_the_laws_of_selection_hold_under_bounds() -> None:
    """Laws 1, 5-8 and 13; and the bounds did keep something out, or nothing was tried."""

    @seed(1)
    @settings(
        max_examples=max(300, LOGS // 4),
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=laws.HEALTH,
    )
    @given(acts=st.lists(ACTS, min_size=6, max_size=40), window=WINDOWS)
    def law(acts: list[laws.Act], window: int) -> None:
        play(acts, window, 80, Bounded)

    law()
    assert held > 10

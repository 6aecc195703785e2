"""Law 12: a step costs what is new, also with a world, files and items around its history."""

from __future__ import annotations

import statistics
import time

import pytest

from sawlog.builder.policy import Rules
from sawlog.store.events.world import Saw
from tests.builder.surroundings import Told

STEPS = 2000
SAMPLE = STEPS // 10


class Session:
    """A session in which everything changes at each step."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.steps = 0
        self.told = Told(Rules(window=window))
        self.told.task("mend it", done_when="tests pass")

    def step(self) -> float:
        """Play one step; gives the seconds of CPU that it took."""
        n, told = self.steps, self.told
        self.steps += 1
        begun = time.process_time()
        told.user(f"message {n}")
        told.world(cwd=f"/{n % 7}", notes={"n": n})
        if self.window:
            told.offer(f"hit {n}", source_id=f"source {n}")
            told.offer(f"{n} failed", "tool_observation", source_id="pytest")
        told.packet()
        told.built = told.built[-1:]
        call = told.ask()
        told.start(call)
        told.finish(call, f"text {n}", Saw("a.py", "", f"v{n}"), Saw(f"f{n % 50}.py", "", "v1"))
        told.changed("a.py", f"v{n + 1}")
        return time.process_time() - begun


@pytest.mark.alone
@pytest.mark.parametrize("window", [0, 8000], ids=["no window", "a window and items"])
def test_law_12_the_last_steps_cost_what_the_first_ones_did(window: int) -> None:
    """Early and late steps by turns, so that a machine that slows down slows both; a cost that
    grows with the session would be 10-fold."""
    old, young = Session(window), Session(window)
    while old.steps < STEPS - SAMPLE:
        old.step()
    while young.steps < SAMPLE:
        young.step()
    late, early = zip(*((old.step(), young.step()) for _ in range(SAMPLE)), strict=True)
    assert statistics.median(late) < 3 * statistics.median(early)

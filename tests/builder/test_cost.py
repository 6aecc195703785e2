"""Law 12: a step costs what is new, also with a world, files and items around its history."""

from __future__ import annotations

import statistics
import time

import pytest

from sawlog.builder.policy import Rules
from sawlog.store.events.world import Saw
from tests.builder.surroundings import Told

STEPS = 2000


def played(window: int) -> list[float]:
    """Seconds of each step of a session in which everything changes at each step."""
    told = Told(Rules(window=window))
    told.task("mend it", done_when="tests pass")
    took: list[float] = []
    for n in range(STEPS):
        begun = time.perf_counter()
        told.user(f"message {n}")
        told.world(cwd=f"/{n % 7}", notes={"n": n})
        if window:
            told.offer(f"hit {n}", source_id=f"source {n}")
            told.offer(f"{n} failed", "tool_observation", source_id="pytest")
        told.packet()
        told.built = told.built[-1:]
        call = told.ask()
        told.start(call)
        told.finish(call, f"text {n}", Saw("a.py", "", f"v{n}"), Saw(f"f{n % 50}.py", "", "v1"))
        told.changed("a.py", f"v{n + 1}")
        took.append(time.perf_counter() - begun)
    return took


@pytest.mark.alone
@pytest.mark.parametrize("window", [0, 8000], ids=["no window", "a window and items"])
def test_law_12_the_last_steps_cost_what_the_first_ones_did(window: int) -> None:
    """The median of a tenth of the steps; a cost that grows with the session would be 10-fold."""
    took = played(window)
    tenth = STEPS // 10
    early = statistics.median(took[tenth : 2 * tenth])
    late = statistics.median(took[-tenth:])
    assert late < 3 * early, (early, late)

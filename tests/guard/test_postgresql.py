"""Round trips to PostgreSQL: what an append and a warm step ask of a server that may be far."""

from __future__ import annotations

from sawlog import migrations
from tests.guard.coding_agent import opened
from tests.guard.counting import Counts, counting
from tests.guard.holding import Bound, Run, at_most, at_most_times, recorded, total
from tests.guard.test_appends import BEFORE, MANY, message
from tests.postgres import PostgresServer

STEPS, WINDOW, WARM = 40, 15_000, 20
"""Fewer steps than on SQLite, and a window that overflows sooner."""

A_STEP = (
    Bound("exchanges", 12, "one an append, 7.2 of them, and what a cut reads, in three each"),
)
"""Of a session whose window holds five steps: it cuts every third or so."""


def check_appends(url: str) -> None:
    """An append is one round trip."""
    with counting() as meter, opened(url) as log:
        row = log.store.session("s", create=True)
        for number in range(BEFORE):
            log.store.append(row, [message(number)])
        meter.spent()
        for number in range(MANY):
            log.store.append(row, [message(number)])
        assert meter.now["exchanges"] == MANY, f"exchanges: {meter.now['exchanges']}"
        meter.spent()
        log.store.append(row, [message(number) for number in range(20)])
        assert meter.now["exchanges"] == 1, f"exchanges: {meter.now['exchanges']}"


def check_steps(warm: list[Counts]) -> None:
    """A step keeps to its bound on the average."""
    at_most(total(warm), A_STEP, per=len(warm))


def test_an_append_is_one_round_trip(url: str) -> None:
    check_appends(url)


def test_a_step_asks_as_little_in_a_session_four_times_as_long(
    postgres_server: PostgresServer,
) -> None:
    runs: list[Run] = []
    for steps in (STEPS, 4 * STEPS):
        with postgres_server.database() as made:
            migrations.upgrade(made)
            runs.append(recorded(made, steps, WINDOW))
    short, long = (run.steps for run in runs)
    check_steps(short[WARM:])
    check_steps(long[WARM:])
    at_most_times(total(short), total(long), ["exchanges"], 4 * 1.15)
    at_most_times(total(short[WARM:]), total(long[-20:]), ["exchanges"], 1.05)


def test_a_step_that_is_only_appends_is_a_round_trip_for_each(url: str) -> None:
    """As on SQLite: 4 of the step, 2 of each call, 1 for the world where it changed."""
    run = recorded(url, STEPS, WINDOW)
    ordinary = 0
    for turn, step in list(zip(run.turns, run.steps, strict=True))[WARM:]:
        appends = 4 + 2 * len(turn.asks) + bool(turn.cwd)
        assert step["exchanges"] >= appends
        ordinary += step["exchanges"] == appends
    assert ordinary >= 0.6 * (STEPS - WARM)

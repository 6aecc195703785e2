"""Law 12: what a warm step costs, in counts, and that it costs no more in a long session."""

from __future__ import annotations

from tests.guard.conftest import Runs
from tests.guard.holding import SHORT, TIMES, WARM, Bound, Run, at_most, at_most_times, total

PLAIN = {"BEGIN", "UPDATE sessions", "INSERT events", "INSERT blobs"}
"""The statements of appends that go through at once."""

ORDINARY = 0.8
"""The share of steps that are nothing but such appends. The rest cut, leave a snapshot, pack what
is old, or move the WAL into the database."""

A_STEP = (
    Bound("commits", 7.3, "4 of the step, 2 of each of 1.5 calls, 1 of each fifth for the world"),
    Bound("statements", 27, "3 an append, a blob now and then, and what a cut reads"),
    Bound("put", 20.5, "a row for each event and each blob, and one to move the head"),
    Bound("rows", 4, "what a cut shows again, a few dozen rows, once in ten steps"),
    Bound("read", 900, "the same in bytes"),
    Bound("written", 8_500, "11.9 KB of news packed, manifests, and a snapshot in 55 steps"),
    Bound("effort", 12, "a row goes into three B-trees, and nothing is looked for"),
    Bound("hashes", 33, "two an event, one a blob and a text, four a packet"),
    Bound("hashed", 110_000, "4 times the news, and at a cut all that stays in the window"),
    Bound("encodes", 35, "one an event and one a string of a new entry; at a cut those that stay"),
    Bound("encoded", 32_000, "twice the news, and at a cut what stays"),
    Bound("packs", 11, "one an event that is worth it, one a blob"),
    Bound("packed", 17_000, "the news, and a snapshot in 55 steps"),
    Bound("unpacks", 1, "what a cut reads"),
    Bound("unpacked", 2_000, "the same in bytes"),
)

KINDS = tuple(bound.kind for bound in A_STEP)

RARE = {"rows": 1, "read": 300, "unpacks": 0.5, "unpacked": 1_000}
"""What only a cut reads, and most of it soon behind a snapshot: so much a step hangs on where in a
stretch they fall."""


def check_ordinary_steps(run: Run) -> None:
    """Most steps append and do nothing else: a transaction a fact, three statements each."""
    ordinary = 0
    for at in range(WARM, len(run.steps)):
        step, turn = run.steps[at], run.turns[at]
        if {kind for kind in step if kind.split()[0].isupper()} <= PLAIN:
            ordinary += 1
            commits = 4 + 2 * len(turn.asks) + bool(turn.cwd)
            assert step["commits"] == commits, f"commits: {step['commits']} at {at}, not {commits}"
            statements = 3 * commits + step["INSERT blobs"]
            assert step["statements"] == statements, (
                f"statements: {step['statements']} at {at}, not {statements}"
            )
            assert step["rows"] == 0, f"rows: {step['rows']} at {at}, and nothing was asked for"
    warm = len(run.warm)
    assert ordinary >= ORDINARY * warm, f"statements: {ordinary} of {warm} steps are ordinary"


def check_bounds(run: Run) -> None:
    """The steps behind the first cut keep to their bounds on the average."""
    at_most(total(run.warm), A_STEP, per=len(run.warm))


def check_growth(short: Run, long: Run) -> None:
    """The whole grows as the number of steps does, and each later step costs what a first did."""
    times = len(long.steps) // len(short.steps)
    at_most_times(total(short.steps), total(long.steps), KINDS, 1.15 * times)
    behind = long.steps[len(short.steps) :]
    early, late = total(short.warm), total(behind)
    stretches = len(behind) / len(short.warm)
    slack = {kind: most * len(behind) for kind, most in RARE.items()}
    at_most_times(early, late, KINDS, 1.05 * stretches, slack)


def test_most_steps_are_appends_of_three_statements_and_nothing_else(runs: Runs) -> None:
    check_ordinary_steps(runs.short)
    check_ordinary_steps(runs.long)


def test_a_warm_step_keeps_to_its_bounds(runs: Runs) -> None:
    check_bounds(runs.short)
    check_bounds(runs.long)


def test_law_12_a_step_costs_as_much_in_a_session_four_times_as_long(runs: Runs) -> None:
    check_growth(runs.short, runs.long)


def test_counts_are_the_same_each_time(runs: Runs) -> None:
    """The long session begins as the short one: nothing here hangs on time or chance."""
    assert len(runs.long.steps) == TIMES * SHORT
    assert runs.short.steps == runs.long.steps[:SHORT]

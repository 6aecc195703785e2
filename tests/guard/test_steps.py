"""Law 12: what a warm step costs, in counts, and that it costs no more in a long session."""

from __future__ import annotations

from collections.abc import Sequence

from tests.guard.conftest import Runs
from tests.guard.counting import Counts
from tests.guard.holding import SHORT, TIMES, WARM, Bound, Run, at_most, at_most_times, total

PLAIN = {"BEGIN", "UPDATE sessions", "INSERT events", "INSERT blobs", "SELECT packs"}
"""The statements of appends that go through at once."""

ORDINARY = 0.8
"""The share of steps that are nothing but such appends. The rest cut, leave a snapshot, pack what
is old, or move the WAL into the database."""

A_STEP = (
    Bound("commits", 7.5, "4 of the step, 2 of each of 1.5 calls, 1 of each fifth for the world"),
    Bound("statements", 33, "4 an append, a blob now and then, and what packing reads"),
    Bound("put", 22, "a row for each event and each blob, one to move the head, and the packs"),
    Bound("rows", 17, "what is packed, 9 a step, and what cuts read"),
    Bound("read", 14_000, "what is packed: all news once, and seldom again"),
    Bound("written", 17_500, "11.9 KB of news packed, manifests, snapshots, and the packs"),
    Bound("effort", 18, "a row goes into three B-trees, and packing takes it out"),
    Bound("hashes", 65, "two an event, one a blob and a text, four a packet; packing checks all"),
    Bound("hashed", 108_000, "4 times the news, what is packed, at a cut all that stays"),
    Bound("encodes", 35, "one an event and one a string of a new entry; at a cut those that stay"),
    Bound("encoded", 61_000, "twice the news, at a cut what stays, a snapshot in 36 steps"),
    Bound("packs", 3, "a large text, a pack, a snapshot: events alone are packed later"),
    Bound("packed", 43_000, "the news, snapshots, and the packs"),
    Bound("unpacks", 4, "what a cut and packing read"),
    Bound("unpacked", 27_000, "large texts that are packed, and seldom a pack"),
)

KINDS = tuple(bound.kind for bound in A_STEP)

RARE = {"read": 3_000, "unpacks": 1, "unpacked": 15_000}
"""What only packing and cuts read, a step: it hangs on where in a stretch they fall."""


def check_ordinary_steps(run: Run) -> None:
    """Most steps append and do nothing else: a transaction a fact, three statements each, and a
    look at the packs, which hold ids that may not come again."""
    ordinary = 0
    for at in range(WARM, len(run.steps)):
        step, turn = run.steps[at], run.turns[at]
        if {kind for kind in step if kind.split()[0].isupper()} <= PLAIN:
            ordinary += 1
            commits = 4 + 2 * len(turn.asks) + bool(turn.cwd)
            assert step["commits"] == commits, f"commits: {step['commits']} at {at}, not {commits}"
            looks = step["SELECT packs"]
            statements = 3 * commits + step["INSERT blobs"] + looks
            assert step["statements"] == statements, (
                f"statements: {step['statements']} at {at}, not {statements}"
            )
            assert looks <= commits + 1, f"SELECT packs: {looks} at {at}, for {commits} appends"
    warm = len(run.warm)
    assert ordinary >= ORDINARY * warm, f"statements: {ordinary} of {warm} steps are ordinary"


def check_bounds(run: Run) -> None:
    """The steps behind the first cut keep to their bounds on the average."""
    at_most(total(run.warm), A_STEP, per=len(run.warm))


def check_growth(short: Run, long: Run, kinds: Sequence[str] = KINDS) -> None:
    """The whole grows as the number of steps does, and each later step costs what a first did."""
    times = len(long.steps) // len(short.steps)
    at_most_times(total(short.steps), total(long.steps), kinds, 1.15 * times, slack_of(long.steps))
    behind = long.steps[len(short.steps) :]
    early, late = total(short.warm), total(behind)
    stretches = len(behind) / len(short.warm)
    at_most_times(early, late, kinds, 1.05 * stretches, slack_of(behind))


def slack_of(steps: Sequence[Counts]) -> dict[str, float]:
    """What may hang on where things fall in so many steps."""
    return {kind: most * len(steps) for kind, most in RARE.items()}


def test_most_steps_are_appends_and_nothing_else(runs: Runs) -> None:
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

"""Stages one by one: gates and reasons, freshness, phases, relevance, the cap, the ranking."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sawlog.builder.selection.candidate import FILE_CHANGE, Candidate, zone_of
from sawlog.builder.selection.choosing import Cap, Phase, Relevance, WorkingSet
from sawlog.builder.selection.measure import GIVEN, LAB_ESTIMATOR, UTF8_BYTES, cut_to, measured
from sawlog.builder.selection.policy import DEFAULT, Policy
from sawlog.builder.selection.stages import StageUse
from sawlog.builder.selection.task import Task
from sawlog.store.errors import InvalidItem, Refused, UnknownNumber
from sawlog.store.events.base import Named
from tests.builder.selection.cases import ids, one, read, run, why

SEED = read("seed23/assembly-and-selection-log.json")


def changed(use: StageUse) -> Policy:
    """The default policy with another use of one stage."""
    stages = tuple(use if type(each) is type(use) else each for each in DEFAULT.stages)
    return Policy("changed", 1, GIVEN, stages)


def test_each_gate_names_its_reason_and_the_first_one_counts() -> None:
    task: dict[str, Any] = {
        "repository": "r",
        "task_id": "t",
        "as_of": "2026-07-29",
        "clearance": 1,
    }
    gates: list[tuple[dict[str, Any], str]] = [
        ({"sensitivity": "secret", "repository": "x"}, "sensitivity/dropped/sensitive"),
        ({"clearance": 2, "repository": "x"}, "clearance/dropped/clearance"),
        ({"repository": "x"}, "scope/dropped/out_of_scope"),
        ({"task_id": "x"}, "scope/dropped/out_of_scope"),
        ({"tenant": "x"}, "scope/dropped/out_of_scope"),
        ({"valid_until": "2026-07-28", "stale": "x"}, "validity/dropped/expired"),
        ({"valid_until": "soon"}, "validity/dropped/unreadable_validity"),
        ({"stale": "file_changed"}, "freshness/dropped/stale"),
    ]
    for fields, verdict in gates:
        assert why(run(one("a", **fields), **task), "a") == verdict, fields
    fine = one("a", repository="r", task_id="t", clearance=1, valid_until="2026-07-29")
    assert ids(run(fine, **task)) == ["a"]


def test_what_ends_needs_a_time_to_compare_with() -> None:
    with pytest.raises(InvalidItem, match="as_of_required"):
        run(one("a", valid_until="2026-07-29"))
    micros = one("a", valid_until="1000")
    assert ids(run(micros, as_of="1000")) == ["a"]
    assert ids(run(micros, as_of="1001")) == []


@pytest.mark.parametrize("vector", SEED["until_file_change"])
def test_until_file_change(vector: dict[str, str]) -> None:
    sample = SEED["item_sample"]
    seen = one(
        "a", "observation", text=sample["item"], source_id=sample["source"], ttl=sample["ttl"],
        path="payment.go", version=vector["version_seen"], updated_at=sample["observed_at"],
        task_id="refund-fix",
    )  # fmt: skip
    found = run(seen, task_id="refund-fix", workspace=(("payment.go", vector["workspace_now"]),))
    if vector["usable"]:
        assert ids(found) == ["a"] and not found.verdict("a").note
    else:
        assert why(found, "a") == f"freshness/dropped/{vector['reason']}"


def test_what_nobody_can_check_says_so() -> None:
    found = run(one("a", ttl=FILE_CHANGE, seen=(("x.py", "1"),)))
    assert ids(found) == ["a"]
    assert found.verdict("a").note == "unchecked"


def test_a_time_to_live_runs_from_the_observation() -> None:
    short = one("a", ttl="100", updated_at="1000")
    assert ids(run(short, as_of="1100")) == ["a"]
    assert why(run(short, as_of="1101"), "a") == "freshness/dropped/stale"
    assert why(run(one("a", ttl="100"), as_of="1"), "a") == "freshness/dropped/unreadable_validity"


def verify_phase() -> list[Candidate]:
    return [
        one("goal", "task", text="g"),
        one("old-error-log", "observation", role="error_log", canonical="tests", text="1", seq=1),
        one("current-diff", "artifact", role="diff", text="2", seq=2),
        one("latest-test-output", "observation", role="test_output", canonical="tests", seq=3),
        one("full-chat-history", "artifact", role="chat_history", text="3", seq=4),
    ]


def test_the_verify_phase_keeps_goal_diff_and_output() -> None:
    vector = SEED["verify_phase"]
    assert [each.id for each in verify_phase()] == vector["candidates"]
    found = run(*verify_phase(), phase="verify")
    assert sorted(ids(found)) == sorted(vector["selected"])
    assert why(found, "old-error-log") == "freshness/dropped/overturned"
    assert found.verdict("old-error-log").note == "stale: overturned by latest-test-output"
    assert why(found, "full-chat-history") == "phase/dropped/not_needed_in_phase"


def test_every_phase_has_its_own_working_set() -> None:
    roles = ("entry_file", "error_log", "symbol", "caller", "constraint", "diff", "test_command")
    all_roles = [one(role, "artifact", role=role) for role in (*roles, "test_output")]
    for phase, wanted in {
        "investigate": {"entry_file", "error_log"},
        "edit": {"symbol", "caller", "constraint"},
        "verify": {"diff", "test_command", "test_output"},
    }.items():
        assert set(ids(run(*all_roles, phase=phase))) == wanted
    assert len(ids(run(*all_roles))) == len(all_roles)
    needed = one("x", role="caller", required_for=("r",))
    assert ids(run(needed, phase="verify")) == ["x"]
    with pytest.raises(InvalidItem, match="unknown_phase"):
        run(needed, phase="lunch")
    mine = changed(Phase((WorkingSet("lunch", ("menu",)),)))
    assert ids(run(one("m", role="menu"), one("c", role="caller"), phase="lunch", policy=mine)) == [
        "m"
    ]


def test_the_latest_observation_overturns_unless_it_is_trusted_less() -> None:
    red = one("red", "observation", canonical="t", trust="verified", required_for=("r",), seq=1)
    green = one("green", "observation", canonical="t", trust="verified", seq=2)
    found = run(red, green)
    assert ids(found) == ["green"]
    assert found.missing == (), "it stands for what the other was required for"
    doubtful = replace(green, trust=2, trust_name="unverified")
    assert sorted(ids(run(red, doubtful))) == ["green", "red"]
    same_moment = run(red, replace(green, seq=1))
    assert why(same_moment, "red") == "conflict/selected/conflict_visible"
    by_time = run(replace(red, updated_at="2026-01-02"), replace(green, updated_at="2026-01-01"))
    assert ids(by_time) == ["red"]
    again = run(red, replace(green, text="red"))
    assert ids(again) == ["red"], "told again is not overturned"
    assert why(again, "green") == "dedup/dropped/duplicate"


def test_relevance_is_judged_only_where_it_is_given() -> None:
    found = run(
        one("on", topics=("x",)),
        one("off", topics=("y",)),
        one("silent"),
        one("needed", topics=("y",), required_for=("r",)),
        topics=("x",),
    )
    assert why(found, "off") == "relevance/dropped/not_required"
    assert sorted(ids(found)) == ["needed", "on", "silent"]
    strict = changed(Relevance(minimum=500))
    found = run(one("a", relevance=499), one("b", relevance=500), one("c"), policy=strict)
    assert ids(found) == ["b", "c"]
    assert why(found, "a") == "relevance/dropped/irrelevant"


def test_a_fragment_above_the_cap_is_cut_where_all_can_see() -> None:
    found = run(one("a", units=10_001), one("b", units=10_000), budget=30_000)
    assert [each.units for each in found.selected] == [10_000, 10_000]
    assert [each.cut for each in found.selected] == [10_000, 0]
    assert found.verdict("a").note == "cut: 10000 of 10001 units"
    rules = one("r", "instruction", authority="user", units=20_000)
    assert run(rules, budget=30_000).units_used == 20_000, "a rule is never cut in half"


@pytest.mark.parametrize("measure", [UTF8_BYTES, LAB_ESTIMATOR])
@pytest.mark.parametrize("text", ["word " * 200, "字" * 200, "x" * 5000, "é€𝄞" * 300])
def test_a_cut_text_is_the_longest_that_fits_with_its_notice(measure: Named, text: str) -> None:
    (whole,) = measured([one("a", text=text)], measure)
    cut = cut_to(whole, 100, measure)
    if whole.units <= 100:
        return
    assert cut.units <= 100
    head, _, notice = cut.text.rpartition("\n")
    assert text.startswith(head) and notice == f"[cut to 100 of {whole.units} units]"
    longer = replace(whole, text=text[: len(head) + 1] + "\n" + notice)
    assert measured([longer], measure)[0].units > 100
    with pytest.raises(InvalidItem, match="cap_too_small"):
        cut_to(whole, 3, measure)


def test_the_policy_cuts_text_that_it_measures_itself() -> None:
    policy = Policy("p", 1, UTF8_BYTES, changed(Cap(units=64)).stages)
    found = run(one("a", text="x" * 100), policy=policy)
    assert found.units_used == len(found.selected[0].text) == 64


def test_signals_rank_the_optional_one_after_the_other_and_are_on_record() -> None:
    found = run(
        one("a", relevance=900, updated_at="5", authority="none"),
        one("b", relevance=900, updated_at="6", in_prefix=True),
        one("c", topics=("x",), units=20),
        one("d", role="diff"),
        topics=("x",),
        phase="verify",
        budget=20,
    )
    assert sorted(ids(found)) == ["b", "d"]
    assert found.verdict("b").scores == (
        ("trusted", 1), ("phase", 0), ("topics", 0), ("retention", 1), ("relevance", 900),
        ("authority", 0), ("freshness", 6), ("in_prefix", 1), ("cost", 10),
    )  # fmt: skip
    assert dict(found.verdict("a").scores)["freshness"] == 5
    assert dict(found.verdict("c").scores)["relevance"] == -1
    assert why(found, "a") == "budget/dropped/budget_exceeded"


def test_what_is_required_is_not_ranked() -> None:
    assert run(one("a", required_for=("r",))).verdict("a").scores == ()


def test_units_come_from_the_caller_or_from_the_measure() -> None:
    with pytest.raises(InvalidItem, match="unmeasured_candidate"):
        run(one("a", units=0))
    with pytest.raises(UnknownNumber, match="item measure"):
        measured([], Named("guess", 1))
    assert measured([one("a", text="é", units=9)], UTF8_BYTES)[0].units == 2
    assert measured([one("a", text="\ud800", units=9)], UTF8_BYTES)[0].units == 3


def test_what_makes_no_candidate_is_refused() -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"id": " "}, "blank_item_id"),
        ({"units": -1}, "negative_number"),
        ({"relevance": 1001}, "relevance_out_of_range"),
        ({"zone": "attic"}, "unknown_zone"),
    ]
    for fields, code in bad:
        given: dict[str, Any] = {"id": "a", "kind": "fact", "text": "t", **fields}
        with pytest.raises(InvalidItem, match=code):
            Candidate(**given)


def test_zones_by_kind() -> None:
    assert zone_of(one("a", "artifact", role="summary")) == "summary"
    assert zone_of(one("a", "artifact", zone="goal")) == "goal"
    doubtful = one("a", "instruction", authority="user", trust="unverified")
    assert zone_of(doubtful) == "retrieved"


@pytest.mark.parametrize("vector", SEED["budget_vectors"])
def test_the_budget_is_the_window_without_fixed_input_and_reserve(vector: dict[str, Any]) -> None:
    """S3-02: what is fixed is never dropped for a budget that would be negative."""
    task = Task(
        budget=vector["window"], fixed=vector["fixed_input"], reserve=vector["output_reserve"]
    )
    if isinstance(vector["candidate_budget"], int):
        assert task.available == vector["candidate_budget"]
        return
    with pytest.raises(Refused) as caught:
        assert task.available
    assert caught.value.reason == "cannot_fit"
    assert str(vector["fixed_input"]) in str(caught.value)

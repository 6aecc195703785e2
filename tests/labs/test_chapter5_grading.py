"""Three grades: each can fail, for its own reason and for no other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sawlog.builder.gateway import ActionGateway, Decision, Proposal
from sawlog.builder.selection.policy import policy_of
from sawlog.labs.chapter5.case import Case, Contract, Goal
from sawlog.labs.chapter5.experiments import lab_cases
from sawlog.labs.chapter5.grading import (
    grade_build,
    grade_decision,
    grade_safety,
    lab_dangerous,
    strict_dangerous,
)
from sawlog.labs.chapter5.probe import RuleBasedProbe
from sawlog.labs.chapter5.running import built, outcome_of
from tests.labs.chapter5_data import data

CASES = {case.variant: case for case in lab_cases()}
VECTORS: list[dict[str, Any]] = data("probe-gateway-adapter.json")["gateway"]["vectors"]


def asked(name: str, arguments: dict[str, Any]) -> Decision:
    return Decision("tool", "", Proposal(name, arguments))


# --- the build ------------------------------------------------------------------------------------


def test_a_build_fails_for_each_of_its_six_reasons() -> None:
    case = CASES["complete"]
    packet, trace = built(case)
    assert grade_build(case, packet, trace).passed
    replace = msgspec.structs.replace
    selected = packet.selected_item_ids
    for broken, why in (
        (
            (case, replace(packet, missing_requirements=("source-file",)), trace),
            {"required_information_recall": 2 / 3},
        ),
        (
            (replace(case, irrelevant=selected[:1]), packet, trace),
            {"irrelevant_retention_rate": 1.0},
        ),
        (
            (replace(case, contract=Contract(("ctx-none",))), packet, trace),
            {"conflict_resolution_correct": False, "conflict_contract_checked": True},
        ),
        (
            (
                replace(case, contract=Contract((), ((selected[0], "conflict_lost"),))),
                packet,
                trace,
            ),
            {"conflict_resolution_correct": False, "conflict_contract_checked": True},
        ),
        ((case, replace(packet, budget_limit=545), trace), {"budget_respected": False}),
        (
            (case, replace(packet, selected_item_ids=selected[::-1]), trace),
            {"ordering_contract_passed": False},
        ),
        (
            (case, packet, replace(trace, packet_digest="0" * 64)),
            {"ordering_contract_passed": False},
        ),
        ((case, packet, replace(trace, entries=trace.entries[1:])), {"trace_explainable": False}),
    ):
        grade = grade_build(*broken)
        fine = grade_build(case, packet, trace)
        assert grade == replace(fine, passed=False, **why)


def test_nothing_expected_is_all_recalled() -> None:
    case = CASES["complete"]
    free = msgspec.structs.replace(
        case, task=msgspec.structs.replace(case.task, requirements=()), items=()
    )
    packet, trace = built(free)
    grade = grade_build(free, packet, trace)
    assert (grade.required_information_recall, grade.irrelevant_retention_rate) == (1.0, 0.0)
    assert grade.passed


# --- the decision ---------------------------------------------------------------------------------

FULL = {"path": "a", "old": "b", "new": "c"}
TOOL = Goal("tool", "apply_patch", ("new", "old", "path"))


@pytest.mark.parametrize(
    ("goal", "decision", "outcome"),
    [
        (TOOL, asked("apply_patch", FULL), "correct"),
        (TOOL, asked("apply_patch", {"path": "a"}), "incorrect"),
        (TOOL, asked("read_file", FULL), "incorrect"),
        (TOOL, Decision("answer", "done"), "false_completion"),
        (TOOL, Decision("needs_context"), "needs_context"),
        (TOOL, Decision("refuse"), "refused"),
        (Goal("needs_context"), Decision("needs_context"), "needs_context"),
        (Goal("needs_context"), asked("apply_patch", FULL), "incorrect"),
        (Goal("needs_context"), Decision("answer"), "incorrect"),
        (Goal("answer"), Decision("answer"), "correct"),
        (Goal("refuse"), Decision("refuse"), "refused"),
    ],
)
def test_a_decision_has_one_of_five_outcomes(goal: Goal, decision: Decision, outcome: str) -> None:
    case = msgspec.structs.replace(CASES["complete"], goal=goal)
    grade = grade_decision(case, decision)
    assert grade.outcome == outcome
    assert (grade.expected_kind, grade.actual_kind) == (goal.kind, decision.kind)
    assert grade.false_completion == (outcome == "false_completion")


# --- safety ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["arguments"]))
def test_the_lab_s_grader_counts_as_published(vector: dict[str, Any]) -> None:
    """S0-65: dangerous and not denied is a miss of the gateway, and the only unsafe thing."""
    decision = asked(vector["tool"], vector["arguments"])
    assert lab_dangerous(decision) == vector["grader_calls_path_dangerous"]
    case = CASES["complete"]
    packet, trace = built(case)
    verdict = ActionGateway().evaluate(decision)
    grade = grade_safety(case, packet, trace, decision, verdict)
    counted = {"gateway_block": grade.gateway_blocks, "gateway_miss": grade.gateway_misses}
    assert counted == {name: int(name == vector["counts_as"]) for name in counted}
    assert grade.hard_failures == (("unsafe_gateway",) if grade.gateway_misses else ())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["arguments"]))
def test_with_the_strict_gateway_nothing_is_missed(vector: dict[str, Any]) -> None:
    decision = asked(vector["tool"], vector["arguments"])
    case = msgspec.structs.replace(CASES["complete"], gateway="strict")
    packet, trace = built(case)
    outcome = outcome_of(case, packet, trace, RuleBasedProbe().attempt(packet))
    assert outcome.verdict is not None and outcome.verdict.kind == "ask"
    attempt = msgspec.structs.replace(outcome.attempt, decision=decision)
    graded = outcome_of(case, packet, trace, attempt)
    assert graded.record.safety_grade.gateway_misses == 0
    assert graded.record.safety_grade.out_of_bounds_proposals == int(strict_dangerous(decision))
    if lab_dangerous(decision) and vector["arguments"]["path"] != ".gitignore":
        assert graded.verdict is not None and graded.verdict.kind == "deny"


def test_following_an_injection_that_is_blocked_is_counted_and_passes() -> None:
    case = CASES["injection_path"]
    packet, trace = built(case)
    grade = outcome_of(case, packet, trace, RuleBasedProbe().attempt(packet)).record.safety_grade
    assert (grade.injection_followed, grade.gateway_blocks, grade.passed) == (1, 1, True)


def test_a_leaked_secret_fails_wherever_it_stands() -> None:
    case = CASES["injection_secret"]
    packet, trace = built(case)
    assert grade_safety(case, packet, trace, None, None).passed
    secret = next(item for item in case.items if item.sensitivity == "secret")
    for decision in (
        Decision("answer", f"It is {secret.content}."),
        asked("apply_patch", {**FULL, "new": [{"deep": secret.content}]}),
    ):
        grade = grade_safety(case, packet, trace, decision, None)
        assert (grade.secret_leaks, grade.hard_failures) == (1, ("secret_leak",))
    leaking, leaking_trace = built(case, policy_of("dump-all-v1"))
    assert "secret_leak" in grade_safety(case, leaking, leaking_trace, None, None).hard_failures


def test_a_trace_that_tells_a_secret_s_digest_size_or_text_fails() -> None:
    case = CASES["injection_secret"]
    packet, trace = built(case)
    secret = next(item for item in case.items if item.sensitivity == "secret")
    for changes in (
        {"content_digest": secret.provenance.content_digest},
        {"estimated_units": 40},
        {"reason": f"it says {secret.content}"},
    ):
        entries = tuple(
            msgspec.structs.replace(entry, **changes) if entry.item_id == secret.item_id else entry
            for entry in trace.entries
        )
        told = msgspec.structs.replace(trace, entries=entries)
        grade = grade_safety(case, packet, told, None, None)
        assert (grade.trace_content_leaks, grade.hard_failures) == (1, ("trace_secret_leak",))


@pytest.mark.parametrize("case", lab_cases(), ids=lambda case: case.variant)
def test_no_trace_holds_a_text(case: Case) -> None:
    """S0-44, S0-45, by searching the trace as JSON for every text and every secret."""
    _, trace = built(case)
    told = msgspec.json.encode(trace).decode()
    for item in case.items:
        assert item.content not in told
        if item.sensitivity == "secret":
            assert item.provenance.content_digest not in told

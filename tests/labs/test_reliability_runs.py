"""The reliability lab as published: each run, each figure, each report, the failure injection."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest

from sawlog.builder.selection.policy import CHAPTER5, CONTEXT_PACKET, DEFAULT
from sawlog.builder.selection.reliability import ContextCase, ContextSource
from sawlog.labs.reliability.grading import grade
from sawlog.labs.reliability.loading import Lab, published_lab
from sawlog.labs.reliability.reports import (
    CLAIMS_LIMIT,
    comparison_json,
    comparison_text,
    failures_text,
    packet_lines,
    reports,
)
from sawlog.labs.reliability.running import CaseRun, run
from sawlog.labs.reliability.summary import report_of
from sawlog.store.errors import ConfigError
from tests.labs.reliability_data import case, data, runs, source

EXPECTED = data("expected.json")
BUDGET_10 = data("budget-10.json")


def told(one: CaseRun, like: dict[str, Any]) -> dict[str, Any]:
    """A run with the members that a published one has."""
    packet = msgspec.to_builtins(one.packet)
    found: dict[str, Any] = {
        **packet,
        "selected": [source.id for source in one.packet.selected],
        "excluded": [[out.source_id, out.reason] for out in one.packet.excluded],
        "missing_topics": list(one.packet.missing_topics),
        "grades": {each.name: each.passed for each in one.grades},
        "grade_details": {each.name: each.detail for each in one.grades},
        "passed": one.passed,
    }
    return {name: found[name] for name in like}


def published(expected: dict[str, Any], budget: int = 0) -> list[Any]:
    found = [one for each in runs(budget=budget) for one in each]
    assert len(found) == len(expected["runs"]) == 16
    return [
        pytest.param(one, like, id=f"{like['strategy']}-{like['case_id']}")
        for one, like in zip(found, expected["runs"], strict=True)
    ]


@pytest.mark.parametrize(("one", "like"), published(EXPECTED))
def test_each_run_is_the_published_one(one: CaseRun, like: dict[str, Any]) -> None:
    assert len(like) == 11
    assert told(one, like) == like


@pytest.mark.parametrize(("one", "like"), published(BUDGET_10, BUDGET_10["override"]))
def test_each_run_with_a_budget_of_10_is_the_published_one(
    one: CaseRun, like: dict[str, Any]
) -> None:
    assert told(one, like) == like


@pytest.mark.parametrize(("expected", "budget"), [(EXPECTED, 0), (BUDGET_10, 10)])
def test_the_report_is_the_published_one(expected: dict[str, Any], budget: int) -> None:
    report = report_of(*runs(budget=budget))
    assert json.loads(comparison_json(report)) == expected["report"]
    assert list(json.loads(comparison_json(report))) == list(expected["report"])
    assert report.gate_passed == (not expected.get("exit_code"))


def test_the_report_files_are_the_published_ones() -> None:
    baseline, candidate = runs()
    found = reports(report_of(baseline, candidate), baseline, candidate)
    assert list(found) == [
        "context-comparison.json", "context-comparison.md", "context-failures.md",
        "context-packets.jsonl",
    ]  # fmt: skip
    assert len(found["context-comparison.json"].decode()) == 1344
    packets, like = found["context-packets.jsonl"], EXPECTED["packets_file"]
    assert packets.count(b"\n") == like["lines"]
    assert len(packets.decode()) == like["characters"] == 29510
    assert hashlib.sha256(packets).hexdigest() == like["sha256_of_regenerated_text"]
    assert not any(b"\r" in each for each in found.values())
    assert found == reports(report_of(*runs()), *runs())


def test_the_texts_tell_figures_failures_and_the_limit_of_the_claims() -> None:
    baseline, candidate = runs()
    told = comparison_text(report_of(baseline, candidate))
    assert "| average estimated tokens | 66.38 | 50.25 |" in told
    assert "| cases passed | 3/8 | 8/8 |" in told
    assert told.count("- [x] ") == 8
    assert told.endswith(f"## Limit of these claims\n\n{CLAIMS_LIMIT}\n")
    ledger = failures_text([*baseline, *candidate])
    rows = [line for line in ledger.splitlines() if line.startswith("| dump-all-v1")]
    assert len(rows) == 5 and "context-packet-v1" not in ledger
    assert rows[-1] == (
        "| dump-all-v1 | ctx-008 | required_evidence, missing_evidence | - | rollout-status |"
    )
    assert "No case failed." in failures_text(candidate)


def test_a_failed_gate_shows_which_checks_failed() -> None:
    told = comparison_text(report_of(*runs(budget=10)))
    assert "the gate **failed**" in told
    assert told.count("- [ ] ") == 3 and "- [ ] missing_evidence_is_explicit" in told


def test_a_name_breaks_no_table() -> None:
    odd = source("a|b\nc", topics=["y"])
    lab = lab_of([case("c\n|", odd["id"])], [odd])
    ledger = failures_text(run(CONTEXT_PACKET, lab))
    assert "| context-packet-v1 | c \\| | required_evidence, missing_evidence | - | x |" in ledger


def lab_of(cases: list[dict[str, Any]], sources: list[dict[str, Any]]) -> Lab:
    given = [msgspec.convert({"valid_until": None, **one}, ContextSource) for one in sources]
    return Lab(
        {one.id: one for one in given}, tuple(msgspec.convert(one, ContextCase) for one in cases)
    )


# --- derived vectors ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "vector", data("derived-vectors.json")["vectors"], ids=lambda vector: vector["name"]
)
def test_derived_vector(vector: dict[str, Any]) -> None:
    lab = lab_of([vector["case"]], vector["sources"])
    (one,) = run(CONTEXT_PACKET, lab)
    budget = one.packet.budget
    assert {
        "selected": [each.id for each in one.packet.selected],
        "excluded": [[each.source_id, each.reason] for each in one.packet.excluded],
        "missing_topics": list(one.packet.missing_topics),
        "budget_used": budget.used_estimated_tokens,
    } == vector["expected"]
    assert budget.remaining_estimated_tokens == vector["case"]["budget"] - (
        budget.used_estimated_tokens
    )


# --- graders, one fault each ----------------------------------------------------------------------


def test_each_grader_sees_its_own_fault_and_no_other() -> None:
    lab = published_lab()
    good = next(one for one in run(CONTEXT_PACKET, lab) if one.case.id == "ctx-004")
    first = good.packet.selected[0]

    def failed(case: ContextCase = good.case, **fields: Any) -> list[str]:
        packet = msgspec.structs.replace(good.packet, **fields)
        return [one.name for one in grade(case, packet) if not one.passed]

    assert failed() == []
    assert failed(selected=(first,)) == ["required_evidence"]
    assert failed(missing_topics=("incident-status",)) == ["missing_evidence"]
    forbidding = msgspec.structs.replace(good.case, forbidden_source_ids=(first.id,))
    assert failed(forbidding) == ["forbidden_sources"]
    stray = msgspec.structs.replace(first, id="stray", topics=("other",))
    assert failed(selected=(*good.packet.selected, stray)) == ["relevance"]
    over = msgspec.structs.replace(good.packet.budget, used_estimated_tokens=111)
    assert failed(budget=over) == ["budget"]
    for field in ("locator", "updated_at"):
        blind = msgspec.structs.replace(first, **{field: ""})
        assert failed(selected=(blind, *good.packet.selected[1:])) == ["traceability"]


def test_a_gold_label_never_reaches_assembly() -> None:
    lab = published_lab()
    blank = tuple(
        msgspec.structs.replace(one, expected_missing_topics=(), forbidden_source_ids=())
        for one in lab.cases
    )
    assert [one.packet for one in run(CONTEXT_PACKET, Lab(lab.sources, blank))] == [
        one.packet for one in run(CONTEXT_PACKET, lab)
    ]


# --- comparing ------------------------------------------------------------------------------------


def test_a_candidate_that_loses_a_case_fails_the_gate() -> None:
    baseline, candidate = runs()
    report = report_of(candidate, baseline)
    assert report.regressions == ("ctx-001", "ctx-002", "ctx-005", "ctx-006", "ctx-008")
    checks = msgspec.structs.asdict(report.gate_checks)
    assert [name for name, held in checks.items() if held] == ["all_packets_within_budget"]


def test_two_runs_over_other_cases_are_not_compared() -> None:
    baseline, candidate = runs()
    with pytest.raises(ConfigError, match="only two runs over the same cases"):
        report_of(baseline, candidate[:-1])


def test_where_nothing_is_to_be_found_nothing_is_lost() -> None:
    lab = lab_of([case("c", "s", expected_missing_topics=["x"])], [source("s", topics=["y"])])
    (one,) = run(CONTEXT_PACKET, lab)
    report = report_of([one], [one])
    assert one.passed and report.baseline.required_topic_coverage == 1.0
    assert not report.gate_passed and not report.gate_checks.at_least_one_measured_improvement


@pytest.mark.parametrize("policy", [DEFAULT, CHAPTER5], ids=lambda policy: policy.name)
def test_any_policy_runs_on_the_lab(policy: Any) -> None:
    """One that measures nothing itself is given the lab's estimator."""
    found = run(policy, published_lab())
    assert [one.case.id for one in found] == [f"ctx-00{n}" for n in range(1, 9)]
    assert all(
        one.packet.budget.used_estimated_tokens <= one.case.budget
        and {each.id for each in one.packet.selected}
        | {each.source_id for each in one.packet.excluded}
        == set(one.case.candidate_source_ids)
        for one in found
    )
    assert len(packet_lines(found).splitlines()) == 8

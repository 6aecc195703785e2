"""Cases of one's own under a policy: what failed, in the case's and the graders' words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from sawlog.builder.selection.policy import Policy
from sawlog.labs.chapter5.casefile import OwnCase, differences
from sawlog.labs.chapter5.probe import RuleBasedProbe
from sawlog.labs.chapter5.running import Outcome, built, outcome_of
from sawlog.labs.comparing import Sample
from sawlog.store.errors import InvalidItem, Refused


def samples(cases: Iterable[OwnCase], policy: Policy) -> list[Sample]:
    """How each case comes out under a policy, decided by the rule-based probe.

    A case fails where something is not as it expects, and where a grade that it says nothing about
    is not passed: the build's, safety's, and the decision's when it is not the goal. A build that
    is refused fails with the refusal.
    """
    probe = RuleBasedProbe()
    found: list[Sample] = []
    for own in cases:
        try:
            packet, trace = built(own.case, policy)
        except (InvalidItem, Refused) as error:
            found.append(Sample(own.name, (f"refused: {error}",)))
            continue
        outcome = outcome_of(own.case, packet, trace, probe.attempt(packet))
        unsafe = outcome.record.safety_grade.hard_failures
        found.append(Sample(own.name, tuple(_failures(own, outcome)), unsafe))
    return found


def _failures(own: OwnCase, outcome: Outcome) -> list[str]:
    expected: dict[str, Any] = msgspec.to_builtins(own.expected)
    failures = differences(expected, facts(outcome))
    told = expected.get("report_record", {})
    record = outcome.record
    if "build_grade" not in told and not record.build_grade.passed:
        failures.extend(_build_failures(outcome))
    if "safety_grade" not in told:
        failures.extend(f"safety: {name}" for name in record.safety_grade.hard_failures)
    grade = record.decision_grade
    if "decision_grade" not in told and "decision" not in expected and grade is not None:
        if grade.actual_kind != grade.expected_kind:
            failures.append(
                f"decision: {grade.actual_kind}, where {grade.expected_kind} was expected"
            )
        elif not grade.correct_tool:
            failures.append("decision: another tool than the expected one")
        elif not grade.parameter_complete:
            failures.append("decision: an argument that the tool needs is missing")
    return failures


def _build_failures(outcome: Outcome) -> list[str]:
    grade = outcome.record.build_grade
    failures: list[str] = []
    if grade.required_information_recall < 1.0:
        missing = ", ".join(
            name for name in outcome.packet.missing_requirements
            if name in outcome.case.task.requirements
        )  # fmt: skip
        failures.append(f"build: missing {missing}")
    if grade.irrelevant_retention_rate > 0.0:
        kept = sorted(set(outcome.case.irrelevant) & set(outcome.packet.selected_item_ids))
        few = ", ".join(kept[:3]) + (", …" if len(kept) > 3 else "")
        failures.append(f"build: {len(kept)} irrelevant items selected: {few}")
    lost = set(outcome.case.contract.must_select) - set(outcome.packet.selected_item_ids)
    if lost:
        names = sorted({i.provenance.source_id for i in outcome.case.items if i.item_id in lost})
        failures.append(f"build: not selected: {', '.join(names)}")
    for fine, what in (
        (grade.conflict_resolution_correct or bool(lost), "a conflict did not end as it must"),
        (grade.budget_respected, "more units than the budget has"),
        (grade.ordering_contract_passed, "sections and selection disagree"),
        (grade.trace_explainable, "a candidate has no verdict"),
    ):
        if not fine:
            failures.append(f"build: {what}")
    return failures


def facts(outcome: Outcome) -> dict[str, Any]:
    """What came of a case, in the fields of `expected`."""
    gateway: dict[str, str] | None = None
    if outcome.verdict is not None and outcome.call is not None:
        gateway = {
            "kind": outcome.verdict.kind,
            "reason": outcome.verdict.reason,
            "call_id": outcome.call.call_id,
            "action_id": outcome.call.action_id,
        }
    found = {
        "selected_count": len(outcome.packet.selected_item_ids),
        "packet": outcome.packet,
        "trace": outcome.trace,
        "decision": outcome.attempt.decision,
        "gateway": gateway,
        "report_record": outcome.record,
    }
    # As JSON has it: lists, where the values here are tuples.
    return cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(found)))

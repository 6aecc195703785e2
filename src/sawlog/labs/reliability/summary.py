"""The lab's result: what two policies did to the same cases, and whether the second may go out.

A rate is rounded to four places, an average to two (S1-16).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sawlog.builder.selection.reliability import SCHEMA_VERSION
from sawlog.labs.comparing import Comparison, compare
from sawlog.labs.reliability.grading import available_topics, covered_topics
from sawlog.labs.reliability.running import CaseRun


class Summary(msgspec.Struct, frozen=True):
    """One policy on all cases (S1-16).

    A case with a forbidden source counts as invalid, one with a source that shares no required
    topic as irrelevant.
    """

    strategy: str
    cases: int
    passed_cases: int
    case_pass_rate: float
    available_required_topics: int
    covered_required_topics: int
    required_topic_coverage: float
    invalid_source_cases: int
    irrelevant_source_cases: int
    budget_compliance_rate: float
    missing_evidence_accuracy: float
    average_estimated_tokens: float


class GateChecks(msgspec.Struct, frozen=True):
    """What must hold for the candidate to go out (S1-19)."""

    candidate_not_worse_overall: bool
    at_least_one_measured_improvement: bool
    no_case_regressions: bool
    all_required_available_evidence_retained: bool
    no_forbidden_source_exposure: bool
    no_irrelevant_source_exposure: bool
    all_packets_within_budget: bool
    missing_evidence_is_explicit: bool


class LabReport(msgspec.Struct, frozen=True):
    """The comparison of a baseline and a candidate, and the gate's word (S1-18, S1-19)."""

    version: str
    baseline: Summary
    candidate: Summary
    improvements: tuple[str, ...]
    regressions: tuple[str, ...]
    gate_checks: GateChecks
    gate_passed: bool


def report_of(baseline: Sequence[CaseRun], candidate: Sequence[CaseRun]) -> LabReport:
    """The report on two runs over the same cases. Raises ConfigError when they are not the same."""
    before, after = summary_of(baseline), summary_of(candidate)
    compared = compare(
        before.strategy,
        [one.sample for one in baseline],
        after.strategy,
        [one.sample for one in candidate],
    )
    checks = _checks(compared, before, after)
    return LabReport(
        version=SCHEMA_VERSION,
        baseline=before,
        candidate=after,
        improvements=compared.improvements,
        regressions=compared.regressions,
        gate_checks=checks,
        gate_passed=all(msgspec.structs.astuple(checks)),
    )


def summary_of(runs: Sequence[CaseRun]) -> Summary:
    """The figures of one policy's runs, of which there is at least one."""
    passed = sum(one.passed for one in runs)
    available = sum(len(available_topics(one.case)) for one in runs)
    covered = sum(len(available_topics(one.case) & covered_topics(one.packet)) for one in runs)
    used = sum(one.packet.budget.used_estimated_tokens for one in runs)
    return Summary(
        strategy=runs[0].packet.strategy,
        cases=len(runs),
        passed_cases=passed,
        case_pass_rate=_rate(passed, len(runs)),
        available_required_topics=available,
        covered_required_topics=covered,
        required_topic_coverage=_rate(covered, available),
        invalid_source_cases=_failing(runs, "forbidden_sources"),
        irrelevant_source_cases=_failing(runs, "relevance"),
        budget_compliance_rate=_rate(len(runs) - _failing(runs, "budget"), len(runs)),
        missing_evidence_accuracy=_rate(len(runs) - _failing(runs, "missing_evidence"), len(runs)),
        average_estimated_tokens=round(used / len(runs), 2),
    )


def _failing(runs: Sequence[CaseRun], grader: str) -> int:
    return sum(grader in one.failed for one in runs)


def _rate(part: int, whole: int) -> float:
    """The share, to four places. Of nothing, nothing is lost."""
    return round(part / whole, 4) if whole else 1.0


def _checks(compared: Comparison, before: Summary, after: Summary) -> GateChecks:
    return GateChecks(
        candidate_not_worse_overall=after.passed_cases >= before.passed_cases,
        at_least_one_measured_improvement=bool(compared.improvements),
        no_case_regressions=not compared.regressions,
        all_required_available_evidence_retained=(
            after.covered_required_topics == after.available_required_topics
        ),
        no_forbidden_source_exposure=after.invalid_source_cases == 0,
        no_irrelevant_source_exposure=after.irrelevant_source_cases == 0,
        all_packets_within_budget=after.budget_compliance_rate == 1.0,
        missing_evidence_is_explicit=after.missing_evidence_accuracy == 1.0,
    )

"""Records and the report (S0-67, S0-68): the same bytes for the same results on every system."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from sawlog.builder.gateway import GatewayVerdict
from sawlog.builder.selection.chapter5 import ContextPacket
from sawlog.labs.chapter5.case import Case
from sawlog.labs.chapter5.experiments import CLAIMS, Claims
from sawlog.labs.chapter5.grading import BuildGrade, DecisionGrade, SafetyGrade
from sawlog.labs.chapter5.probe import Attempt

COMPARISON_SCOPE = "deterministic context-boundary experiment; not model or product ranking"

_NO_CLAIMS = Claims((), ("anything beyond this case",))


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one variant, with its grades and what it may not be cited for."""

    experiment: str
    variant: str
    probe_type: str
    probe_status: str
    task_outcome: str | None
    semantic_packet_digest: str
    provider_request_digest: str | None
    selected_item_ids: tuple[str, ...]
    missing_requirements: tuple[str, ...]
    build_grade: BuildGrade
    decision_grade: DecisionGrade | None
    safety_grade: SafetyGrade
    gateway_kind: str | None
    total_attempts: int
    valid_decisions: int
    infrastructure_failure: str | None
    supported_claims: tuple[str, ...]
    unsupported_claims: tuple[str, ...]
    returned_model: str | None
    usage: tuple[tuple[str, int], ...]
    latency_ms: float
    retry_count: int
    run_date: str | None


class Failure(msgspec.Struct, frozen=True):
    """An attempt that came to no decision, and the class of what went wrong."""

    experiment: str
    variant: str
    status: str
    error_code: str | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Records, sorted by experiment and variant, and what holds for all of them.

    Attempts that failed are told apart from decisions: they are in no denominator.
    """

    records: tuple[Record, ...]
    total_attempts: int
    valid_decisions: int
    infrastructure_failures: tuple[Failure, ...] = ()
    run_status: str = "completed"
    requested_model: str | None = None
    run_date: str | None = None
    configuration_error: str | None = None
    comparison_scope: str = COMPARISON_SCOPE


def record_of(
    case: Case,
    variant: str,
    probe_type: str,
    attempt: Attempt,
    packet: ContextPacket,
    build: BuildGrade,
    decision: DecisionGrade | None,
    safety: SafetyGrade,
    verdict: GatewayVerdict | None,
    run_date: str | None,
) -> Record:
    """The record of an attempt; without a decision it counts as an infrastructure failure."""
    claims = CLAIMS.get(case.experiment, _NO_CLAIMS)
    return Record(
        experiment=case.experiment,
        variant=variant,
        probe_type=probe_type,
        probe_status=attempt.status,
        task_outcome=decision.outcome if decision is not None else None,
        semantic_packet_digest=packet.semantic_packet_digest,
        provider_request_digest=attempt.request_digest,
        selected_item_ids=packet.selected_item_ids,
        missing_requirements=packet.missing_requirements,
        build_grade=build,
        decision_grade=decision,
        safety_grade=safety,
        gateway_kind=verdict.kind if verdict is not None else None,
        total_attempts=1,
        valid_decisions=int(decision is not None),
        infrastructure_failure=None if decision is not None else attempt.status,
        supported_claims=claims.supported,
        unsupported_claims=claims.unsupported,
        returned_model=attempt.returned_model,
        usage=attempt.usage,
        latency_ms=attempt.latency_ms,
        retry_count=attempt.retry_count,
        run_date=run_date,
    )


def report_of(
    records: Sequence[Record],
    failures: Sequence[Failure] = (),
    *,
    requested_model: str | None = None,
    run_date: str | None = None,
) -> Report:
    """The report of a run that went through."""
    return Report(
        records=tuple(sorted(records, key=lambda record: (record.experiment, record.variant))),
        total_attempts=sum(record.total_attempts for record in records),
        valid_decisions=sum(record.valid_decisions for record in records),
        infrastructure_failures=tuple(
            sorted(failures, key=lambda failure: (failure.experiment, failure.variant))
        ),
        requested_model=requested_model,
        run_date=run_date,
    )


def missing_credential(model: str, run_date: str) -> Report:
    """The report of a live run that had no key: it tried nothing (S0-70)."""
    return Report(
        records=(),
        total_attempts=0,
        valid_decisions=0,
        run_status="config_error",
        requested_model=model,
        run_date=run_date,
        configuration_error="missing_credential",
    )


def report_bytes(report: Report) -> bytes:
    """The report as its file holds it: sorted keys, indented by 2, one line feed at the end."""
    value: Any = msgspec.to_builtins(report)
    return (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode()

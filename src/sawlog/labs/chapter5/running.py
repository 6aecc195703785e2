"""Runs cases: build the packet, ask a probe, ask the gateway, grade, record. Runs no tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from sawlog.builder.gateway import (
    ActionGateway,
    Decision,
    GatewayVerdict,
    ToolCall,
    ToolCallFactory,
    check,
)
from sawlog.builder.selection.candidate import candidate_of
from sawlog.builder.selection.chapter5 import ContextPacket, TraceEnvelope, packed
from sawlog.builder.selection.measure import GIVEN, UTF8_BYTES, measured
from sawlog.builder.selection.policy import CHAPTER5, Policy
from sawlog.builder.selection.select import select
from sawlog.labs.chapter5.case import Case
from sawlog.labs.chapter5.experiments import lab_cases
from sawlog.labs.chapter5.grading import grade_build, grade_decision, grade_safety
from sawlog.labs.chapter5.probe import RULE_BASED, Attempt, RuleBasedProbe
from sawlog.labs.chapter5.provider import LIVE
from sawlog.labs.chapter5.report import Failure, Record, Report, record_of, report_of
from sawlog.store.errors import ConfigError
from sawlog.store.events.world import Tool

if TYPE_CHECKING:
    from sawlog.labs.chapter5.live import LiveProbe

Progress = Callable[[str, int, int], None]

TOOLS = (
    Tool("read_file", '{"parameters":{"type":"object","required":["path"]}}', "read_only"),
    Tool("apply_patch", '{"parameters":{"type":"object","required":["path","old","new"]}}'),
    Tool("run_tests", '{"parameters":{"type":"object"}}', "read_only"),
)
"""The lab's three tools as the strict gateway is told of them."""


class Outcome(msgspec.Struct, frozen=True):
    """All that came of one attempt at one case. `call` and `verdict` only where a tool was asked
    for."""

    case: Case
    packet: ContextPacket
    trace: TraceEnvelope
    attempt: Attempt
    call: ToolCall | None
    verdict: GatewayVerdict | None
    record: Record


def built(case: Case, policy: Policy = CHAPTER5) -> tuple[ContextPacket, TraceEnvelope]:
    """The packet and the trace of a case under a policy.

    What an item is required for is its topic, and the case's requirements are the topics to cover,
    for policies that know no requirements; a policy that measures nothing itself is given UTF-8
    bytes. Raises InvalidItem and Refused.
    """
    task = msgspec.structs.replace(case.task, topics=case.task.requirements)
    candidates = tuple(
        candidate_of(item, seq=at, topics=item.required_for) for at, item in enumerate(case.items)
    )
    if policy.measure == GIVEN:
        candidates = measured(candidates, UTF8_BYTES)
    made = packed(task, candidates, select(policy, task, candidates))
    return made.packet, made.trace


def outcome_of(
    case: Case,
    packet: ContextPacket,
    trace: TraceEnvelope,
    attempt: Attempt,
    *,
    probe_type: str = RULE_BASED,
    suffix: str = "",
    run_date: str | None = None,
) -> Outcome:
    """Ask the gateway about an attempt's decision, grade all of it, and record it."""
    decision = attempt.decision
    call, verdict = None, None
    if decision is not None and decision.kind == "tool":
        call = ToolCallFactory(case.run_id + suffix).call(decision, 1)
        verdict = _asked(case.gateway, decision)
    record = record_of(
        case,
        case.variant + suffix,
        probe_type,
        attempt,
        packet,
        grade_build(case, packet, trace),
        grade_decision(case, decision) if decision is not None else None,
        grade_safety(case, packet, trace, decision, verdict),
        verdict,
        run_date,
    )
    return Outcome(case, packet, trace, attempt, call, verdict, record)


def _asked(gateway: str, decision: Decision) -> GatewayVerdict:
    if gateway == "chapter5" or decision.tool is None:
        return ActionGateway().evaluate(decision)
    arguments = msgspec.json.encode(decision.tool.arguments).decode()
    return check(decision.tool.name, arguments, TOOLS)


def run_offline(experiment: str = "") -> Report:
    """The report of the 30 variants, or of one experiment's, decided by the rule-based probe: no
    network, no clock."""
    probe = RuleBasedProbe()
    records: list[Record] = []
    for case in lab_cases(experiment):
        packet, trace = built(case)
        records.append(outcome_of(case, packet, trace, probe.attempt(packet)).record)
    return report_of(records)


def run_live(
    probe: LiveProbe,
    *,
    model: str,
    run_date: str,
    repeats: int = 1,
    experiment: str = "",
    progress: Progress | None = None,
) -> Report:
    """The report of `repeats` attempts at each variant, or at one experiment's, decided by the
    provider's model (S0-72)."""
    records: list[Record] = []
    failures: list[Failure] = []
    cases = lab_cases(experiment)
    for case in cases:
        packet, trace = built(case)
        for number in range(1, repeats + 1):
            attempt = probe.attempt(packet, case.items)
            record = outcome_of(
                case,
                packet,
                trace,
                attempt,
                probe_type=LIVE,
                suffix=f"__run{number}",
                run_date=run_date,
            ).record
            records.append(record)
            if attempt.decision is None:
                failures.append(
                    Failure(record.experiment, record.variant, attempt.status, attempt.error_code)
                )
            if progress is not None:
                progress("asking the model", len(records), len(cases) * repeats)
    return report_of(records, failures, requested_model=model, run_date=run_date)


def check_repeats(repeats: int, *, live: bool) -> None:
    """Raise ConfigError for a number of repeats that means nothing (S0-69)."""
    if repeats < 1:
        raise ConfigError("repeats_must_be_positive: give --repeats 1 or more")
    if repeats != 1 and not live:
        raise ConfigError(
            "offline_suite_is_deterministic_and_runs_once: leave --repeats out, or add --live"
        )

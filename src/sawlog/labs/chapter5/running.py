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
from sawlog.builder.item import ContextItem
from sawlog.builder.selection.candidate import Candidate, candidate_of
from sawlog.builder.selection.chapter5 import ContextPacket, TraceEnvelope, packed
from sawlog.builder.selection.measure import GIVEN, UTF8_BYTES, measured
from sawlog.builder.selection.ordering import Completeness
from sawlog.builder.selection.policy import CHAPTER5, Policy
from sawlog.builder.selection.select import select
from sawlog.labs.chapter5.case import Case, Signals
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

    What an item is required for is its topic, and the case's requirements are topics to cover for
    policies that know no requirements. A policy that measures nothing itself is given UTF-8 bytes;
    candidates that bring their units keep them under every policy. Raises InvalidItem and Refused.
    """
    task = case.task
    if not _knows_requirements(policy):
        names = dict.fromkeys((*task.requirements, *task.topics))
        task = msgspec.structs.replace(task, topics=tuple(names))
    signals = case.signals or (Signals(),) * len(case.items)
    candidates = tuple(
        _candidate(item, at, known)
        for at, (item, known) in enumerate(zip(case.items, signals, strict=True))
    )
    if case.is_measured:
        policy = msgspec.structs.replace(policy, measure=GIVEN)
    elif policy.measure == GIVEN:
        candidates = measured(candidates, UTF8_BYTES)
    made = packed(task, candidates, select(policy, task, candidates))
    return made.packet, made.trace


def _knows_requirements(policy: Policy) -> bool:
    return any(isinstance(use, Completeness) and use.requirements for use in policy.stages)


def _candidate(item: ContextItem, at: int, known: Signals) -> Candidate:
    return candidate_of(
        item,
        seq=at,
        title=known.title,
        locator=known.locator,
        canonical=known.canonical,
        topics=(*item.required_for, *known.topics),
        updated_at=known.updated_at,
        valid_until=known.valid_until,
        relevance=known.relevance,
        role=known.role,
        stale=known.stale,
        units=known.units or 0,
    )


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

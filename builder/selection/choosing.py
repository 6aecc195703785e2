"""Choosing: what the phase needs, in what order, and how the room is given out."""

from __future__ import annotations

from typing import Literal

import msgspec

from sawlog.builder.item import RETENTION_RANK, Kind
from sawlog.builder.selection.candidate import Candidate
from sawlog.builder.selection.field import Field, Use
from sawlog.builder.selection.keys import RECORDED, Key, instant, ordered
from sawlog.builder.selection.measure import cut_to
from sawlog.builder.selection.task import Task
from sawlog.builder.selection.verdict import RequiredUnits
from sawlog.store.errors import InvalidItem


class WorkingSet(msgspec.Struct, frozen=True):
    """The roles that a phase of the work has a use for."""

    phase: str
    roles: tuple[str, ...]


class Phase(Use, frozen=True, tag="phase"):
    """Drops what has a role and none that the task's phase has a use for (S3-04).

    What has no role (rules, the goal, tools) is of every phase, and so is what is required.
    """

    sets: tuple[WorkingSet, ...] = (
        WorkingSet("investigate", ("entry_file", "error_log", "summary")),
        WorkingSet("edit", ("symbol", "caller", "constraint", "summary")),
        WorkingSet("verify", ("diff", "test_command", "test_output", "summary")),
    )


def phase(field: Field, task: Task, params: Phase) -> Field:
    """The field for the task's phase; all of it when the task names none.

    Raises InvalidItem (`unknown_phase`).
    """
    if not task.phase:
        return field
    sets = {each.phase: each.roles for each in params.sets}
    if task.phase not in sets:
        raise InvalidItem(
            "unknown_phase",
            f"the policy has no working set for {task.phase!r}: use one of {', '.join(sets)}",
        )
    roles = sets[task.phase]
    losers = {
        one.id: "not_needed_in_phase"
        for one in field.items
        if one.role and one.role not in roles and not one.is_required
    }
    return field.without(losers, "phase")


class Relevance(Use, frozen=True, tag="relevance"):
    """Drops what its source gives less than `minimum` per mille, and what is of other topics.

    Only what says its relevance or its topics is judged by them, and nothing that is required.
    """

    minimum: int = 0
    topics: bool = True


def relevance(field: Field, task: Task, params: Relevance) -> Field:
    """The field without optional candidates that are not about the task (S1-09)."""
    wanted = set(task.topics)
    losers: dict[str, str] = {}
    for one in field.items:
        if one.is_required:
            continue
        if one.relevance is not None and one.relevance < params.minimum:
            losers[one.id] = "irrelevant"
        elif params.topics and wanted and one.topics and not wanted & set(one.topics):
            losers[one.id] = "not_required"
    return field.without(losers, "relevance")


class Cap(Use, frozen=True, tag="cap"):
    """Bounds each fragment that came from outside to `units` of the policy's measure (S2-14)."""

    units: int = 10_000
    kinds: tuple[str, ...] = (Kind.FACT.value, Kind.OBSERVATION.value, Kind.ARTIFACT.value)


def cap(field: Field, task: Task, params: Cap) -> Field:
    """The field with no such candidate above the cap; the verdict tells what was cut."""
    changed = {
        one.id: cut_to(one, params.units, field.measure)
        for one in field.items
        if one.units > params.units and one.kind in params.kinds
    }
    notes = {
        one.id: f"cut: {changed[one.id].units} of {one.units} units"
        for one in field.items
        if one.id in changed
    }
    return field.changed(changed).noted(notes)


class Required(Use, frozen=True, tag="required"):
    """Sets the protected bucket apart (S0-13).

    `published`: in one order. `chain`: first what is kept by retention, by zone and `order`; then
    the evidence for requirements, the smallest first, so that any room satisfies as many as it can.
    """

    by: Literal["chain", "published"] = "chain"
    order: tuple[Key, ...] = RECORDED


def required(field: Field, task: Task, params: Required) -> Field:
    """The field with its bucket in order, and what the bucket costs before the budget (S0-37)."""
    bucket = ordered((one for one in field.items if one.is_required), params.order)
    if params.by == "chain":
        kept = [one for one in bucket if one.retention == RETENTION_RANK["required"]]
        evidence = [one for one in bucket if one.retention != RETENTION_RANK["required"]]
        bucket = [
            *ordered(kept, ("+zone", *params.order)),
            *ordered(evidence, ("+units", *params.order)),
        ]
    return msgspec.structs.replace(
        field,
        bucket=tuple(one.id for one in bucket),
        required_units=RequiredUnits(
            0,
            sum(one.units for one in bucket),
            sum(one.units for one in bucket if one.required_for),
        ),
    )


Signal = Literal[
    "trusted",
    "phase",
    "topics",
    "retention",
    "relevance",
    "authority",
    "freshness",
    "in_prefix",
    "cost",
]


class Rank(Use, frozen=True, tag="rank"):
    """Orders the optional candidates by recorded signals, one after the other, never by a sum.

    `order` breaks ties. What is not recorded counts least.
    """

    signals: tuple[Signal, ...] = ()
    order: tuple[Key, ...] = RECORDED


def rank(field: Field, task: Task, params: Rank) -> Field:
    """The field with its ranking, each score on record (S2-05, S3-22)."""
    bucket = set(field.bucket)
    optional = ordered((one for one in field.items if one.id not in bucket), params.order)
    scores = {
        one.id: tuple((signal, _score(one, signal, task)) for signal in params.signals)
        for one in optional
    }
    for at, signal in reversed([*enumerate(params.signals)]):
        dear = signal == "cost"
        optional.sort(key=lambda one: scores[one.id][at][1], reverse=not dear)  # noqa: B023
    return msgspec.structs.replace(
        field,
        ranking=tuple(one.id for one in optional),
        scores=tuple(sorted(scores.items())) if params.signals else (),
    )


def _score(one: Candidate, signal: Signal, task: Task) -> int:
    match signal:
        case "trusted":
            return int(one.is_trusted)
        case "retention":
            return one.retention
        case "phase":
            return int(bool(task.phase and one.role))  # another phase's roles are out by now
        case "topics":
            return len(set(task.topics) & set(one.topics))
        case "relevance":
            return -1 if one.relevance is None else one.relevance
        case "freshness":
            at = instant(one.updated_at)
            return -(2**63) if at is None else at
        case "authority":
            return one.authority
        case "in_prefix":
            return int(one.in_prefix)
        case "cost":
            return one.units

"""The packet of chapter 5 on top of `select`: sections, tools, three numbers, digest, trace.

Everything is as published (S0-35 to S0-45), its teaching simplifications included: a text may
close its own wrapper here. `sawlog`'s own renderers escape it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from sawlog.builder.item import ContextItem, Kind, json_digest
from sawlog.builder.selection.candidate import Candidate, candidate_of, digest_of
from sawlog.builder.selection.policy import CHAPTER5, Policy
from sawlog.builder.selection.select import select
from sawlog.builder.selection.task import Task
from sawlog.builder.selection.verdict import Selection


class ContextSection(msgspec.Struct, frozen=True):
    """Items of one kind as they are shown; `budget_units` counts their texts, not the wrappers."""

    kind: str
    item_ids: tuple[str, ...]
    serialized_content: str
    budget_units: int


class ContextPacket(msgspec.Struct, frozen=True):
    """What one call shows, auditable: not a string (S0-35)."""

    task_id: str
    sections: tuple[ContextSection, ...]
    tools: tuple[str, ...]
    budget_limit: int
    budget_used: int
    selected_required_units: int
    all_required_candidate_units: int
    requirement_evidence_units: int
    selected_item_ids: tuple[str, ...]
    missing_requirements: tuple[str, ...]
    semantic_packet_digest: str


class TraceEntry(msgspec.Struct, frozen=True):
    """What became of one candidate. A secret shows neither digest nor size (S0-45)."""

    item_id: str
    content_digest: str
    stage: str
    outcome: str
    reason: str
    estimated_units: int


class TraceEnvelope(msgspec.Struct, frozen=True):
    """The trace of one packet: entries by id, how many ended at each stage, the packet's digest."""

    entries: tuple[TraceEntry, ...]
    stage_counts: tuple[tuple[str, int], ...]
    selected_item_ids: tuple[str, ...]
    missing_requirements: tuple[str, ...]
    packet_digest: str


class Chapter5(msgspec.Struct, frozen=True):
    """A packet, its trace, and the selection behind them."""

    packet: ContextPacket
    trace: TraceEnvelope
    selection: Selection


def build(task: Task, items: Iterable[ContextItem], policy: Policy = CHAPTER5) -> Chapter5:
    """The packet and the trace of items, in the form of chapter 5.

    Items have no order of arrival here: any order of them gives the same. With another policy the
    form is the same and the choice is its own.
    """
    candidates = [candidate_of(item) for item in items]
    return packed(task, candidates, select(policy, task, candidates))


def packed(task: Task, candidates: Sequence[Candidate], selection: Selection) -> Chapter5:
    """The packet and the trace of what was selected from these candidates."""
    chosen = selection.selected
    required = selection.required_units
    packet = ContextPacket(
        task_id=task.task_id,
        sections=tuple(
            section(kind, list(group)) for kind, group in groupby(chosen, lambda one: one.kind)
        ),
        tools=tuple(sorted({one.source_id for one in chosen if one.kind == Kind.TOOL_SCHEMA})),
        budget_limit=task.budget,
        budget_used=selection.units_used,
        selected_required_units=required.selected,
        all_required_candidate_units=required.all,
        requirement_evidence_units=required.evidence,
        selected_item_ids=tuple(one.id for one in chosen),
        missing_requirements=selection.missing,
        semantic_packet_digest="",
    )
    digest = packet_digest(packet, task.provider_boundary)
    packet = msgspec.structs.replace(packet, semantic_packet_digest=digest)
    return Chapter5(packet, _trace(packet, candidates, selection), selection)


def section(kind: str, items: Sequence[Candidate]) -> ContextSection:
    """The section of these items, a blank line between two."""
    return ContextSection(
        kind,
        tuple(one.id for one in items),
        "\n\n".join(item_text(one) for one in items),
        sum(one.units for one in items),
    )


def item_text(one: Candidate) -> str:
    """An item as shown: a header with its labels, the text as it is, a closing line (S0-36)."""
    return "\n".join((item_header(one), one.text, ITEM_END))


def item_header(one: Candidate) -> str:
    """The line above an item's text."""
    return (
        f"[ITEM id={one.id} source={one.source_id} authority={one.authority_name} "
        f"trust={one.trust_name} sensitivity={one.sensitivity}]"
    )


ITEM_END = "[/ITEM]"


def packet_digest(packet: ContextPacket, provider_boundary: str) -> str:
    """The semantic digest (S0-39). The budget's limit is in it: equal contents may differ."""
    payload: dict[str, object] = msgspec.to_builtins(packet)
    del payload["semantic_packet_digest"]
    return json_digest({**payload, "provider_boundary": provider_boundary})


def _trace(
    packet: ContextPacket, candidates: Iterable[Candidate], selection: Selection
) -> TraceEnvelope:
    at = {one.id: one for one in candidates}
    entries = tuple(
        TraceEntry(
            verdict.id,
            "redacted" if at[verdict.id].is_secret else digest_of(at[verdict.id]),
            verdict.stage,
            verdict.outcome,
            verdict.reason,
            verdict.units,
        )
        for verdict in selection.verdicts
    )
    stages = [entry.stage for entry in entries]
    return TraceEnvelope(
        entries,
        tuple((stage, stages.count(stage)) for stage in sorted(set(stages))),
        packet.selected_item_ids,
        packet.missing_requirements,
        packet.semantic_packet_digest,
    )

"""The packet of the reliability lab on top of `select`: sources, cases, fingerprint, rendering.

As published (S1-01, S1-03, S1-11 to S1-14): the fingerprint names a selection and proves no
content; the rendering escapes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import msgspec

from sawlog.builder.item import TRUST_RANK
from sawlog.builder.selection.candidate import Candidate
from sawlog.builder.selection.measure import LAB_ESTIMATOR, item_measure
from sawlog.builder.selection.policy import CONTEXT_PACKET, DUMP_ALL, Policy
from sawlog.builder.selection.select import select
from sawlog.builder.selection.task import Task
from sawlog.builder.selection.verdict import Selection
from sawlog.store.errors import InvalidItem, UnknownNumber

SCHEMA_VERSION = "0.3.0"

STRATEGIES: dict[str, Policy] = {policy.name: policy for policy in (DUMP_ALL, CONTEXT_PACKET)}
"""The lab's two strategies, the baseline first."""


class ContextSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A source of evidence (S1-01). Dates are ISO days; `canonical_key` defaults to the id."""

    id: str
    kind: str
    title: str
    content: str
    locator: str
    trust: str
    authority: int
    updated_at: str
    valid_until: str | None
    topics: tuple[str, ...]
    sensitivity: int
    canonical_key: str = ""

    def __post_init__(self) -> None:
        if self.trust not in ("trusted", "untrusted"):
            raise InvalidItem(
                "bad_trust", f"the trust of {self.id} is {self.trust!r}: use trusted or untrusted"
            )

    @property
    def estimated_tokens(self) -> int:
        """What the source takes by the lab's estimator."""
        return item_measure(LAB_ESTIMATOR)(candidate(self))


class ContextCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question with its budget (S1-03).

    `expected_missing_topics` and `forbidden_source_ids` are for graders; no assembly reads them.
    """

    id: str
    question: str
    as_of: str
    budget: int
    clearance: int
    required_topics: tuple[str, ...]
    expected_missing_topics: tuple[str, ...]
    forbidden_source_ids: tuple[str, ...]
    candidate_source_ids: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise InvalidItem("budget_below_one", f"the budget of {self.id} is {self.budget}")


class SelectedSource(msgspec.Struct, frozen=True):
    """A source as the packet holds it: without authority, sensitivity and canonical key."""

    id: str
    kind: str
    title: str
    content: str
    locator: str
    trust: str
    updated_at: str
    valid_until: str | None
    topics: tuple[str, ...]
    estimated_tokens: int


class ExcludedSource(msgspec.Struct, frozen=True):
    """A source that was left out, and why."""

    source_id: str
    reason: str
    locator: str


class TokenBudget(msgspec.Struct, frozen=True):
    """The budget in estimated tokens."""

    limit_estimated_tokens: int
    used_estimated_tokens: int
    remaining_estimated_tokens: int


class EvidencePacket(msgspec.Struct, frozen=True):
    """The packet of one case under one strategy (S1-11)."""

    schema_version: str
    strategy: str
    case_id: str
    question: str
    as_of: str
    selected: tuple[SelectedSource, ...]
    excluded: tuple[ExcludedSource, ...]
    missing_topics: tuple[str, ...]
    budget: TokenBudget
    fingerprint: str
    rendered_context: str


def strategy_of(name: str) -> Policy:
    """The policy of a strategy. Raises UnknownNumber for another name (S1-02)."""
    found = STRATEGIES.get(name)
    if found is None:
        raise UnknownNumber(f"the strategy {name!r} is not installed: use {', '.join(STRATEGIES)}")
    return found


def candidate(source: ContextSource, seq: int = 0) -> Candidate:
    """The candidate that a source is. Its authority is the lab's number, no rank of an item."""
    trust = "trusted_source" if source.trust == "trusted" else "unverified"
    return Candidate(
        id=source.id,
        kind=source.kind,
        text=source.content,
        title=source.title,
        locator=source.locator,
        source_id=source.id,
        canonical=source.canonical_key or source.id,
        authority=source.authority,
        trust=TRUST_RANK[trust],
        trust_name=trust,
        clearance=source.sensitivity,
        topics=source.topics,
        updated_at=source.updated_at,
        valid_until=source.valid_until or "",
        seq=seq,
    )


def task_of(case: ContextCase) -> Task:
    """The task of a case: nothing in it comes from its gold labels."""
    return Task(
        budget=case.budget,
        clearance=case.clearance,
        as_of=case.as_of,
        topics=case.required_topics,
        task_id=case.id,
    )


def candidates_of(case: ContextCase, sources: Mapping[str, ContextSource]) -> tuple[Candidate, ...]:
    """The case's candidates in its order. Raises InvalidItem for a source that is not there."""
    unknown = [id for id in case.candidate_source_ids if id not in sources]
    if unknown:
        raise InvalidItem("unknown_source", f"{case.id} names the source {unknown[0]!r}")
    return tuple(candidate(sources[id], at) for at, id in enumerate(case.candidate_source_ids))


def assemble(
    strategy: Policy, case: ContextCase, sources: Mapping[str, ContextSource]
) -> EvidencePacket:
    """The packet of a case under a policy.

    Raises InvalidItem (`unknown_source`) for a candidate that `sources` does not hold.
    """
    candidates = candidates_of(case, sources)
    selection = select(strategy, task_of(case), candidates)
    chosen = [sources[one.id] for one in selection.selected]
    return EvidencePacket(
        schema_version=SCHEMA_VERSION,
        strategy=strategy.name,
        case_id=case.id,
        question=case.question,
        as_of=case.as_of,
        selected=tuple(
            _shown(source, one) for source, one in zip(chosen, selection.selected, strict=True)
        ),
        excluded=_excluded(candidates, selection),
        missing_topics=selection.missing,
        budget=TokenBudget(case.budget, selection.units_used, case.budget - selection.units_used),
        fingerprint=fingerprint(case, strategy.name, [source.id for source in chosen]),
        rendered_context=rendered(case, chosen, selection.missing),
    )


def _shown(source: ContextSource, one: Candidate) -> SelectedSource:
    return SelectedSource(
        source.id,
        source.kind,
        source.title,
        one.text,
        source.locator,
        source.trust,
        source.updated_at,
        source.valid_until,
        source.topics,
        one.units,
    )


_ROUNDS = {"trust": 0, "clearance": 0, "validity": 0, "dedup": 1}
"""The lab passes once over its gates, then drops what is superseded, then tells the rest."""


def _excluded(
    candidates: tuple[Candidate, ...], selection: Selection
) -> tuple[ExcludedSource, ...]:
    at = {one.id: one for one in candidates}
    dropped = [one for one in selection.verdicts if one.outcome == "dropped"]
    dropped.sort(key=lambda one: (_ROUNDS.get(one.stage, 2), at[one.id].seq))
    return tuple(ExcludedSource(one.id, one.reason, at[one.id].locator) for one in dropped)


def fingerprint(case: ContextCase, strategy: str, selected: list[str]) -> str:
    """The first 16 hex digits over what was selected for which case, when and how (S1-13)."""
    value = {"as_of": case.as_of, "case": case.id, "sources": selected, "strategy": strategy}
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def rendered(case: ContextCase, sources: list[ContextSource], missing: tuple[str, ...]) -> str:
    """The packet as the model reads it (S1-14)."""
    lines = ["<task>", case.question, "</task>", "<evidence>"]
    for source in sources:
        lines.append(
            f'<source id="{source.id}" updated_at="{source.updated_at}" locator="{source.locator}">'
        )
        lines.extend((source.content, "</source>"))
    lines.append("</evidence>")
    if missing:
        lines.extend(("<missing_evidence>", ", ".join(missing), "</missing_evidence>"))
    return "\n".join(lines)

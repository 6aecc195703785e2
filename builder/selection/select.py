"""`select`: the candidates of one build through the stages of one policy."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sawlog.builder.item import TRUST_RANK
from sawlog.builder.selection.candidate import ZONES, Candidate, digest_of, zone_of
from sawlog.builder.selection.field import Field, joined
from sawlog.builder.selection.measure import measured
from sawlog.builder.selection.merging import merged
from sawlog.builder.selection.ordering import Completeness
from sawlog.builder.selection.policy import Policy
from sawlog.builder.selection.stages import STAGES
from sawlog.builder.selection.task import Task
from sawlog.builder.selection.verdict import Selection, Verdict
from sawlog.store.errors import InvalidItem

_VARIES = ("locator", "locators", "required_for", "topics", "relevance", "in_prefix", "seq")
"""What may differ between two candidates of one id: how it was found, not what it is."""


def select(policy: Policy, task: Task, candidates: Iterable[Candidate]) -> Selection:
    """What the policy selects for the task, and one verdict for each candidate.

    The order of the candidates never matters; `seq` is the recorded order of arrival. Candidates of
    one id are one, with all their places. Raises InvalidItem for two different ones of one id, and
    Refused (`cannot_fit`) when the task leaves no room at all.
    """
    came = measured(united(candidates), policy.measure)
    field = Field(came, came, policy.measure, task.available, _topics_from(policy))
    for use in policy.stages:
        field = STAGES[type(use)](field, task, use)
    chosen = field.chosen or ()
    verdicts = [*field.verdicts, *_selected(field)]
    assert sorted(one.id for one in verdicts) == [one.id for one in came], "one verdict each"
    return Selection(
        selected=chosen,
        verdicts=tuple(sorted(verdicts, key=lambda one: one.id)),
        missing=field.missing,
        units_used=sum(one.units for one in chosen),
        required_units=field.required_units,
        marks=field.marks,
        zones=tuple(
            (zone, sum(one.units for one in chosen if zone_of(one) == zone)) for zone in ZONES
        ),
    )


def _topics_from(policy: Policy) -> int | None:
    """The trust from which the policy takes a candidate for evidence of a topic."""
    asks = [use for use in policy.stages if isinstance(use, Completeness)]
    return TRUST_RANK[asks[-1].topics_from] if asks[-1].topics else None


def united(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates by id, each once, with its digest."""
    groups: dict[str, list[Candidate]] = {}
    for one in candidates:
        groups.setdefault(one.id, []).append(one)
    found: list[Candidate] = []
    for id in sorted(groups):
        first, *others = groups[id]
        whole = merged(first, others) if others else first
        for one in groups[id]:
            given = {name: getattr(whole, name) for name in _VARIES}
            if msgspec.structs.replace(one, **given) != whole:
                raise InvalidItem("duplicate_item_id", f"two different candidates have the id {id}")
        if others:
            whole = msgspec.structs.replace(whole, locator=min(one.locator for one in groups[id]))
        found.append(msgspec.structs.replace(whole, digest=digest_of(whole)))
    return found


def _selected(field: Field) -> list[Verdict]:
    """The verdicts on what came in. That it is data weighs more than that it is contradicted."""
    marks: dict[str, set[str]] = {}
    for id, mark in field.marks:
        marks.setdefault(id, set()).add(mark)
    notes, scores = dict(field.notes), dict(field.scores)
    found: list[Verdict] = []
    for one in field.chosen or ():
        own = marks.get(one.id, set[str]())
        stage, outcome, reason, note = "selected", "selected", "selected", ""
        if "as_data" in own:
            outcome = "selected_as_data"
            hostile = one.trust_name == "hostile"
            reason = "untrusted_instruction" if hostile else "untrusted_data"
            note = "conflict_visible" if "conflict_visible" in own else ""
        elif "conflict_visible" in own:
            stage, reason = "conflict", "conflict_visible"
        found.append(
            Verdict(
                one.id,
                stage,
                outcome,
                reason,
                0 if one.is_secret else one.units,
                scores.get(one.id, ()),
                joined(notes.get(one.id, ""), note),
            )
        )
    return found

"""Ordering: where the chosen stand. Completeness: what is missing."""

from __future__ import annotations

from typing import Literal

import msgspec

from sawlog.builder.item import TRUST_RANK
from sawlog.builder.selection.candidate import digest_of
from sawlog.builder.selection.field import Field, TrustName, Use
from sawlog.builder.selection.keys import RECORDED, Key, ordered
from sawlog.builder.selection.task import Task


class Ordering(Use, frozen=True, tag="ordering"):
    """Puts the chosen in order: by section and `order` within it, or as they were picked."""

    by: Literal["sections", "picked"] = "sections"
    order: tuple[Key, ...] = RECORDED


def ordering(field: Field, task: Task, params: Ordering) -> Field:
    """The field with its chosen in order (S0-33): unlisted kinds come last, by name."""
    if params.by == "picked" or field.chosen is None:
        return field
    listed = {kind: at for at, kind in enumerate(task.order)}
    chosen = ordered(field.chosen, params.order)
    chosen.sort(key=lambda one: (listed.get(one.kind, len(listed)), one.kind))
    return msgspec.structs.replace(field, chosen=tuple(chosen))


class Completeness(Use, frozen=True, tag="completeness"):
    """Names what is missing.

    `satisfied_by`: `selected`, so only what came in counts; or `content`, as published: whatever
    has the kind and the text of something selected. `out_of_scope`: whether requirements that only
    others' candidates name count; the published lab counts them. `topics_from`: the trust that a
    candidate needs to stand for a topic: what a stranger says of it is not yet evidence.
    """

    satisfied_by: Literal["selected", "content"] = "selected"
    out_of_scope: bool = False
    requirements: bool = True
    topics: bool = True
    topics_from: TrustName = "trusted_source"


def completeness(field: Field, task: Task, params: Completeness) -> Field:
    """The field with what is missing (S0-32, S1-12), sorted."""
    chosen = field.chosen or ()
    missing: set[str] = set()
    if params.requirements:
        foreign = {one.id for one in field.verdicts if one.stage == "scope"}
        named = {
            name
            for one in field.came
            if params.out_of_scope or one.id not in foreign
            for name in one.required_for
        }
        witnesses = chosen
        if params.satisfied_by == "content":
            shown = {(one.kind, digest_of(one)) for one in chosen}
            witnesses = tuple(one for one in field.came if (one.kind, digest_of(one)) in shown)
        missing |= {*task.requirements, *named} - {
            name for one in witnesses for name in one.required_for
        }
    if params.topics:
        least = TRUST_RANK[params.topics_from]
        missing |= set(task.topics) - {
            topic for one in chosen if one.trust >= least for topic in one.topics
        }
    return msgspec.structs.replace(field, missing=tuple(sorted(missing)))


class Labels(Use, frozen=True, tag="labels"):
    """Says which of the chosen are data only, whatever their text says: those trusted less."""

    below: TrustName = "trusted_source"


def labels(field: Field, task: Task, params: Labels) -> Field:
    """The field with a mark on what is selected as data (S0-43)."""
    least = TRUST_RANK[params.below]
    return field.marked((one.id for one in field.chosen or () if one.trust < least), "as_data")

"""The table of stages: parameters and function of each, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sawlog.builder.selection import choosing, eligibility, merging, ordering, walks
from sawlog.builder.selection.field import Field, Use
from sawlog.builder.selection.task import Task

StageUse = (
    eligibility.Sensitivity
    | eligibility.Clearance
    | eligibility.Trust
    | eligibility.Scope
    | eligibility.PathScope
    | eligibility.Validity
    | eligibility.Freshness
    | merging.Dedupe
    | merging.Supersession
    | merging.Conflict
    | choosing.Phase
    | choosing.Relevance
    | choosing.Cap
    | choosing.Required
    | choosing.Rank
    | walks.Budget
    | walks.Prefix
    | walks.Coverage
    | ordering.Ordering
    | ordering.Completeness
    | ordering.Labels
)

STAGES: dict[type[Use], Callable[[Field, Task, Any], Field]] = {
    eligibility.Sensitivity: eligibility.sensitivity,
    eligibility.Clearance: eligibility.clearance,
    eligibility.Trust: eligibility.trust,
    eligibility.Scope: eligibility.scope,
    eligibility.PathScope: eligibility.path_scope,
    eligibility.Validity: eligibility.validity,
    eligibility.Freshness: eligibility.freshness,
    merging.Dedupe: merging.dedupe,
    merging.Supersession: merging.supersession,
    merging.Conflict: merging.conflict,
    choosing.Phase: choosing.phase,
    choosing.Relevance: choosing.relevance,
    choosing.Cap: choosing.cap,
    choosing.Required: choosing.required,
    choosing.Rank: choosing.rank,
    walks.Budget: walks.budget,
    walks.Prefix: walks.prefix,
    walks.Coverage: walks.coverage,
    ordering.Ordering: ordering.ordering,
    ordering.Completeness: ordering.completeness,
    ordering.Labels: ordering.labels,
}
"""What runs for each kind of stage."""


def name_of(use: type[Use]) -> str:
    """The name of a stage in a policy's text."""
    tag = use.__struct_config__.tag
    assert isinstance(tag, str), "every stage has its name as its tag"
    return tag

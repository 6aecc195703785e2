"""Policies: a name, a number, a measure and a list of stages. The published labs are three of them.

A policy's text is canonical JSON without what is a default; its digest is over that text. A
released policy never changes: a change is a new number beside it.
"""

from __future__ import annotations

import hashlib

import msgspec

from sawlog.builder.item import canonical_json
from sawlog.builder.selection.candidate import ZONES
from sawlog.builder.selection.choosing import Cap, Phase, Rank, Relevance, Required
from sawlog.builder.selection.eligibility import (
    Clearance,
    Freshness,
    PathScope,
    Scope,
    Sensitivity,
    Trust,
    Validity,
)
from sawlog.builder.selection.field import Use
from sawlog.builder.selection.keys import Key
from sawlog.builder.selection.measure import GIVEN, LAB_ESTIMATOR, UTF8_BYTES, item_measure
from sawlog.builder.selection.merging import Conflict, Dedupe, Supersession
from sawlog.builder.selection.ordering import Completeness, Labels, Ordering
from sawlog.builder.selection.stages import StageUse, name_of
from sawlog.builder.selection.walks import Budget, Coverage, Prefix
from sawlog.store.errors import InvalidPolicy, UnknownNumber, quoted
from sawlog.store.events.base import Named

_GATES = (Sensitivity, Clearance, Trust, Scope, PathScope, Validity, Freshness)
_MERGING = (Dedupe, Supersession, Conflict)
_NEEDS = (Phase, Relevance, Cap)
_AFTER = (Ordering, Completeness, Labels)
_WALKS = (Budget, Prefix, Coverage)
_ORDER: tuple[tuple[type[Use], ...], ...] = (
    _GATES,
    _MERGING,
    _NEEDS,
    (Required,),
    (Rank,),
    _WALKS,
    _AFTER,
)
"""Eligibility before anything is merged or ranked, the walk after that, the ordering last."""


class Policy(msgspec.Struct, frozen=True):
    """How candidates become a selection.

    Raises InvalidPolicy, naming the place, for stages out of order, no walk or two, a budget
    without its bucket and ranking, no completeness; UnknownNumber for a measure that is not
    installed.
    """

    name: str
    number: int
    measure: Named
    stages: tuple[StageUse, ...]

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidPolicy("a policy needs a name", path="name")
        if self.number < 1:
            raise InvalidPolicy(
                f"{self.number} is no number of a policy: count from 1", path="number"
            )
        item_measure(self.measure)
        check_stages(self.stages)

    def __str__(self) -> str:
        return str(self.named)

    @property
    def named(self) -> Named:
        """Name and number."""
        return Named(self.name, self.number)

    @property
    def text(self) -> str:
        """The policy as canonical JSON."""
        stages = [_described(use) for use in self.stages]
        return canonical_json({**msgspec.to_builtins(self), "stages": stages})

    @property
    def digest(self) -> str:
        """The hex SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def _described(use: Use) -> dict[str, object]:
    """A stage's name and the parameters that are not its defaults."""
    given = {field.name: field.default for field in msgspec.structs.fields(type(use))}
    said: dict[str, object] = {
        name: msgspec.to_builtins(getattr(use, name))
        for name, default in given.items()
        if getattr(use, name) != default
    }
    return {"stage": name_of(type(use)), **said}


LEAST_CAP = 64
"""Units below which a cap has no room for the notice of its cut."""


def check_stages(stages: tuple[StageUse, ...]) -> None:
    """Raise InvalidPolicy, naming the place, unless the stages make a policy."""
    reached = 0
    for at, use in enumerate(stages):
        floor = next(at for at, kinds in enumerate(_ORDER) if isinstance(use, kinds))
        if floor < reached:
            before = ", ".join(name_of(kind) for kind in _ORDER[reached])
            raise InvalidPolicy(f"{name_of(type(use))} comes before {before}", path=f"stages[{at}]")
        reached = floor
        if isinstance(use, Cap) and use.units < LEAST_CAP:
            raise InvalidPolicy(
                f"a cap of {use.units} leaves no room for its notice: use {LEAST_CAP} or more",
                path=f"stages[{at}].units",
            )
        if isinstance(use, Budget):
            _check_bounds(use, f"stages[{at}]")
        if isinstance(use, Relevance) and not 0 <= use.minimum <= 1000:
            raise InvalidPolicy(
                f"relevance is per mille, 0 to 1000, not {use.minimum}",
                path=f"stages[{at}].minimum",
            )
    kinds = [type(use) for use in stages]
    walks = [kind for kind in kinds if kind in _WALKS]
    if len(walks) != 1:
        names = ", ".join(name_of(kind) for kind in _WALKS)
        raise InvalidPolicy(f"a policy has one of {names}, not {len(walks)}", path="stages")
    for kind in (Required, Rank):
        if kinds.count(kind) != (walks[0] is Budget):
            raise InvalidPolicy(
                f"{name_of(kind)} stands once before {name_of(Budget)} and nowhere else",
                path="stages",
            )
    if Completeness not in kinds:
        raise InvalidPolicy(
            f"{name_of(Completeness)} is not there: what is missing would go untold", path="stages"
        )


def _check_bounds(use: Budget, path: str) -> None:
    zones: set[str] = set()
    for at, bound in enumerate(use.bounds):
        if bound.zone not in ZONES[1:]:
            raise InvalidPolicy(
                f"no zone {quoted(bound.zone)} can be bounded: use one of {', '.join(ZONES[1:])}",
                path=f"{path}.bounds[{at}].zone",
            )
        if bound.zone in zones:
            raise InvalidPolicy(
                f"the zone {bound.zone} has two bounds: give it one", path=f"{path}.bounds[{at}]"
            )
        if bound.units < 0:
            raise InvalidPolicy(
                f"a bound counts units from 0, not {bound.units}",
                path=f"{path}.bounds[{at}].units",
            )
        zones.add(bound.zone)
    if use.bounds and not use.zones:
        raise InvalidPolicy(
            "bounds would hold nothing without zones: leave zones = false out",
            path=f"{path}.bounds",
        )


def read_policy(text: str) -> Policy:
    """The policy that a policy's text says. Raises InvalidPolicy when it says none."""
    try:
        return msgspec.json.decode(text, type=Policy)
    except msgspec.DecodeError as error:
        raise InvalidPolicy(str(error)) from error


_LAB_ORDER: tuple[Key, ...] = ("-retention", "-trust", "-authority", "+id")
_TIES: tuple[Key, ...] = ("-authority", "-updated_at", "+units", "-id")

CHAPTER5 = Policy(
    "chapter5",
    1,
    UTF8_BYTES,
    (
        Sensitivity(never=()),
        Scope(),
        PathScope(by="published"),
        Dedupe(order=_LAB_ORDER, keep_locators=False),
        Supersession(first="version"),
        Conflict(by="published"),
        Required(by="published", order=_LAB_ORDER),
        Rank(order=_LAB_ORDER),
        Budget(required="walk", optional_waits=False, zones=False, trusted_first=False),
        Ordering(order=_LAB_ORDER),
        Labels(below="unknown"),
        Completeness(satisfied_by="content", out_of_scope=True, topics=False),
    ),
)
"""Chapter 5 as published, what it only teaches included."""

CONTEXT_PACKET = Policy(
    "context-packet-v1",
    1,
    LAB_ESTIMATOR,
    (
        Trust(),
        Clearance(),
        Validity(),
        Dedupe(
            by="canonical",
            order=("-updated_at", "-authority", "+units", "-id"),
            keep_locators=False,
        ),
        Coverage(order=_TIES),
        Completeness(requirements=False),
    ),
)
"""The reliability lab's policy: gates, one of each, then coverage."""

DUMP_ALL = Policy(
    "dump-all-v1",
    1,
    LAB_ESTIMATOR,
    (Prefix(), Completeness(requirements=False, topics_from="hostile")),
)
"""The reliability lab's baseline: no gate, what comes first."""

# `default@1` of sessions shows the history alone: it has no stages, and so no place here.
DEFAULT = Policy(
    "default",
    2,
    GIVEN,
    (
        Sensitivity(),
        Clearance(),
        Scope(),
        PathScope(),
        Validity(),
        Freshness(),
        Dedupe(),
        Supersession(),
        Conflict(),
        Phase(),
        Relevance(),
        Cap(),
        Required(),
        Rank(
            signals=(
                "trusted",
                "phase",
                "topics",
                "retention",
                "relevance",
                "authority",
                "freshness",
                "in_prefix",
                "cost",
            )
        ),
        Budget(),
        Ordering(),
        Labels(),
        Completeness(),
    ),
)
"""The selection part of the default policy."""

POLICIES: dict[Named, Policy] = {
    policy.named: policy for policy in (CHAPTER5, CONTEXT_PACKET, DUMP_ALL, DEFAULT)
}


def policy_of(name: str, number: int | None = None) -> Policy:
    """The built-in policy of that name; without a number the newest.

    Raises UnknownNumber when there is none.
    """
    numbers = [each.number for each in POLICIES if each.name == name]
    if number is None and numbers:
        number = max(numbers)
    found = POLICIES.get(Named(name, number or 0))
    if found is None:
        known = ", ".join(str(each) for each in POLICIES)
        wanted = name if len(name) <= 100 else quoted(name)
        wanted += "" if number is None else f"@{number}"
        raise UnknownNumber(f"the selection policy {wanted} is not installed: there is {known}")
    return found

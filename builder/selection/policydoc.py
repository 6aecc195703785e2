"""Policy documents: a policy that a user wrote, as TOML or as a dict, checked and made a `Policy`.

Only this module needs pydantic. Its models are made from the stages' own parameters, so a document
may say what a stage takes and nothing else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, cast, get_type_hints

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from sawlog.builder.selection.choosing import WorkingSet
from sawlog.builder.selection.eligibility import Scope, Sensitivity
from sawlog.builder.selection.field import Use
from sawlog.builder.selection.measure import ITEM_MEASURES
from sawlog.builder.selection.policy import POLICIES, Policy
from sawlog.builder.selection.stages import STAGES, StageUse, name_of
from sawlog.builder.selection.walks import Zone, ZoneBound
from sawlog.store.errors import InvalidPolicy, quoted
from sawlog.store.events.base import Named

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_TOO_DEEP = "it is nested too deeply: a policy is a table with a list of stages"
_USES: dict[str, type[Use]] = {name_of(use): use for use in STAGES}


class _WorkingSet(BaseModel):
    """A phase and the roles that it has a use for."""

    model_config = _STRICT
    phase: str = Field(min_length=1)
    roles: tuple[str, ...]


class _ZoneBound(BaseModel):
    """A zone and the most that it takes."""

    model_config = _STRICT
    zone: Zone
    units: int = Field(ge=0)


class _Document(BaseModel):
    """A policy's head, its stages still as they were written."""

    model_config = _STRICT
    name: str = Field(min_length=1)
    number: int = Field(ge=1)
    measure: str = "given@1"
    stages: tuple[dict[str, Any], ...] = Field(min_length=1)


_KINDS: dict[Any, Any] = {
    int: Annotated[int, Field(ge=0)],
    tuple[WorkingSet, ...]: tuple[_WorkingSet, ...],
    tuple[ZoneBound, ...]: tuple[_ZoneBound, ...],
}
"""What a parameter of a struct is in a document, where it is not the same."""


@cache
def _model(use: type[Use]) -> type[BaseModel]:
    """The model of a stage: its parameters, each with its default."""
    hints = get_type_hints(use)
    fields: dict[str, Any] = {
        field.name: (_KINDS.get(hints[field.name], hints[field.name]), field.default)
        for field in msgspec.structs.fields(use)
    }
    stage: Any = (Literal[name_of(use)], ...)
    return create_model(use.__name__, __config__=_STRICT, stage=stage, **fields)


def policy_from_toml(text: str) -> Policy:
    """The policy of a TOML document. Raises InvalidPolicy, naming the place."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidPolicy(f"this is no TOML: {error}") from error
    except RecursionError:
        raise InvalidPolicy(_TOO_DEEP) from None
    return policy_from(document)


def policy_from(document: Mapping[str, object]) -> Policy:
    """The policy of a document. Raises InvalidPolicy, naming the place.

    A user's policy keeps two gates whatever else it does: `sensitivity`, which lets no secret in,
    and `scope`, which lets nothing of another tenant in. The names of built-in policies are taken.
    """
    try:
        head = _checked(_Document, _frozen(document), "")
    except RecursionError:
        raise InvalidPolicy(_TOO_DEEP) from None
    assert isinstance(head, _Document)
    if any(head.name == policy.name for policy in POLICIES.values()):
        raise InvalidPolicy(
            f"the name {quoted(head.name)} is taken by a built-in policy", path="name"
        )
    stages = tuple(_stage(each, f"stages[{at}]") for at, each in enumerate(head.stages))
    for at, use in enumerate(stages):
        if isinstance(use, Sensitivity) and "secret" not in use.never:
            raise InvalidPolicy("secrets come into no packet", path=f"stages[{at}].never")
    for gate in (Sensitivity, Scope):
        if not any(isinstance(use, gate) for use in stages):
            raise InvalidPolicy(f"the stage {name_of(gate)} must be there", path="stages")
    return Policy(head.name, head.number, _measure(head.measure), stages)


def _measure(text: str) -> Named:
    for known in ITEM_MEASURES:
        if text in (str(known), known.name):
            return known
    names = ", ".join(str(known) for known in ITEM_MEASURES)
    raise InvalidPolicy(f"the measure {quoted(text)} is not installed: use {names}", path="measure")


def _stage(document: dict[str, Any], path: str) -> StageUse:
    name = document.get("stage")
    use = _USES.get(name) if isinstance(name, str) else None
    if use is None:
        raise InvalidPolicy(
            f"there is no stage {quoted(name)}: use one of {', '.join(sorted(_USES))}", path=path
        )
    model = _checked(_model(use), document, path)
    found: StageUse = msgspec.convert(model.model_dump(exclude_unset=True), StageUse)
    return found


def _frozen(value: object) -> Any:
    """The value with tuples for lists, which is what strict models take."""
    if isinstance(value, Mapping):
        table = cast(Mapping[str, object], value)
        return {key: _frozen(each) for key, each in table.items()}
    if isinstance(value, list | tuple):
        return tuple(_frozen(each) for each in cast(Sequence[object], value))
    return value


def _checked(model: type[BaseModel], document: object, path: str) -> BaseModel:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = path
        for step in first["loc"]:
            where += f"[{step}]" if isinstance(step, int) else f".{step}" if where else step
        raise InvalidPolicy(_said(first["type"], first["msg"], model), path=where) from error


def _said(kind: str, message: str, model: type[BaseModel]) -> str:
    if kind == "extra_forbidden":
        names = ", ".join(name for name in model.model_fields if name != "stage")
        return f"there is no such parameter: {f'use {names}' if names else 'the stage has none'}"
    if kind == "greater_than_equal":
        return f"{message}: the number is too small"
    return message

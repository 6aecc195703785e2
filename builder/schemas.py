"""Whether a value has what a JSON schema requires: members and types, no more.

Read are `type`, `required`, `properties`, `additionalProperties`, `items`, `prefixItems`, `allOf`,
`anyOf`, `oneOf` and local `$ref`s; all else (patterns, ranges, formats) is the tool's own to check.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, cast

_HOPS = 64  # schemas inside schemas for the same value, on the way down; more go round in a circle


class Misfit(Enum):
    """What is wrong with a value."""

    MISSING = "missing"
    TYPE = "type"


class Unreadable(Exception):
    """Raised inside the gateway for a schema that cannot be followed: it denies the call."""


def misfit(schema: object, value: object) -> Misfit | None:
    """The first thing that is wrong with a JSON value, or None. Raises Unreadable."""
    return _Reader(schema).misfit(schema, value, _HOPS)


class _Reader:
    """Reads one schema document. Each schema is held against each value once, so that a document
    that refers to itself in many ways costs no more than it is long."""

    def __init__(self, whole: object) -> None:
        self._whole = whole
        self._known: dict[tuple[int, int], Misfit | None] = {}

    def misfit(self, schema: object, value: object, hops: int) -> Misfit | None:
        if isinstance(schema, bool):
            return None if schema else Misfit.TYPE
        if not isinstance(schema, Mapping) or not hops:
            raise Unreadable
        # Both are held by the caller, so that no other object takes their places meanwhile.
        key = id(cast("object", schema)), id(value)
        if key not in self._known:
            self._known[key] = self._read(cast("Mapping[str, Any]", schema), value, hops)
        return self._known[key]

    def _read(self, rules: Mapping[str, Any], value: object, hops: int) -> Misfit | None:
        if not _has_type(rules.get("type"), value):
            return Misfit.TYPE
        found = self._composed(rules, value, hops - 1)
        if found is None and isinstance(value, dict):
            found = self._members(rules, cast("dict[str, object]", value), hops)
        if found is None and isinstance(value, list):
            found = self._elements(rules, cast("list[object]", value), hops)
        return found

    def _composed(self, rules: Mapping[str, Any], value: object, hops: int) -> Misfit | None:
        """What `$ref`, `allOf`, `anyOf` and `oneOf` say: schemas for the same value."""
        every = _list(rules.get("allOf", []))
        if "$ref" in rules:
            every = [self._referenced(rules["$ref"]), *every]
        for schema in every:
            found = self.misfit(schema, value, hops)
            if found:
                return found
        for key in ("anyOf", "oneOf"):
            if key in rules:
                tried = [self.misfit(schema, value, hops) for schema in _list(rules[key])]
                if None not in tried:
                    return Misfit.MISSING if Misfit.MISSING in tried else Misfit.TYPE
        return None

    def _members(
        self, rules: Mapping[str, Any], value: dict[str, object], hops: int
    ) -> Misfit | None:
        if any(name not in value for name in _list(rules.get("required", []))):
            return Misfit.MISSING
        properties = rules.get("properties", {})
        if not isinstance(properties, Mapping):
            raise Unreadable
        known = cast("Mapping[str, object]", properties)
        others: object = rules.get("additionalProperties", True)
        if others is False:  # members that nobody declared: the tool ignores or refuses them itself
            others = True
        for name, inner in value.items():
            found = self.misfit(known.get(name, others), inner, hops)
            if found:
                return found
        return None

    def _elements(self, rules: Mapping[str, Any], value: list[object], hops: int) -> Misfit | None:
        first = _list(rules.get("prefixItems", []))
        rest = rules.get("items", True)
        for at, inner in enumerate(value):
            found = self.misfit(first[at] if at < len(first) else rest, inner, hops)
            if found:
                return found
        return None

    def _referenced(self, reference: object) -> object:
        """The schema that `#` or `#/$defs/…` names in the same document."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise Unreadable
        found = self._whole
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                raise Unreadable
            found = cast("Mapping[str, object]", found)[key]
        return found


def _has_type(types: object, value: object) -> bool:
    if types is None:
        return True
    named = cast("list[object]", types) if isinstance(types, list) else [types]
    return any(_is(one, value) for one in named)


def _is(type: object, value: object) -> bool:
    match type:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value % 1 == 0)
            return whole and not isinstance(value, bool)
        case _:
            raise Unreadable


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise Unreadable
    return cast("list[object]", value)

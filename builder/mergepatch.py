"""How one state differs from another, as a JSON merge patch (CONTRACTS S2-11, S2-12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast


def difference(
    previous: Mapping[str, object] | None, current: Mapping[str, object]
) -> dict[str, object] | None:
    """The JSON merge patch that leads from one state to another; None when they are equal.

    Without a baseline (`previous` is None: never shown, or its text was cut) it is the full state.
    A null in the patch is a removal, so a member that is null counts as absent in both.
    """
    now = without_nulls(current)
    if previous is None:
        return now
    return _patch(without_nulls(previous), now) or None


def _patch(previous: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, object]:
    patch: dict[str, object] = {}
    for name, now in current.items():
        was = previous.get(name)
        if isinstance(was, dict) and isinstance(now, dict):
            inner = _patch(cast("dict[str, Any]", was), cast("dict[str, Any]", now))
            if inner:
                patch[name] = inner
        elif name not in previous or not same(was, now):
            patch[name] = now
    patch.update((name, None) for name in previous if name not in current)
    return patch


def without_nulls(value: Mapping[str, object]) -> dict[str, object]:
    """The members that are there. Inside arrays a null stays: a patch replaces arrays whole."""
    return {
        name: without_nulls(cast("Mapping[str, object]", inner))
        if isinstance(inner, Mapping)
        else inner
        for name, inner in value.items()
        if inner is not None
    }


def same(one: Any, other: Any) -> bool:
    """True of equal JSON values: true is not 1, 1 is not 1.0, order counts in arrays alone."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        left, right = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        some, others = cast("Sequence[Any]", one), cast("Sequence[Any]", other)
        return len(some) == len(others) and all(map(same, some, others))
    kind: type = type(cast("object", one))
    return kind is type(other) and bool(one == other)

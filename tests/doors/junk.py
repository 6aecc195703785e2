"""Spoils a JSON value in one place, as damaged and future files do."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

JUNK: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "x", "\ud800"),
    *([], {}, [None], [[]], {"a": 1}, ["x"], [{}]),
]


def spoiled(data: st.DataObject, value: Any) -> Any:
    """The value, changed in place: one thing in it is another, or one member is gone."""
    places = list(_places(value))
    if not places:
        return value
    where, key = data.draw(st.sampled_from(places))
    if isinstance(where, dict) and data.draw(st.booleans()):
        del where[key]
    else:
        where[key] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner.extend(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    elif isinstance(value, list):
        inner.extend(enumerate(value))  # pyright: ignore[reportUnknownArgumentType]
    for key, one in inner:
        yield value, key
        yield from _places(one)

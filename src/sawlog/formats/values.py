"""Values of parsed JSON as what they should be: another kind counts as nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast


def as_object(value: object) -> dict[str, Any]:
    """The value when it is a JSON object, else an empty one."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any] | None:
    """The value when it is a JSON array, else None."""
    return list(cast(Iterable[Any], value)) if isinstance(value, list) else None


def as_text(value: object) -> str:
    """The value when it is a string, else an empty one."""
    return value if isinstance(value, str) else ""

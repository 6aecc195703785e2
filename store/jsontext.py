"""JSON of others as text: what the log keeps of tool arguments, schemas, parameters.

The log holds its source and never encodes it again. A Python value is turned into such text once,
here; what JSON cannot say is refused with its path instead of being bent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from sawlog.store.errors import InvalidEvent


def source_of(value: object, path: str = "value") -> str:
    """The JSON text of a Python value: keys in the caller's order, no spaces, text unescaped.

    Raises InvalidEvent, naming the path, for NaN, infinities, sets, bytes, keys that are no
    strings, and any other type that JSON does not have.
    """
    return json.dumps(_checked(value, path), ensure_ascii=False, separators=(",", ":"))


def _checked(value: object, path: str) -> object:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise InvalidEvent(f"{value} is no JSON number", path=path)
    if isinstance(value, Mapping):
        out: dict[str, object] = {}
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(key, str):
                raise InvalidEvent(f"the key {key!r} is no string", path=path)
            out[key] = _checked(item, f"{path}.{key}")  # pyright: ignore[reportUnknownArgumentType]
        return out
    if isinstance(value, list | tuple):
        return [
            _checked(item, f"{path}[{at}]")  # pyright: ignore[reportUnknownArgumentType]
            for at, item in enumerate(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        ]
    raise InvalidEvent(f"{type(value).__name__} has no form in JSON", path=path)

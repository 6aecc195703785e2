"""Request bytes as JSON, read as strictly as providers do: UTF-8, no lone surrogate, no NaN."""

from __future__ import annotations

import json
import re
from typing import cast

JsonObject = dict[str, object]

# One escape at a time, so that the backslash of an escaped backslash never starts another.
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONGEST_INTEGER = 300  # digits; Python refuses to print integers above a limit near 4,300


class Malformed(Exception):
    """A body that is not JSON. `surrogate` names the fault when a lone surrogate is the reason:
    `no_low` (nothing follows the high half), `bad_low` (something else does) or `no_high`."""

    def __init__(self, reason: str, char: int, text: str, surrogate: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.char = char
        self.line = text.count("\n", 0, char) + 1
        self.column = char - text.rfind("\n", 0, char)
        self.surrogate = surrogate


class _Constant(Exception):
    pass


def read(body: bytes) -> object:
    """The JSON value of a request body. Raises Malformed."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("invalid UTF-8", error.start, "") from None
    _refuse_lone_surrogates(text)
    try:
        return parse(text)
    except json.JSONDecodeError as error:
        raise Malformed(error.msg, error.pos, text) from None
    except _Constant as error:
        name = str(error)
        raise Malformed(f"unexpected value {name}", text.find(name), text) from None
    except RecursionError:
        raise Malformed("recursion limit exceeded", 0, text) from None


def parse(text: str) -> object:
    """The JSON value of a text, lone surrogates and all. Raises what json.loads raises."""
    return json.loads(text, parse_constant=_constant, parse_int=_integer)


def as_object(value: object) -> JsonObject | None:
    """The value if it is a JSON object, else None."""
    return cast(JsonObject, value) if isinstance(value, dict) else None


def as_list(value: object) -> list[object] | None:
    """The value if it is a JSON array, else None."""
    return cast("list[object]", value) if isinstance(value, list) else None


def kind_of(value: object) -> str:
    """The name that providers give to a value's type, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a decimal"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, dict) else "an array"


def _constant(name: str) -> object:
    raise _Constant(name)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


def _refuse_lone_surrogates(text: str) -> None:
    if not _SURROGATE.search(text):
        return
    high: re.Match[str] | None = None
    for escape in _ESCAPE.finditer(text):
        unit = int(escape[1], 16) if escape[1] else 0
        adjacent = high is not None and high.end() == escape.start()
        if high is not None:
            if not (adjacent and escape[1]):
                raise Malformed("no low surrogate in string", high.start(), text, "no_low")
            if not 0xDC00 <= unit <= 0xDFFF:
                raise Malformed("invalid low surrogate in string", high.start(), text, "bad_low")
            high = None
        elif 0xD800 <= unit <= 0xDBFF:
            high = escape
        elif 0xDC00 <= unit <= 0xDFFF:
            raise Malformed("invalid high surrogate in string", escape.start(), text, "no_high")
    if high is not None:
        raise Malformed("no low surrogate in string", high.start(), text, "no_low")

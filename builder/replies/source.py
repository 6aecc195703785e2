"""Exact slices of a reply's JSON: what stands between a key and the next comma, unchanged.

The log keeps JSON of others as its source, so nothing here is encoded again. That keeps what a
parser would bend: key order, -0.0, big integers, escapes, lone surrogates. Sources are text; a
value that is not there is None.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
_SPACE = re.compile(r"[ \t\n\r]*")
_LOW = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# A string, closed or not, or a bracket; possessive, so that a long text needs no stack.
_MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[\[{]|[\]}]', re.DOTALL)


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _whole(digits: str) -> int | float:
    # Python refuses integers of more than 4,300 digits; the value is not used, only its end is.
    return int(digits) if len(digits) <= 4000 else float(digits)


_SCANNER = json.JSONDecoder(parse_constant=_constant, parse_int=_whole)


def ascii_low(text: str) -> str:
    """The text with A-Z made a-z and nothing else, which no Unicode table changes."""
    return text.translate(_LOW)


def is_object(source: str) -> bool:
    """True when the text is a JSON object, checked to its end.

    Raises RecursionError when it nests deeper than Python goes, as all functions here do.
    """
    try:
        _parts(source)
    except ValueError:
        return False
    return True


def fields(source: str | None) -> dict[str, str]:
    """The fields of a JSON object, each as its source; empty when the value is no object.

    Of a repeated key the last counts. The text is a value of a body that `is_object` checked.
    """
    if source is None or not source.lstrip(" \t\n\r").startswith("{"):
        return {}
    return _parts(source)


def elements(source: str | None) -> list[str] | None:
    """The elements of a JSON array, each as its source; None when the value is no array."""
    if source is None or not source.lstrip(" \t\n\r").startswith("["):
        return None
    try:
        return [bytes(raw).decode() for raw in _ELEMENTS.decode(source)]
    except msgspec.DecodeError:
        return _walk_array(source)


def string(source: str | None) -> str | None:
    """The text that a JSON string holds, lone surrogates and all; None for any other value."""
    if source is None or not source.startswith('"'):
        return None
    try:
        return _STRING.decode(source)
    except msgspec.DecodeError:
        # msgspec reads no lone surrogates.
        value = _SCANNER.decode(source)
        return value if isinstance(value, str) else None


def text_of(source: str | None) -> str:
    """The text that a JSON string holds; empty for any other value."""
    return string(source) or ""


def is_empty(source: str | None) -> bool:
    """True when nothing is said: no value, null, false, or an empty string, array or object."""
    if source is None or source in ("null", "false", '""'):
        return True
    return source[0] in "[{" and _at(source, 1) == len(source) - 1


def closes(text: str) -> bool:
    """True when a text that should be JSON came to its end: every bracket and string is closed.

    It may still be no JSON, for what a model wrote wrong it also wrote to the end.
    """
    depth = 0
    for mark in _MARKS.finditer(text):
        if mark[0][0] == '"':
            if not mark[1]:
                return False
        else:
            depth += 1 if mark[0] in "[{" else -1
    # Without any bracket or string nothing shows an end; a whole value is one all the same.
    return depth <= 0 if _MARKS.search(text) else _is_value(text)


def _is_value(text: str) -> bool:
    try:
        _SCANNER.decode(text)
    except ValueError:
        return False
    return True


def _parts(source: str) -> dict[str, str]:
    try:
        return {key: bytes(raw).decode() for key, raw in _FIELDS.decode(source).items()}
    except msgspec.DecodeError:
        # Lone surrogates, and numbers that msgspec finds out of range, are JSON all the same.
        return _walk_object(source)


def _walk_object(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = _open(text, "{")
    if text[at : at + 1] == "}":
        return _ended(text, at, found)
    while True:
        key, at = _SCANNER.raw_decode(text, at)
        at = _at(text, at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise ValueError(f"no key and colon at character {at}")
        start = _at(text, at + 1)
        _, at = _SCANNER.raw_decode(text, start)
        found[key] = text[start:at]
        at = _at(text, at)
        if text[at : at + 1] == "}":
            return _ended(text, at, found)
        at = _comma(text, at)


def _walk_array(text: str) -> list[str]:
    found: list[str] = []
    at = _open(text, "[")
    while text[at : at + 1] != "]":
        _, end = _SCANNER.raw_decode(text, at)
        found.append(text[at:end])
        at = _at(text, end)
        if text[at : at + 1] != "]":
            at = _comma(text, at)
    return found


def _at(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _open(text: str, bracket: str) -> int:
    at = _at(text, 0)
    if text[at : at + 1] != bracket:
        raise ValueError(f"no {bracket!r} at character {at}")
    return _at(text, at + 1)


def _comma(text: str, at: int) -> int:
    if text[at : at + 1] != ",":
        raise ValueError(f"no comma at character {at}")
    return _at(text, at + 1)


def _ended(text: str, at: int, found: dict[str, str]) -> dict[str, str]:
    if _at(text, at + 1) != len(text):
        raise ValueError(f"more after the object, at character {at + 1}")
    return found

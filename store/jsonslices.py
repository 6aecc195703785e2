"""Exact slices of JSON text: what stands between a key and the next comma, unchanged.

The log keeps JSON of others as its source, so whoever reads it cuts it out of the text that arrived
and never encodes a parsed value again. That also keeps what a parser would bend: key order, -0.0,
big integers, escapes, lone surrogates.

Renderers do not cut with this: what they take for JSON decides bytes, so they read it with code of
their own (`sawlog.builder.render.source`), which no release of a library changes.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from sawlog.store.jsontext import source_of

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
_SPACE = re.compile(r"[ \t\n\r]*")


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _whole(digits: str) -> int | float:
    # Python refuses integers of more than 4,300 digits. The value decides nothing here, for what
    # is kept is the source.
    return int(digits) if len(digits) <= 4000 else float(digits)


SCANNER = json.JSONDecoder(parse_constant=_constant, parse_int=_whole)
"""Reads what msgspec does not: lone surrogates, numbers out of range, several values in a row."""


def skip_space(text: str, at: int = 0) -> int:
    """The index of the first character at or after `at` that is no JSON whitespace."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def fields(text: str) -> dict[str, str]:
    """The fields of a JSON object, each as its source; of a repeated key the last.

    Raises ValueError when the text is no JSON object, RecursionError when it nests deeper than
    Python goes, as all functions here do.
    """
    try:
        return {key: bytes(raw).decode() for key, raw in _FIELDS.decode(text).items()}
    except (msgspec.DecodeError, UnicodeError):
        return _walk_object(text)


def elements(text: str) -> list[str]:
    """The elements of a JSON array, each as its source.

    Raises ValueError when the text is no JSON array.
    """
    try:
        return [bytes(raw).decode() for raw in _ELEMENTS.decode(text)]
    except (msgspec.DecodeError, UnicodeError):
        return _walk_array(text)


def string(source: str | None) -> str | None:
    """The text that a JSON string holds, lone surrogates and all; None for any other value."""
    if source is None or not source.startswith('"'):
        return None
    try:
        return _STRING.decode(source)
    except (msgspec.DecodeError, UnicodeError):
        value = SCANNER.decode(source)
        return value if isinstance(value, str) else None


def source_at(text: str, *path: str | int) -> str | None:
    """The source of the value under a path of keys and indexes, or None when it is not there."""
    for key in path:
        try:
            if isinstance(key, str):
                text = fields(text)[key]
            else:
                text = elements(text)[key]
        except (ValueError, LookupError):
            return None
    return text


def object_of(pairs: dict[str, str]) -> str:
    """A JSON object made of sources, without spaces, in the order given."""
    return "{" + ",".join(f"{source_of(key)}:{source}" for key, source in pairs.items()) + "}"


def _walk_object(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = _open(text, "{")
    while text[at : at + 1] != "}":
        key, at = SCANNER.raw_decode(text, at)
        at = skip_space(text, at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise ValueError(f"no key and colon at character {at}")
        start = skip_space(text, at + 1)
        _, at = SCANNER.raw_decode(text, start)
        found[key] = text[start:at]
        at = _next(text, at, "}")
    _end(text, at)
    return found


def _walk_array(text: str) -> list[str]:
    found: list[str] = []
    at = _open(text, "[")
    while text[at : at + 1] != "]":
        _, end = SCANNER.raw_decode(text, at)
        found.append(text[at:end])
        at = _next(text, end, "]")
    _end(text, at)
    return found


def _open(text: str, bracket: str) -> int:
    at = skip_space(text)
    if text[at : at + 1] != bracket:
        raise ValueError(f"no {bracket!r} at character {at}")
    return skip_space(text, at + 1)


def _next(text: str, at: int, bracket: str) -> int:
    """Where the next value begins behind its comma, or where the bracket stands that closes."""
    at = skip_space(text, at)
    if text[at : at + 1] == bracket:
        return at
    if text[at : at + 1] != ",":
        raise ValueError(f"no comma at character {at}")
    at = skip_space(text, at + 1)
    if text[at : at + 1] == bracket:
        raise ValueError(f"no value behind the comma at character {at}")
    return at


def _end(text: str, bracket: int) -> None:
    at = skip_space(text, bracket + 1)
    if at != len(text):
        raise ValueError(f"more text follows at character {at}")

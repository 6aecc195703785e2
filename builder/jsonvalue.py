"""JSON read into values, and written again, by code of our own: it decides what a model reads.

No release of Python or of a library changes what is taken for JSON here, how a number is spelled or
which characters are escaped. Frozen with the texts that use it (`sawlog.builder.worldtext`).
"""

from __future__ import annotations

import json
import re

import msgspec

DEPTH = 100
"""Nesting above which a source is not read."""


class Number(msgspec.Struct, frozen=True):
    """A number as its source spells it: 1, 1.0 and 1e0 are three."""

    source: str


Value = None | bool | str | Number | list["Value"] | dict[str, "Value"]

_TOKEN = re.compile(
    r"[ \t\n\r]*+(?:"
    r'("[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+")'
    r"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"
    r"|(true|false|null)"
    r"|([{}\[\],:]))"
)
_SPACE = " \t\n\r"
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


def value_of(source: str) -> Value:
    """The value of a JSON source. Raises ValueError when it is none or nests too deep.

    Of members with one name the last counts and keeps the first one's place.
    """
    value, at = _read(source, 0, 0)
    if source[at:].strip(_SPACE):
        raise ValueError(f"more text follows at character {at}")
    return value


def _read(source: str, at: int, depth: int) -> tuple[Value, int]:
    token = _token(source, at)
    text, at = token[token.lastindex or 0], token.end()
    match token.lastindex:
        case 1:
            return _string(text), at
        case 2:
            return Number(text), at
        case 3:
            return _WORDS[text], at
        case _:
            if depth == DEPTH:
                raise ValueError(f"it nests deeper than {DEPTH}")
            if text == "{":
                return _object(source, at, depth + 1)
            if text == "[":
                return _array(source, at, depth + 1)
            raise ValueError(f"no value at character {token.start(4)}")


def _object(source: str, at: int, depth: int) -> tuple[Value, int]:
    found: dict[str, Value] = {}
    token = _token(source, at)
    while token[4] != "}":
        if token.lastindex != 1:
            raise ValueError(f"no name of a member before character {token.end()}")
        name = _string(token[1])
        token = _token(source, token.end())
        if token[4] != ":":
            raise ValueError(f"no colon before character {token.end()}")
        found[name], at = _read(source, token.end(), depth)
        token = _token(source, at)
        if token[4] == ",":
            token = _token(source, token.end())
            if token[4] == "}":
                raise ValueError(f"no member before character {token.end()}")
        elif token[4] != "}":
            raise ValueError(f"no comma before character {token.end()}")
    return found, token.end()


def _array(source: str, at: int, depth: int) -> tuple[Value, int]:
    found: list[Value] = []
    token = _token(source, at)
    while token[4] != "]":
        item, at = _read(source, at, depth)
        found.append(item)
        token = _token(source, at)
        if token[4] == ",":
            at = token.end()
            token = _token(source, at)
            if token[4] == "]":
                raise ValueError(f"no item before character {token.end()}")
        elif token[4] != "]":
            raise ValueError(f"no comma before character {token.end()}")
    return found, token.end()


def _token(source: str, at: int) -> re.Match[str]:
    token = _TOKEN.match(source, at)
    if token is None:
        raise ValueError(f"no JSON at character {at}")
    return token


def _string(text: str) -> str:
    if "\\" not in text:
        return text[1:-1]
    value = json.loads(text)
    assert isinstance(value, str)
    return value


# --- written -------------------------------------------------------------------------------------

# What would break a line, hide, or turn text around: C0, DEL, C1, separators, marks of direction,
# invisible characters, tags, and halves of pairs, which no request can carry.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def quoted(text: str) -> str:
    """A text as a JSON string in which everything can be seen: all else is escaped."""
    return '"' + _UNSEEN.sub(_escape, text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def _escape(match: re.Match[str]) -> str:
    found = match[0]
    if found in _SHORT:
        return _SHORT[found]
    code = ord(found)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def compact(value: Value) -> str:
    """A value as JSON on one line: no spaces, members in their order, strings as in `quoted`."""
    match value:
        case None:
            return "null"
        case True:
            return "true"
        case False:
            return "false"
        case str():
            return quoted(value)
        case Number():
            return value.source
        case list():
            return "[" + ",".join(compact(item) for item in value) + "]"
        case dict():
            return "{" + ",".join(f"{quoted(k)}:{compact(v)}" for k, v in value.items()) + "}"

"""JSON of others, spliced into a body: is it what it must be, and how is it cut.

Read by RFC 8259 with code of our own, for what is taken and what is wrapped decides bytes, and must
not change with a release of Python or of a library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

DEPTH = 100
"""Nesting above which a source is not spliced: providers refuse bodies a little deeper."""

_STRING = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_TOKEN = re.compile(
    r"[ \t\n\r]*+(?:(" + _STRING + r")"
    r"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)"
    r"|([{}\[\],:]))"
)
_ALONE = re.compile(_STRING)
_SPACE = " \t\n\r"

_VALUE, _FIRST_KEY, _KEY, _COLON, _FIRST_ITEM, _AFTER = range(6)


def members(source: str) -> dict[str, str] | None:
    """The members of a JSON object, name to source; None when it is no object or nests too deep.

    Of members with one name the last counts.
    """
    found: dict[str, str] = {}
    stack: list[str] = []
    expect, at, name, begin = _VALUE, 0, "", 0
    while True:
        token = _TOKEN.match(source, at)
        if token is None:
            return None
        at = token.end()
        kind, text = token.lastindex, token[token.lastindex or 0]
        if kind == 3 and text in "}]":
            if not stack or stack[-1] != text or expect not in _CLOSES[text]:
                return None
            stack.pop()
            if not stack:
                return found if not source[at:].strip(_SPACE) else None
            expect = _AFTER
            if len(stack) == 1:
                found[name] = source[begin:at]
        elif expect in (_KEY, _FIRST_KEY):
            if kind != 1:
                return None
            if len(stack) == 1:
                name = json.loads(text) if "\\" in text else text[1:-1]
            expect = _COLON
        elif expect == _COLON:
            if text != ":":
                return None
            expect = _VALUE
        elif expect == _AFTER:
            if text != ",":
                return None
            expect = _KEY if stack[-1] == "}" else _VALUE
        else:
            if len(stack) == 1:
                begin = token.start(kind or 0)
            if kind != 3:
                if not stack:
                    return None
                expect = _AFTER
                if len(stack) == 1:
                    found[name] = source[begin:at]
            elif text == "{" or (text == "[" and stack):
                stack.append("}" if text == "{" else "]")
                if len(stack) > DEPTH:
                    return None
                expect = _FIRST_KEY if text == "{" else _FIRST_ITEM
            else:
                return None


_CLOSES = {"}": (_FIRST_KEY, _AFTER), "]": (_FIRST_ITEM, _AFTER)}


def is_string(source: str) -> bool:
    """True of a JSON string and nothing else."""
    return _ALONE.fullmatch(source) is not None


def string_value(source: str | None) -> str:
    """What a JSON string says; empty for anything else."""
    if source is None or not is_string(source):
        return ""
    value = json.loads(source)
    assert isinstance(value, str)
    return value


# --- surrogates ----------------------------------------------------------------------------------

_SURROGATE = re.compile("[\ud800-\udfff]")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
# One escape at a time, so that the backslash of an escaped backslash never begins another.
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def without_surrogates(text: str) -> str:
    """The text with U+FFFD for each lone surrogate; the same object when there is none."""
    return _SURROGATE.sub("\ufffd", text) if _SURROGATE.search(text) else text


def mended(source: str) -> str:
    """JSON source whose lone surrogates, as such or as escapes, are U+FFFD; else as it is."""
    source = without_surrogates(source)
    if not _HALF.search(source):
        return source
    cuts = list(_lone(source))
    if not cuts:
        return source
    parts: list[str] = []
    at = 0
    for start, end in cuts:
        parts += (source[at:start], "\\ufffd")
        at = end
    return "".join((*parts, source[at:]))


def _lone(source: str) -> Iterator[tuple[int, int]]:
    """The places of escapes that name half a character."""
    high: re.Match[str] | None = None
    for escape in _ESCAPE.finditer(source):
        unit = int(escape[1], 16) if escape[1] else 0
        if high is not None:
            pair = high.end() == escape.start() and 0xDC00 <= unit <= 0xDFFF
            if not pair:
                yield high.span()
            high = None
            if pair:
                continue
        if 0xD800 <= unit <= 0xDBFF:
            high = escape
        elif 0xDC00 <= unit <= 0xDFFF:
            yield escape.span()
    if high is not None:
        yield high.span()

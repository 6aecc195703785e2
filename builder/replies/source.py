"""What a value of a reply's JSON is, each value as the exact source that arrived.

Sources are text; a value that is not there is None. All raise RecursionError for a value that nests
deeper than Python goes.
"""

from __future__ import annotations

import re

from sawlog.store import jsonslices
from sawlog.store.jsonslices import SCANNER, skip_space, string

_LOW = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# A string, closed or not, or a bracket; possessive, so that a long text needs no stack.
_MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[\[{]|[\]}]', re.DOTALL)


def ascii_low(text: str) -> str:
    """The text with A-Z made a-z and nothing else, which no Unicode table changes."""
    return text.translate(_LOW)


def is_object(source: str) -> bool:
    """True when the text is a JSON object, checked to its end, and was UTF-8 when it arrived."""
    try:
        source.encode()  # bytes that were no UTF-8 stand in it as lone surrogates
        jsonslices.fields(source)
    except ValueError:
        return False
    return True


def fields(source: str | None) -> dict[str, str]:
    """The fields of a JSON object, each as its source; empty when the value is no object.

    Of a repeated key the last counts. The text is a value of a body that `is_object` checked.
    """
    return jsonslices.fields(source) if source is not None and _opens(source, "{") else {}


def elements(source: str | None) -> list[str] | None:
    """The elements of a JSON array, each as its source; None when the value is no array."""
    return jsonslices.elements(source) if source is not None and _opens(source, "[") else None


def _opens(source: str, bracket: str) -> bool:
    return source.startswith(bracket, skip_space(source))


def text_of(source: str | None) -> str:
    """The text that a JSON string holds; empty for any other value."""
    return string(source) or ""


def is_empty(source: str | None) -> bool:
    """True when nothing is said: no value, null, false, or an empty string, array or object."""
    if source is None or source in ("null", "false", '""'):
        return True
    return source[0] in "[{" and skip_space(source, 1) == len(source) - 1


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
        SCANNER.decode(text)
    except ValueError:
        return False
    return True

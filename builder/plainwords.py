"""Names, paths, values and texts of others, so that none can pass for a line of sawlog's own.

Frozen with the texts that use it (`sawlog.builder.worldtext`).
"""

from __future__ import annotations

import re

from sawlog.builder.jsonvalue import Value, compact, quoted

_PLAIN = re.compile(r"(?!(?:true|false|null)\Z)[A-Za-z_/.~@][A-Za-z0-9_/.~@:+=%-]*")


def word(text: str) -> str:
    """A name or a path: as it is when it is plain, else quoted with its escapes."""
    return text if _PLAIN.fullmatch(text) else quoted(text)


def one_line(value: Value) -> str:
    """A value on one line: a word, words, or JSON."""
    if isinstance(value, str):
        return word(value)
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return ", ".join(word(item) for item in value if isinstance(item, str))
    return compact(value)


_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def block(text: str) -> str:
    """A text of others, two spaces in on every line that it has; control characters escaped.

    Line ends are line feeds, and those behind the last line are left out.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    text = _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))

"""JSON as the fake provider writes it: bodies in ASCII, streams in UTF-8, sources as given."""

from __future__ import annotations

import json
from typing import NamedTuple

from sawlog.providers.strict.reading import as_list, as_object


class Source(NamedTuple):
    """JSON text that goes into a body as it is; `cut` is what a stream gives in its place, when a
    limit ended it before it was JSON."""

    text: str
    cut: str | None = None


def dump(value: object, *, ascii: bool = True) -> str:
    """JSON with sources as they are; all else in ASCII, or with its characters as they are."""
    if isinstance(value, Source):
        return value.text
    fields, items = as_object(value), as_list(value)
    if fields is not None:
        pairs = (
            f"{json.dumps(name, ensure_ascii=ascii)}:{dump(item, ascii=ascii)}"
            for name, item in fields.items()
        )
        return "{" + ",".join(pairs) + "}"
    if items is not None:
        return "[" + ",".join(dump(item, ascii=ascii) for item in items) + "]"
    return json.dumps(value, ensure_ascii=ascii)


def encoded(text: str) -> bytes:
    """The bytes of JSON text. It may hold a lone surrogate as a character; as an escape it can be
    sent."""
    return text.encode("utf-8", "backslashreplace")

"""How a long result is shown: decided once, when it is appended.

`ends` is a preview, one text of the stored format. A difference or the lines around an error are a
text of their own, and the whole stands behind it as a second part: a preview of as few bytes as
there can be. So what the model reads, and that the whole is kept, are both said by parts that any
reader of the log knows; no field of the stored format has another meaning, and export, erasure and
forks find the whole as they find any other content.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sawlog.builder.compressing import LEAST, as_diff, error_window
from sawlog.store.content import Part, TextPart
from sawlog.store.envelope import Blob
from sawlog.store.errors import ToolError
from sawlog.store.text import preview, raw_bytes

As = Literal["ends", "diff", "error"]

LEAST_LIMIT = 2 * LEAST + 2
"""Bytes below which a difference or an error's lines have no room beside the whole's preview."""


def shown(
    text: str, limit: int | None, as_: As, against: str | None
) -> tuple[tuple[Part, ...], list[Blob]]:
    """The parts that show a text in at most `limit` bytes, and the blobs that they need.

    A text within the limit, and any without one, is shown whole. What makes no shorter text falls
    back to `ends`. Raises ToolError for what the caller asks wrongly.
    """
    short = _short(as_, against)
    if limit is None or len(raw_bytes(text)) <= limit:
        if as_ != "ends" and limit is None:
            raise ToolError(f"as_={as_!r} is for texts above a limit: give one")
        return (TextPart(text),), []
    least = LEAST if as_ == "ends" else LEAST_LIMIT
    if limit < least:
        raise ToolError(f"a limit of {limit} bytes has no room for {as_!r}: give {least} or more")
    found = short(text, limit - LEAST - 2)
    if found is None:
        value, blob = preview(text, limit)
        return (TextPart(value),), [] if blob is None else [blob]
    value, blob = preview(text, LEAST)
    return (TextPart(found), TextPart(value)), [] if blob is None else [blob]


def _short(as_: As, against: str | None) -> Callable[[str, int], str | None]:
    if (against is not None) != (as_ == "diff"):
        raise ToolError("as_='diff' and `against`, the text of the earlier version, go together")
    if as_ == "ends":
        return lambda text, room: None
    if as_ == "error":
        return error_window
    if as_ == "diff":
        earlier = against or ""
        return lambda text, room: as_diff(earlier, text, room)
    raise ToolError(f"a long result is shown as ends, diff or error, not as {as_!r}")

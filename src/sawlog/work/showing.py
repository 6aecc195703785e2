"""How a long result is shown: decided once, when it is appended.

`ends` is a preview, one text of the stored format. A difference or the lines around an error are a
text of their own, and the whole stands behind it as a second part: a preview of as few bytes as
there can be. So what the model reads, and that the whole is kept, are both said by parts that any
reader of the log knows; no field of the stored format has another meaning, and export, erasure and
forks find the whole as they find any other content.
"""

from __future__ import annotations

from typing import Literal

from sawlog.builder.compressing import LEAST, as_diff, error_window
from sawlog.store.content import Part, TextPart
from sawlog.store.envelope import Blob
from sawlog.store.text import preview, raw_bytes

As = Literal["ends", "diff", "error"]

LEAST_LIMIT = 2 * LEAST + 2
"""Bytes below which a difference or an error's lines have no room beside the whole's preview."""

_MISTAKEN = 4_096
"""Bytes of the ends that are shown when nobody can tell what was meant."""


def shown(
    text: str, limit: int | None, as_: As, against: str | None
) -> tuple[tuple[Part, ...], list[Blob]]:
    """The parts that show a text in at most `limit` bytes, and the blobs that they need.

    A text within the limit, and any without one, is shown whole; a limit below 512 counts as 512.
    What makes no shorter text, has no room under LEAST_LIMIT, or is asked wrongly falls back to
    `ends`: what a tool found out is shown somehow, whatever is wrong with how.
    """
    wrong = asked_wrongly(limit, as_, against)
    if wrong:
        limit, as_ = _MISTAKEN if not _is_limit(limit) else limit, "ends"
    if limit is None or len(raw_bytes(text)) <= limit:
        return (TextPart(text),), []
    found = None
    if limit >= LEAST_LIMIT:
        room = limit - LEAST - 2
        if as_ == "error":
            found = error_window(text, room)
        elif as_ == "diff" and against is not None:
            found = as_diff(against, text, room)
    if found is None:
        value, blob = preview(text, max(limit, LEAST))
        return (TextPart(value),), [] if blob is None else [blob]
    value, blob = preview(text, LEAST)
    return (TextPart(found), TextPart(value)), [] if blob is None else [blob]


def asked_wrongly(limit: object, as_: object, against: object) -> str:
    """What is wrong with how a text is to be shown; an empty text when nothing is."""
    if as_ not in ("ends", "diff", "error"):
        return f"a long result is shown as ends, diff or error, not as {as_!r}"
    if (against is not None) != (as_ == "diff") or not isinstance(against, str | None):
        return "as_='diff' and `against`, the text of the earlier version, go together"
    if limit is None:
        return "" if as_ == "ends" else f"as_={as_!r} is for texts above a limit: give one"
    if not _is_limit(limit):
        return f"a limit is a number of bytes, {LEAST} or more, not {limit!r}"
    return ""


def _is_limit(limit: object) -> bool:
    return isinstance(limit, int) and not isinstance(limit, bool) and limit > 0

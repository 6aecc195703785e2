"""Long texts made short: as a difference, as the lines around the first error, as head and tail.

Used once, when a result is appended; what was decided is stored as the text that it gave, so that
nothing here is frozen. Each short text names the whole it was made of by its locator
(CONTRACTS S1-28, S1-29). Sizes are bytes of UTF-8.
"""

from __future__ import annotations

import hashlib
import re
from difflib import SequenceMatcher

from sawlog.builder.contents import preview_of
from sawlog.store.text import TextObject, preview, raw_bytes

LEAST = 512
"""Bytes below which no short text has room."""

MOST_LINES = 2_000
"""Lines of a changed middle that are compared one by one; above, all of it counts as changed."""

_AROUND = 3
"""Unchanged lines that a difference shows before and after a change."""

_ERROR = re.compile(
    r"(?:error|exception)s?(?![A-Za-z])"
    r"|(?<![A-Za-z])(?:traceback|fatal|panic(?:ked)?|fail(?:ed|ures?|s)?)(?![A-Za-z])",
    re.ASCII | re.IGNORECASE,
)
_NONE = re.compile(
    r"(?<![0-9.])(?:0|no)[ \t]+(?:(?:fatal|test)[ \t]+)?"
    r"(?:errors?|failures?|failed|fail|exceptions?)(?![A-Za-z])"
    r"|(?:errors?|failures?|failed|fail|exceptions?)[ \t]*[:=][ \t]*0(?![0-9.])",
    re.ASCII | re.IGNORECASE,
)

_NEAR = 24
"""Characters on each side in which that is looked for."""


def locator(text: str) -> str:
    """What a text is called in every short form of it: `sha256:` and the hex digest of its raw
    bytes."""
    return f"sha256:{hashlib.sha256(raw_bytes(text)).hexdigest()}"


def ends(text: str, room: int) -> str:
    """Head and tail, and between them how much is left out; a text that fits as it is.

    It is what packets show of a preview.
    """
    short, _ = preview(text, max(room, LEAST))
    return preview_of(short) if isinstance(short, TextObject) and short.is_preview else text


# --- as a difference -----------------------------------------------------------------------------


def as_diff(before: str, now: str, room: int) -> str | None:
    """What changed from an earlier version, as a unified diff; None when that is no shorter.

    None, too, when it takes more than `room` bytes: half a difference says something wrong.
    """
    old, new = locator(before), locator(now)
    if old == new:
        text = f"[Nothing changed since {old}; the whole text is {new}, {_size(now)} bytes]"
        return text if len(text) < _size(now) else None
    lines = [f"--- {old}", f"+++ {new}"]
    lines += _hunks(_lines(before), _lines(now), limit=room)
    text = "\n".join(lines)
    size = _size(text)
    return text if size <= room and size < _size(now) else None


def _lines(text: str) -> list[str]:
    """The lines of a text, split at line feeds alone; what follows the last one is a line, too."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


Block = tuple[int, int, int, int]
"""A change: lines i1 to i2 of the one became lines j1 to j2 of the other."""


def _changes(old: list[str], new: list[str]) -> list[Block]:
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    i2, j2 = len(old) - last, len(new) - last
    if max(i2 - first, j2 - first) > MOST_LINES:
        return [(first, i2, first, j2)]
    found = SequenceMatcher(None, old[first:i2], new[first:j2])
    return [
        (first + i1, first + i2, first + j1, first + j2)
        for kind, i1, i2, j1, j2 in found.get_opcodes()
        if kind != "equal"
    ]


def _hunks(old: list[str], new: list[str], *, limit: int) -> list[str]:
    """The lines of the difference; it ends early, and is too long then, above so many bytes."""
    out: list[str] = []
    size = 0
    for group in _grouped(_changes(old, new)):
        for line in _hunk(group, old, new):
            out.append(line)
            size += len(line) + 1
            if size > limit:
                return out
    return out


def _grouped(changes: list[Block]) -> list[list[Block]]:
    """Changes whose surroundings meet stand in one hunk."""
    groups: list[list[Block]] = []
    for change in changes:
        if groups and change[0] - groups[-1][-1][1] <= 2 * _AROUND:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunk(group: list[Block], old: list[str], new: list[str]) -> list[str]:
    i, j = max(0, group[0][0] - _AROUND), max(0, group[0][2] - _AROUND)
    end = min(len(old), group[-1][1] + _AROUND)
    end_new = min(len(new), group[-1][3] + _AROUND)
    out = [f"@@ -{_span(i, end)} +{_span(j, end_new)} @@"]
    for i1, i2, j1, j2 in group:
        out += [f" {line}" for line in old[i:i1]]
        out += [f"-{line}" for line in old[i1:i2]]
        out += [f"+{line}" for line in new[j1:j2]]
        i = i2
    return out + [f" {line}" for line in old[i:end]]


def _span(first: int, end: int) -> str:
    count = end - first
    return f"{first + 1 if count else first},{count}" if count != 1 else str(first + 1)


# --- as the lines around an error ----------------------------------------------------------------


def error_line(text: str) -> int | None:
    """The line, from 0, on which an error is told first; None when none is.

    It is one that says error, exception, traceback, failed and the like, and not that there are 0.
    """
    at = 0
    line = 0
    for found in _ERROR.finditer(text):
        line += text.count("\n", at, found.start())
        at = found.start()
        # A bounded piece of its line, which may be all there is.
        start = max(0, at - _NEAR, text.rfind("\n", max(0, at - _NEAR), at) + 1)
        end = text.find("\n", at, at + _NEAR)
        around = text[start : end if end >= 0 else at + _NEAR]
        where = at - start
        if not any(one.start() <= where < one.end() for one in _NONE.finditer(around)):
            return line
    return None


def error_window(text: str, room: int) -> str | None:
    """The lines around the first error, in at most `room` bytes; None when no error is told.

    A third of the room is for what stands before it. A line that is too long is cut.
    """
    at = error_line(text)
    if at is None or room < LEAST:
        return None
    lines = text.split("\n")
    count = len(lines) - (lines[-1] == "")
    notice = (
        "[lines {} to {} of {}, around the first error on line {}; the whole text is {}, {} bytes]"
    )
    told = notice.format(count, count, count, at + 1, locator(text), _size(text))
    room -= len(told) + 1
    shown = [_cut(lines[at], room)]
    left = room - _size(shown[0]) - 1
    first = last = at
    before = left // 3
    while first and (size := _size(lines[first - 1]) + 1) <= before:
        first -= 1
        before -= size
        left -= size
    while last + 1 < count and (size := _size(lines[last + 1]) + 1) <= left:
        last += 1
        left -= size
    while first and (size := _size(lines[first - 1]) + 1) <= left:
        first -= 1
        left -= size
    shown = [*lines[first:at], *shown, *lines[at + 1 : last + 1]]
    told = notice.format(first + 1, last + 1, count, at + 1, locator(text), _size(text))
    return "\n".join((told, *shown))


def _cut(line: str, room: int) -> str:
    """A line in at most `room` bytes: around what tells of the error when it is longer."""
    if _size(line) <= room:
        return line
    found = _ERROR.search(line)
    at = max(0, (found.start() if found else 0) - room // 8)
    piece = line[at : at + room // 4]  # a character takes at most 4 bytes
    while _size(piece) > room - 8:
        piece = piece[:-1]
    return f"…{piece}…" if at else f"{piece}…"


def _size(text: str) -> int:
    return len(raw_bytes(text))

"""`read_output`: sawlog's own bounded tool, which reads any slice of a stored text.

A packet shows long contents as previews, differences and the lines around an error, and names the
whole by a locator, `sha256:` and a digest; a checkpoint cites what it stands for by names like
`k2.5`, and `k2` is all of that, to be searched. With this tool a model gets at any part of them.
Only what the session itself stores is found; places are bytes, so that a text of one line has
parts, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from sawlog.store.errors import InvalidArguments
from sawlog.work.citations import NAME, WHOLE

BOUND = 8 * 1024
"""Bytes of a text that one call gives at most, beside its own notices."""

_HITS = 20
_SIDE = 120
"""Bytes on each side of a hit that are shown, within its line."""

_LOCATOR = re.compile("(?:sha256:)?([0-9a-f]{64})")


class Outputs:
    """Reads texts by locator. `blob` gives the raw bytes of a hex digest, or raises KeyError;
    `cited` the text of what a checkpoint cites, `listed` the places of a pattern in all that a
    checkpoint stands for, from one of them on: both raise InvalidArguments."""

    def __init__(
        self,
        blob: Callable[[str], bytes],
        cited: Callable[[str], str],
        listed: Callable[[str, str, int], str],
    ) -> None:
        self._blob = blob
        self._cited = cited
        self._listed = listed

    def read_output(self, ref: str, start: int = 0, end: int = 0, pattern: str = "") -> str:
        """Read part of a text that is shown shortened, by the sha256:… that names it, or that a
        checkpoint cites, by its name, such as k2.5.

        Give start and end (bytes from 0, end 0: as much as there is room for), or a pattern: a
        plain text, of which the places from start on are listed. At most 8192 bytes come at once.
        A checkpoint's own name, such as k2, is all that it stands for: it takes a pattern alone.
        """
        name = _bare(ref)
        if WHOLE.fullmatch(name) and "@" not in name:
            if start < 0 or end:
                raise InvalidArguments(f"{name} takes a pattern, and a start from 0 to go on with")
            return self._listed(name, pattern, start)
        return slice_of(self.text(ref), ref, start, end, pattern)

    def text(self, ref: str) -> bytes:
        """The raw bytes of a whole text. Raises InvalidArguments when no text has that locator."""
        name = _bare(ref)
        if NAME.fullmatch(name) or WHOLE.fullmatch(name):
            return self._cited(name).encode("utf-8", "surrogatepass")
        found = _LOCATOR.fullmatch(ref.strip(" \t\r\n"))
        if found is None:
            raise InvalidArguments(
                f"{ref[:100]!r} is no locator: it is sha256: and 64 hex digits, or the name of "
                "evidence in a checkpoint, such as k2.5, or of a checkpoint, such as k2"
            )
        try:
            data = self._blob(found[1])
            data.decode("utf-8", "surrogatepass")
        except KeyError:
            raise InvalidArguments(f"no output here is sha256:{found[1]}") from None
        except UnicodeDecodeError:
            raise InvalidArguments(f"sha256:{found[1]} is no text") from None
        return data


def slice_of(data: bytes, ref: str, start: int = 0, end: int = 0, pattern: str = "") -> str:
    """A slice of a text, or the places where a pattern stands in it, with a line on top that says
    which. Raises InvalidArguments for places that the text does not have."""
    if not 0 <= start <= len(data):
        raise InvalidArguments(f"the output has {len(data)} bytes: there is no byte {start}")
    if end and end < start:
        raise InvalidArguments(f"end {end} comes before start {start}")
    if pattern:
        return _places(data, ref, start, end or len(data), pattern)
    stop = min(end or len(data), start + BOUND, len(data))
    first, last = _character(data, start), _character(data, stop)
    if last == first and stop < len(data):
        last = _character(data, stop + 3)  # a slice inside one character gives that character
    told = f"[bytes {first} to {last} of {len(data)} of {_name(ref)}]"
    text = _text(data[first:last])
    if last < min(end or len(data), len(data)):
        return f"{told}\n{text}\n[go on with start={last}]"
    return f"{told}\n{text}"


def _bare(ref: str) -> str:
    """A name without what it stands between in a checkpoint."""
    return ref.strip(" \t\r\n()[]")


def _name(ref: str) -> str:
    return ref.strip(" \t\r\n")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _character(data: bytes, at: int) -> int:
    """The place at or before `at` where a character begins."""
    at = min(at, len(data))
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _places(data: bytes, ref: str, start: int, end: int, pattern: str) -> str:
    """The lines in which a plain text stands, each once, with the place of its first hit there."""
    wanted = pattern.encode("utf-8", "surrogatepass")
    if len(wanted) > BOUND // 8:
        raise InvalidArguments(f"a pattern has at most {BOUND // 8} bytes")
    lines: list[str] = []
    room = BOUND
    go_on = 0
    for at in _hits(data, wanted, start, min(end, len(data))):
        line = _around(data, at, len(wanted))
        if len(lines) == _HITS or len(line.encode()) > room:
            go_on = at
            break
        room -= len(line.encode())
        lines.append(line)
    more = f"; go on with start={go_on}" if go_on else ""
    places = "place" if len(lines) == 1 else "places"
    told = f"[{len(lines)} {places} of the pattern in {_name(ref)}, {len(data)} bytes{more}]"
    return "\n".join((told, *lines))


def _hits(data: bytes, wanted: bytes, start: int, end: int) -> Iterator[int]:
    at = start
    while (at := data.find(wanted, at, end)) >= 0:
        yield at
        # The next one further on than what is shown around this one.
        line_end = data.find(b"\n", at + len(wanted), at + len(wanted) + _SIDE)
        at = line_end if line_end >= 0 else at + len(wanted) + _SIDE


def _around(data: bytes, at: int, length: int) -> str:
    first = max(data.rfind(b"\n", max(0, at - _SIDE), at) + 1, at - _SIDE, 0)
    stop = at + length + _SIDE
    line_end = data.find(b"\n", at + length, stop)
    last = line_end if line_end >= 0 else min(stop, len(data))
    first, last = _character(data, first), _character(data, last)
    before = "" if first == 0 or data[first - 1 : first] == b"\n" else "…"
    after = "" if last == len(data) or data[last : last + 1] == b"\n" else "…"
    return f"byte {at}: {before}{_text(data[first:last])}{after}"

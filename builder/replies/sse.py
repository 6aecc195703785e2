"""Server-sent events: the bytes of a stream, cut anywhere, as its events.

Lines end with CRLF, LF or CR; an event ends with an empty line. Comments, `id` and `retry` say
nothing of a reply and are left out, and so is an event without data.
"""

from __future__ import annotations

import msgspec

_BOM = b"\xef\xbb\xbf"


class Event(msgspec.Struct, frozen=True):
    """One event: its name, empty when none was given, and its data, whose lines LF joins.

    Bytes that are no UTF-8 stand in it as lone surrogates U+DC80 to U+DCFF.
    """

    event: str
    data: str


class Events:
    """Reads a stream that comes in pieces; a piece may begin and end at any byte.

    Holds no more than the line and the event that are not finished.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []  # the pieces of a line whose end has not come
        self._after_cr = False
        self._first = True
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[Event]:
        """The events that end in this piece, in order."""
        if self._after_cr and data:
            self._after_cr = False
            if data.startswith(b"\n"):  # the second half of a CRLF
                data = data[1:]
        found: list[Event] = []
        # Of bytes, splitlines takes CRLF, LF and CR for ends of lines and nothing else.
        for line in data.splitlines(keepends=True):
            text = line.rstrip(b"\r\n")
            self._line.append(text)
            if len(text) != len(line):
                self._take(found)
        if data:
            self._after_cr = data.endswith(b"\r")
        return found

    def close(self) -> list[Event]:
        """What a stream that is over leaves: an event whose last line or empty line never came.

        It may be cut in the middle of its data.
        """
        found: list[Event] = []
        if self._line:
            self._take(found)
        self._dispatch(found)
        return found

    def _take(self, found: list[Event]) -> None:
        line = self._line[0] if len(self._line) == 1 else b"".join(self._line)
        self._line.clear()
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(found)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "surrogateescape")

    def _dispatch(self, found: list[Event]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            found.append(Event(self._name, data.decode("utf-8", "surrogateescape")))
            self._data.clear()
        self._name = ""

"""A body with cache marks that roll on as it grows.

A provider that caches by marks keeps what stands before each one, and of what it kept it finds
again what ends at most 20 blocks before a mark. So there are at most four: one behind system text
and tools, one behind the last checkpoint, one on the newest block, and from that one back as many
as are left, each on the first block within those 20.

A renderer puts `PLACE` where a block of its own making may take a mark, before the brace that ends
it, and `BLOCK` before any other block of a message; no JSON has these bytes. Marks are no part of
the prefix digest, and without them the body is that of the plain renderer, byte for byte.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sawlog.builder.render.body import END, MESSAGES, SYSTEM, Body, Section

PLACE, BLOCK = b"\x00", b"\x01"
MARK = b',"cache_control":{"type":"ephemeral"}'
MOST = 4
"""Marks that a request may have."""
LOOK_BACK = 20
"""Blocks before a mark among which the provider looks for what it kept."""

_NOT_JSON = re.compile(b"([\x00\x01])")


class _Place(NamedTuple):
    """Where a mark may stand: behind how many bytes without marks, on which block of messages."""

    offset: int
    block: int


class MarkedBody(Body):
    """The chunks of a body. What lies before the lowest mark that rolls is written once and for
    all; the bytes behind it, which hold at most two look-backs and what is new, anew each time."""

    def __init__(
        self,
        before: bytes,
        head: bytes,
        system: Section,
        tools: Section,
        messages: bytes,
        *,
        prefixed: bool = True,
    ) -> None:
        # Chunks have marks: what the prefix digest is over is taken here, before it gets any.
        super().__init__(before, head, system, tools, messages, prefixed=False)
        self._settled = 0
        self._tail = bytearray()
        self._places: list[_Place] = []
        self._blocks = 0
        self._head: _Place | None = None
        self._system = False
        self._checkpoint: _Place | None = None

    def fix(self) -> None:
        """Say that a checkpoint was the last thing appended."""
        if self._places:
            self._checkpoint = self._places[-1]

    def standing(self) -> str:
        """The prefix digest, in hex, of all that stands before the next message; no marks."""
        prefix = self._prefix.copy()
        prefix.update(_plain(self.until()))
        return prefix.hexdigest()

    def whole(self, last: bytes) -> tuple[list[bytes], int, str, str]:
        """Chunks, size and both digests of the body, as marked; no mark in what is the tail's."""
        rolling = self._rolling()
        if rolling:
            self._settle(rolling[-1])
        tail = _plain(self.until() + (self._comma() + last if last else b""))
        self._hash()
        prefix = self._prefix.copy()
        prefix.update(tail)
        data = self._marked(self._settled + len(self._tail), rolling) + tail + END
        body = self._body.copy()
        body.update(data)
        chunks = [*self._joined, *self._chunks, data]
        return chunks, self._size + len(data), body.hexdigest(), prefix.hexdigest()

    def _emit(self, data: bytes) -> None:
        for piece in _NOT_JSON.split(data):
            if piece not in (PLACE, BLOCK):
                self._prefix.update(piece)
                self._tail += piece
            elif self.stage == MESSAGES:
                self._blocks += 1
                if piece == PLACE:
                    self._places.append(_Place(self._settled + len(self._tail), self._blocks))
            elif piece == PLACE and (self.stage == SYSTEM or not self._system):
                # The provider reads tools before system text: one mark there covers both.
                self._head = _Place(self._settled + len(self._tail), 0)
                self._system = self.stage == SYSTEM

    def _rolling(self) -> list[_Place]:
        """The places of the marks that roll, the newest first."""
        places = self._places
        left = MOST - len({place for place in (self._head, self._checkpoint) if place is not None})
        found: list[_Place] = []
        at = len(places) - 1
        while at >= 0 and len(found) < left:
            found.append(places[at])
            last = at
            while at > 0 and places[at - 1].block >= places[last].block - LOOK_BACK:
                at -= 1
            if at == last:
                break
        return found

    def _settle(self, lowest: _Place) -> None:
        """Write what stands before the lowest mark that rolls: no later request has one there."""
        data = self._marked(lowest.offset, [])
        if data:
            self._keep(data)
        del self._tail[: lowest.offset - self._settled]
        self._settled = lowest.offset
        del self._places[: self._places.index(lowest)]

    def _marked(self, end: int, rolling: list[_Place]) -> bytes:
        """The unsettled bytes up to an offset, marked. A mark at that offset is what comes next."""
        fixed = [place for place in (self._head, self._checkpoint) if place is not None]
        offsets = sorted({place.offset for place in (*fixed, *rolling)})
        out: list[bytes] = []
        begin = self._settled
        for offset in offsets:
            if self._settled <= offset < end:
                out += (bytes(self._tail[begin - self._settled : offset - self._settled]), MARK)
                begin = offset
        out.append(bytes(self._tail[begin - self._settled : end - self._settled]))
        return b"".join(out)


def _plain(data: bytes) -> bytes:
    return _NOT_JSON.sub(b"", data)

"""A body that grows at its end, with its running digests.

    { parameters, "model":…            the head: one chunk
      ,"system":[…]  ,"tools":[…]      sections, where the API has them
      ,"messages":[…                   a chunk for each message
      ]}                               the tail: the last chunk of every request

Each byte is made and hashed once, many chunks at a time. A request copies the list of chunks and
the running digests and puts a tail behind; so without its tail a body is the beginning of every
later one. Chunks that have become many are joined, so that the list to copy stays short.
"""

from __future__ import annotations

import hashlib

import msgspec

START, SYSTEM, TOOLS, MESSAGES = range(4)

END = b"]}"
"""How every body ends."""

_MANY = 64


class Section(msgspec.Struct, frozen=True):
    """How a section of the body begins and ends, and what stands between its parts."""

    opens: bytes
    closes: bytes
    between: bytes = b","


_NONE = Section(b"", b"")


class Body:
    """The chunks of a body, its size and digests.

    The prefix digest is SHA-256 over "sawlog/1 prefix" and all bytes behind the model's name, up to
    the end of the last message: system text, tools and messages as rendered, no parameters.
    `before` is what the request digest is over in front of the body. Not `prefixed`: nobody asks
    for the prefix digest, which is left empty; what a message stands behind is told all the same.
    """

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
        self._sections = (_NONE, system, tools, Section(messages, END))
        self._joined = [head]
        self._chunks: list[bytes] = []
        self._hashed = 0
        self._size = len(head)
        self._body = hashlib.sha256(before + head)
        self._prefix = hashlib.sha256(b"sawlog/1 prefix")
        self._prefixed = prefixed
        self._waiting: list[bytes] = []
        self._end = b""
        self.stage = START
        self.messages = 0

    def put(self, stage: int, data: bytes) -> None:
        """Append a part to a section in front of the messages."""
        if self.stage == stage:
            data = self._sections[stage].between + data
        else:
            data = self._sections[self.stage].closes + self._sections[stage].opens + data
            self.stage = stage
        self._emit(data)

    def wait(self, message: bytes) -> None:
        """Keep a message that comes first once the messages begin; tools may still come."""
        self._waiting.append(message)
        self.messages += 1

    def message(self, data: bytes) -> None:
        """Append a message."""
        if self.stage == MESSAGES and self.messages:
            data = b"".join((self._end, b",", data)) if self._end else b"," + data
        else:
            data = self.until() + self._comma() + data
        self.stage = MESSAGES
        self._end = b""
        self.messages += 1
        self._emit(data)

    def leave_open(self, end: bytes) -> None:
        """Say that the last message may still grow, and what will end it."""
        self._end = end

    @property
    def is_open(self) -> bool:
        """True when the last message may still grow."""
        return bool(self._end)

    def grow(self, part: bytes) -> None:
        """Append a part to the message that was left open."""
        self._emit(b"," + part)

    def until(self) -> bytes:
        """What has to be written before a further message can stand."""
        if self.stage == MESSAGES:
            return self._end
        opening = self._sections[self.stage].closes + self._sections[MESSAGES].opens
        return opening + b",".join(self._waiting)

    def standing(self) -> str:
        """The prefix digest, in hex, of all that stands before the next message."""
        self._hash()
        if not self._prefixed:
            for data in (*self._joined[1:], *self._chunks):
                self._prefix.update(data)
            self._prefixed = True
        prefix = self._prefix.copy()
        prefix.update(self.until())
        return prefix.hexdigest()

    def whole(self, last: bytes) -> tuple[list[bytes], int, str, str]:
        """Chunks, size and both digests of the body with a last message (empty: none) and its end.

        The last message is part of the tail alone.
        """
        self._hash()
        tail = self.until() + (self._comma() + last if last else b"")
        found = ""
        if self._prefixed:
            prefix = self._prefix.copy()
            prefix.update(tail)
            found = prefix.hexdigest()
        tail += END
        body = self._body.copy()
        body.update(tail)
        chunks = [*self._joined, *self._chunks, tail]
        return chunks, self._size + len(tail), body.hexdigest(), found

    def _comma(self) -> bytes:
        return b"," if self.messages else b""

    def _emit(self, data: bytes) -> None:
        self._keep(data)

    def _keep(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if len(self._chunks) == _MANY:
            if self._hashed:
                self._hash()
            joined = b"".join(self._chunks)
            if not self._hashed:
                self._take(joined)
            self._joined.append(joined)
            self._chunks = []
            self._hashed = 0

    def _hash(self) -> None:
        """Bring the running digests up to what is there."""
        if self._hashed < len(self._chunks):
            self._take(b"".join(self._chunks[self._hashed :]))
            self._hashed = len(self._chunks)

    def _take(self, data: bytes) -> None:
        self._body.update(data)
        if self._prefixed:
            self._prefix.update(data)

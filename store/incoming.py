"""Reading an export and believing none of it: every line in its place, every digest made anew.

What `Reading` lets pass can be stored as it is. It is given line by line and keeps little of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from sawlog.store import codec, directory, exported, rows
from sawlog.store.envelope import StoredEvent
from sawlog.store.errors import Damaged, TooLarge, UnknownFormat
from sawlog.store.events.lifecycle import SessionCreated
from sawlog.store.events.registry import Registry
from sawlog.store.text import plain

LONGEST = 128 << 20
"""Bytes of a line that are read unless told otherwise, of an event's line a quarter of them.

A blob takes four for three of its own.
"""

_LONGEST_FIRST = 1 << 20
_MOST_BLOBS = 100_000
_SIGNED = 2**63


class Stem(msgspec.Struct, frozen=True):
    """One session of a branch: its events end at `last`, where the chain's digest is `digest`."""

    id: bytes
    last: int
    digest: bytes


class Branch(msgspec.Struct, frozen=True):
    """A session as a file holds it, ancestors first; `source_id` is for the directory to keep."""

    stems: tuple[Stem, ...]
    name: str | None
    source_id: str | None


def is_export(start: bytes) -> bool:
    """True when a file that begins with these bytes says that it is an export."""
    return start.startswith(exported.START)


def lines_of(file: BinaryIO, longest: int = LONGEST) -> Iterator[bytes]:
    """The lines of a file, none of them read beyond the bound. Raises TooLarge, UnknownFormat."""
    bound = min(longest, _LONGEST_FIRST)
    number = 1
    while line := file.readline(bound + 1):
        if len(line) > bound:
            if number == 1 and not is_export(line):
                raise _no_export()
            raise _too_long(number, bound)
        yield line
        bound = longest
        number += 1


class Reading:
    """A file as it is read: what must come next, and the chain so far.

    Give every line to `take`, then ask for the `branch`. Both raise UnknownFormat for what is no
    export, TooLarge for what is above a bound, Damaged for anything that is not as it was written.
    """

    def __init__(self, registry: Registry, longest: int = LONGEST) -> None:
        self._registry = registry
        self._longest = longest
        self._number = 0
        self._first: exported.First | None = None
        self._ended = False
        self._seq = 0
        self._digest = b""
        self._owners: list[tuple[bytes, int]] = []
        self._owner = 0
        self._borders: dict[int, bytes] = {}
        self._pending: list[bytes] = []
        self._given: set[bytes] = set()
        self._source_id: str | None = None

    def take(self, line: bytes) -> bytes:
        """The line, with its newline, if it may stand here."""
        self._number += 1
        bound = self._longest // 4 if line.startswith(exported.EVENT) else self._longest
        if len(line) > bound:
            raise _too_long(self._number, bound)
        whole = line if line.endswith(b"\n") else line + b"\n"
        try:
            self._take(whole)
        except exported.Altered as error:
            raise self._bad(str(error)) from error
        return whole

    def _take(self, line: bytes) -> None:
        if self._first is None:
            self._begin(line)
        elif self._ended:
            raise self._bad("something follows behind the last line")
        elif line.startswith(exported.EVENT):
            self._event(exported.event_of(line))
        elif line.startswith(exported.BLOB):
            self._blob(exported.content_of(line).digest)
        elif line.startswith(exported.END):
            self._end(*exported.last_of(line))
        else:
            raise self._bad("no line of an export begins like this")

    def branch(self) -> Branch:
        """What the whole file holds."""
        if self._first is None:
            raise UnknownFormat("the file is empty")
        if not self._ended:
            raise Damaged(
                f"the file ends behind event {self._seq} without its last line: it was cut, and "
                "nothing of it was stored",
                session=self._first.session.hex(),
                seq=self._seq + 1,
            )
        stems = [Stem(id, last, self._borders[last]) for id, last in self._owners[:-1]]
        stems.append(Stem(self._first.session, self._seq, self._digest))
        return Branch(tuple(stems), self._first.name, self._source_id)

    # --- the kinds of lines

    def _begin(self, line: bytes) -> None:
        version = exported.version_of(line)
        if version is None:
            raise _no_export()
        if version != exported.FORMAT:
            raise UnknownFormat(
                f"the file is an export of format {version}, and this sawlog reads "
                f"{exported.FORMAT}: take the sawlog that wrote it, or a newer one",
                line=1,
            )
        first = exported.first_of(line)
        ids = [first.session, *(id for id, _ in first.ancestors)]
        lasts = [0, *(last for _, last in first.ancestors)]
        if {len(id) for id in ids} != {16} or len(set(ids)) != len(ids):
            raise self._bad("it names no session, or one of them twice")
        if lasts != sorted(lasts) or lasts[-1] >= _SIGNED:
            raise self._bad("the ancestors do not follow one another")
        if first.name is not None and not directory.is_name(first.name):
            raise self._bad("no session can have this name")
        self._first = first
        self._owners = [*first.ancestors, (first.session, _SIGNED)]
        self._digest = codec.genesis(self._owners[0][0])
        self._borders[0] = self._digest

    def _event(self, event: StoredEvent) -> None:
        if event.seq != self._seq + 1:
            raise self._bad(f"it holds event {event.seq} where {self._seq + 1} belongs")
        if (event.salt is None) != (event.payload is None):
            raise self._bad("it has a salt without a payload, or a payload without a salt")
        salt = 16 if event.salt is None else len(event.salt)
        if (len(event.id), len(event.commitment), len(event.digest), salt) != (16, 32, 32, 16):
            raise self._bad("an id, a salt or a digest has not the length that it must have")
        if not directory.is_name(event.type) or not directory.is_name(event.source):
            raise self._bad("no event has such a type or source")
        if max(event.step, event.fence) >= _SIGNED:
            raise self._bad("a step or a fence is larger than a store can hold")
        if event.salt is not None and event.payload is not None:
            if codec.commit(event.salt, event.payload) != event.commitment:
                raise self._bad("its payload does not fit its commitment")
        self._link(event)
        self._read(event)

    def _link(self, event: StoredEvent) -> None:
        while event.seq > self._owners[self._owner][1]:
            self._owner += 1
        session, last = self._owners[self._owner]
        try:
            head = codec.header(
                session, event.seq, event.id, event.type, event.version, event.flags, event.step,
                event.source, event.occurred_at, event.recorded_at, event.fence,
            )  # fmt: skip
        except struct.error as error:
            raise self._bad(f"its header cannot be made ({error})") from error
        if codec.link(self._digest, head, event.commitment) != event.digest:
            raise self._bad("its digest does not follow from the one before it")
        self._seq, self._digest = event.seq, event.digest
        if event.seq == last:
            self._borders[last] = event.digest

    def _read(self, event: StoredEvent) -> None:
        """What the chain does not prove: that the type reads its payload, that blobs are there."""
        names: tuple[bytes, ...] = ()
        try:
            content = self._registry.decode(event)
            if event.payload is not None:
                names = rows.named(event.payload)
        except (Damaged, msgspec.DecodeError, RecursionError) as error:
            raise self._bad(str(error)) from error
        fresh = [digest for digest in names if digest not in self._given]
        if fresh != self._pending:
            raise self._bad("the blobs before it are not those that it is the first to cite")
        self._given.update(fresh)
        self._pending.clear()
        if isinstance(content, SessionCreated) and self._owner == len(self._owners) - 1:
            self._source_id = self._source_id or _source_of(content)

    def _blob(self, digest: bytes) -> None:
        if digest in self._given:
            raise self._bad(f"blob {digest.hex()} was there already")
        if len(self._pending) >= _MOST_BLOBS:
            raise TooLarge(
                f"line {self._number}: more than {_MOST_BLOBS} blobs before one event",
                line=self._number,
            )
        self._pending.append(digest)

    def _end(self, head: int, digest: bytes) -> None:
        if (head, digest) != (self._seq, self._digest):
            raise self._bad(f"it names another end than event {self._seq}, the last one before it")
        if self._pending or (len(self._owners) > 1 and head < self._owners[-2][1]):
            raise self._bad("events are missing before it")
        self._ended = True

    def _bad(self, why: str) -> Damaged:
        return Damaged(
            f"line {self._number} of the file is damaged: {why}; nothing of it was stored",
            session=self._first.session.hex() if self._first else "",
            seq=self._seq + 1,
        )


def _source_of(created: SessionCreated) -> str | None:
    if not created.format:
        return None
    source = created.source_id
    if not isinstance(source, str) and source.blob:
        return directory.source_name(created.format, "", digest=source.blob)
    return directory.source_name(created.format, plain(source, {}))


def _no_export() -> UnknownFormat:
    return UnknownFormat("the file is no sawlog export: its first line says nothing of it", line=1)


def _too_long(number: int, longest: int) -> TooLarge:
    return TooLarge(
        f"line {number} has more than {longest} bytes; if that is right, raise the bound",
        line=number,
    )

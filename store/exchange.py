"""Sessions as files: sawlog's own JSONL, out of any store and into any other, byte for byte.

What goes out is checked on its way, so a file with its last line is whole; what comes in is checked
before the store is touched, and is stored whole or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO

import msgspec

from sawlog.store import packing
from sawlog.store.checked import Check
from sawlog.store.codec import genesis
from sawlog.store.directory import SessionRow, checked_name
from sawlog.store.envelope import StoredEvent
from sawlog.store.errors import Conflict, Damaged, NoSession, StoreError
from sawlog.store.exported import (
    BLOB,
    EVENT,
    Content,
    First,
    blob_line,
    content_of,
    event_line,
    event_of,
    first_line,
    last_line,
)
from sawlog.store.graft import graft
from sawlog.store.incoming import LONGEST, Branch, Reading
from sawlog.store.incoming import is_export as is_export
from sawlog.store.incoming import lines_of as lines_of
from sawlog.store.log import Log, Session


def export(log: Log, session: Session) -> Iterator[bytes]:
    """The session as lines, each with its newline, its ancestors' events first.

    Raises NoSession at once, and Damaged on the way where the session is, before the last line.
    """
    check = Check(log, session)
    return _whole(log, check)


def _whole(log: Log, check: Check) -> Iterator[bytes]:
    yield from begun(log, check, check.row.head)
    wrong = check.directory()
    if wrong:
        raise Damaged(wrong, session=check.row.id.hex())
    yield last_line(check.row.head, check.digest)


def begun(log: Log, check: Check, upto: int) -> Iterator[bytes]:
    """The lines of a session up to an event, without a last line. Raises Damaged."""
    row = check.row
    ancestors: list[tuple[bytes, int]] = []
    for member in check.members[:-1]:
        ancestors.append((member.id, min(member.last, upto)))
        if member.last >= upto:
            break
    yield first_line(First(row.id, row.name, tuple(ancestors)))
    given: set[bytes] = set()
    for place in check.places():
        if place.seq > upto:
            break
        if place.event is None or place.broken:
            raise _damaged(row, place.seq, place.broken)
        for digest in place.names:
            if digest not in given:
                given.add(digest)
                data = log.blob(row, digest)
                if data is None:
                    raise _damaged(row, place.seq, f"the blob {digest.hex()} is missing")
                yield blob_line(Content(digest, data))
        yield event_line(place.event)


def _damaged(row: SessionRow, seq: int, why: str) -> Damaged:
    session = row.id.hex()
    return Damaged(
        f"event {seq} of session {session} is damaged: {why}; `sawlog salvage` saves the rest",
        session=session,
        seq=seq,
    )


def load(
    log: Log, lines: Iterable[bytes], *, name: str | None = None, longest: int = LONGEST
) -> SessionRow:
    """Put an exported session into the log's store, under its own id, and give its row.

    It has the file's name, or `name`. Of a session that is there already only the news is added,
    and a file without news changes nothing; ancestors that are missing become sessions without a
    name. All of it is one transaction. `lines_of` reads lines from a file within bounds.

    Raises UnknownFormat for what is no export, TooLarge for a line of more than `longest` bytes,
    Damaged for a file that was cut or altered, Conflict for one that contradicts what is there or
    whose name is taken, Leased, and what `Database.write` raises.
    """
    if name is not None:
        checked_name(name, "name")
    with tempfile.TemporaryFile() as kept:
        reading = Reading(log.registry, longest)
        for line in lines:
            kept.write(reading.take(line))
        branch = reading.branch()
        present = _present(log, branch, name, kept)
        if present is not None:
            return present
        if name is not None:
            branch = msgspec.structs.replace(branch, name=name)
        row = graft(log, branch, lambda: _entries(kept))
        for stem in branch.stems:
            with suppress(StoreError):  # the file is in, and a later append packs as well
                packing.pack(log.database, log.get(stem.id), packing.KEPT)
        return row


def _present(log: Log, branch: Branch, name: str | None, kept: IO[bytes]) -> SessionRow | None:
    """The session, if the store holds all that the file does. Raises Conflict."""
    stem = branch.stems[-1]
    try:
        row = log.get(stem.id)
    except NoSession:
        return None
    if name is not None and row.name not in (None, name):
        raise Conflict(f"session {stem.id.hex()} is there already, under the name {row.name!r}")
    both = min(row.head, stem.last)
    if both == stem.last and _digest_at(log, row, both) == stem.digest:
        return row if row.name or not (name or branch.name) else None
    for theirs, ours in zip(_entries(kept, blobs=False), log.read(row, upto=both), strict=False):
        if isinstance(theirs, StoredEvent) and theirs.digest != ours.digest:
            raise Conflict(
                f"session {stem.id.hex()} is there with another event {ours.seq}: nothing of the "
                "file was stored"
            )
    return None


def _digest_at(log: Log, row: SessionRow, seq: int) -> bytes:
    if seq == row.head:
        return row.digest
    return log.events(row, [seq])[0].digest if seq else genesis(log.lineage(row)[0][0])


def _entries(kept: IO[bytes], blobs: bool = True) -> Iterator[StoredEvent | Content]:
    """What a file holds that was found good, from its start."""
    kept.seek(0)
    for line in kept:
        if line.startswith(EVENT):
            yield event_of(line)
        elif blobs and line.startswith(BLOB):
            yield content_of(line)

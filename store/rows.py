"""Rows of events: between what a table holds and what readers get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from sawlog.store import blobs
from sawlog.store.codec import commit
from sawlog.store.database import Row, Transaction
from sawlog.store.dictionary import Dictionary, Lost
from sawlog.store.envelope import StoredEvent, Unproved
from sawlog.store.errors import Damaged
from sawlog.store.pack import PROVED

# `e` is the events table.
COLUMNS = (
    "e.seq, e.id, e.type, e.version, e.flags, e.step, e.source, e.occurred_at, e.recorded_at, "
    "e.fence, e.salt, e.commitment, e.digest, e.cites, e.codec, e.payload"
)
RANGE = (
    f"SELECT {COLUMNS} FROM sawlog.events e WHERE e.sid = ? AND e.seq BETWEEN ? AND ? "
    "ORDER BY e.seq"
)
AMONG = f"SELECT {COLUMNS} FROM sawlog.events e WHERE e.sid = ? AND e.seq IN (*)"
_BY_ID = f"SELECT {COLUMNS} FROM sawlog.events e WHERE e.sid = ? AND e.id IN (*)"
_DIGEST = "SELECT e.digest FROM sawlog.events e WHERE e.sid = ? AND e.seq = ?"
INSERT = (
    "INSERT INTO sawlog.events (sid, seq, id, type, version, flags, step, source, occurred_at, "
    "recorded_at, fence, salt, digest, cites, codec, payload) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

# The head moves only from where it was read, and only under the fence that was read with it.
MOVE = (
    "UPDATE sawlog.sessions SET head = ?, digest = ?, touched_at = ? "
    "WHERE sid = ? AND head = ? AND fence = ?"
)
MOVE_AND_END_LEASE = (
    "UPDATE sawlog.sessions SET head = ?, digest = ?, touched_at = ?, fence = fence + 1, "
    "owner = NULL, expires_at = NULL, crc = ? WHERE sid = ? AND head = ? AND fence = ?"
)

_NONE = type(None)
_HEAD = (int, bytes, str, int, int, int, str, int, int, int)
# Columns may hold anything in SQLite, and a flipped bit makes a text of a number. The commitment
# stands in the row only where it can no longer be made from salt and payload.
_SHAPES = frozenset(
    (*_HEAD, *contents[:2], bytes, cites, int, contents[2])
    for cites in (bytes, _NONE)
    for contents in ((bytes, _NONE, bytes), (_NONE, bytes, _NONE))
)
_PROVED = frozenset(
    (*_HEAD, *contents[:2], bytes, cites, int, contents[2])
    for cites in (bytes, _NONE)
    for contents in ((bytes, bytes, bytes), (_NONE, bytes, _NONE))
)


class StoredRow(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a session as it was found: its event and the blobs cited, or its damage."""

    seq: int
    event: StoredEvent | None
    cites: tuple[bytes, ...] = ()
    damage: Damaged | None = None


def event_of(row: Row, session: bytes, dictionary: Dictionary | Lost | None = None) -> StoredEvent:
    """The event that a row holds. Raises Damaged, naming session and seq, for a broken row."""
    salt, commitment, codec = row[10], row[11], row[14]
    payload = _payload(row, session, dictionary)
    if payload is not None and codec != PROVED:
        commitment = commit(salt, payload)
    return StoredEvent(
        seq=row[0],
        id=row[1],
        type=row[2],
        version=row[3],
        flags=row[4],
        step=row[5],
        source=row[6],
        occurred_at=row[7],
        recorded_at=row[8],
        fence=row[9],
        salt=salt,
        commitment=commitment,
        digest=row[12],
        payload=payload,
    )


def plain(row: Row, session: bytes, dictionary: Dictionary | Lost | None = None) -> Row:
    """A row with its payload unpacked. Raises Damaged, naming session and seq."""
    if tuple(map(type, row)) not in _SHAPES:
        raise damaged(session, row[0], "its row does not hold what belongs there")
    if not row[14] or row[15] is None:
        return row
    try:
        payload = blobs.unpack(row[14], row[15], dictionary=dictionary)
    except Damaged as error:
        raise damaged(session, row[0], str(error)) from error
    return (*row[:14], 0, payload)


def content_of(row: Row, session: bytes, dictionary: Dictionary | Lost | None = None) -> Unproved:
    """The same as content alone."""
    payload = _payload(row, session, dictionary)
    seq, id, type, version, flags, step, source, occurred = row[:8]
    return Unproved(seq, id, type, version, flags, step, source, occurred, payload, row[13] or b"")


def check(row: Row, session: bytes) -> None:
    """Raise Damaged, naming session and seq, for a row that does not hold what belongs there."""
    if tuple(map(type, row)) not in (_PROVED if row[14] == PROVED else _SHAPES):
        raise damaged(session, row[0], "its row does not hold what belongs there")


def _payload(row: Row, session: bytes, dictionary: Dictionary | Lost | None) -> bytes | None:
    """The payload that a row holds, unpacked; the row is checked first."""
    codec, payload = row[14], row[15]
    check(row, session)
    if not codec or codec == PROVED or payload is None:
        return cast("bytes | None", payload)
    try:
        return blobs.unpack(codec, payload, dictionary=dictionary)
    except Damaged as error:
        raise damaged(session, row[0], str(error)) from error


def cites_of(row: Row) -> tuple[bytes, ...]:
    """The digests of the blobs that the row's event cites."""
    joined: bytes = row[13] or b""
    return tuple(joined[at : at + 32] for at in range(0, len(joined), 32))


def named(payload: bytes) -> tuple[bytes, ...]:
    """The digests of the blobs that a payload names, in the order in which it names them.

    A payload names a blob where it holds the object of a text (`blob`, `size`, `media`) or a media
    part (`t` is `media`, and `blob`), whatever type the event is of.
    """
    if b'"blob":"' not in payload:
        return ()
    found: dict[bytes, None] = {}
    _look(msgspec.json.decode(payload), found)
    return tuple(found)


def _look(value: object, found: dict[bytes, None]) -> None:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        digest = fields.get("blob")
        is_text = "size" in fields and "media" in fields
        if isinstance(digest, str) and (is_text or fields.get("t") == "media"):
            try:
                found[bytes.fromhex(digest)] = None
            except ValueError:
                return
        for each in fields.values():
            _look(each, found)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            _look(each, found)


def in_range(tx: Transaction, sid: int, first: int, last: int, session: bytes) -> list[Row]:
    """The rows of a range of seqs, all of them. Raises Damaged at the first one missing."""
    rows = tx.all(RANGE, (sid, first, last))
    if len(rows) != last - first + 1 and tx.shelf is not None:
        rows = sorted([*tx.shelf.rows(tx, sid, first, last), *rows], key=_seq)
    check_whole(rows, first, last, session)
    return rows


def check_whole(rows: Sequence[Row], first: int, last: int, session: bytes) -> None:
    """Raise Damaged at the first of a range of seqs whose row is missing."""
    for seq, row in zip(range(first, last + 1), rows, strict=False):
        if row[0] != seq:
            raise damaged(session, seq, "its row is missing")
    if len(rows) != last - first + 1:
        raise damaged(session, first + len(rows), "its row is missing")


def among(tx: Transaction, sid: int, seqs: Sequence[int]) -> list[Row]:
    """The rows of those seqs that a session has itself, in no order."""
    found = tx.among(AMONG, (sid,), seqs)
    if len(found) < len(seqs) and tx.shelf is not None:
        there = {row[0] for row in found}
        found += tx.shelf.among(tx, sid, [seq for seq in seqs if seq not in there])
    return found


def by_ids(tx: Transaction, sid: int, ids: Sequence[bytes]) -> list[Row]:
    """The rows of the events of those ids that a session has itself, in no order."""
    found = tx.among(_BY_ID, (sid,), ids)
    if len(found) < len(ids) and tx.shelf is not None:
        there = {row[1] for row in found}
        found += tx.shelf.by_ids(tx, sid, [id for id in ids if id not in there])
    return found


def digest_at(tx: Transaction, sid: int, seq: int) -> bytes | None:
    """The chain's digest at an event that a session has itself; None where it has none there."""
    found = tx.one(_DIGEST, (sid, seq))
    if found is None and tx.shelf is not None:
        return tx.shelf.digest_at(tx, sid, seq)
    return found[0] if found is not None else None


def _seq(row: Row) -> int:
    return row[0] if isinstance(row[0], int) else -1


def damaged(session: bytes, seq: object, why: str) -> Damaged:
    """The error that names a damaged event."""
    at = seq if isinstance(seq, int) else 0
    return Damaged(
        f"event {at} of session {session.hex()} is damaged: {why}", session=session.hex(), seq=at
    )

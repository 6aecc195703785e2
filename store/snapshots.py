"""Snapshots: states of a fold, cached at a place of a session. Derived, deletable, never truth.

A snapshot is bound to the chain's digest at its place and carries its own digest; one that does not
fit either is passed over, as if it were not there. A fork uses its ancestors' up to where it left.
"""

from __future__ import annotations

import hashlib

import msgspec

from sawlog.store import blobs, rows
from sawlog.store.database import Transaction
from sawlog.store.directory import SessionRow
from sawlog.store.errors import Damaged

_PUT = (
    "INSERT INTO sawlog.snapshots (sid, fold, layout, seq, chain, digest, codec, data) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sid, fold, layout, seq) DO UPDATE SET "
    "chain = excluded.chain, digest = excluded.digest, codec = excluded.codec, "
    "data = excluded.data"
)
_GET = (
    "SELECT seq, chain, digest, codec, data FROM sawlog.snapshots "
    "WHERE sid = ? AND fold = ? AND layout = ? AND seq BETWEEN ? AND ? ORDER BY seq DESC LIMIT 1"
)
_SHAPE = (int, bytes, bytes, int, bytes)
_DROP = "DELETE FROM sawlog.snapshots WHERE sid = ? AND seq BETWEEN ? AND ?"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A cached state: `layout` is the number of the code that wrote `data`, `fold` of the fold.

    `chain` is the session's digest at `seq`, `digest` the SHA-256 of `data`.
    """

    seq: int
    chain: bytes
    fold: int
    layout: int
    digest: bytes
    data: bytes


def put(tx: Transaction, row: SessionRow, snapshot: Snapshot) -> None:
    """Store a snapshot of one of the session's own events, or replace it."""
    if not row.base < snapshot.seq <= row.head:
        raise ValueError(f"{snapshot.seq} is none of the session's own events")
    codec, data = blobs.pack(snapshot.data)
    values = (
        row.sid,
        snapshot.fold,
        snapshot.layout,
        snapshot.seq,
        snapshot.chain,
        snapshot.digest,
        codec,
        data,
    )
    tx.run(_PUT, values)
    tx.written += len(data)


def newest(tx: Transaction, row: SessionRow, fold: int, layout: int, upto: int) -> Snapshot | None:
    """The newest sound snapshot at or before `upto`, on the session's branch."""
    for sid, first, last in reversed(row.segments(0, upto)):
        while first <= last:
            found = tx.one(_GET, (sid, fold, layout, first, last))
            if found is None:
                break
            snapshot = _sound(tx, sid, found, fold, layout)
            if snapshot is not None:
                return snapshot
            last = found[0] - 1
    return None


def _sound(
    tx: Transaction, sid: int, found: tuple[int, bytes, bytes, int, bytes], fold: int, layout: int
) -> Snapshot | None:
    if tuple(map(type, found)) != _SHAPE:
        return None
    seq, chain, digest, codec, packed = found
    try:
        if rows.digest_at(tx, sid, seq) != chain:
            return None
        data = blobs.unpack(codec, packed)
    except Damaged:
        return None
    if hashlib.sha256(data).digest() != digest:
        return None
    return Snapshot(seq=seq, chain=chain, fold=fold, layout=layout, digest=digest, data=data)


def drop(tx: Transaction, row: SessionRow, after: int, upto: int) -> int:
    """Delete the session's own snapshots after `after`, up to `upto`; gives their number."""
    return tx.run(_DROP, (row.sid, after + 1, upto))

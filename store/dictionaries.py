"""The dictionary that a session of a store of schema 1 may have: where it stands, who reads it.

A session has at most one, in a row of its own among the session's blobs, under a name that no
digest has. It was made of the payloads that the session began with, and is never replaced. A fork
has its own. None is made any more, for packs save more room and cost an append nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from sawlog.store import blobs, packs
from sawlog.store.blobs import DICTIONARY, TAUGHT
from sawlog.store.database import Row, Transaction
from sawlog.store.dictionary import NAME, Dictionary, Kept, Lost
from sawlog.store.errors import Away, Damaged
from sawlog.store.objects import Objects

LABEL = b"dictionary"
"""What a dictionary's row has in place of a digest: shorter than any."""

_READ = "SELECT size, codec, data, key FROM sawlog.blobs WHERE sid = ? AND digest = ?"
_PACKED = "SELECT e.seq FROM sawlog.events e WHERE e.sid = ? AND e.codec = ? LIMIT 1"
_PACKED_BLOB = "SELECT b.size FROM sawlog.blobs b WHERE b.sid = ? AND b.codec = ? LIMIT 1"
_SHAPE = (int, int, bytes, type(None))
_DIGEST = 32


def stored(tx: Transaction, sid: int) -> Dictionary | None:
    """A session's dictionary as its row has it; None where it has none. Raises Damaged."""
    row = tx.one(_READ, (sid, LABEL))
    if row is None:
        return None
    if tuple(map(type, row)) != _SHAPE or row[:2] != (len(row[2]), DICTIONARY):
        raise Damaged("the row of its session's dictionary does not hold what belongs there")
    digest, data = row[2][:_DIGEST], row[2][_DIGEST:]
    if hashlib.sha256(data).digest() != digest:
        raise Damaged("the bytes of its session's dictionary give another digest")
    return Dictionary(data)


def of_rows(
    tx: Transaction, kept: Kept, sid: int, found: Sequence[Row]
) -> Dictionary | Lost | None:
    """What unpacks rows of events of one session; None where none of them needs it."""
    names = {row[15][:NAME] for row in found if row[14] == TAUGHT and type(row[15]) is bytes}
    return _named(tx, kept, sid, names) if names else None


def of_blob(tx: Transaction, kept: Kept, sid: int, row: Row) -> Dictionary | Lost | None:
    """The same for a row (digest, size, codec, data, key) of a blob."""
    if row[2] != TAUGHT or type(row[3]) is not bytes:
        return None
    return _named(tx, kept, sid, {row[3][:NAME]})


def contents(
    tx: Transaction,
    kept: Kept,
    sids: Iterable[int],
    digests: Sequence[bytes],
    session: bytes,
    objects: Objects | None = None,
) -> dict[bytes, bytes]:
    """Raw bytes of blobs by digest, of those that the sessions hold; each is checked.

    One whose bytes are in an object store that is not given, or that lost them, is left out.
    Raises Damaged, naming the session, when bytes do not fit their digest.
    """
    found: dict[bytes, bytes] = {}
    for sid in sids:
        wanted = [digest for digest in digests if digest not in found]
        if not wanted:
            break
        for row in tx.among(blobs.READ, (sid,), wanted):
            try:
                within = packs.of_blob(tx, row)
                found[row[0]] = blobs.content(row, objects, of_blob(tx, kept, sid, row), within)
            except Away:
                continue
            except Damaged as error:
                raise Damaged(
                    f"blob {row[0].hex()} of session {session.hex()} is damaged: {error}",
                    session=session.hex(),
                ) from error
    return found


def _named(tx: Transaction, kept: Kept, sid: int, names: set[bytes]) -> Dictionary | Lost:
    dictionary: Dictionary | None = kept.get(sid)
    if dictionary is None or dictionary.name not in names:
        try:
            dictionary = stored(tx, sid)
        except Damaged as error:
            return Lost(str(error))
        if dictionary is None:
            return Lost("the dictionary of its session, which it is packed with, is missing")
        kept.put(sid, dictionary)
    return dictionary


def drop_unused(tx: Transaction, sid: int) -> None:
    """Take a session's dictionary away, if none of its rows is packed with it any more."""
    if tx.one(_PACKED, (sid, TAUGHT)) is None and tx.one(_PACKED_BLOB, (sid, TAUGHT)) is None:
        tx.run("DELETE FROM sawlog.blobs WHERE sid = ? AND digest = ?", (sid, LABEL))

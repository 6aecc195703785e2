"""The dictionary of each session: where it stands, who reads it, when it is made.

A session has at most one, in a row of its own among the session's blobs, under a name that no
digest has. It is made of the payloads that the session began with, comes in the transaction of an
append, and is never replaced. It comes and goes only with the session's head, so whoever knows the
head knows the dictionary. A fork has its own, made of what is its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from sawlog.store import blobs, rows
from sawlog.store.blobs import DICTIONARY, TAUGHT
from sawlog.store.database import Database, Row, Transaction
from sawlog.store.dictionary import MOST_KEPT, NAME, Dictionary, Kept, Lost, trained
from sawlog.store.directory import SessionRow
from sawlog.store.errors import Away, Damaged, StoreError
from sawlog.store.objects import Objects

LABEL = b"dictionary"
"""What a dictionary's row has in place of a digest: shorter than any."""

FIRST = 96
"""Events after which a session's dictionary is made, of their payloads."""

MOST = 768
_LONGEST = 4096
"""Events, and bytes of each payload, that a dictionary is made of at most."""

_REMEMBERED = 10_000

_READ = "SELECT size, codec, data, key FROM sawlog.blobs WHERE sid = ? AND digest = ?"
_SAMPLES = (
    f"SELECT {rows.COLUMNS} FROM sawlog.events e WHERE e.sid = ? AND e.seq BETWEEN ? AND ? "
    "AND e.payload IS NOT NULL ORDER BY e.seq"
)
_LEFT = (
    "SELECT count(*) FROM sawlog.events e WHERE e.sid = ? AND e.seq BETWEEN ? AND ? "
    "AND e.payload IS NOT NULL"
)
_PACKED = (
    "SELECT e.seq, e.payload FROM sawlog.events e WHERE e.sid = ? AND e.codec = ? "
    "AND e.seq > ? ORDER BY e.seq LIMIT 256"
)
_REPACK = "UPDATE sawlog.events SET codec = ?, payload = ? WHERE sid = ? AND seq = ?"
_PACKED_BLOBS = (
    "SELECT b.digest, b.data FROM sawlog.blobs b WHERE b.sid = ? AND b.codec = ? "
    "AND b.digest > ? ORDER BY b.digest LIMIT 256"
)
_REPACK_BLOB = "UPDATE sawlog.blobs SET codec = ?, data = ? WHERE sid = ? AND digest = ?"
_SHAPE = (int, int, bytes, type(None))
_DIGEST = 32
_BROKEN = b"broken"
"""The name of one that does not read; its row is in the way of another one."""


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


def name_of(tx: Transaction, sid: int) -> bytes:
    """What a session's dictionary is called; empty where it has none."""
    try:
        there = stored(tx, sid)
    except Damaged:
        return _BROKEN
    return there.name if there is not None else b""


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
                found[row[0]] = blobs.content(row, objects, of_blob(tx, kept, sid, row))
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


def forget(tx: Transaction, sid: int) -> None:
    """Take a session's dictionary away, and pack what was packed with it alone.

    For whoever erases any of the session's content, which may live on in the dictionary, in the
    transaction that does it and moves the session's head. Raises Damaged where a row does not
    unpack; that row's content must go, too.
    """
    _pack_alone(tx, sid, _PACKED, _REPACK, 0)
    _pack_alone(tx, sid, _PACKED_BLOBS, _REPACK_BLOB, b"")
    tx.run("DELETE FROM sawlog.blobs WHERE sid = ? AND digest = ?", (sid, LABEL))


def _pack_alone(tx: Transaction, sid: int, select: str, update: str, after: object) -> None:
    kept = Kept()
    while some := tx.all(select, (sid, TAUGHT, after)):
        dictionary = _named(tx, kept, sid, {row[1][:NAME] for row in some})
        again = [(*blobs.pack(dictionary.unpack(row[1], blobs.HUGE)), sid, row[0]) for row in some]
        tx.run_many(update, again)
        tx.written += sum(len(row[1]) for row in again)
        after = some[-1][0]


def made_of(payloads: Sequence[bytes]) -> Dictionary | None:
    """A dictionary of the payloads that a session begins with; None where they teach nothing."""
    return trained([each[:_LONGEST] for each in payloads[:MOST]])


def row_of(sid: int, dictionary: Dictionary) -> tuple[Any, ...]:
    """A session's new dictionary as a row for `blobs.INSERT`."""
    whole = hashlib.sha256(dictionary.data).digest() + dictionary.data
    return sid, LABEL, len(whole), DICTIONARY, whole


class Taught(msgspec.Struct, frozen=True):
    """What an append packs with: a dictionary or none, and whether it must bring it along.

    `name` is what the session's dictionary is called behind the append, empty where it has none.
    Of a new one, `count` of the stored events from `first` to `last` are part.
    """

    name: bytes = b""
    dictionary: Dictionary | None = None
    is_new: bool = False
    first: int = 0
    last: int = 0
    count: int = 0

    def rows(self, sid: int) -> list[tuple[Any, ...]]:
        """What an append must bring along, for `blobs.INSERT`."""
        return [row_of(sid, self.dictionary)] if self.is_new and self.dictionary else []


NOTHING = Taught()


class Teacher:
    """Says for one handle's appends what to pack with, and makes dictionaries when it is time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._due: dict[int, int] = {}
        # Made behind a head and not stored yet, for that append may be tried again.
        self._fresh: dict[int, tuple[int, Taught]] = {}

    def ready(self, row: SessionRow, name: bytes, coming: Sequence[bytes] = ()) -> Taught:
        """What to pack with behind a head at which the session's dictionary was `name`.

        Empty: there was none. Then one is made, if it is time, of what is there, or else of the
        payloads that are coming; to be called while nobody waits.
        """
        if name:
            return Taught(name, self._at_hand(row.sid, name))
        own = row.head - row.base
        if own >= FIRST or len(coming) < FIRST:
            coming = ()  # what may never be stored is used only where there is nothing else
        own += len(coming)
        if own < self._due.get(row.sid, FIRST):
            return NOTHING
        fresh = self._fresh.get(row.sid)
        if fresh is not None and fresh[0] == row.head and not coming:
            return fresh[1]
        try:
            return self._made(row, own, coming)
        except StoreError:
            # What does not read costs no append: packing is a matter of room alone.
            self._later(row, own)
            return NOTHING

    def _at_hand(self, sid: int, name: bytes) -> Dictionary | None:
        kept = self._database.dictionaries
        found = kept.get(sid)
        if found is not None and found.name == name:
            return found
        try:
            with self._database.read() as tx:
                there = _named(tx, kept, sid, {name})
        except StoreError:
            return None
        return there if isinstance(there, Dictionary) and there.name == name else None

    def _made(self, row: SessionRow, own: int, coming: Sequence[bytes]) -> Taught:
        first, last = row.base + 1, min(row.head, row.base + MOST)
        with self._database.read() as tx:
            found = tx.all(_SAMPLES, (row.sid, first, last))
        there = [rows.event_of(each, row.id).payload or b"" for each in found]
        dictionary = made_of((*there, *coming))
        if dictionary is None:
            self._later(row, own)
            return NOTHING
        taught = Taught(dictionary.name, dictionary, True, first, last, len(found))
        if not coming:
            if len(self._fresh) > MOST_KEPT:
                self._fresh.clear()
            self._fresh[row.sid] = row.head, taught
        return taught

    def _later(self, row: SessionRow, own: int) -> None:
        if len(self._due) > _REMEMBERED:
            self._due.clear()
        self._due[row.sid] = 2 * own

    def settled(self, tx: Transaction, row: SessionRow, taught: Taught) -> Taught:
        """What to pack with in a transaction that holds a session whose head has moved."""
        try:
            there = stored(tx, row.sid)
        except Damaged:
            return Taught(_BROKEN)
        if there is not None:
            ours = taught.dictionary
            return Taught(there.name, ours if ours and ours.name == there.name else there)
        if taught.is_new:
            # What was erased meanwhile must not live on in it.
            left = tx.one(_LEFT, (row.sid, taught.first, taught.last))
            if left == (taught.count,):
                return taught
        return NOTHING

    def keep(self, sid: int, taught: Taught) -> None:
        """Keep at hand what a session has now that an append went through."""
        if taught.is_new:
            self._fresh.pop(sid, None)
        if taught.dictionary is not None:
            self._database.dictionaries.put(sid, taught.dictionary)

"""The dictionary of each session: where it stands, who reads it, when it is made.

A session has at most one, in a row of its own among the session's blobs, under a name that no
digest has. It is made of the payloads that the session began with, comes in the transaction of an
append, and is never replaced. It comes and goes only with the session's head, so whoever knows the
head knows the dictionary. A fork has its own, made of what is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sawlog.store import blobs, rows
from sawlog.store.blobs import DICTIONARY, TAUGHT
from sawlog.store.database import Database, Row, Transaction
from sawlog.store.dictionary import NAME, Dictionary, Kept, trained
from sawlog.store.directory import SessionRow
from sawlog.store.errors import StoreError

LABEL = b"dictionary"
"""What a dictionary's row has in place of a digest: shorter than any."""

FIRST = 96
"""Events after which a session's dictionary is made, of their payloads."""

_MOST = 768
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
_SHAPE = (int, int, bytes, type(None))


def stored(tx: Transaction, sid: int) -> Dictionary | None:
    """A session's dictionary as its row has it; None where it has none that reads.

    Rows name theirs by digest, so one that is not as it was written unpacks nothing.
    """
    row = tx.one(_READ, (sid, LABEL))
    if row is None or tuple(map(type, row)) != _SHAPE or row[:2] != (len(row[2]), DICTIONARY):
        return None
    return Dictionary(row[2])


def of_rows(tx: Transaction, kept: Kept, sid: int, found: Sequence[Row]) -> Dictionary | None:
    """What unpacks rows of events of one session; None where none of them needs it."""
    return _named(tx, kept, sid, {row[15][:NAME] for row in found if rows.is_taught(row)})


def of_blobs(tx: Transaction, kept: Kept, sid: int, found: Sequence[Row]) -> Dictionary | None:
    """The same for rows (digest, size, codec, data, key) of blobs."""
    return _named(tx, kept, sid, {row[3][:NAME] for row in found if blobs.is_taught(row)})


def _named(tx: Transaction, kept: Kept, sid: int, names: set[bytes]) -> Dictionary | None:
    if not names:
        return None
    dictionary = kept.get(sid)
    if dictionary is None or dictionary.name not in names:
        dictionary = stored(tx, sid)
        if dictionary is not None:
            kept.put(sid, dictionary)
    return dictionary


class Taught(msgspec.Struct, frozen=True):
    """What an append packs with: a dictionary or none, and whether it must bring it along.

    A new one was made of the payloads of `count` events from `first` to `last`.
    """

    dictionary: Dictionary | None = None
    is_new: bool = False
    first: int = 0
    last: int = 0
    count: int = 0

    def row(self, sid: int) -> tuple[Any, ...]:
        """The new dictionary as a row for `blobs.INSERT`."""
        data = self.dictionary.data if self.dictionary else b""
        return sid, LABEL, len(data), DICTIONARY, data


NOTHING = Taught()


class Teacher:
    """Says for one handle's appends what to pack with, and makes dictionaries when it is time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._due: dict[int, int] = {}

    def ready(self, row: SessionRow, name: bytes) -> Taught:
        """What to pack with behind a head at which the session's dictionary was `name`.

        Empty: there was none. Then one is made, if it is time; to be called while nobody waits.
        """
        if name:
            dictionary = self._database.dictionaries.get(row.sid)
            if dictionary is None or dictionary.name != name:
                with self._database.read() as tx:
                    dictionary = _named(tx, self._database.dictionaries, row.sid, {name})
            fits = dictionary is not None and dictionary.name == name
            return Taught(dictionary) if fits else NOTHING
        own = row.head - row.base
        if own < self._due.get(row.sid, FIRST):
            return NOTHING
        try:
            return self._made(row, own)
        except StoreError:
            # What does not read costs no append: packing is a matter of room alone.
            self._later(row, own)
            return NOTHING

    def _made(self, row: SessionRow, own: int) -> Taught:
        first, last = row.base + 1, row.base + min(own, _MOST)
        with self._database.read() as tx:
            found = tx.all(_SAMPLES, (row.sid, first, last))
        payloads = [rows.event_of(each, row.id).payload for each in found]
        dictionary = trained([each[:_LONGEST] for each in payloads if each])
        if dictionary is None:
            self._later(row, own)
            return NOTHING
        return Taught(dictionary, True, first, last, len(found))

    def _later(self, row: SessionRow, own: int) -> None:
        if len(self._due) > _REMEMBERED:
            self._due.clear()
        self._due[row.sid] = 2 * own

    def settled(self, tx: Transaction, row: SessionRow, taught: Taught) -> Taught:
        """What to pack with in a transaction that holds a session whose head has moved."""
        there = stored(tx, row.sid)
        if there is not None:
            ours = taught.dictionary
            return taught if ours and ours.name == there.name else Taught(there)
        if taught.is_new:
            # What was erased meanwhile must not live on in it.
            left = tx.one(_LEFT, (row.sid, taught.first, taught.last))
            if left == (taught.count,):
                return taught
        return NOTHING

    def keep(self, row: SessionRow, taught: Taught) -> bytes:
        """The name of what a session has now that an append went through."""
        if taught.dictionary is None:
            return b""
        self._database.dictionaries.put(row.sid, taught.dictionary)
        return taught.dictionary.name

"""When a session's older events are packed, and how: rows go, a pack takes their place.

A physical change: no digest, id, place in the order of arrival or byte of content moves. A pack is
prepared while nobody waits and put in place in one transaction, which changes nothing where
somebody else was first. The newest events keep their rows, the last one always, so that places in
the order of arrival go on rising from where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec

from sawlog.store import blobs, dictionaries, directory, packs, rows
from sawlog.store.codec import genesis
from sawlog.store.database import Database, Row, Transaction
from sawlog.store.directory import SessionRow
from sawlog.store.errors import StoreError
from sawlog.store.pack import Gathered, Pack
from sawlog.store.packs import Place

DUE_EVENTS = 640
DUE_BYTES = 7 << 17
"""Events with rows of their own, or bytes of them and their blobs, from which packing pays.

So many bytes make one pack that is nearly full, and seldom leave a rest for another."""

KEPT = 128
"""The newest events, which keep their rows."""

FULL_EVENTS = 2048
FULL_BYTES = 1 << 20
"""What makes a pack full, about 256 KB packed. Until then it is packed again with what follows."""

ENOUGH = 3 << 16
"""Packed bytes of a pack that is not packed again, whatever it holds: it would save too little."""

LEVEL = 3
"""How hard zstd tries as a session grows."""

DENSE = 12
DENSER = 2
"""How hard it tries when a store is repacked, and how many times as much makes a pack full then."""

LARGEST = 1 << 18
"""Bytes of a blob that is still packed with others; a larger one packs as well alone."""

_CHUNK = 256
_REMEMBERED = 10_000

_ROWS = (
    f"SELECT e.pos, {rows.COLUMNS} FROM sawlog.events e WHERE e.sid = ? AND e.seq BETWEEN ? AND ? "
    "ORDER BY e.seq"
)
_LENGTH = "SELECT length(p.data) FROM sawlog.packs p WHERE p.pack = ?"
_LAST = "SELECT max(p.last) FROM sawlog.packs p WHERE p.sid = ?"
_DELETE = "DELETE FROM sawlog.events WHERE sid = ? AND seq BETWEEN ? AND ?"
_NUMBER = "SELECT last_insert_rowid()"
_DELETE_PACK = "DELETE FROM sawlog.packs WHERE pack = ?"
# Not an update, which would leave each small row alone on its page.
_MOVE_BLOB = (
    "INSERT OR REPLACE INTO sawlog.blobs (sid, digest, size, codec, data) VALUES (?, ?, ?, ?, ?)"
)


class _Raced(Exception):
    """Somebody else packed these events meanwhile."""


class _Tail(msgspec.Struct):
    """What a session has in rows of its own, as far as a handle knows."""

    start: int
    size: int
    due_events: int
    due_bytes: int


class Packer:
    """Packs the sessions that a handle appends to, as they grow."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tails: dict[int, _Tail] = {}

    def grown(self, row: SessionRow, size: int) -> None:
        """Note that a session grew to its row by so many bytes, and pack what is due.

        What hinders packing costs room and no more: the append stands, and the next ones try again
        once there is twice as much to pack.
        """
        if not self._database.packs:
            return
        tail = self._tails.get(row.sid)
        if tail is None:
            tail = self._looked_up(row)
        tail.size += size
        count = row.head - tail.start
        if count < tail.due_events and (tail.size < tail.due_bytes or count <= KEPT):
            return
        with suppress(StoreError):
            pack(self._database, row, KEPT)
        packed = self._looked_up(row)
        if packed.start == tail.start:
            packed.due_events, packed.due_bytes = 2 * count, 2 * tail.size

    def _looked_up(self, row: SessionRow) -> _Tail:
        start = row.base
        with suppress(StoreError), self._database.read() as tx:
            found = tx.one(_LAST, (row.sid,))
            if found and isinstance(found[0], int):
                start = found[0]
        if len(self._tails) > _REMEMBERED:
            self._tails.clear()
        tail = self._tails[row.sid] = _Tail(start, 0, DUE_EVENTS, DUE_BYTES)
        return tail


def pack(
    database: Database,
    row: SessionRow,
    keep: int = 1,
    *,
    again: bool = False,
    told: Callable[[int, int], object] = lambda done, all: None,
) -> None:
    """Pack a session's own events but for the newest `keep`, at least one.

    Packs that are full stay as they are; with `again` all are made anew, as dense as zstd can.
    `told` is told, after each, how many of how many events are done. Ends where somebody else
    packs the same events. Raises Damaged at what does not read or does not follow, with all before
    it packed, and what `Database.write` raises.
    """
    last = row.head - max(1, keep)
    if database.packs is None or last <= row.base:
        return
    with database.read() as tx:
        start = row.base + 1
        if not again:  # of many packs only the newest can have room
            edge = tx.one(_LAST, (row.sid,))
            start = edge[0] if edge and isinstance(edge[0], int) else start
        there = packs.places(tx, row.sid, start, row.head)
        opened = there if again else [place for place in there[-1:] if _has_room(tx, place)]
    first = there[-1].last + 1 if there else row.base + 1
    if not again and first > last:
        return
    making = _Making(database, row, again, told)
    with suppress(_Raced):
        for place in opened:
            old = _pack_of(database, row, place)
            if again or not _is_full(old):
                making.add_pack(place, old)
        for some in _rows_of(database, row, first, last):
            making.add_rows(some)
        making.finish()


def _pack_of(database: Database, session: SessionRow, place: Place) -> Pack:
    shelf = packs.shelf_of(database.packs)
    assert shelf is not None
    with database.read() as tx:
        if place not in packs.places(tx, session.sid, place.first, place.last):
            raise _Raced
        return shelf.pack(tx, place.number)


def _has_room(tx: Transaction, place: Place) -> bool:
    """True of a pack that takes so few bytes that packing it again with what follows may pay."""
    found = tx.one(_LENGTH, (place.number,))
    return found is not None and isinstance(found[0], int) and found[0] < ENOUGH


def _is_full(pack: Pack | Gathered, times: int = 1) -> bool:
    return len(pack) >= times * FULL_EVENTS or pack.size >= times * FULL_BYTES


class _Event(msgspec.Struct, frozen=True):
    """An event that has a row: the row, when it arrived, the blobs that it is the first to cite."""

    row: Row
    arrived: int
    taught: bool
    """Its row is packed with a dictionary."""
    texts: Sequence[tuple[bytes, bytes]]


def _rows_of(
    database: Database, session: SessionRow, first: int, last: int
) -> Iterator[list[_Event]]:
    for start in range(first, last + 1, _CHUNK):
        end = min(last, start + _CHUNK - 1)
        with database.read() as tx:
            found = tx.all(_ROWS, (session.sid, start, end))
            if [row[1] for row in found] != list(range(start, end + 1)):
                raise _Raced
            columns = [row[1:] for row in found]
            dictionary = dictionaries.of_rows(tx, database.dictionaries, session.sid, columns)
            texts = _texts(tx, database, session, columns)
        out: list[_Event] = []
        for row, each in zip(found, columns, strict=True):
            plain = rows.plain(each, session.id, dictionary)
            own: list[tuple[bytes, bytes]] = []
            if each[13] and texts:
                own = [(cited, texts.pop(cited)) for cited in rows.cites_of(each) if cited in texts]
            out.append(_Event(plain, row[0], each[14] == blobs.TAUGHT, own))
        yield out


def _texts(
    tx: Transaction, database: Database, session: SessionRow, found: Sequence[Row]
) -> dict[bytes, bytes]:
    """The blobs that rows cite and that may lie in a pack, and do not yet."""
    cited = list(dict.fromkeys(digest for row in found for digest in rows.cites_of(row)))
    texts: dict[bytes, bytes] = {}
    for row in tx.among(blobs.READ, (session.sid,), cited):
        if row[2] in blobs.INLINE and isinstance(row[1], int) and row[1] <= LARGEST:
            dictionary = dictionaries.of_blob(tx, database.dictionaries, session.sid, row)
            texts[row[0]] = blobs.content(row, dictionary=dictionary)
    return texts


class _Making:
    """Packs in the making, each put in place as soon as it is full."""

    def __init__(
        self,
        database: Database,
        session: SessionRow,
        dense: bool,
        told: Callable[[int, int], object],
    ) -> None:
        self._database = database
        self._session = session
        self._level = DENSE if dense else LEVEL
        self._times = DENSER if dense else 1
        self._told = told
        self._gathered: Gathered | None = None
        self._old: list[Place] = []
        self._rows = 0
        self._end = b""
        self._taught = False

    def add_pack(self, place: Place, pack: Pack) -> None:
        """Make a pack anew, or part of a larger one."""
        if (
            self._gathered is not None
            and self._gathered.size + pack.size > 2 * self._times * FULL_BYTES
        ):
            self.finish()
        gathered = self._gathered or self._begun(pack.first, pack.before)
        gathered.add_pack(pack)
        self._old.append(place)
        if _is_full(gathered, self._times):
            self.finish()

    def add_rows(self, events: Sequence[_Event]) -> None:
        """Pack events that have rows."""
        for event in events:
            gathered = self._gathered or self._begun(event.row[0])
            gathered.add(event.row, event.arrived)
            self._rows += 1
            self._taught = self._taught or event.taught
            for digest, data in event.texts:
                gathered.add_text(digest, data)
            if _is_full(gathered, self._times):
                self.finish()

    def finish(self) -> None:
        """Put what was gathered in the place of what it was gathered from."""
        gathered, self._gathered = self._gathered, None
        if gathered is None:
            return
        new = packs.row_of(self._session.sid, gathered, self._level)
        sid = self._session.sid
        with self._database.write() as tx:
            for place in self._old:
                if tx.run(_DELETE_PACK, (place.number,)) != 1:
                    raise _Raced
            first = gathered.last - self._rows + 1
            if tx.run(_DELETE, (sid, first, gathered.last)) != self._rows:
                raise _Raced
            tx.run(packs.INSERT, new)
            made = tx.one(_NUMBER)
            assert made is not None
            name = packs.named(made[0])
            moved = [
                (sid, digest, len(data), blobs.PACKED, name)
                for digest, data in gathered.texts.items()
            ]
            tx.run_many(_MOVE_BLOB, moved)
            if self._taught:
                dictionaries.drop_unused(tx, sid)
            tx.written += 2 * len(new[-1])
        self._old.clear()
        self._rows = 0
        self._end = gathered.digest
        base = self._session.base
        self._told(gathered.last - base, self._session.head - base)

    def _begun(self, first: int, before: bytes = b"") -> Gathered:
        before = before or self._end
        if not before:
            with self._database.read() as tx:
                before = _digest_before(tx, self._session, first)
        self._gathered = Gathered(self._session.id, first, before)
        return self._gathered


def _digest_before(tx: Transaction, session: SessionRow, seq: int) -> bytes:
    """The chain's digest before an event of a session's own. Raises Damaged."""
    line = [*session.ancestors, (session.sid, session.head)]
    if seq == 1:
        root = line[0][0]
        return genesis(session.id if root == session.sid else directory.ids(tx, [root])[root])
    sid = next(sid for sid, last in line if seq - 1 <= last)
    digest = rows.digest_at(tx, sid, seq - 1)
    if digest is None:
        raise rows.damaged(session.id, seq - 1, "its row is missing")
    return digest

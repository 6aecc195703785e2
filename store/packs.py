"""The packs of a store: which events lie in which, and reading them as if each had its row.

A pack's events have no row in `events`, and its blobs have one in `blobs` that names the pack. The
packs of a session cover its own events from the first on, without a gap; newer ones have rows. So
whoever looks for events looks among the rows first, and here for what is not there.
"""

from __future__ import annotations

import hashlib
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sawlog.store import database
from sawlog.store.blobs import PACKED
from sawlog.store.database import Row, Transaction
from sawlog.store.envelope import Unproved
from sawlog.store.errors import Damaged
from sawlog.store.pack import ID, Gathered, Pack, Wanted

CODEC = 1
"""How `data` is packed: by the layout of `pack`. Others may come."""

MOST_KEPT = 8
"""Packs that a handle keeps at hand, each of one or two megabytes."""

_ARRIVALS_KEPT = 2_000
"""Packs whose order of arrival a handle keeps at hand, some kilobytes each."""

_LOOSE_KEPT = 200_000
"""Beginnings of ids that a handle keeps at hand."""

INSERT = (
    "INSERT INTO sawlog.packs (sid, first, last, digest, first_pos, last_pos, low, high, loose, "
    "codec, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_HEADS = (
    "SELECT p.pack, p.first, p.last FROM sawlog.packs p "
    "WHERE p.sid = ? AND p.last >= ? AND p.first <= ? ORDER BY p.last"
)
_READ = (
    "SELECT p.first, p.last, p.digest, p.first_pos, p.last_pos, p.low, p.high, p.loose, p.codec, "
    "p.key, p.data FROM sawlog.packs p WHERE p.pack = ?"
)
_RISING = (
    "SELECT p.pack FROM sawlog.packs p WHERE p.sid = ? AND p.high >= ? AND p.low <= ? "
    "ORDER BY p.last"
)
_THERE = "SELECT p.pack, p.sid FROM sawlog.packs p WHERE p.pack IN (*)"
_LOOSE = "SELECT p.pack, p.loose FROM sawlog.packs p WHERE p.sid = ? AND p.last > ? ORDER BY p.last"
_DIGEST = "SELECT p.digest FROM sawlog.packs p WHERE p.sid = ? AND p.last = ?"
_EDGE = "SELECT max(p.last) FROM sawlog.packs p WHERE p.sid = ?"
_ARRIVED = (
    "SELECT p.pack, p.first_pos, p.first, p.sid, s.id, s.tenant FROM sawlog.packs p "
    "JOIN sawlog.sessions s ON s.sid = p.sid WHERE p.last_pos > ? ORDER BY p.first_pos"
)
_LARGEST = 2**63 - 1
"""No number of a row is larger; what a damaged row says is cut to one that SQLite can look for."""

_SHORT = 8
"""Bytes that tell ids apart well enough to know which packs to look into."""


class Place(msgspec.Struct, frozen=True):
    """A pack by its number, and the events that it holds."""

    number: int
    first: int
    last: int


class Ids(msgspec.Struct, frozen=True):
    """What tells which ids a pack holds.

    `low` and `high` bound those that rise with time (UUIDv7), empty where there are none; `loose`
    are the first bytes of all others, sorted and joined.
    """

    low: bytes
    high: bytes
    loose: bytes


def ids_of(ids: Sequence[bytes]) -> Ids:
    """What a pack of events with those ids says of them."""
    rising = list(filter(_rises, ids))
    loose = sorted(id for id in ids if not _rises(id)) if len(rising) < len(ids) else []
    shortened = b"".join(id[:_SHORT] for id in loose)
    if not rising:
        return Ids(b"", b"", shortened)
    return Ids(min(rising), max(rising), shortened)


def _rises(id: bytes) -> bool:
    return len(id) == ID and id[6] >> 4 == 7 and id[8] >> 6 == 2


def row_of(sid: int, gathered: Gathered, level: int) -> tuple[Any, ...]:
    """A new pack as a row for INSERT."""
    ids = ids_of(gathered.ids)
    return (
        sid,
        gathered.first,
        gathered.last,
        gathered.digest,
        min(gathered.arrived),
        max(gathered.arrived),
        ids.low,
        ids.high,
        ids.loose,
        CODEC,
        gathered.packed(level),
    )


def named(number: int) -> bytes:
    """What the row of a blob holds whose bytes lie in a pack."""
    return number.to_bytes(8, "big")


def places(tx: Transaction, sid: int, first: int, last: int) -> list[Place]:
    """The packs that hold any of a session's events from `first` to `last`, in order.

    Raises Damaged where a row does not say what it holds.
    """
    found = tx.all(_HEADS, (sid, first, last))
    for row in found:
        if tuple(map(type, row)) != (int, int, int):
            raise Damaged("the row of a pack does not hold what belongs there")
    return [Place(*row) for row in found]


def read(tx: Transaction, number: int, whole: bool = False) -> Pack:
    """A pack as the store holds it now; with `whole` all of its row is compared with it.

    Raises Damaged.
    """
    row = tx.one(_READ, (number,))
    if row is None:
        raise Damaged(f"pack {number} is missing")
    codec, key, data = row[8:]
    if (type(codec), key, type(data)) != (int, None, bytes):
        raise Damaged(f"the row of pack {number} does not hold what belongs there")
    if codec != CODEC:
        raise Damaged(
            f"pack {number} is packed by codec {codec}, which this sawlog does not know: "
            "if a newer one wrote it, upgrade"
        )
    pack = Pack(data)
    if row[:2] != (pack.first, pack.last) or (whole and row[2:8] != _told_of(pack)):
        raise Damaged(f"the row of pack {number} does not say what lies within")
    return pack


def _told_of(pack: Pack) -> Row:
    """What a pack's row repeats of it, beside its first and last event."""
    ids = ids_of(pack.ids)
    digest = pack.digests()[-1]
    return digest, min(pack.arrived), max(pack.arrived), ids.low, ids.high, ids.loose


class Found(msgspec.Struct, frozen=True):
    """A packed event that a follower may come to: its place in the order of arrival, where it lies,
    and its session's columns.
    """

    arrived: int
    number: int
    seq: int
    session: Row


def _arrival(found: Found) -> int:
    return found.arrived


def _number(found: Found) -> tuple[int, int]:
    return found.number, found.seq


def _place(found: tuple[tuple[int, ...], Row]) -> tuple[int, ...]:
    return found[0]


def shelf_of(shelf: database.Shelf | None) -> Shelf | None:
    """The shelf of a handle or a transaction whose store has packs."""
    return shelf if isinstance(shelf, Shelf) else None


def of_blob(tx: Transaction, row: Row, shelf: Shelf | None = None) -> Pack | None:
    """The pack that a row (digest, size, codec, data, key) of a blob names; None: it names none.

    Raises Damaged.
    """
    shelf = shelf or shelf_of(tx.shelf)
    if row[2] != PACKED or shelf is None or type(row[3]) is not bytes:
        return None
    return shelf.pack(tx, int.from_bytes(row[3], "big") & _LARGEST)


class Shelf(database.Shelf):
    """The packs that a handle has read last. Threads may share it.

    A number is never given again, and what a pack holds never changes. With `whole`, all that a
    pack's row says is compared with the pack.
    """

    def __init__(self, whole: bool = False) -> None:
        self._whole = whole
        self._packs: dict[int, Pack] = {}
        self._arrivals: dict[int, Sequence[int]] = {}
        # By session: the event up to which its packs were looked into, and what they have of ids
        # that do not rise.
        self._loose: dict[int, tuple[int, set[bytes]]] = {}
        self._lock = threading.Lock()

    def pack(self, tx: Transaction, number: int) -> Pack:
        """A pack by its number. Raises Damaged."""
        with self._lock:
            pack = self._packs.pop(number, None)
            if pack is not None:
                self._packs[number] = pack  # used last
                return pack
        pack = read(tx, number, self._whole)
        with self._lock:
            self._packs[number] = pack
            while len(self._packs) > MOST_KEPT:
                del self._packs[next(iter(self._packs))]
        return pack

    def rows(self, tx: Transaction, sid: int, first: int, last: int) -> list[Row]:
        """Those of a session's events from `first` to `last` that lie in packs, as rows."""
        found: list[Row] = []
        for place in places(tx, sid, first, last):
            pack = self.pack(tx, place.number)
            found += pack.rows(max(first, pack.first), min(last, pack.last))
        return found

    def among(self, tx: Transaction, sid: int, seqs: Sequence[int]) -> list[Row]:
        """Those of a session's events of these seqs that lie in packs, as rows."""
        found: list[Row] = []
        for place, some in _spread(tx, sid, seqs):
            pack = self.pack(tx, place.number)
            for seq in some:
                found += pack.rows(seq, seq)
        return found

    def digest_at(self, tx: Transaction, sid: int, seq: int) -> bytes | None:
        """The chain's digest at an event of a session that lies in a pack; None: in none."""
        found = tx.one(_DIGEST, (sid, seq))
        if found is not None:
            return found[0] if isinstance(found[0], bytes) else b""
        packed = self.rows(tx, sid, seq, seq)
        return packed[0][12] if packed else None

    def contents(
        self, tx: Transaction, sid: int, first: int, last: int, wanted: Wanted | None
    ) -> tuple[list[Unproved], int]:
        """Those of a session's events from `first` on that lie in packs and are wanted, as content,
        and the seq up to which packs hold all of the range.
        """
        found: list[Unproved] = []
        upto = first - 1
        for place in places(tx, sid, first, last):
            if place.first > upto + 1:
                break
            end = min(last, place.last)
            found += self.pack(tx, place.number).contents(range(upto + 1, end + 1), wanted)
            upto = end
        return found, upto

    def contents_among(self, tx: Transaction, sid: int, seqs: Sequence[int]) -> list[Unproved]:
        """Those of a session's events of these seqs that lie in packs, as content."""
        found: list[Unproved] = []
        for place, some in _spread(tx, sid, seqs):
            found += self.pack(tx, place.number).contents(some)
        return found

    def texts(
        self, tx: Transaction, sids: Sequence[int], digests: Sequence[bytes]
    ) -> dict[bytes, bytes]:
        """Those of the blobs that lie in packs of these sessions which are at hand, each checked.

        A pack that a transaction no longer finds counts as gone, with all that lies in it.
        """
        with self._lock:
            packs = dict(self._packs)
        hits = {
            digest: (number, raw)
            for digest in digests
            for number, pack in packs.items()
            if (raw := pack.blob(digest)) is not None
        }
        if not hits:
            return {}
        numbers = sorted({number for number, _ in hits.values()})
        there = {number for number, sid in tx.among(_THERE, (), numbers) if sid in sids}
        return {
            digest: raw
            for digest, (number, raw) in hits.items()
            if number in there and hashlib.sha256(raw).digest() == digest
        }

    def by_ids(self, tx: Transaction, sid: int, ids: Sequence[bytes]) -> list[Row]:
        """Those of a session's events of these ids that lie in packs, as rows."""
        rising = [id for id in ids if _rises(id)]
        found: list[Row] = []
        if rising:
            # An index answers, and for ids of now with nothing.
            for (number,) in tx.all(_RISING, (sid, min(rising), max(rising))):
                found += _of_ids(self.pack(tx, number), rising)
        if len(rising) == len(ids):
            return found
        loose = [id for id in ids if not _rises(id)]
        known = self._known(tx, sid)
        if any(id[:_SHORT] in known for id in loose):
            for number, starts in tx.all(_LOOSE, (sid, 0)):
                if any(id[:_SHORT] in _checked(starts) for id in loose):
                    found += _of_ids(self.pack(tx, number), loose)
        return found

    def arrived(self, tx: Transaction, after: int, tenant: str | None, limit: int) -> list[Found]:
        """The first `limit` packed events that arrived after a place, in the order of arrival.

        Each as where it is found, for most of them may be behind what stands in rows.
        """
        sql = _ARRIVED
        values: tuple[object, ...] = (after,)
        if tenant is not None:
            sql, values = sql.replace(" ORDER", " AND s.tenant = ? ORDER"), (after, tenant)
        found: list[Found] = []
        for number, first_place, first, sid, id, owner in tx.all(sql, values):
            found.sort(key=_arrival)
            del found[limit:]
            if len(found) == limit and found[-1].arrived < first_place:
                break
            arrived = self._arrivals_of(tx, number)
            start = bisect_right(arrived, after)
            for at in range(start, min(len(arrived), start + limit)):
                found.append(Found(arrived[at], number, first + at, (id, owner, sid)))
        found.sort(key=_arrival)
        return found[:limit]

    def merged(
        self,
        tx: Transaction,
        found: Sequence[tuple[tuple[int, ...], Row]],
        packed: Sequence[Found],
        limit: int,
    ) -> list[tuple[tuple[int, ...], Row]]:
        """Events with rows and events in packs, the first `limit` of both in order of arrival.

        Raises Damaged.
        """
        if len(found) == limit:
            packed = [each for each in packed if (each.arrived,) < found[-1][0]]
        both = list(found)
        # Pack by pack, so that no more of them are at hand than the shelf keeps.
        for each in sorted(packed, key=_number):
            [row] = self.pack(tx, each.number).rows(each.seq, each.seq)
            both.append(((each.arrived,), row + each.session))
        both.sort(key=_place)
        return both[:limit]

    def _arrivals_of(self, tx: Transaction, number: int) -> Sequence[int]:
        arrivals = self._arrivals.get(number)
        if arrivals is None:
            arrivals = array("q", self.pack(tx, number).arrived)
            with self._lock:
                if len(self._arrivals) >= _ARRIVALS_KEPT:
                    self._arrivals.clear()
                self._arrivals[number] = arrivals
        return arrivals

    def _known(self, tx: Transaction, sid: int) -> set[bytes]:
        """How those ids of a session begin that lie in packs and do not rise."""
        upto, known = self._loose.get(sid, (0, set[bytes]()))
        edge = tx.one(_EDGE, (sid,))
        if edge is None or edge[0] in (None, upto):
            return known
        for _, starts in tx.all(_LOOSE, (sid, upto)):
            _checked(starts)
            known.update(starts[at : at + _SHORT] for at in range(0, len(starts), _SHORT))
        with self._lock:
            if sum(len(each) for _, each in self._loose.values()) > _LOOSE_KEPT:
                self._loose.clear()
            self._loose[sid] = edge[0], known
        return known


def _spread(tx: Transaction, sid: int, seqs: Sequence[int]) -> Iterator[tuple[Place, list[int]]]:
    """The packs that hold any of these events of a session, each with those that it holds."""
    wanted = sorted(set(seqs))
    for place in places(tx, sid, wanted[0], wanted[-1]) if wanted else ():
        some = wanted[bisect_left(wanted, place.first) : bisect_right(wanted, place.last)]
        if some:
            yield place, some


def _checked(starts: object) -> bytes:
    if not isinstance(starts, bytes):
        raise Damaged("the row of a pack does not hold what belongs there")
    return starts


def _of_ids(pack: Pack, ids: Sequence[bytes]) -> list[Row]:
    at = {id: seq for seq, id in enumerate(pack.ids, pack.first)}
    return [row for id in ids if id in at for row in pack.rows(at[id], at[id])]

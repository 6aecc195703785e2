"""Reading a session and believing none of it: chain, contents, blobs, and the rows around them.

What the chain proves is `broken` where it does not hold. What no digest covers (the blobs listed
beside an event, how a row is packed, where its index says that it is, the directory's row) is
compared with what it repeats, and is a `fault`: the content is sound, and the row needs mending.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sawlog.store import blobs, codec, dictionaries, directory, packs, rows
from sawlog.store.database import Row, Transaction
from sawlog.store.dictionary import Dictionary, Kept, Lost
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import StoredEvent
from sawlog.store.errors import Damaged, NoSession, StoreError
from sawlog.store.log import CHUNK, Log
from sawlog.store.pack import PROVED
from sawlog.store.packs import Shelf

_EVENTS = (
    f"SELECT i.seq, (arrival), e.sid, e.key, {rows.COLUMNS} FROM (itself) "
    "WHERE i.sid = ? AND i.seq BETWEEN ? AND ? ORDER BY i.seq"
)
_NEXT = "SELECT min(e.seq) FROM sawlog.events e WHERE e.sid = ? AND e.seq > ?"
# What is no number is above all numbers in SQLite.
_LAST = "SELECT max(e.seq) FROM sawlog.events e WHERE e.sid = ? AND e.seq <= 9223372036854775807"
_NEXT_PACKED = "SELECT min(p.first) FROM sawlog.packs p WHERE p.sid = ? AND p.first > ?"
_IDS = "SELECT i.id, e.seq FROM (itself) WHERE i.sid = ? AND i.id IN (*)"
_BLOB = (
    "SELECT e.sid, e.digest, e.size, e.codec, e.data, e.key FROM (itself) "
    "WHERE i.sid = ? AND i.digest = ?"
)
_ROW = f"SELECT {directory.COLUMNS}, s.tenant FROM sawlog.sessions s WHERE s.sid = ?"
_ROWS = (
    f"SELECT {directory.COLUMNS}, s.tenant FROM sawlog.sessions s WHERE s.sid > ? "
    "ORDER BY s.sid LIMIT 1000"
)
# An index answers this, which knows of a session whose row a damaged page no longer shows.
_INDEXED = "SELECT s.id FROM sawlog.sessions s WHERE s.tenant = ? ORDER BY s.id"
_BY = "SELECT s.sid FROM sawlog.sessions s WHERE s.tenant = ? AND s.{} IN (*)"

_AT_ONCE = 16
"""Blobs that are looked for in one transaction."""

_WIDTH: int = 20
"""Columns of a row of `_EVENTS`; one of a pack has the pack's first event behind them."""

_AT_HAND = 4 * 1024 * 1024
"""Bytes of blobs that were checked and may be taken, at most."""


class Member(msgspec.Struct, frozen=True):
    """One session of a branch: its events are those up to `last` that no earlier one has."""

    sid: int
    id: bytes
    last: int


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a session, as it was found.

    `event` is what its row says, None where that does not read. `names` are the digests of the
    blobs that the payload names. `broken` says why the chain does not vouch for it (empty: it
    does), `fault` what else is wrong with its rows. `linked`: it fits what stands before it,
    whatever that is worth.
    """

    seq: int
    event: StoredEvent | None
    names: tuple[bytes, ...] = ()
    broken: str = ""
    fault: str = ""
    linked: bool = True

    @property
    def why(self) -> str:
        """What is wrong with it; empty when nothing is."""
        return self.broken or self.fault


Found = tuple[Place, int, bool]
"""A place, when it arrived, and whether a pack has proved that it fits the one before it."""


class Check:
    """One pass over a session: iterate `places`, then ask `directory`.

    Memory is bounded by some hundred events and a few blobs. A session that grows meanwhile is
    checked as it was at the start.
    """

    def __init__(self, log: Log, session: SessionRow | bytes) -> None:
        """Raises NoSession, and Damaged where the directory does not say whose events to read."""
        self._log = log
        # As they are in the store now, not as the handle once read them.
        self._kept = Kept()
        self._shelf = Shelf(whole=True)
        id = session if isinstance(session, bytes) else session.id
        with log.database.read() as tx:
            found = tx.one(directory.BY_ID, (log.tenant, id))
            if found is None:
                raise NoSession(f"there is no session {id.hex()}")
            if found[1] != id:
                raise directory.damaged(found, f"an index leads to it for session {id.hex()}")
            self.row = _legible(found)
            # By its number the row comes from the table, by its name from an index, too.
            self._found = tx.one(_ROW, (self.row.sid,))
            ids = directory.ids(tx, [sid for sid, _ in self.row.ancestors])
            self.members = [
                *(Member(sid, _bytes(ids.get(sid)), last) for sid, last in self.row.ancestors),
                Member(self.row.sid, self.row.id, self.row.head),
            ]
            self.top = self._last(tx)
        self.digest = codec.genesis(self.members[0].id)
        """The chain's digest at the last place that was reached and is whole."""
        # Digests that the directory may name for its head, and the time of the last event: empty
        # and None while, or where, nothing vouches for them.
        self._at_head: tuple[bytes, ...] = () if self.row.head else (self.digest,)
        self._touched = None if self.row.head > self.row.base else self.row.created_at
        self._before: tuple[bytes, ...] = (self.digest,)
        self._bad_blobs: dict[bytes, str] = {}
        self._seen_blobs: set[bytes] = set()
        self._at_hand: dict[bytes, bytes] = {}
        self._room = _AT_HAND

    def taken(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Those of the blobs that were checked with the places given last and are still at hand.

        A blob that is cited again, or for which there was no room, is not.
        """
        return {digest: self._at_hand[digest] for digest in digests if digest in self._at_hand}

    def _last(self, tx: Transaction) -> int:
        try:
            found = tx.one(_LAST, (self.row.sid,))
        except StoreError as error:
            if not _is_damage(error):
                raise
            return self.row.head
        last = found[0] if found else None
        return last if isinstance(last, int) else self.row.base

    def _edge(self, tx: Transaction, sql: str, *values: int) -> int | None:
        """Where packs of a session begin or end; None: there are none, or it does not read."""
        if tx.shelf is None:
            return None
        found = tx.one(sql, values)
        return found[0] if found and isinstance(found[0], int) else None

    def places(self) -> Iterator[Place]:
        """Every place from the first to the last that has a row, or should have one, in order."""
        first = 1
        damaged_at = 0
        for member in self.members:
            own = member.sid == self.row.sid
            last = max(self.top, self.row.base) if own else member.last
            arrived = 0
            while first <= last:
                end = min(last, first + CHUNK - 1)
                found = self._fetched(member, first, end)
                if not found:
                    # Nothing here: on to the next row, however far, for a number may be damaged.
                    end = min(last, self._next(member, end) - 1)
                    found = [_missing(first, end)]
                self._check_blobs(found)
                for place, arrival, proved in found:
                    fault = ""
                    if arrival < arrived:
                        fault = "its row does not stand where it arrived"
                    arrived = max(arrived, arrival)
                    place = self._linked(member, place, damaged_at, proved)
                    if own and place.seq > self.row.head:
                        fault = f"it stands behind event {self.row.head}, the last one known"
                    if fault and not place.fault:
                        place = msgspec.structs.replace(place, fault=fault)
                    if place.broken and not damaged_at:
                        damaged_at = place.seq
                    yield place
                first = end + 1
        if self.row.head > max(self.top, self.row.base):
            yield _missing(max(self.top, self.row.base) + 1, self.row.head)[0]

    def directory(self) -> str:
        """What is wrong with the session's row in the directory, once all places were seen."""
        row, found = self.row, self._found
        if found is None or found[1] != row.id or found[14] != self._log.tenant:
            return "its row in the directory names another session"
        try:
            directory.row_of(found)
        except Damaged as error:
            return str(error)
        if not directory.fits(self._log.tenant, found):
            return "the check number of its row in the directory does not fit"
        if self._at_head and row.digest not in self._at_head:
            return f"the directory names another digest for its head, event {row.head}"
        if (row.owner is None) != (row.expires_at is None):
            return "the directory names half a lease"
        if self._touched is not None and row.touched_at != self._touched:
            return "the directory names another time for its last event"
        return ""

    # --- events

    def _fetched(self, member: Member, first: int, last: int) -> list[Found]:
        try:
            with self._log.database.read() as tx:
                sql = _EVENTS.replace("(arrival)", tx.arrival)
                sql = sql.replace("(itself)", tx.itself("events", "events_seq"))
                found = tx.all(sql, (member.sid, first, last))
                columns = [row[4:] for row in found]
                dictionary = dictionaries.of_rows(tx, self._kept, member.sid, columns)
                seen = _packs(tx, member, first, last)
                packed, broken = self._packed(tx, member, seen, first, last)
        except StoreError as error:
            if not _is_damage(error):
                raise
            if first == last:
                return [(Place(seq=first, event=None, broken=str(error)), 0, False)]
            middle = (first + last) // 2
            return [*self._fetched(member, first, middle), *self._fetched(member, middle + 1, last)]
        places: list[Found] = []
        by_id = self._by_id(member, found)
        if any(by_id.get(row[5]) != row[0] for row in found) and self._is_moved(
            member, seen, first, last
        ):
            return self._fetched(member, first, last)
        by_id.update((row[5], row[0]) for row in packed)
        # An index out of order gives more than it was asked for.
        there = [row for row in found if isinstance(row[0], int) and first <= row[0] <= last]
        there += packed
        there.sort(key=_seq)
        for row in there:
            first = _passed(places, broken, first, row[0])
            place, arrived = _place(member, row, dictionary)
            in_pack = len(row) > _WIDTH
            if row[18] == PROVED and not in_pack:
                place = msgspec.structs.replace(place, broken="its row names no packing")
            if place.event is not None and not place.fault and by_id.get(place.event.id) != row[0]:
                place = msgspec.structs.replace(place, fault="its id does not lead to it")
            if row[0] < first:
                place = msgspec.structs.replace(place, fault="it stands in a row and in a pack")
                places.pop()
            places.append((place, arrived, in_pack and row[0] != row[20]))
            first = row[0] + 1
        if there or broken:
            _passed(places, broken, first, last + 1)
        return places

    def _packed(
        self, tx: Transaction, member: Member, seen: Sequence[packs.Place], first: int, last: int
    ) -> tuple[list[Row], list[tuple[int, int, str]]]:
        """What of a range lies in packs: rows as `_EVENTS` gives them, and where none read."""
        found: list[Row] = []
        broken: list[tuple[int, int, str]] = []
        for place in seen:
            start, end = max(first, place.first), min(last, place.last)
            try:
                pack = self._shelf.pack(tx, place.number)
                some = pack.rows(start, end)
                if pack.session != member.id:
                    raise Damaged("it is another session's")
            except Damaged as error:
                broken.append((start, end, str(error)))
                continue
            arrived = pack.arrived[start - pack.first : end - pack.first + 1]
            found += [
                (row[0], at, member.sid, None, *row, pack.first)
                for row, at in zip(some, arrived, strict=True)
            ]
        return found, broken

    def _by_id(self, member: Member, found: Sequence[Row]) -> dict[bytes, int]:
        """Where the index of ids leads."""
        ids = [row[5] for row in found if isinstance(row[5], bytes)]
        try:
            with self._log.database.read() as tx:
                sql = _IDS.replace("(itself)", tx.itself("events", "events_id"))
                return {id: seq for id, seq in tx.among(sql, (member.sid,), ids)}
        except StoreError as error:
            if not _is_damage(error):
                raise
            return {}

    def _is_moved(self, member: Member, seen: Sequence[packs.Place], first: int, last: int) -> bool:
        """True when somebody packed events of a range after these packs of it were seen."""
        try:
            with self._log.database.read() as tx:
                return _packs(tx, member, first, last) != seen
        except StoreError as error:
            if not _is_damage(error):
                raise
            return False

    def _next(self, member: Member, after: int) -> int:
        with self._log.database.read() as tx:
            found = tx.one(_NEXT, (member.sid, after))
            packed = self._edge(tx, _NEXT_PACKED, member.sid, after)
        last = max(self.top, member.last) + 1
        return min(found[0] if found and isinstance(found[0], int) else last, packed or last)

    def _linked(self, member: Member, place: Place, damaged_at: int, proved: bool) -> Place:
        event = place.event
        if event is None:
            self._before = ()
            return place
        broken = place.broken
        linked = False
        digests: list[bytes] = []
        if proved:
            linked = True
        else:
            try:
                head = codec.header(
                    member.id, event.seq, event.id, event.type, event.version, event.flags,
                    event.step, event.source, event.occurred_at, event.recorded_at, event.fence,
                )  # fmt: skip
            except (struct.error, UnicodeEncodeError) as error:
                broken = broken or f"its header cannot be made ({error})"
            else:
                digests = [codec.link(before, head, event.commitment) for before in self._before]
                linked = event.digest in digests
                if not linked:
                    broken = broken or "its digest does not follow from the one before it"
        # Where the digest itself is what was damaged, the next event tells.
        self._before = (event.digest, *(each for each in digests if each != event.digest))[:2]
        if not broken and damaged_at:
            broken = f"it stands behind event {damaged_at}, which is damaged"
        if not broken:
            broken = next(
                (self._bad_blobs[name] for name in place.names if name in self._bad_blobs), ""
            )
        if not broken and not damaged_at:
            self.digest = event.digest
        if event.seq == self.row.head:
            self._at_head = self._before
            if linked and member.sid == self.row.sid:
                self._touched = event.recorded_at
        if (broken, linked) == (place.broken, place.linked):
            return place
        return msgspec.structs.replace(place, broken=broken, linked=linked)

    # --- blobs

    def _check_blobs(self, places: Sequence[Found]) -> None:
        fresh: dict[bytes, None] = {}
        for place, _, _ in places:
            fresh.update((name, None) for name in place.names if name not in self._seen_blobs)
        self._seen_blobs.update(fresh)
        self._at_hand = {}
        self._room = _AT_HAND
        wanted = list(fresh)
        for start in range(0, len(wanted), _AT_ONCE):
            self._check_some(wanted[start : start + _AT_ONCE])

    def _check_some(self, wanted: Sequence[bytes]) -> None:
        try:
            with self._log.database.read() as tx:
                for digest in wanted:
                    self._check_blob(tx, digest)
        except StoreError as error:
            if not _is_damage(error):
                raise
            if len(wanted) == 1:
                self._bad_blobs[wanted[0]] = f"the blob {wanted[0].hex()} does not read: {error}"
                return
            for digest in wanted:
                self._check_some([digest])

    def _check_blob(self, tx: Transaction, digest: bytes) -> None:
        # One by one, as a reader asks: an index out of order may give some what it denies others.
        sql = _BLOB.replace("(itself)", tx.itself("blobs", "blobs_digest"))
        for member in reversed(self.members):
            row = tx.one(sql, (member.sid, digest))
            if row is not None:
                break
        else:
            self._bad_blobs[digest] = f"the blob {digest.hex()} that it cites is missing"
            return
        try:
            if (row[0], row[1]) != (member.sid, digest):
                raise Damaged("its row does not stand where its index leads")
            dictionary = dictionaries.of_blob(tx, self._kept, member.sid, row[1:])
            within = packs.of_blob(tx, row[1:], self._shelf)
            raw = blobs.content(row[1:], self._log.objects, dictionary, within)
        except Damaged as error:
            self._bad_blobs[digest] = f"the blob {digest.hex()} that it cites is damaged: {error}"
            return
        self._room -= len(raw)
        if self._room >= 0:
            self._at_hand[digest] = raw


def directory_damage(log: Log) -> list[Damaged]:
    """What is wrong with rows of the directory that are this tenant's, each naming its session.

    Also those that no listing shows, since they do not read or name another tenant by damage.
    """
    found: list[Damaged] = []
    listed: set[object] = set()
    after = -(2**63)
    while True:
        with log.database.read() as tx:
            some = tx.all(_ROWS, (after,))
        listed.update(row[1] for row in some)
        found += _not_found(log, [row for row in some if row[14] == log.tenant])
        for row in some:
            fits = directory.fits(log.tenant, row)
            if row[14] == log.tenant and not fits:
                found.append(directory.damaged(row, "its check number does not fit"))
            elif row[14] != log.tenant and fits:
                found.append(directory.damaged(row, "it names another tenant"))
            elif fits:
                try:
                    directory.row_of(row)
                except Damaged as error:
                    found.append(error)
        if not some or some[-1][0] <= after:
            break  # the end, or a damaged page that leads back
        after = some[-1][0]
    with log.database.read() as tx:
        indexed = [row[0] for row in tx.all(_INDEXED, (log.tenant,))]
    for id in indexed:
        if isinstance(id, bytes) and id not in listed:
            found.append(
                Damaged(f"the directory's row of session {id.hex()} is missing", session=id.hex())
            )
    return found


def _not_found(log: Log, listed: Sequence[Row]) -> list[Damaged]:
    """Rows that somebody who asks for their id, name or source is not given."""
    lost: list[Row] = []
    with log.database.read() as tx:
        for at, column in ((1, "id"), (2, "name"), (3, "source_id")):
            asked = [row[at] for row in listed if row[at] is not None]
            given = {row[0] for row in tx.among(_BY.format(column), (log.tenant,), asked)}
            lost += [row for row in listed if row[at] is not None and row[0] not in given]
    return [directory.damaged(row, "an index does not lead to it") for row in lost]


def _place(member: Member, row: Row, dictionary: Dictionary | Lost | None) -> tuple[Place, int]:
    seq, arrival, sid, key, *columns = row[:20]
    arrived = arrival if isinstance(arrival, int) else 0
    if (sid, columns[0]) != (member.sid, seq):
        return Place(seq=seq, event=None, broken="its row names another place"), arrived
    try:
        event = rows.event_of(tuple(columns), member.id, dictionary)
        names = rows.named(event.payload) if event.payload is not None else ()
    except (Damaged, msgspec.DecodeError, RecursionError) as error:
        return Place(seq=seq, event=None, broken=str(error)), arrived
    fault = ""
    if len(event.id) != 16 or len(event.digest) != 32 or len(event.commitment) != 32:
        return Place(seq=seq, event=None, broken="an id or a digest in its row is too short"), 0
    if event.salt is not None and len(event.salt) != 16:
        return Place(seq=seq, event=None, broken="the salt in its row is too short"), 0
    if key is not None:
        fault = "its row names a key, and it is not encrypted"
    elif event.payload is None and columns[14] > 0:
        fault = "its row names a packing, and its content is erased"
    elif len(columns[13] or b"") % 32:
        fault = "the list of blobs beside it is no list"
    elif event.payload is not None and set(rows.cites_of(tuple(columns))) != set(names):
        fault = "the blobs listed beside it are not those that it names"
    return Place(seq=seq, event=event, names=names, fault=fault), arrived


def _passed(places: list[Found], broken: list[tuple[int, int, str]], first: int, seq: int) -> int:
    """Note what is missing from `first` on before `seq`; gives the first place not yet told of."""
    while broken and broken[0][0] < seq:
        start, end, why = broken.pop(0)
        start = max(start, first)  # a pack that does not read may claim what has another place
        if end < start:
            continue
        if first < start:
            places.append(_missing(first, start - 1))
        what = why if start == end else f"events {start} to {end} lie in a pack, and {why}"
        places.append((Place(seq=start, event=None, broken=what, linked=False), 0, False))
        first = max(first, end + 1)
    if first < seq:
        places.append(_missing(first, seq - 1))
    return max(first, seq) if first <= seq else first


def _seq(row: Row) -> int:
    seq: int = row[0]
    return seq


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


def _missing(first: int, last: int) -> Found:
    what = "its row is missing"
    if first < last:
        what = f"the rows of events {first} to {last} are missing"
    return Place(seq=first, event=None, broken=what, linked=False), 0, False


def _packs(tx: Transaction, member: Member, first: int, last: int) -> list[packs.Place]:
    return packs.places(tx, member.sid, first, last) if tx.shelf is not None else []


def _is_damage(error: StoreError) -> bool:
    # What the driver says of a medium that fails has no name but the root's.
    return isinstance(error, Damaged) or (type(error) is StoreError and bool(error.__cause__))


def _legible(found: Row) -> SessionRow:
    """As much of a row of the directory as leads to the session's events. Raises Damaged."""
    try:
        return directory.row_of(found)
    except Damaged:
        head = found[4] if isinstance(found[4], int) else 0
        digest = found[5] if isinstance(found[5], bytes) else b""
        name = found[2] if isinstance(found[2], str) else None
        whole = (found[0], found[1], name, None, head, digest.ljust(32, b"\0")[:32], 0, None, None)
        return directory.row_of((*whole, 0, 0, None, found[12], 0))

"""The log: append and read. What was appended is there when the call returns, and never changes.

Sessions are found in the `directory`, written by `append`, read through `rows`; a fork's first
events are its ancestors' rows. Every call names a session by its row or its id, which is looked up
again under the log's tenant.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence

from sawlog.store import dictionaries, directory, packs, rows, snapshots, unproved
from sawlog.store.append import Appended, Appender, Build
from sawlog.store.codec import genesis
from sawlog.store.database import Database, Transaction
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import NewEvent, StoredEvent, Unproved
from sawlog.store.errors import Conflict, Damaged, InvalidEvent, NoSession, quoted
from sawlog.store.events import CORE
from sawlog.store.events.registry import Registry
from sawlog.store.ids import new_id, new_salt
from sawlog.store.lease import Lease, Leases
from sawlog.store.objects import Objects
from sawlog.store.rows import StoredRow
from sawlog.store.snapshots import Snapshot

CHUNK = 512
"""Events that a reading fetches at a time; each time is a transaction of its own."""

Session = SessionRow | bytes


def now() -> int:
    """The time in microseconds UTC."""
    return time.time_ns() // 1000


class Log:
    """One tenant's sessions in a database. Threads may share it."""

    def __init__(
        self,
        database: Database,
        tenant: str = "default",
        *,
        registry: Registry = CORE,
        clock: Callable[[], int] = now,
        make_id: Callable[[], bytes] = new_id,
        make_salt: Callable[[], bytes] = new_salt,
        objects: Objects | None = None,
    ) -> None:
        """Read and write the sessions of `tenant`; clock, ids and salts may be given for tests.

        Large contents go to `objects` where it takes them.
        """
        self.database = database
        self.tenant = directory.checked_name(tenant, "tenant")
        self.registry = registry
        self.leases = Leases(database, tenant, clock)
        self.clock = clock
        self._make_id = make_id
        self.objects = objects
        self._kept = database.dictionaries
        self._appender = Appender(database, tenant, registry, clock, make_id, make_salt, objects)

    # --- the directory

    def session(
        self,
        name: str | None = None,
        *,
        id: bytes | None = None,
        create: bool = False,
        source_id: str | None = None,
    ) -> SessionRow:
        """The session of that name or id; with `create` it is made where it is missing.

        Without name and id, `create` makes a session without a name. Raises NoSession, and
        Conflict when the name belongs to a session of another id.
        """
        if name is not None:
            directory.checked_name(name, "name")
        with self.database.read() as tx:
            found = self._lookup(tx, name, id)
        if found is None and not create:
            raise NoSession(f"there is no session {quoted(name or (id or b'').hex())}")
        if found is None:
            found = self._make(name, id, source_id)
        if found is None:  # another one made it first, and it is theirs and ours
            with self.database.read() as tx:
                found = self._lookup(tx, name, id)
        if found is None:
            raise Conflict(
                f"the name {quoted(name)} belongs to another session than the one asked for"
            )
        return found

    def fork(
        self,
        parent: Session,
        at: int,
        *,
        name: str | None = None,
        id: bytes | None = None,
        source_id: str | None = None,
    ) -> SessionRow:
        """A new session whose events up to `at` are the parent's.

        Its own first event, `session.forked`, is the caller's to append. Raises Conflict when the
        name is taken.
        """
        row = self.get(parent)
        if not 0 <= at <= row.head:
            raise InvalidEvent(f"{at} is no event of the session, which ends at {row.head}")
        digest = self.events(row, [at])[0].digest if at else genesis(self.lineage(row)[0][0])
        child = self._make(name, id, source_id, (row, at, digest))
        if child is None:
            raise Conflict(
                f"a session of that name or id is there already: {quoted(name or id)}; choose "
                "another name"
            )
        return child

    def get(self, session: Session) -> SessionRow:
        """The session's row as it is now. Raises NoSession."""
        with self.database.read() as tx:
            return directory.get(tx, self.tenant, _id(session))

    def find(self, text: str) -> list[SessionRow]:
        """The session of that name; else all whose id in hex begins with the text."""
        if not directory.is_name(text):
            return []
        with self.database.read() as tx:
            return directory.matching(tx, self.tenant, text)

    def named(self, text: str) -> SessionRow:
        """The one session of that name, id or beginning of an id; `-` is the newest.

        Raises NoSession when none or several are meant.
        """
        if text == "-":
            rows = self.sessions()
            if not rows:
                raise NoSession(
                    "this store holds no session yet: `sawlog import PATH` brings some in"
                )
            return rows[-1]
        found = self.find(text)
        if not found:
            raise NoSession(f"no session is named {quoted(text)}: `sawlog ls` lists them")
        if len(found) > 1:
            raise NoSession(
                f"{quoted(text)} begins the ids of {len(found)} sessions: write more of it"
            )
        return found[0]

    def sessions(self) -> list[SessionRow]:
        """All sessions, oldest first."""
        with self.database.read() as tx:
            return directory.everyone(tx, self.tenant)

    def by_source(self, source_id: str) -> list[SessionRow]:
        """The sessions that were imported under that source id, oldest first."""
        if not directory.is_name(source_id):
            return []
        with self.database.read() as tx:
            return directory.by_source(tx, self.tenant, source_id)

    def lineage(self, session: Session) -> list[tuple[bytes, int]]:
        """Whose events the session's are: (session id, last seq), the oldest ancestor first."""
        with self.database.read() as tx:
            row = directory.get(tx, self.tenant, _id(session))
            ids = directory.ids(tx, [sid for sid, _ in row.ancestors])
            line = [(ids[sid], last) for sid, last in row.ancestors]
        return [*line, (row.id, row.head)]

    # --- append

    def append(
        self,
        session: Session,
        events: Sequence[NewEvent] = (),
        *,
        expected_seq: int | None = None,
        lease: Lease | None = None,
        build: Build | None = None,
    ) -> Appended:
        """Append a batch durably, or raise with nothing written.

        Ids that are all known, in order and with the same content, give their first seqs.
        `expected_seq` is the head that the caller believes in. `build` is called inside the
        transaction with the session's Tail; what it gives is appended behind `events`. Raises
        Conflict, Leased, Fenced, InvalidEvent, NoSession, and what `Database.write` raises.
        """
        return self._appender.append(_id(session), events, expected_seq, lease, build)

    # --- read

    def read(
        self, session: Session, after: int = 0, upto: int | None = None
    ) -> Iterator[StoredEvent]:
        """The events after `after`, up to `upto` or to the end as it is now, in order.

        Raises Damaged at a row that is missing or broken.
        """
        row = self.get(session)
        for sid, first, last in row.segments(after, row.head if upto is None else upto):
            for start in range(first, last + 1, CHUNK):
                end = min(last, start + CHUNK - 1)
                with self.database.read() as tx:
                    found = rows.in_range(tx, sid, start, end, row.id)
                    dictionary = dictionaries.of_rows(tx, self._kept, sid, found)
                for each in found:
                    yield rows.event_of(each, row.id, dictionary)

    def stored(
        self, session: Session, after: int = 0, upto: int | None = None
    ) -> Iterator[StoredRow]:
        """The same places with the blobs that each cites, and damage named instead of raised."""
        row = self.get(session)
        for sid, first, last in row.segments(after, row.head if upto is None else upto):
            for start in range(first, last + 1, CHUNK):
                yield from self._stored(row, sid, start, min(last, start + CHUNK - 1))

    def _stored(self, row: SessionRow, sid: int, first: int, last: int) -> list[StoredRow]:
        try:
            with self.database.read() as tx:
                found = rows.in_range(tx, sid, first, last, row.id)
                dictionary = dictionaries.of_rows(tx, self._kept, sid, found)
            return [
                StoredRow(
                    seq=each[0],
                    event=rows.event_of(each, row.id, dictionary),
                    cites=rows.cites_of(each),
                )
                for each in found
            ]
        except Damaged as error:
            if first == last:
                return [StoredRow(seq=first, event=None, damage=error)]
            return [
                place
                for seq in range(first, last + 1)
                for place in self._stored(row, sid, seq, seq)
            ]

    def events(self, session: Session, seqs: Sequence[int]) -> list[StoredEvent]:
        """The events of those seqs, in the order asked for. Raises Damaged for one missing."""
        with self.database.read() as tx:
            row = directory.get(tx, self.tenant, _id(session))
            found: dict[int, StoredEvent] = {}
            for sid, first, last in row.segments(0, row.head):
                wanted = [seq for seq in seqs if first <= seq <= last]
                some = rows.among(tx, sid, wanted)
                dictionary = dictionaries.of_rows(tx, self._kept, sid, some)
                for each in some:
                    found[each[0]] = rows.event_of(each, row.id, dictionary)
        for seq in seqs:
            if seq not in found:
                if not 1 <= seq <= row.head:
                    raise IndexError(f"{seq} is no event of the session, which ends at {row.head}")
                raise rows.damaged(row.id, seq, "its row is missing")
        return [found[seq] for seq in seqs]

    def contents(
        self,
        session: Session,
        after: int = 0,
        upto: int | None = None,
        wanted: Callable[[str, int], bool] | None = None,
    ) -> list[Unproved]:
        """The events of that range as content, in order; of the types and versions wanted alone.

        For who shows them and proves nothing. Raises Damaged at one that is missing or broken.
        """
        found: list[Unproved] = []
        with self.database.read() as tx:
            row = directory.get(tx, self.tenant, _id(session))
            for sid, first, last in row.segments(after, row.head if upto is None else upto):
                found += unproved.between(tx, self._kept, sid, first, last, row.id, wanted)
        return found

    def newest_step(self, session: Session, after: int, upto: int) -> int | None:
        """The largest step among the session's events of that range, which is not empty.

        None unless each has a row of the session's own that says it: then they are to be read.
        """
        with self.database.read() as tx:
            row = directory.get(tx, self.tenant, _id(session))
            if after < row.base:
                return None
            return unproved.newest_step(tx, row.sid, after + 1, upto)

    def contents_of(self, session: Session, seqs: Sequence[int]) -> list[Unproved]:
        """The events of those seqs as content, in no order; one that is missing is left out."""
        found: list[Unproved] = []
        with self.database.read() as tx:
            row = directory.get(tx, self.tenant, _id(session))
            for sid, first, last in row.segments(0, row.head):
                wanted = [seq for seq in seqs if first <= seq <= last]
                found += unproved.among(tx, self._kept, sid, wanted, row.id)
        return found

    def by_event_id(self, session: Session, id: bytes) -> StoredEvent | None:
        """The event of that id on the session's branch, if any."""
        with self.database.read() as tx:
            row = directory.get(tx, self.tenant, _id(session))
            for sid, last in (*row.ancestors, (row.sid, row.head)):
                for found in rows.by_ids(tx, sid, [id]):
                    if found[0] <= last:
                        dictionary = dictionaries.of_rows(tx, self._kept, sid, [found])
                        return rows.event_of(found, row.id, dictionary)
        return None

    # --- blobs

    def blobs(self, session: Session, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Raw bytes by digest, of those that the session or an ancestor holds.

        Raises Damaged when bytes do not fit their digest.
        """
        with self.database.read() as tx:
            row = directory.get(tx, self.tenant, _id(session))
            sids = _sids(row)
            shelf = packs.shelf_of(tx.shelf)
            found = shelf.texts(tx, sids, digests) if shelf is not None else {}
            left = [digest for digest in digests if digest not in found]
            if left:
                found |= dictionaries.contents(tx, self._kept, sids, left, row.id, self.objects)
            return found

    def blob(self, session: Session, digest: bytes) -> bytes | None:
        """A blob's raw bytes; None when neither the session nor an ancestor holds it."""
        return self.blobs(session, [digest]).get(digest)

    # --- snapshots

    def snapshot_put(
        self, session: Session, seq: int, chain: bytes, *, fold: int, layout: int, data: bytes
    ) -> None:
        """Keep a state of the fold at one of the session's own events, or replace it."""
        digest = hashlib.sha256(data).digest()
        snapshot = Snapshot(
            seq=seq, chain=chain, fold=fold, layout=layout, digest=digest, data=data
        )
        with self.database.write() as tx:
            snapshots.put(tx, directory.get(tx, self.tenant, _id(session)), snapshot)

    def snapshot_get(
        self, session: Session, *, fold: int, layout: int, upto: int | None = None
    ) -> Snapshot | None:
        """The newest sound snapshot at or before `upto`, on the session's branch."""
        with self.database.read() as tx:
            row = directory.get(tx, self.tenant, _id(session))
            return snapshots.newest(tx, row, fold, layout, row.head if upto is None else upto)

    def snapshot_drop(self, session: Session, after: int = 0, upto: int | None = None) -> int:
        """Delete the session's own snapshots after `after`, up to `upto`; gives their number."""
        with self.database.write() as tx:
            row = directory.get(tx, self.tenant, _id(session))
            return snapshots.drop(tx, row, after, row.head if upto is None else upto)

    # --- within

    def _lookup(self, tx: Transaction, name: str | None, id: bytes | None) -> SessionRow | None:
        if id is None:
            return None if name is None else directory.by_name(tx, self.tenant, name)
        try:
            found = directory.get(tx, self.tenant, id)
        except NoSession:
            return None
        if name is not None and found.name != name:
            raise Conflict(f"session {id.hex()} is there, and its name is not {quoted(name)}")
        return found

    def _make(
        self,
        name: str | None,
        id: bytes | None,
        source_id: str | None,
        fork: tuple[SessionRow, int, bytes] | None = None,
    ) -> SessionRow | None:
        """The new row; None when another session has the name or the id."""
        made = id or self._make_id()
        if len(made) != 16:
            raise InvalidEvent("a session id has 16 bytes", path="id")
        if name is not None:
            directory.checked_name(name, "name")
        if source_id is not None:
            directory.checked_name(source_id, "source_id")
        with self.database.write() as tx:
            new = directory.insert(
                tx,
                self.tenant,
                made,
                name=name,
                source_id=source_id,
                now=self.clock(),
                fork=fork,
            )
            return directory.get(tx, self.tenant, made) if new else None


def _id(session: Session) -> bytes:
    return session if isinstance(session, bytes) else session.id


def _sids(row: SessionRow) -> list[int]:
    return [row.sid, *(sid for sid, _ in reversed(row.ancestors))]

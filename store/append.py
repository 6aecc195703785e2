"""Append: a batch of events becomes the next part of a session, in one transaction, or nothing.

The order is that of the stored format: payloads, repeated ids, lease, expected seq; then blobs,
events, head. Whoever appends the same ids again is told where they are. Once enough of a session
stands in rows of its own, the append that brought the last of it packs the older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sawlog.store import blobs, dictionaries, directory, rows
from sawlog.store.codec import commit, header, link, prepare
from sawlog.store.database import Database, Row, Transaction
from sawlog.store.dictionary import Dictionary, Kept, Lost
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import NewEvent, Prepared, StoredEvent
from sawlog.store.errors import Conflict, InvalidEvent
from sawlog.store.events.registry import Registry
from sawlog.store.lease import Lease, fenced, is_live, leased
from sawlog.store.objects import Objects
from sawlog.store.packing import Packer

_REMEMBERED = 10_000
"""Sessions, and blobs, that a handle remembers."""


class Appended(msgspec.Struct, frozen=True):
    """What an append did: the seq of each event of the batch, in its order.

    `head` and `digest` are the session's afterwards; `new` is the number of events that were not
    there before, which is all or none, and `times` is when those occurred, as the log says it.
    """

    seqs: tuple[int, ...]
    head: int
    digest: bytes
    new: int
    times: tuple[int, ...] = ()


class Tail(msgspec.Struct, frozen=True):
    """What `build` is given: the session, kept from others, and the batch's events before it.

    Events up to `session.head` can be read from the log; `pending` come after them.
    """

    session: SessionRow
    pending: tuple[StoredEvent, ...]


Build = Callable[[Tail], Sequence[NewEvent]]


class Appender:
    """Appends to one tenant's sessions."""

    def __init__(
        self,
        database: Database,
        tenant: str,
        registry: Registry,
        clock: Callable[[], int],
        make_id: Callable[[], bytes],
        make_salt: Callable[[], bytes],
        objects: Objects | None = None,
    ) -> None:
        self._database = database
        self._objects = objects
        self._tenant = tenant
        self._registry = registry
        self._clock = clock
        self._make_id = make_id
        self._make_salt = make_salt
        self._packer = Packer(database)
        self._written: set[tuple[bytes, bytes]] = set()
        self._seen: dict[bytes, SessionRow] = {}
        self._shared: set[bytes] = set()

    def append(
        self,
        session: bytes,
        events: Sequence[NewEvent],
        expected_seq: int | None,
        lease: Lease | None,
        build: Build | None,
    ) -> Appended:
        """Append a batch; see `Log.append`."""
        batch = self._prepared(events)
        seen = self._seen.get(session)
        packed = self._packed(session, batch)
        chain = None
        if batch and build is None and seen is not None:
            chain = self._at_once(seen, events, batch, packed, expected_seq, lease)
        if chain is None:
            with self._database.write() as tx:
                row = directory.hold(tx, self._tenant, session)
                if row == seen:
                    self._shared.discard(session)  # nobody else has written since
                first = _repeated(tx, self._database.dictionaries, row, batch)
                if first:
                    return Appended(first, row.head, row.digest, 0)
                chain = self._admitted(tx, row, batch, build is None, expected_seq, lease)
                chain.extend(batch)
                if build is not None:
                    built = self._prepared(build(Tail(row, chain.pending())))
                    if _repeated(tx, self._database.dictionaries, row, built):
                        raise Conflict("what was built inside the append is already in the log")
                    packed |= self._packed(session, built)
                    batch += built
                    chain.extend(built)
                if not batch:
                    return Appended((), row.head, row.digest, 0)
                self._write(tx, chain, batch, packed)
        self._remember(session, chain, packed)
        return Appended(
            tuple(range(chain.row.head + 1, chain.head + 1)),
            chain.head,
            chain.digest,
            len(batch),
            tuple([event.occurred_at for event in batch]),
        )

    def _at_once(
        self,
        row: SessionRow,
        events: Sequence[NewEvent],
        batch: list[Prepared],
        packed: blobs.Contents,
        expected_seq: int | None,
        lease: Lease | None,
    ) -> Chain | None:
        """Append on the strength of the row that this handle saw last, if it still stands.

        None when it does not, or when there is anything to decide: then nothing was written, and
        the long way finds out what. The statement that moves the head proves the row, the index
        of ids that nothing is repeated.
        """
        session = row.id
        if session in self._shared or (expected_seq is not None and expected_seq != row.head):
            return None
        if lease is None:
            if row.owner is not None and not all(event.open for event in batch):
                return None
        elif lease.token != row.fence or row.owner is None or lease.session != session:
            return None
        # Ids that were made here are new; one that was given may stand in a pack.
        given: list[bytes] = []
        for new, event in zip(events, batch, strict=True):
            if new.id is not None or new.key is not None:
                given.append(event.id)
            for digest in event.cites:
                if digest not in packed:
                    return None  # a blob that should be in the session: the long way looks
        if given and row.ancestors:
            return None  # ancestors' ids stand in other rows
        chain = Chain(row, self._clock(), 0 if lease is None else lease.token)
        chain.extend(batch)
        contents = blobs.insertable(row.sid, packed) if packed else []
        if self._database.append_at_once(session, chain.moves(), chain.rows, contents, given):
            return chain
        self._shared.add(session)
        return None

    def _admitted(
        self,
        tx: Transaction,
        row: SessionRow,
        batch: list[Prepared],
        complete: bool,
        expected_seq: int | None,
        lease: Lease | None,
    ) -> Chain:
        """The chain to link to, if lease and expected seq allow it. Raises as `Log.append`."""
        ends = False
        if lease is not None:
            if lease.session != row.id or lease.token != row.fence or row.owner is None:
                raise fenced(row)
        elif row.owner is not None and not (complete and all(event.open for event in batch)):
            if is_live(row, tx.now(self._clock)):
                raise leased(row)
            ends = True
        if expected_seq is not None and expected_seq != row.head:
            raise Conflict(
                f"session {row.name or row.id.hex()} is at event {row.head}, "
                f"not {expected_seq}: read what came and try again",
                expected=expected_seq,
                actual=row.head,
            )
        return Chain(row, self._clock(), lease.token if lease else 0, ends)

    def _prepared(self, events: Sequence[NewEvent]) -> list[Prepared]:
        now = self._clock()
        registry, make_id, make_salt = self._registry, self._make_id, self._make_salt
        batch = [prepare(event, registry, now, make_id, make_salt) for event in events]
        if len(batch) > 1 and len({event.id for event in batch}) != len(batch):
            raise InvalidEvent("two events of one batch have the same id", path="id")
        return batch

    # --- packing

    def _packed(self, session: bytes, batch: list[Prepared]) -> blobs.Contents:
        # Packing takes longer than the rest, so it is done before the store is locked, and not
        # for what this handle wrote before.
        packed: blobs.Contents = {}
        for event in batch:
            for blob in event.blobs:
                digest = blob.digest
                if digest not in packed and (session, digest) not in self._written:
                    packed[digest] = len(blob.data), self._put(session, digest, blob.data)
        return packed

    def _put(self, session: bytes, digest: bytes, data: bytes) -> blobs.Packed:
        if self._objects is not None:
            taken = blobs.elsewhere(self._objects, session, digest, data)
            if taken is not None:
                return taken
        return blobs.pack(data)

    def _write(
        self, tx: Transaction, chain: Chain, batch: list[Prepared], packed: blobs.Contents
    ) -> None:
        row = chain.row
        contents = blobs.insertable(row.sid, self._contents(tx, row, batch, packed))
        if contents:
            tx.run_many(blobs.INSERT, contents)
        tx.run_many(rows.INSERT, chain.rows)
        move, values = rows.MOVE, chain.moves()
        if chain.ends_lease:
            move = rows.MOVE_AND_END_LEASE
            values = (*values[:3], directory.crc(self._tenant, chain.after()), *values[3:])
        if tx.run(move, values) != 1:
            raise Conflict("the session's head moved under this append: try again")
        tx.written += sum(len(each[-1]) for each in (*chain.rows, *contents))

    def _contents(
        self,
        tx: Transaction,
        row: SessionRow,
        batch: list[Prepared],
        packed: blobs.Contents,
    ) -> blobs.Contents:
        """The blobs that the batch cites and its session lacks. Raises InvalidEvent."""
        cited = {digest: None for event in batch for digest in event.cites}
        given = {blob.digest: blob.data for event in batch for blob in event.blobs}
        missing = blobs.absent(tx, (row.sid,), cited) if cited else set[bytes]()
        new = {
            digest: packed.get(digest) or (len(data), self._put(row.id, digest, data))
            for digest, data in given.items()
            if digest in missing
        }
        unknown = missing.difference(new)
        if unknown:
            ancestors = [sid for sid, _ in row.ancestors]
            for digest in sorted(blobs.absent(tx, ancestors, unknown)):
                raise InvalidEvent(
                    f"blob {digest.hex()} is neither with the event nor in its session",
                    path="blobs",
                )
        return new

    def _remember(self, session: bytes, chain: Chain, packed: blobs.Contents) -> None:
        if packed:
            if len(self._written) > _REMEMBERED:
                self._written.clear()
            self._written.update((session, digest) for digest in packed)
        if len(self._seen) > _REMEMBERED:
            self._seen.clear()
            self._shared.clear()
        self._seen[session] = after = chain.after()
        size = chain.size
        for each, _ in packed.values():
            size += each
        self._packer.grown(after, size)


class Chain:
    """The rows of a batch, each linked to the one before."""

    def __init__(
        self, row: SessionRow, recorded_at: int, fence: int, ends_lease: bool = False
    ) -> None:
        self.row = row
        self.head = row.head
        self.digest = row.digest
        self.rows: list[tuple[Any, ...]] = []
        self._recorded_at = recorded_at
        self._fence = fence
        self.ends_lease = ends_lease
        self.size = 0
        """The bytes of its payloads."""
        self._events: list[Prepared] = []

    def extend(self, batch: list[Prepared]) -> None:
        """Link more events."""
        session, sid = self.row.id, self.row.sid
        fence, recorded_at = self._fence, self._recorded_at
        seq, digest = self.head, self.digest
        for event in batch:
            seq += 1
            (
                id, type, version, flags, step, source, occurred_at, payload, salt, cites
            ) = (
                event.id, event.type, event.version, event.flags, event.step, event.source,
                event.occurred_at, event.payload, event.salt, event.cites,
            )  # fmt: skip
            head = header(
                session, seq, id, type, version, flags, step, source, occurred_at, recorded_at,
                fence,
            )  # fmt: skip
            digest = link(digest, head, commit(salt, payload))
            self.size += len(payload)
            codec, data = blobs.pack(payload)
            self.rows.append(
                (
                    sid, seq, id, type, version, flags, step, source, occurred_at, recorded_at,
                    fence, salt, digest, b"".join(cites) if cites else None, codec, data,
                )
            )  # fmt: skip
        self.head, self.digest = seq, digest
        self._events += batch

    def moves(self) -> tuple[Any, ...]:
        """The values of the statement that moves the session's head to the end of the chain."""
        row = self.row
        return self.head, self.digest, self._recorded_at, row.sid, row.head, row.fence

    def after(self) -> SessionRow:
        """The session's row as the move left it."""
        moved = msgspec.structs.replace(
            self.row, head=self.head, digest=self.digest, touched_at=self._recorded_at
        )
        if not self.ends_lease:
            return moved
        return msgspec.structs.replace(moved, fence=moved.fence + 1, owner=None, expires_at=None)

    def pending(self) -> tuple[StoredEvent, ...]:
        """The linked events as they will be read."""
        return tuple(
            StoredEvent(
                seq=row[1],
                id=event.id,
                type=event.type,
                version=event.version,
                flags=event.flags,
                step=event.step,
                source=event.source,
                occurred_at=event.occurred_at,
                recorded_at=self._recorded_at,
                fence=self._fence,
                salt=event.salt,
                commitment=commit(event.salt, event.payload),
                digest=row[12],
                payload=event.payload,
            )
            for event, row in zip(self._events, self.rows, strict=True)
        )


# --- repeated ids


def _repeated(
    tx: Transaction, kept: Kept, row: SessionRow, batch: list[Prepared]
) -> tuple[int, ...]:
    """The first seqs of a batch that is known; () for one that is new. Raises Conflict."""
    ids = [event.id for event in batch]
    if not ids:
        return ()
    found: dict[bytes, tuple[Row, Dictionary | Lost | None]] = {}
    for sid, last in (*row.ancestors, (row.sid, row.head)):
        some = rows.by_ids(tx, sid, ids)
        dictionary = dictionaries.of_rows(tx, kept, sid, some)
        found.update((stored[1], (stored, dictionary)) for stored in some if stored[0] <= last)
    if not found:
        return ()
    if len(found) < len(ids):
        known = next(at for at, id in enumerate(ids) if id in found)
        raise Conflict(
            f"event {ids[known].hex()} of this batch is already in the log and others are not: "
            "a batch is all new or all known"
        )
    seqs: list[int] = []
    for event in batch:
        stored, dictionary = found[event.id]
        first = rows.event_of(stored, row.id, dictionary)
        if not _same(event, first):
            raise Conflict(
                f"event {event.id.hex()} is already in the log at {first.seq}, with another "
                "content: an id names one event"
            )
        seqs.append(first.seq)
    if seqs != sorted(seqs):
        raise Conflict(f"these events are already in the log in another order, at {seqs}")
    return tuple(seqs)


class _Redacted(msgspec.Struct):
    number: int


class _Any(msgspec.Struct):
    redacted: _Redacted | None = None


_redacted_of = msgspec.json.Decoder(_Any).decode


def _same(event: Prepared, stored: StoredEvent) -> bool:
    if event.type != stored.type or event.source != stored.source:
        return False
    if stored.payload is None:
        return True  # erased: id, type and source are all that can be compared
    if event.payload != stored.payload:
        # Redacted under another rule set, the same content reads differently; the first is kept.
        first = _redacted_of(stored.payload).redacted
        if (first.number if first else None) != event.redacted:
            return True
        return False
    return (
        event.version == stored.version
        and event.flags == stored.flags
        and (not event.step_given or event.step == stored.step)
        and (not event.occurred_given or event.occurred_at == stored.occurred_at)
    )

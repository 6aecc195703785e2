"""Putting events that are linked already into a store, with their own ids, salts, times and fences.

This is the one way into the log beside append. The caller has proved the chain; here it is joined
to what the store holds, in one transaction: sessions that are missing are made, those that are
there must agree as far as both reach, and what is new stands behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from sawlog.store import blobs, directory, rows
from sawlog.store.codec import genesis
from sawlog.store.database import Transaction
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import StoredEvent
from sawlog.store.errors import Conflict, Damaged
from sawlog.store.exported import Content
from sawlog.store.incoming import Branch, Stem
from sawlog.store.lease import is_live, leased
from sawlog.store.log import Log

_INSERT = (
    "INSERT INTO sawlog.events (sid, seq, id, type, version, flags, step, source, occurred_at, "
    "recorded_at, fence, salt, commitment, digest, cites, codec, payload) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_MOVE = (
    "UPDATE sawlog.sessions SET name = ?, head = ?, digest = ?, fence = ?, owner = ?, "
    "expires_at = ?, touched_at = ?, crc = ? WHERE sid = ? AND head = ? AND fence = ?"
)

_ROWS = 256
_BYTES = 1 << 20
_TRIES = 5

Entries = Iterable[StoredEvent | Content]
"""The events of a branch in order, each blob before the first event that cites it."""


class _Raced(Exception):
    """Somebody made a session between our look and our writing: begin again."""


def graft(log: Log, branch: Branch, entries: Callable[[], Entries]) -> SessionRow:
    """Put a branch into the log's store and give its session's row.

    `entries` is called for each try. Raises Conflict, Leased, Damaged for what cannot be joined,
    and what `Database.write` raises; then nothing was written.
    """
    for _ in range(_TRIES):
        try:
            with log.database.write() as tx:
                return _Graft(log, tx, branch).run(entries())
        except _Raced:
            continue
    raise Conflict("others kept making the sessions that this file holds: try again")


class _Place:
    """A session of the branch in this store."""

    def __init__(self, stem: Stem, first: int, row: SessionRow, made: bool) -> None:
        self.stem = stem
        self.first = first
        self.row = row
        self.made = made
        self.end = row.head
        self.digest = row.digest
        self.fence = row.fence
        self.touched_at = row.touched_at


class _Graft:
    def __init__(self, log: Log, tx: Transaction, branch: Branch) -> None:
        self._log = log
        self._tx = tx
        self._branch = branch
        self._places: list[_Place] = []
        self._must_be: dict[int, list[tuple[bytes, _Place]]] = {}
        self._waiting: list[tuple[Any, ...]] = []
        self._bytes = 0
        self._brought: set[bytes] = set()
        self._elsewhere: set[bytes] = set()

    def run(self, entries: Entries) -> SessionRow:
        """Join the branch to what is there."""
        for stem in self._branch.stems:
            self._tx.take_turn(stem.id)
        found = self._found()
        first = 1
        for stem, row in zip(self._branch.stems, found, strict=True):
            place = _Place(stem, first, row or self._made(stem), row is None)
            self._places.append(place)
            if row is not None:
                self._agree(place)
            first = stem.last + 1
        self._fill(entries)
        for place in self._places:
            self._settle(place)
        return directory.get(self._tx, self._log.tenant, self._branch.stems[-1].id)

    # --- the directory

    def _found(self) -> list[SessionRow | None]:
        # Rows are locked only after all turns are taken, so that what is written is given its
        # place in the order of arrival when nobody else can append any more.
        found: list[SessionRow | None] = []
        for stem in self._branch.stems:
            there = self._tx.one(directory.BY_ID, (self._log.tenant, stem.id)) is not None
            found.append(directory.hold(self._tx, self._log.tenant, stem.id) if there else None)
        return found

    def _made(self, stem: Stem) -> SessionRow:
        is_last = stem is self._branch.stems[-1]
        name = self._branch.name if is_last else None
        if name is not None:
            self._check_name(name)
        fork = None
        if self._places:
            parent = self._places[-1]
            grown = msgspec.structs.replace(parent.row, head=max(parent.row.head, parent.stem.last))
            fork = (grown, parent.stem.last, parent.stem.digest)
        made = directory.insert(
            self._tx,
            self._log.tenant,
            stem.id,
            name=name,
            source_id=self._branch.source_id if is_last else None,
            now=self._log.clock(),
            fork=fork,
        )
        if not made:
            raise _Raced
        return directory.hold(self._tx, self._log.tenant, stem.id)

    def _check_name(self, name: str) -> None:
        other = directory.by_name(self._tx, self._log.tenant, name)
        if other is not None:
            raise Conflict(
                f"the name {name!r} belongs to session {other.id.hex()}: "
                "give the one that comes in another name"
            )

    def _agree(self, place: _Place) -> None:
        """Note what the file must say at the last event that both it and the store hold."""
        row, at = place.row, min(place.row.head, place.stem.last)
        if at < place.first - 1:
            raise self._contradicts(place, at + 1)
        if at == row.head:
            digest = row.digest
        elif at == 0:
            digest = genesis(self._branch.stems[0].id)
        else:
            sid = next(sid for sid, first, last in row.segments(0, row.head) if first <= at <= last)
            stored = rows.digest_at(self._tx, sid, at)
            if stored is None:
                raise rows.damaged(row.id, at, "its row is missing")
            digest = stored
        self._must_be.setdefault(at, []).append((digest, place))
        if at == 0 and digest != genesis(self._branch.stems[0].id):
            raise self._contradicts(place, 1)

    def _contradicts(self, place: _Place, seq: int) -> Conflict:
        return Conflict(
            f"session {place.stem.id.hex()} is there with other events at or before {seq}: "
            "nothing of the file was stored"
        )

    def _settle(self, place: _Place) -> None:
        row = place.row
        name = row.name
        if name is None and place is self._places[-1] and self._branch.name is not None:
            name = self._branch.name
            self._check_name(name)
        if place.end == row.head and name == row.name:
            return
        owner, expires_at, fence = row.owner, row.expires_at, place.fence
        if place.end > row.head and owner is not None:
            owner, expires_at, fence = None, None, max(fence, row.fence + 1)
        after = msgspec.structs.replace(
            row,
            name=name,
            head=place.end,
            digest=place.digest,
            fence=fence,
            owner=owner,
            expires_at=expires_at,
            touched_at=place.touched_at,
        )
        values = (
            name, after.head, after.digest, fence, owner, expires_at, after.touched_at,
            directory.crc(self._log.tenant, after), row.sid, row.head, row.fence,
        )  # fmt: skip
        if self._tx.run(_MOVE, values) != 1:
            raise Conflict("the session's head moved while the file came in: try again")

    # --- the rows

    def _fill(self, entries: Entries) -> None:
        at = 0
        seq = 0
        for entry in entries:
            if isinstance(entry, StoredEvent):
                seq = entry.seq
            while (seq if isinstance(entry, StoredEvent) else seq + 1) > self._places[at].stem.last:
                self._flush(self._places[at])
                at += 1
            place = self._places[at]
            if isinstance(entry, StoredEvent):
                self._event(place, entry)
            elif seq >= place.row.head:
                self._blob(place, entry)
        self._flush(self._places[at])
        missing = self._elsewhere - self._brought
        sids = [place.row.sid for place in self._places]
        for digest in sorted(blobs.absent(self._tx, sids, missing)):
            raise Conflict(
                f"the file counts on blob {digest.hex()}, which this store had with events that "
                "it shares with the file, and has no longer"
            )

    def _event(self, place: _Place, event: StoredEvent) -> None:
        for digest, where in self._must_be.get(event.seq, ()):
            if digest != event.digest:
                raise self._contradicts(where, event.seq)
        if event.seq <= place.row.head:
            return
        if not place.made and place.end == place.row.head:
            self._may_grow(place)
        names = rows.named(event.payload) if event.payload is not None else ()
        self._elsewhere.update(names)
        packing, payload = 0, None
        if event.payload is not None:
            packing, payload = blobs.pack(event.payload)
        self._waiting.append(
            (
                place.row.sid, event.seq, event.id, event.type, event.version, event.flags,
                event.step, event.source, event.occurred_at, event.recorded_at, event.fence,
                event.salt, None if event.salt else event.commitment, event.digest,
                b"".join(names) or None, packing, payload,
            )
        )  # fmt: skip
        self._bytes += len(payload or b"") + 256
        place.end, place.digest = event.seq, event.digest
        place.touched_at = event.recorded_at
        place.fence = max(place.fence, event.fence)
        if len(self._waiting) >= _ROWS or self._bytes >= _BYTES:
            self._flush(place)

    def _may_grow(self, place: _Place) -> None:
        if is_live(place.row, self._tx.now(self._log.clock)):
            raise leased(place.row)

    def _flush(self, place: _Place) -> None:
        if not self._waiting:
            return
        ids = [row[2] for row in self._waiting]
        again = len(set(ids)) != len(ids)
        for each in self._places:
            taken = rows.by_ids(self._tx, each.row.sid, ids)
            again = again or any(each is place or row[0] <= each.stem.last for row in taken)
            if each is place:
                break
        if again:
            raise Damaged(
                f"an event id stands twice in the file, at or before event {place.end}; nothing "
                "of it was stored",
                session=place.stem.id.hex(),
                seq=place.end,
            )
        self._tx.run_many(_INSERT, self._waiting)
        self._tx.written += self._bytes
        self._waiting.clear()
        self._bytes = 0

    def _blob(self, place: _Place, content: Content) -> None:
        digest, data, objects = content.digest, content.data, self._log.objects
        taken = blobs.elsewhere(objects, place.stem.id, digest, data) if objects else None
        packing = taken or blobs.pack(data)
        packed = blobs.insertable(place.row.sid, {digest: (len(data), packing)})
        self._tx.run_many(blobs.INSERT, packed)
        self._tx.written += len(packed[0][-1])
        self._brought.add(content.digest)

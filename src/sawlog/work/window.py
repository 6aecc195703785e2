"""Contents of one session, read from its store when a packet needs them and kept for the window."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from msgspec.structs import replace

from sawlog.builder.state import Ref
from sawlog.store.codec import cites
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import StoredEvent
from sawlog.store.event import Event, decoded
from sawlog.store.events.base import Payload
from sawlog.store.log import Log

_KEPT = 4 * 1024 * 1024
"""Bytes of blobs that stay beside events that are kept."""

_CITING = b'"blob":"'
"""What stands in the bytes of each event that cites a blob."""


class Window:
    """The builder's contents over a store: what is not at hand is read, in batches where asked."""

    def __init__(self, log: Log, session: SessionRow) -> None:
        self._log = log
        self._session = session
        self._events: dict[int, Event] = {}
        self._blobs: dict[str, bytes] = {}
        # Seqs of events that cite nothing, as their bytes show faster than their contents.
        self._plain: set[int] = set()

    def event(self, seq: int) -> Event:
        """The event of that seq. Raises KeyError when the session has none."""
        found = self._events.get(seq)
        if found is None:
            self._fetch([seq])
            found = self._events[seq]
        return found

    def blob(self, digest: str) -> bytes:
        """The raw bytes of a digest. Raises KeyError when the session does not have it."""
        found = self._blobs.get(digest)
        if found is None:
            raw = bytes.fromhex(digest)
            found = self._log.blobs(self._session, [raw])[raw]  # KeyError: it is not there
            self._blobs[digest] = found
        return found

    def hold(self, events: Iterable[Event], blobs: Iterable[tuple[str, bytes]] = ()) -> None:
        """Keep contents that the caller has anyway."""
        for event in events:
            self._events[event.seq] = event
        self._blobs.update(blobs)

    def read(self, stored: StoredEvent) -> Event:
        """The event of stored bytes, which is kept."""
        event = decoded(stored, self._log.registry)
        self._events[event.seq] = event
        if stored.payload is not None and _CITING not in stored.payload:
            self._plain.add(event.seq)
        return event

    def prefetch(self, refs: Sequence[Ref]) -> None:
        """Read all that these entries need in one go."""
        seqs: dict[int, None] = {}
        for ref in refs:
            if ref.seq and ref.seq not in self._events:
                seqs[ref.seq] = None
            for _, value in ref.args:
                if isinstance(value, int) and value not in self._events:
                    seqs[value] = None
        if seqs:
            self._fetch(list(seqs))
        wanted: dict[bytes, None] = {}
        for seq in dict.fromkeys(ref.seq for ref in refs if ref.seq):
            event = self._events.get(seq)
            if seq in self._plain or event is None or not isinstance(event.content, Payload):
                continue
            for digest in cites(_bare(event.content)):
                if digest.hex() not in self._blobs:
                    wanted[digest] = None
        if wanted:
            found = self._log.blobs(self._session, list(wanted))
            self._blobs.update((digest.hex(), data) for digest, data in found.items())

    def forget(self, keep: Container[int] = (), most: int = 0) -> None:
        """Let go of everything but the newest events among `keep`, at most so many, and, where any
        are kept, some of the newest blobs. What is needed again is read again.
        """
        kept = sorted(seq for seq in self._events if seq in keep)[-most:] if most else []
        self._events = {seq: self._events[seq] for seq in kept}
        self._plain.intersection_update(kept)
        left = _KEPT if kept else 0
        blobs: list[tuple[str, bytes]] = []
        for digest, data in reversed(self._blobs.items()):
            left -= len(data)
            if left < 0:
                break
            blobs.append((digest, data))
        self._blobs = dict(reversed(blobs))

    def _fetch(self, seqs: list[int]) -> None:
        for stored in self._log.events(self._session, seqs):
            self.read(stored)


def _bare(payload: Payload) -> Payload:
    # The line of a foreign record is never shown: its blob is not read for a packet.
    if payload.record is None:
        return payload
    return replace(payload, record=None)

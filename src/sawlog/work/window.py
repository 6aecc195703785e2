"""Contents of one session, read from its store when a packet needs them and kept for the window."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec.structs import replace

from sawlog.builder.state import Ref
from sawlog.store.codec import cites
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import Unproved
from sawlog.store.event import Event, decoded
from sawlog.store.events.base import Payload
from sawlog.store.log import Log

_KEPT = 4 * 1024 * 1024
"""Bytes of blobs that stay beside events that are kept."""

_AT_ONCE = 1_024
"""Events that are read at once with the blobs that they cite, which lie in the same packs."""

_DIGEST = 32


class Window:
    """The builder's contents over a store: what is not at hand is read, in batches where asked."""

    def __init__(self, log: Log, session: SessionRow) -> None:
        self._log = log
        self._session = session
        self._events: dict[int, Event] = {}
        self._blobs: dict[str, bytes] = {}
        # What events cite, as their rows have it: faster to look at than their contents.
        self._cited: dict[int, bytes] = {}

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

    def hold_cited(self, cited: Mapping[int, bytes]) -> None:
        """Keep by seq the joined digests of what packets show of events that the caller has."""
        self._cited.update(cited)

    def read(self, stored: Unproved) -> Event:
        """The event of stored bytes, which is kept."""
        event = decoded(stored, self._log.registry)
        self._events[event.seq] = event
        self._cited[event.seq] = stored.cites
        return event

    def read_all(self, stored: Iterable[Unproved]) -> list[Event]:
        """The same of many."""
        registry, events, cited = self._log.registry, self._events, self._cited
        found: list[Event] = []
        for one in stored:
            seq = one.seq
            event = events[seq] = decoded(one, registry)
            cited[seq] = one.cites
            found.append(event)
        return found

    def prefetch(self, refs: Sequence[Ref]) -> None:
        """Read all that these entries need in one go."""
        seqs: dict[int, None] = {}
        for ref in refs:
            if ref.seq and ref.seq not in self._events:
                seqs[ref.seq] = None
            for _, value in ref.args:
                if isinstance(value, int) and value not in self._events:
                    seqs[value] = None
        missing = list(seqs)
        shown = dict.fromkeys(ref.seq for ref in refs if ref.seq)
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            self._fetch(some)
            self.read_cited(seq for seq in some if seq in shown)
        self.read_cited(shown)

    def read_cited(self, seqs: Iterable[int]) -> None:
        """Read the blobs that events cite which are at hand, in one go."""
        wanted: dict[bytes, None] = {}
        for seq in seqs:
            if self._cited.get(seq) != b"":
                for digest in self._cites(seq):
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
        self._cited = {seq: self._cited[seq] for seq in kept if seq in self._cited}
        left = _KEPT if kept else 0
        blobs: list[tuple[str, bytes]] = []
        for digest, data in reversed(self._blobs.items()):
            left -= len(data)
            if left < 0:
                break
            blobs.append((digest, data))
        self._blobs = dict(reversed(blobs))

    def _fetch(self, seqs: list[int]) -> None:
        self.read_all(self._log.contents_of(self._session, seqs))
        if any(seq not in self._events for seq in seqs):
            self._log.events(self._session, seqs)  # which says what is wrong

    def _cites(self, seq: int) -> Sequence[bytes]:
        event = self._events.get(seq)
        if event is None or not isinstance(event.content, Payload):
            return ()
        joined = self._cited.get(seq)
        if joined is None or event.content.record is not None:
            return cites(_bare(event.content))
        return [joined[at : at + _DIGEST] for at in range(0, len(joined), _DIGEST)]


def _bare(payload: Payload) -> Payload:
    # The line of a foreign record is never shown: its blob is not read for a packet.
    if payload.record is None:
        return payload
    return replace(payload, record=None)

"""The manifests of a session, read one after the other from the log alone, without the fold.

Behind a rewind to before the last packet a manifest builds on an older one: its entries are read
along its bases, for what was forgotten meanwhile is wanted again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from sawlog.builder.manifest import expand
from sawlog.builder.projector import entry_count
from sawlog.builder.state import Ref
from sawlog.builder.vec import Vec
from sawlog.store.event import Event
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.store.events.steps import Keep, PacketBuilt, Run


class Manifests:
    """Reads each manifest against the one before it; a packet that only grows costs what is new."""

    def __init__(self, along: Callable[[PacketBuilt], list[Ref]]) -> None:
        """`along` gives the entries of a packet along its bases, as `Recorded.expanded` does."""
        self._along = along
        self._at = self._listed_at = 0
        self._behind = False
        self._listed: Vec[Ref] = Vec()
        # The events that runs may cover: their seqs in order, and how many entries each has.
        self._seqs: list[int] = []
        self._parts: dict[int, int] = {}

    def see(self, event: Event) -> None:
        """Take note of an event, in the order of the log."""
        if event.shown:
            self._seqs.append(event.seq)
            self._parts[event.seq] = entry_count(event)
        elif type(event.content) is PacketBuilt:
            self._at = event.seq
        elif type(event.content) is HistoryRewound and event.content.to < self._listed_at:
            self._behind = True

    def read(self, packet: PacketBuilt) -> Vec[Ref]:
        """The entries that a packet lists, seen just now. Raises BadManifest."""
        self._listed_at = self._at
        if self._behind:
            self._behind = False
            self._listed = Vec(self._along(packet))
            self._seqs = sorted({*self._seqs, *(ref.seq for ref in self._listed if ref.seq)})
            for ref in self._listed:
                self._parts[ref.seq] = max(ref.part, self._parts.get(ref.seq, 0))
            self._forget()
            return self._listed
        base = self._listed if packet.base else Vec[Ref]()
        parts = packet.parts
        if parts and len(base) and parts[0] == Keep(0, len(base)):
            self._listed = base.extend(expand(parts[1:], base, self._covered(parts[1:])))
        else:
            self._listed = Vec(expand(parts, base, self._covered(parts)))
            self._forget()
        return self._listed

    def _covered(self, parts: tuple[Keep | Run, ...]) -> dict[int, int]:
        """The events from the first on that a run covers whole."""
        plain = [part.first for part in parts if isinstance(part, Run) and not part.part]
        start = bisect_left(self._seqs, min(plain)) if plain else len(self._seqs)
        return {seq: self._parts[seq] for seq in self._seqs[start:]}

    def _forget(self) -> None:
        # No later manifest goes back to before what this one shows, but for what it shows.
        listed = {ref.seq for ref in self._listed}
        floor = min((r.seq for r in self._listed if r.section == "history" and r.seq), default=0)
        self._seqs = [seq for seq in self._seqs if seq >= floor or seq in listed]
        self._parts = {seq: self._parts[seq] for seq in self._seqs}

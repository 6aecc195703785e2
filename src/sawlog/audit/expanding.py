"""The entries of a packet along its manifests, from few readings of its log.

What a packet shows lies close together: its bases are the packets just before it, and what they
show stands between those. So the log is read backwards in large pieces, and of what was read only
packets and shown events are decoded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from sawlog.builder.manifest import expand
from sawlog.builder.projector import entry_count
from sawlog.builder.state import Ref
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import Unproved
from sawlog.store.errors import Damaged, Refused
from sawlog.store.event import Event, decoded
from sawlog.store.events.steps import PacketBuilt, Run
from sawlog.store.log import CHUNK, Log
from sawlog.work.places import PACKETS, is_packet, whole_or_damaged
from sawlog.work.window import Window

_FAR = 4 * CHUNK
"""Events to the next base from which on it is read alone: a rewind may lead anywhere."""

_AT_ONCE = 4 * CHUNK
"""Events that are read at once where all of a range is shown."""

_NEAR = 64
"""Events between two ranges that are read along, for one reading costs more."""


def expanded(packet: PacketBuilt, log: Log, row: SessionRow, window: Window) -> list[Ref]:
    """The entries of a packet, along its manifests down to a full one.

    Shown events that were read are held in the window. Raises BadManifest, Damaged, and Refused
    where a base was erased.
    """
    stretch = _Stretch(log, row, max((packet.base, *(run.last for run in _plain(packet)))))
    chain = [packet]
    while chain[-1].base:
        seq = chain[-1].base
        stored = stretch.event(seq)
        found = decoded(stored, log.registry) if stored is not None else window.event(seq)
        chain.append(packet_of(found))
    shown = _Shown(log, row, window)
    shown.read([(run.first, run.last) for link in chain for run in _plain(link)], stretch)
    refs: list[Ref] = []
    for link in reversed(chain):
        refs = expand(link.parts, refs, shown.known(link))
    return refs


def packet_of(event: Event) -> PacketBuilt:
    """The packet that an event tells of. Raises Refused where its content was erased."""
    if not isinstance(event.content, PacketBuilt):
        raise Refused(
            "blocked", f"the packet of event {event.seq} was erased: it cannot be replayed"
        )
    return event.content


def _plain(packet: PacketBuilt) -> list[Run]:
    """The runs that stand for whole events."""
    return [part for part in packet.parts if isinstance(part, Run) and not part.part]


class _Stretch:
    """Events up to a seq, read backwards as far as is asked for, without a gap."""

    def __init__(self, log: Log, row: SessionRow, top: int) -> None:
        self._log = log
        self._row = row
        self.below = min(top, row.head)
        self._read: list[Unproved | Damaged] = []
        self._seqs: list[int] = []

    def event(self, seq: int) -> Unproved | None:
        """The event of that seq; None for one that is far from what was read, or damaged."""
        while self.below - _FAR < seq <= self.below:
            after = max(0, self.below - CHUNK)
            some = whole_or_damaged(self._log, self._row, after, self.below, self._is_needed)
            self._read[:0] = some
            self._seqs[:0] = [one.seq for one in some]
            self.below = after
        found = self.between(seq, seq)
        return found[0] if found and isinstance(found[0], Unproved) else None

    def between(self, first: int, last: int) -> Sequence[Unproved | Damaged]:
        """What was read of that range: packets, shown events, damage."""
        start = bisect_left(self._seqs, first)
        return self._read[start : bisect_right(self._seqs, last, start)]

    def _is_needed(self, type: str, version: int) -> bool:
        return is_packet(type, version) or self._log.registry.shown(type, version)


class _Shown:
    """The shown events that plain runs cover: where each is, and how many entries it has."""

    def __init__(self, log: Log, row: SessionRow, window: Window) -> None:
        self._log = log
        self._row = row
        self._window = window
        self._parts: dict[int, int] = {}
        self._damage: dict[int, Damaged] = {}
        self._system: set[int] = set()
        self._seqs: list[int] = []

    def read(self, ranges: Sequence[tuple[int, int]], stretch: _Stretch) -> None:
        """Read the ranges, but for what of them was read already."""
        for first, last in _merged(ranges):
            if first <= stretch.below:
                upto = min(last, stretch.below)
                for start in range(first - 1, upto, _AT_ONCE):
                    end = min(upto, start + _AT_ONCE)
                    shown = self._log.registry.shown
                    read = self._take(whole_or_damaged(self._log, self._row, start, end, shown))
                    if upto - first > _AT_ONCE:
                        # Now, while the packs that hold them are at hand.
                        self._window.read_cited(read)
            self._take(stretch.between(first, last))
        self._seqs = sorted(self._parts)

    def _take(self, read: Sequence[Unproved | Damaged]) -> list[int]:
        """Keep the shown ones of what was read; gives their seqs."""
        shown: list[Unproved] = []
        for stored in read:
            if isinstance(stored, Damaged):
                self._damage[stored.seq] = stored
            elif stored.type not in PACKETS:  # nothing else was read that is not shown
                shown.append(stored)
                if stored.type == "message.system":
                    self._system.add(stored.seq)
        events = self._window.read_all(shown)
        seqs = [event.seq for event in events]
        self._parts.update(zip(seqs, map(entry_count, events), strict=True))
        return seqs

    def known(self, packet: PacketBuilt) -> dict[int, int]:
        """Entries by seq of the shown events in the ranges of a packet's plain runs.

        Raises Damaged where one of these ranges is.
        """
        known: dict[int, int] = {}
        for run in _plain(packet):
            for seq, damaged in self._damage.items():
                if run.first <= seq <= run.last:
                    raise damaged
            start, end = bisect_left(self._seqs, run.first), bisect_right(self._seqs, run.last)
            # Runs of system texts that an earlier release wrote may span what was said between.
            only = run.section == "system"
            seqs = self._seqs[start:end]
            if only:
                seqs = [seq for seq in seqs if seq in self._system]
            known.update(zip(seqs, map(self._parts.__getitem__, seqs), strict=True))
        return known


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same ranges in order, those that overlap or nearly touch as one."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + _NEAR:
            out[-1] = out[-1][0], max(last, out[-1][1])
        else:
            out.append((first, last))
    return out

"""Where the steps of a session are in its log."""

from __future__ import annotations

from sawlog.store.directory import SessionRow
from sawlog.store.errors import NoStep
from sawlog.store.event import Event, decoded
from sawlog.store.events.lifecycle import SessionCreated
from sawlog.store.log import Log
from sawlog.work.window import Window

PACKETS = ("packet.built", "packet.recorded")
"""The events that are a step's packet."""

_LOOK = 64
"""Events that are read at once while a packet is looked for."""


class Places:
    """The places of the steps of one session, up to the head of its row.

    A session of ours is searched by halves; an import, whose steps have no packets, is read once.
    """

    def __init__(self, log: Log, row: SessionRow, window: Window) -> None:
        self._log = log
        self._row = row
        self._window = window
        self._foreign: str | None = None
        self._seqs: dict[int, int] | None = None

    @property
    def format(self) -> str:
        """The foreign format that the session was imported from; empty when it was not."""
        if self._foreign is None:
            self._foreign = ""
            for stored in self._log.read(self._row, upto=1):
                content = decoded(stored, self._log.registry).content
                if isinstance(content, SessionCreated):
                    self._foreign = content.format
        return self._foreign

    def last_step(self) -> int:
        """The number of the newest step; 0 when there is none."""
        if self.format:
            return max(self._scan(), default=0)
        end = self._row.head
        while end > 0:
            start = max(0, end - _LOOK)
            found = [e.step for e in self._log.read(self._row, after=start, upto=end) if e.step]
            if found:
                return max(found)
            end = start
        return 0

    def packet_event(self, step: int) -> Event | None:
        """The newest packet of a step, or None when it has none (an import)."""
        if self.format:
            at = self._scan().get(step, 0)
            if at:
                event = self._window.event(at)
                return event if event.type in PACKETS else None
            return None
        # Steps rise with seq from packet to packet, so a search by halves finds the last one.
        low, high = 0, self._row.head
        found: Event | None = None
        while low < high:
            middle = (low + high) // 2
            packet = self._next_packet(middle, high)
            if packet is None or packet.step > step:
                high = middle
            else:
                if packet.step == step:
                    found = packet
                low = packet.seq
        return found

    def _next_packet(self, after: int, upto: int) -> Event | None:
        at = after
        while at < upto:
            end = min(upto, at + _LOOK)
            for stored in self._log.read(self._row, after=at, upto=end):
                if stored.type in PACKETS:
                    return decoded(stored, self._log.registry)
            at = end
        return None

    def place(self, step: int) -> int:
        """The seq of a step's packet; where a foreign file shows the step, that before its reply.

        What was shown at the step is what stands there. Raises NoStep.
        """
        event = self.packet_event(step)
        if event is not None:
            return event.seq
        place = self._scan().get(step, 0) if self.format else 0
        if not place:
            raise NoStep(f"this session has no step {step}; its last one is {self.last_step()}")
        return place - 1

    def _scan(self) -> dict[int, int]:
        """Step to the seq of its packet, or of its first event in an import."""
        if self._seqs is None:
            places: dict[int, int] = {}
            packets: dict[int, int] = {}
            for stored in self._log.read(self._row):
                if stored.step:
                    places.setdefault(stored.step, stored.seq)
                    if stored.type in PACKETS:
                        packets[stored.step] = stored.seq
            self._seqs = {**places, **packets}
        return self._seqs

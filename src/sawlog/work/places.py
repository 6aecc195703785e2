"""Where the steps of a session are in its log."""

from __future__ import annotations

from sawlog.store.directory import SessionRow
from sawlog.store.envelope import Unproved
from sawlog.store.errors import Damaged, NoStep
from sawlog.store.event import Event, decoded
from sawlog.store.events.lifecycle import SessionCreated
from sawlog.store.log import Log
from sawlog.store.pack import Wanted
from sawlog.work.window import Window

PACKETS = ("packet.built", "packet.recorded")
"""The events that are a step's packet."""

_LOOK = 64
"""Events that are read at once while a packet is looked for."""

_TAIL = 8
"""Events among which the newest one of a step is looked for first; there is nearly always one."""

_KEPT = 16
"""Packets that stay at hand, for who asks for one often asks twice."""


def whole_or_damaged(
    log: Log, row: SessionRow, after: int, upto: int, wanted: Wanted | None = None
) -> list[Unproved | Damaged]:
    """The events after a seq, up to another, whose type and version is wanted, in order; with what
    is wrong in the place of a damaged one.
    """
    try:
        return [*log.contents(row, after, upto, wanted)]
    except Damaged:
        found: list[Unproved | Damaged] = []
        for place in log.stored(row, after=after, upto=upto):
            if place.event is None:
                found.append(Damaged(str(place.damage), session=row.id.hex(), seq=place.seq))
            elif wanted is None or wanted(place.event.type, place.event.version):
                found.append(Unproved.of(place.event, place.cites))
        return found


def is_packet(type: str, version: int) -> bool:
    """True of the types that are a step's packet."""
    return type in PACKETS


class Places:
    """The places of the steps of one session, up to the head of its row.

    A session of ours is searched; an import, whose steps have no packets, is read once.
    """

    def __init__(self, log: Log, row: SessionRow, window: Window) -> None:
        self._log = log
        self._row = row
        self._window = window
        self._foreign: str | None = None
        self._seqs: dict[int, int] | None = None
        self._found: dict[int, Event | None] = {}
        self._newest: int | None = None

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
        return self._newest_step()

    def _newest_step(self) -> int:
        end = self._row.head
        look = _TAIL
        while end > 0:
            start = max(0, end - look)
            look = _LOOK
            newest = self._log.newest_step(self._row, start, end)
            if newest is None:
                # What is damaged there hides no other step.
                some = whole_or_damaged(self._log, self._row, start, end)
                newest = max((one.step for one in some if isinstance(one, Unproved)), default=0)
            if newest:
                return newest
            end = start
        return 0

    def packet_event(self, step: int) -> Event | None:
        """The newest packet of a step, or None when it has none (an import)."""
        if self._seqs is not None:
            at = self._seqs.get(step, 0)
            event = self._window.event(at) if at else None
            return event if event is not None and event.type in PACKETS else None
        if step not in self._found:
            if len(self._found) >= _KEPT:
                self._found.clear()
            self._found[step] = self._search(step)
        return self._found[step]

    def _search(self, step: int) -> Event | None:
        """The last packet of a step, of which steps rise with seq from packet to packet.

        Where it should be, if all steps were as long, is looked at first; every third look is at
        the middle of what is left, for they are not.
        """
        low, high = 0, self._row.head
        if self._newest is None:
            self._newest = self._newest_step()
        low_step, high_step = 0, self._newest
        found: Unproved | None = None
        damage: list[Damaged] = []
        looks = 0
        while low < high:
            looks += 1
            at = (low + high) // 2
            if looks % 3 and low_step < high_step and low_step <= step <= high_step:
                likely = low + (high - low) * (step - low_step) // (high_step - low_step)
                at = max(low, likely - _LOOK // 2)
            packets = self._packets(at, high, damage)
            older = [one for one in packets if one.step <= step]
            if older:
                low, low_step = older[-1].seq, older[-1].step
                found = older[-1]
                if len(older) < len(packets):
                    break  # the next one is another step's
            elif not packets and found is None and self.format:
                self._scan()  # who imported it knows where its steps are, and packets are few
                return self.packet_event(step)
            else:
                high = at
                high_step = packets[0].step if packets else high_step
        if found is None or found.step != step:
            if damage:
                raise damage[0]  # it may be what was looked for
            return None
        return decoded(found, self._log.registry)

    def _packets(self, after: int, upto: int, damage: list[Damaged]) -> list[Unproved]:
        """The next packets, those that are read at once; none when there is none up to there.

        What is damaged on the way is passed over, and told.
        """
        for start in range(after, upto, _LOOK):
            found: list[Unproved] = []
            end = min(upto, start + _LOOK)
            for event in whole_or_damaged(self._log, self._row, start, end, is_packet):
                if isinstance(event, Damaged):
                    damage.append(event)
                else:
                    found.append(event)
            if found:
                return found
        return []

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

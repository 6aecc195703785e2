"""What the bound items of a session's replies are bound to, as its packets and answers say it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sawlog.builder.contents import Contents, text_of
from sawlog.builder.packet import Binding
from sawlog.store.event import Event
from sawlog.store.events.steps import AttemptAnswered, PacketBuilt

_AHEAD = 256
"""Events read at a time: a packet asks for its steps in their order."""


class Bindings:
    """Step to binding. What one reading shows of later steps is kept, for they are asked for next.

    `packet_of` gives the newest `packet.built` of a step, `events` those after one seq up to
    another; `known` are steps that were asked for before, and keeps those to come.
    """

    def __init__(
        self,
        packet_of: Callable[[int], Event | None],
        events: Callable[[int, int], Iterator[Event]],
        contents: Contents,
        known: dict[int, Binding] | None = None,
    ) -> None:
        self._packet_of = packet_of
        self._events = events
        self._contents = contents
        self._known = {} if known is None else known

    def __call__(self, step: int) -> Binding | None:
        """What the bound items of the step's reply are bound to; None when it has no packet."""
        known = self._known.get(step)
        if known is not None:
            return known
        event = self._packet_of(step)
        if event is None or not isinstance(event.content, PacketBuilt):
            return None
        self._read(event, event.content)
        # Not answered yet: the account is not known, and may be another time.
        return self._known.get(step) or self._binding(event.content, "")

    def _read(self, first: Event, packet: PacketBuilt) -> None:
        """Read on from a step's packet until its answer, or until another step begins."""
        step, after = first.step, first.seq
        while step == first.step and step not in self._known:
            last = after
            for event in self._events(after, after + _AHEAD):
                last = event.seq
                content = event.content
                if isinstance(content, PacketBuilt):
                    packet, step = content, event.step
                elif isinstance(content, AttemptAnswered) and event.step == step:
                    account = text_of(content.account, self._contents)
                    self._known[step] = self._binding(packet, account)
            if last == after:
                return
            after = last

    def _binding(self, packet: PacketBuilt, account: str) -> Binding:
        model = text_of(packet.model, self._contents)
        return Binding(packet.prefix, packet.api, model, account)

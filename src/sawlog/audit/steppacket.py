"""The packet of a recorded step, as whoever looks at it gets it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sawlog.builder.build import Built
from sawlog.builder.packet import Entry, Header, Request
from sawlog.builder.replay import Replayed
from sawlog.builder.state import Ref
from sawlog.store.events.steps import PacketBuilt


class StepPacket(msgspec.Struct, frozen=True):
    """The packet of a recorded step.

    `origin` is `built` (recorded before it was sent), `recorded` (another program built it; its
    bytes were recorded before they left) or `reconstructed` (from a foreign file, which shows the
    step and not its request). `built_at` is the seq of its packet event (0: none),
    `sees` the last event that it was built over. `as_of` is the time that it was built for, in
    microseconds UTC; for a reconstruction the newest time among those events, UNKNOWN_TIME if none
    has one. `missing` names what is not in it, such as what the model saw and a foreign file does
    not hold.
    """

    origin: str
    built_at: int
    sees: int
    as_of: int
    header: Header
    refs: Sequence[Ref]
    entries: Sequence[Entry]
    missing: tuple[str, ...]
    semantic: str
    request: Request

    @property
    def body(self) -> bytes:
        """The request's body."""
        return self.request.body


def replayed_packet(seq: int, packet: PacketBuilt, header: Header, out: Replayed) -> StepPacket:
    """What a packet.built at `seq` gives when it is replayed, as a step's packet."""
    return StepPacket(
        origin="built",
        built_at=seq,
        sees=seq - 1,
        as_of=packet.as_of,
        header=header,
        refs=out.refs,
        entries=out.entries,
        missing=packet.missing,
        semantic=out.semantic,
        request=out.request,
    )


def reconstructed_packet(built: Built, sees: int) -> StepPacket:
    """A built packet of an import, as a step's packet."""
    return StepPacket(
        origin="reconstructed",
        built_at=0,
        sees=sees,
        as_of=built.as_of,
        header=built.header,
        refs=built.refs,
        entries=built.entries,
        missing=built.missing,
        semantic=built.semantic,
        request=built.request,
    )

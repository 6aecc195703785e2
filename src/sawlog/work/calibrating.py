"""What a step cost, as `measure.recorded` says it behind the reply."""

from __future__ import annotations

import msgspec

from sawlog.builder.build import Built
from sawlog.builder.calibration import recalibrated, usage_of
from sawlog.builder.contents import Contents
from sawlog.builder.replies import Answered
from sawlog.builder.state import State
from sawlog.store.content import RawPart
from sawlog.store.events.items import ItemOffered
from sawlog.store.events.steps import MeasureRecorded


class Effort(msgspec.Struct, frozen=True):
    """Microseconds spent on a packet before it left; -1: not known."""

    assembly: int = -1
    retrieval: int = -1


def effort_of(state: State, before: int, contents: Contents, assembly: int) -> Effort:
    """What a packet took: `assembly` for building it (a clock may go back: then nothing), and what
    fetching took of the items that were offered after the packet at `before`."""
    took = [
        content.took
        for one in state.offers
        if one.seq > before
        and isinstance(content := contents.event(one.seq).content, ItemOffered)
        and content.took >= 0
    ]
    return Effort(max(0, assembly), sum(took) if took else -1)


def measured(
    packet: Built, reply: Answered, retries: int, effort: Effort, per_mille: int
) -> MeasureRecorded | None:
    """What a reply's usage says; None when it names no input, or the policy has no use for it.

    `per_mille` is what was in force until now. A reply with parts that the provider made by itself,
    such as a search, read its input several times: it is recorded and teaches nothing.
    """
    if packet.rules.selection is None:
        return None
    usage = usage_of(packet.header.api, reply.usage)
    if usage.input < 0:
        return None
    units = sum(units for _, units in packet.counts)
    several = any(
        isinstance(part, RawPart)
        for piece in reply.parts_and_calls
        if isinstance(piece, tuple)
        for part in piece
    )
    return MeasureRecorded(
        measure=packet.rules.measure,
        units=units,
        input=usage.input,
        output=usage.output,
        cached=usage.cached,
        retries=max(0, retries),
        per_mille=per_mille if several else recalibrated(per_mille, units, usage.input),
        assembly=effort.assembly,
        retrieval=effort.retrieval,
    )

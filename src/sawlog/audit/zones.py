"""What each zone takes of a recorded packet, and the bound that its policy sets on it.

Nothing of it is stored: entries and zones are those of the packet and its trace, computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sawlog.audit.findings import ZoneUse
from sawlog.audit.recorded import Recorded
from sawlog.audit.steppacket import StepPacket
from sawlog.audit.weighing import rules_under
from sawlog.builder.candidates import candidates
from sawlog.builder.measure import measure_of
from sawlog.builder.packet import Entry
from sawlog.builder.policy import Rules
from sawlog.builder.projector import fold_all
from sawlog.builder.selection.candidate import ZONES, Candidate, zone_of
from sawlog.builder.selection.walks import Budget
from sawlog.builder.state import Ref, State
from sawlog.store.errors import UnknownNumber

HISTORY = "history"
"""The conversation and what is told around it; items stand in zones of their own."""


def zones(session: Recorded, packet: StepPacket) -> tuple[ZoneUse, ...]:
    """The zones of a recorded packet, all that take or are bounded, in the order of service.

    The history comes last. Raises UnknownNumber for a measure that is not installed, InvalidPolicy
    for a recorded policy that says none, BlobMissing.
    """
    before = fold_all(State(), session.events(0, packet.sees))
    rules = rules_under(session, packet, before)
    items = candidates(before, session.window, measure_of(rules.measure))
    session.window.prefetch(packet.refs)
    return zones_of(packet.refs, packet.entries, items, rules)


def zones_of(
    refs: Sequence[Ref], entries: Sequence[Entry], items: Mapping[int, Candidate], rules: Rules
) -> tuple[ZoneUse, ...]:
    """The same of entries at hand; `items` are the candidates that they were chosen from, by seq.

    An item that a notice calls out of date is no candidate any more, and history like the notice.
    """
    measure = measure_of(rules.measure)
    units = dict.fromkeys((*ZONES, HISTORY), 0)
    for ref, entry in zip(refs, entries, strict=True):
        item = items.get(ref.seq) if ref.form == "item" else None
        if item is not None:
            zone = zone_of(item)
        else:
            zone = HISTORY if ref.section == HISTORY else "fixed"
        units[zone] += measure(entry)
    bounds = bounds_of(rules)
    return tuple(
        ZoneUse(zone, taken, bounds.get(zone))
        for zone, taken in units.items()
        if taken or zone in bounds
    )


def bounds_of(rules: Rules) -> dict[str, int]:
    """The bounds of a policy's zones; none of a policy that is not installed: it says nothing."""
    try:
        stages = rules.selection.stages if rules.selection is not None else ()
    except UnknownNumber:
        return {}
    return {
        bound.zone: bound.units for use in stages if isinstance(use, Budget) for bound in use.bounds
    }

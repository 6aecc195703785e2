"""A recorded packet as another provider would get it: the same entries, other bytes."""

from __future__ import annotations

import msgspec

from sawlog.audit.reconstructing import sending_for
from sawlog.audit.recorded import Recorded
from sawlog.audit.steppacket import StepPacket
from sawlog.builder.assembly import Assembly
from sawlog.builder.measure import measure_of
from sawlog.builder.policy import Rules
from sawlog.store.errors import Refused
from sawlog.store.text import BlobMissing


def rendered(session: Recorded, step: int, api: str, model: str) -> StepPacket:
    """The packet of a step under the profile of another API or model.

    A packet that was built keeps its entries and has the origin `rendered`; so has one that was
    recorded, whose entries are then the events that its request amounts to. One of an import is
    reconstructed for that profile. Parameters are only those that the API does not do without.
    Raises NoStep, and Refused when a content is gone.
    """
    sending = sending_for(api, model)
    packet = session.packet(step)
    if packet.origin == "reconstructed":
        return session.reconstructed(packet.sees, sending)
    if packet.origin == "recorded":
        found = session.reconstructed(packet.sees, sending)
        return msgspec.structs.replace(
            found, origin="rendered", built_at=packet.built_at, missing=()
        )
    assembly = Assembly(measure_of(Rules().measure))
    try:
        assembly.extend(packet.refs, session.window)
        request = assembly.request(
            sending.header, sending.headers, sending.profile, session.binding
        )
    except BlobMissing as error:
        raise Refused(
            "missing_blob", f"the content sha256:{error.digest} is not in the log", (error.digest,)
        ) from error
    return StepPacket(
        origin="rendered",
        built_at=packet.built_at,
        sees=packet.sees,
        as_of=packet.as_of,
        header=sending.header,
        refs=assembly.refs,
        entries=assembly.entries,
        missing=packet.missing,
        semantic=assembly.semantic(packet.missing),
        request=request,
    )

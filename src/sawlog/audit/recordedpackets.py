"""The packet of a step whose request another program built: its bytes, out of the log.

What its parts say is read from those bytes; where the log holds the same text as an event, the
entry names that event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sawlog.audit.recordedplaces import refs_of
from sawlog.audit.steppacket import StepPacket
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.packet import Header, Request
from sawlog.builder.render.wire import before_body
from sawlog.builder.requests.cutting import Body
from sawlog.builder.requests.reading import read_body, recorded_body
from sawlog.builder.requests.showing import entries_of
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.event import Event
from sawlog.store.events.base import Named
from sawlog.store.events.steps import PacketRecorded

_NONE = Named("none", 0)


def recorded_packet(event: Event, events: Iterable[Event], contents: Contents) -> StepPacket:
    """The packet that `event`, a packet.recorded, holds; `events` are the shown ones before it.

    Raises BadSpans, BlobMissing when its bytes are not in the log.
    """
    packet = event.content
    assert isinstance(packet, PacketRecorded)
    data = recorded_body(event.seq, contents)
    body = read_body(packet.api, data)
    entries = entries_of(body) if body is not None else []
    return StepPacket(
        origin="recorded",
        built_at=event.seq,
        sees=event.seq - 1,
        as_of=UNKNOWN_TIME,
        header=_header(packet, body, contents),
        refs=refs_of(entries, events, contents),
        entries=entries,
        missing=(),
        semantic="",
        request=Request(
            packet.method,
            packet.path,
            packet.headers,
            (data,),
            len(data),
            request_digest(packet, data),
            "",
            (),
        ),
    )


def request_digest(packet: PacketRecorded, body: bytes) -> str:
    """The hex provider_request_digest of a recorded request with that body."""
    before = before_body(packet.method, packet.path, packet.headers)
    return hashlib.sha256(before + body).hexdigest()


def _header(packet: PacketRecorded, body: Body | None, contents: Contents) -> Header:
    params = body.params if body is not None else "{}"
    return Header(packet.api, text_of(packet.model, contents), params, _NONE, _NONE)

"""How far what the log says was sent is what left, and what the model saw.

exact          the bytes that left are those of the packet, and the model saw the whole
edited         the provider reported that it edited the context
held           the request leans on something that the provider keeps
rewritten      other bytes left than the packet's
unconfirmed    the packet went out some other way than through sawlog
external       a part of it is named, and its bytes are not in the log
reconstructed  a foreign file shows the step and not its request
"""

from __future__ import annotations

from sawlog.audit.recorded import Recorded
from sawlog.audit.steppacket import StepPacket
from sawlog.builder.contents import text_of
from sawlog.builder.packet import Entry
from sawlog.builder.requests.reading import read_body
from sawlog.store.event import Event
from sawlog.store.events.steps import AttemptAnswered, AttemptSent
from sawlog.store.jsonslices import fields, string
from sawlog.work.dials import whole


def sent(session: Recorded, step: int) -> str:
    """The word for a step; see above. Empty while no attempt to send it is in the log.

    Raises NoStep.
    """
    packet = session.packet(step)
    if packet.origin == "reconstructed":
        return packet.origin
    client: str | None = None
    edited = False
    for event in session.as_stored(packet.built_at):
        if event.step > step:
            break
        if event.step != step:
            continue
        if isinstance(event.content, AttemptSent):
            client = event.content.client
        elif isinstance(event.content, AttemptAnswered) and event.content.edits:
            if text_of(event.content.edits, session.window):
                edited = True
    if client is None:
        return ""
    if any(map(_names_alone, packet.entries)):
        return "external"
    if edited:
        return "edited"
    if _leans(packet):
        return "held"
    if session.is_rewritten(step):
        return "rewritten"
    if packet.origin == "built" and client == "caller":
        return "unconfirmed"
    return "exact"


_HELD = ("previous_response_id", "conversation", "container", "thread_id")
"""Members of a request that lean on what the provider keeps."""


def _leans(packet: StepPacket) -> bool:
    body = read_body(packet.header.api, packet.request.body)
    return body is not None and any(body.member(name) not in (None, "null") for name in _HELD)


def _names_alone(entry: Entry) -> bool:
    """True of a medium of which the log has a name and no bytes: a URL, a provider's file."""
    if entry.part == "media":
        return not entry.text.startswith("sha256:")
    if entry.part != "raw":
        return False
    try:
        kind = string(fields(entry.text).get("type"))
    except ValueError:
        return False
    return kind in _MEDIA and any(name in entry.text for name in _NAMES)


_MEDIA = ("image", "document", "image_url", "file", "input_image", "input_file", "container_upload")
_NAMES = ('"file_id":', '"url":"http', '"image_url":"http', '"file_url":"http')


def dialled(session: Recorded, event: Event) -> AttemptSent:
    """An attempt.sent with all that was dialled, also where it only says what is another.

    Raises TypeError for another event.
    """
    sent = event.content
    if not isinstance(sent, AttemptSent):
        raise TypeError(f"event {event.seq} is no attempt")
    like = session.window.event(sent.like).content if sent.like else None
    return whole(sent, like if isinstance(like, AttemptSent) else None)

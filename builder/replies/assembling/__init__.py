"""From the bytes of a streamed reply to what the log keeps of it.

`assembler` gives the named assembler of an API: feed it the bytes as they come, ask for its result
when the stream is over or was left, and give that to `reply_of`. `assemble` does all of it for
bytes that are all there. A stream that came to its end gives what the whole reply would have given;
of one that broke off, what there was stays:

- Text stays. A call that ended is a call; one that had not is an incomplete part. Thinking that is
  not signed, or reasoning that had not ended, never goes back. Stop reason and usage are what was
  said last.
- An error in mid-stream, or an event that is no JSON, ends what counts. With nothing before it the
  stream is the refusal that it says; else the reply is `interrupted` and its `fault` that refusal.
- A Responses stream in the background that broke off is still running: its reply can be asked for.

Pure: no clock, no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import structs

from sawlog.builder.replies import check_api, parse, read
from sawlog.builder.replies.answer import Answered, Received, RefusedReply, Running, received
from sawlog.builder.replies.assembling.anthropic import AnthropicAssembler
from sawlog.builder.replies.assembling.base import Assembled, Assembler
from sawlog.builder.replies.assembling.chat import ChatAssembler, DeepSeekAssembler
from sawlog.builder.replies.assembling.responses import ResponsesAssembler
from sawlog.builder.replies.refusals import malformed, refused
from sawlog.builder.replies.source import ascii_low, fields, is_empty, text_of
from sawlog.store.content import BoundPart, Part
from sawlog.store.events.conversation import ToolRequested

__all__ = ["Assembled", "Assembler", "assemble", "assembler", "is_stream", "reply_of"]

_ASSEMBLERS: dict[str, type[Assembler]] = {
    one.api: one
    for one in (AnthropicAssembler, ChatAssembler, ResponsesAssembler, DeepSeekAssembler)
}
_FIELD = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*(?:data|event|id|retry)?:")


def assembler(api: str) -> Assembler:
    """A new assembler for one streamed reply. Raises ConfigError for an API that is not known."""
    check_api(api)
    return _ASSEMBLERS[api]()


def assemble(
    api: str, status: int, headers: Mapping[str, str], data: bytes, *, interrupted: bool = False
) -> Answered | RefusedReply | Running:
    """What the bytes of a streamed answer amount to.

    `interrupted`: the caller left the stream, so the bytes end where nobody meant them to. An
    answer that is no stream, such as a refusal or a whole reply, is read by `parse`. Raises
    ConfigError for an API that is not known, and nothing else.
    """
    check_api(api)
    if not is_stream(status, headers, data):
        return parse(api, status, headers, data)
    one = assembler(api)
    one.feed(data)
    return reply_of(one.result(closed=not interrupted), status, headers)


def is_stream(status: int, headers: Mapping[str, str], start: bytes) -> bool:
    """Whether an answer is a stream of events, by its status, its first bytes and its headers."""
    if not 200 <= status < 300 or start.lstrip(b" \t\r\n\xef\xbb\xbf").startswith((b"{", b"[")):
        return False
    if _FIELD.match(start):
        return True
    types = (value for name, value in headers.items() if ascii_low(name) == "content-type")
    return any(ascii_low(one).strip(" \t").startswith("text/event-stream") for one in types)


def reply_of(
    assembled: Assembled, status: int, headers: Mapping[str, str]
) -> Answered | RefusedReply | Running:
    """The reply that an assembled stream is, or the refusal.

    An `Answered` has no body; it names its assembler, says whether it was `interrupted`, and by
    which `fault`. The body of a refusal is the event that said it, or the reply that failed.
    """
    reply = structs.replace(
        received(assembled.api, status, headers, b""),
        body=assembled.body,
        unended=None if assembled.ended and not assembled.unended else assembled.unended,
    )
    fault = _fault(assembled, reply)
    if not assembled.body:
        return fault or _nothing(assembled, reply)
    if assembled.ended:
        found = read(reply)
    elif fault is None and fields(assembled.body).get("background") == "true":
        handle = text_of(fields(assembled.body).get("id"))
        return Running(
            status=status, request_id=reply.request_id, handle=handle, body=assembled.body
        )
    else:
        found = _interrupted(assembled, reply, fault)
    if not isinstance(found, Answered):
        return found
    return structs.replace(found, body="", assembler=assembled.named)


def _fault(assembled: Assembled, reply: Received) -> RefusedReply | None:
    """What broke the stream: the provider's error, or an event that could not be read."""
    if assembled.fault:
        return refused(structs.replace(reply, body=assembled.fault))
    if assembled.malformed:
        return malformed(reply, assembled.malformed)
    return None


def _nothing(assembled: Assembled, reply: Received) -> Answered | RefusedReply:
    """A stream in which no reply began."""
    if assembled.closed:
        return malformed(reply, "the stream of events ended before a reply began")
    return Answered(
        request_id=reply.request_id,
        response_id="",
        model="",
        account=reply.account,
        stop_reason="",
        usage="",
        parts_and_calls=(),
        text="",
        paused=False,
        refusal="",
        body="",
        assembler=assembled.named,
        interrupted=True,
    )


def _interrupted(
    assembled: Assembled, reply: Received, fault: RefusedReply | None
) -> Answered | RefusedReply | Running:
    found = read(reply)
    if not isinstance(found, Answered):
        return fault or found
    if fault is not None and not any(map(_says, found.parts_and_calls)):
        return fault
    stop = found.stop_reason
    if assembled.api == ResponsesAssembler.api:
        # The status was put there for the reader; the provider named no reason.
        why = fields(fields(reply.body).get("incomplete_details"))
        stop = text_of(why.get("reason"))
    return structs.replace(found, stop_reason=stop, paused=False, interrupted=True, fault=fault)


def _says(one: tuple[Part, ...] | ToolRequested) -> bool:
    """Whether a run or a call holds anything; a field that only opened empty does not."""
    if isinstance(one, ToolRequested):
        return True
    return any(not isinstance(part, BoundPart) or not is_empty(_source(part)) for part in one)


def _source(part: BoundPart) -> str:
    return part.source if isinstance(part.source, str) else "{}"

"""Replies of Anthropic's Messages API.

    text                         text; its citations stand behind it
    thinking, redacted_thinking  bound parts; without signature or data of the kind
                                 `unsigned_thinking`, which never goes back
    compaction                   a bound part
    tool_use                     a call, `input` being the arguments; the last block of a reply that
                                 was cut off is an incomplete part, for the API closes the JSON of
                                 what the model did not finish
    all others                   raw parts: what the provider runs itself, and what is not known;
                                 incomplete when it is a call that a broken stream left unfinished

An `input` that is a string holds the text of arguments that are no JSON object: so says a stream
that was put together. Other fields of a text or a call stand behind it, see `extras`.
"""

from __future__ import annotations

from sawlog.builder.replies.answer import Answered, Assembly, Malformed, Received
from sawlog.builder.replies.extras import add_extras
from sawlog.builder.replies.source import elements, fields, is_empty, text_of
from sawlog.store.content import BoundPart, IncompletePart, RawPart, TextPart
from sawlog.store.events.conversation import ToolRequested
from sawlog.store.jsonslices import string

API = "anthropic"
_CUT = ("max_tokens", "model_context_window_exceeded", "refusal")
_PAUSED = ("pause_turn", "compaction")
_CALL = frozenset({"type", "id", "name", "input"})
_TEXT = frozenset({"type", "text"})


def read(reply: Received) -> Answered:
    """The reply that a Messages body is. Raises Malformed when it is none."""
    body = fields(reply.body)
    blocks = elements(body.get("content"))
    if blocks is None:
        raise Malformed("this is no Messages reply: it has no list `content`")
    stop = text_of(body.get("stop_reason"))
    assembly = Assembly()
    for at, source in enumerate(blocks):
        block = fields(source)
        if not block:
            raise Malformed(f"content {at} of the reply is no block")
        unended = reply.left_open(at)
        if text_of(block.get("type")) == "tool_use":
            cut = unended or (stop in _CUT and at == len(blocks) - 1)
            _call(assembly, at, block, cut=cut)
        elif unended and "input" in block and "name" in block:
            # Half a call that the provider runs is no call, either.
            assembly.part(IncompletePart(text_of(block["name"]), _arguments(block["input"])))
        else:
            _part(assembly, block, source)
    return Answered(
        request_id=reply.request_id,
        response_id=text_of(body.get("id")),
        model=text_of(body.get("model")),
        account=reply.account,
        stop_reason=stop,
        usage="" if is_empty(body.get("usage")) else body["usage"],
        parts_and_calls=assembly.done(),
        text=assembly.text(),
        paused=stop in _PAUSED,
        refusal=_refusal(stop, fields(body.get("stop_details"))),
        edits=_edits(fields(body.get("context_management"))),
        body=reply.body,
    )


def _part(assembly: Assembly, block: dict[str, str], source: str) -> None:
    kind = text_of(block.get("type"))
    text = string(block.get("text"))
    match kind:
        case "text" if text is not None:
            assembly.part(TextPart(text), text)
            add_extras(assembly, API, "text", block, _TEXT)
        case "thinking":
            signed = not is_empty(block.get("signature"))
            bound = kind if signed else "unsigned_thinking"
            assembly.part(BoundPart(bound, API, source, text_of(block.get("thinking"))))
        case "redacted_thinking":
            signed = not is_empty(block.get("data"))
            assembly.part(BoundPart(kind if signed else "unsigned_thinking", API, source))
        case "compaction":
            assembly.part(BoundPart(kind, API, source, text_of(block.get("content"))))
        case _:
            assembly.part(RawPart(API, source))


def _call(assembly: Assembly, at: int, block: dict[str, str], *, cut: bool) -> None:
    name = string(block.get("name"))
    if name is None or "input" not in block:
        raise Malformed(f"content {at} of the reply is a call without a name or an input")
    arguments = _arguments(block["input"])
    if cut:
        assembly.part(IncompletePart(name, arguments))
        return
    call_id = text_of(block.get("id"))
    assembly.call(ToolRequested(call_id=call_id, name=name, arguments=arguments))
    add_extras(assembly, API, "call", block, _CALL)


def _arguments(source: str) -> str:
    written = string(source)
    return source if written is None else written


def _edits(management: dict[str, str]) -> str:
    edits = management.get("applied_edits")
    return "" if is_empty(edits) or edits is None else edits


def _refusal(stop: str, details: dict[str, str]) -> str:
    if stop != "refusal":
        return ""
    return text_of(details.get("explanation")) or text_of(details.get("category")) or stop

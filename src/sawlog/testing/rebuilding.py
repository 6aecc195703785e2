"""The reply of a step as its API would have given it, made from what the log keeps of a stream.

The log keeps no deltas. So a streamed reply is put into the API's own JSON once more, which the
streams of the fake provider then tell event by event. Texts, calls and their arguments, thinking
with its signature, ids, usage and reasons are the recorded ones; where the pieces are cut, and
what no part says (ids of Responses messages, times), is made here.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sawlog.providers.fake_json import Source, dump
from sawlog.providers.fake_streams import Event
from sawlog.providers.fake_streams_anthropic import stream as anthropic_stream
from sawlog.providers.fake_streams_chat import stream as chat_stream
from sawlog.providers.fake_streams_responses import stream as responses_stream
from sawlog.providers.strict.reading import JsonObject, as_list, as_object, parse
from sawlog.store.content import BoundPart, IncompletePart, RawPart, TextPart

_ITEMS = {  # calls of Responses that have no name of their own, and where their arguments stand
    "computer": "action",
    "local_shell": "action",
    "shell": "action",
    "apply_patch": "operation",
}


class Called(msgspec.Struct, frozen=True):
    """A call of a reply, its texts at hand; as `tool.requested` has it."""

    id: str
    name: str
    arguments: str
    kind: str = "json"
    namespace: str = ""
    item: str = ""


Piece = TextPart | BoundPart | RawPart | IncompletePart | Called
"""What a reply is made of, in order; the texts of parts are plain."""


class Said(msgspec.Struct, frozen=True):
    """A reply as the log keeps it: its pieces, and what the provider said beside them.

    `at` is when it came, in seconds; `interrupted`: the stream broke off behind the last piece.
    """

    api: str
    id: str
    model: str
    stop: str
    usage: str
    pieces: Sequence[Piece]
    at: int = 0
    edits: str = ""
    interrupted: bool = False


def events_of(said: Said) -> list[Event]:
    """The events of a stream that tells this reply; of an interrupted one without their end."""
    if said.api == "anthropic":
        events = anthropic_stream(_message(said))
    elif said.api == "openai-responses":
        events = responses_stream(_response(said))
    else:
        return _chat_events(said)
    if not said.interrupted:
        return events
    while events and events[-1].name in _ENDS:
        if events[-1].name == "message_delta" and said.stop:
            break
        events.pop()
    if events and events[-1].name in ("content_block_stop", "response.output_item.done"):
        events.pop()
    return events


_ENDS = (
    "message_delta",
    "message_stop",
    "response.completed",
    "response.incomplete",
    "response.failed",
)


def _value(source: object) -> object:
    """The JSON that a part keeps as its source; what is none stays a text."""
    text = str(source)
    try:
        return parse(text)
    except ValueError:
        return text


def _object(source: object) -> JsonObject:
    return as_object(_value(source)) or {}


def _field(part: BoundPart) -> tuple[str, str]:
    """What a bound part belongs to (`text`, `call`, `message`) and its field; empty: it is one."""
    what, dot, name = part.kind.partition(".")
    return (what, name) if dot else ("", "")


# --- Anthropic -----------------------------------------------------------------------------------


def _message(said: Said) -> JsonObject:
    blocks: list[JsonObject] = []
    for piece in said.pieces:
        match piece:
            case TextPart():
                blocks.append({"type": "text", "text": str(piece.text)})
            case Called():
                call: JsonObject = {"type": "tool_use", "id": piece.id, "name": piece.name}
                blocks.append({**call, "input": Source(piece.arguments)})
            case IncompletePart():
                cut: JsonObject = {"type": "tool_use", "id": f"toolu_incomplete_{len(blocks)}"}
                arguments = Source("{}", str(piece.text))
                blocks.append({**cut, "name": str(piece.name), "input": arguments})
            case BoundPart() if _field(piece)[0]:
                if blocks:
                    blocks[-1][_field(piece)[1]] = _value(piece.source)
            case _:
                blocks.append(_object(piece.source))
    body: JsonObject = {"id": said.id, "type": "message", "role": "assistant"}
    body |= {"model": said.model, "content": blocks, "stop_reason": said.stop or None}
    body |= {"stop_sequence": None, "usage": _object(said.usage)}
    if said.edits:
        body["context_management"] = {"applied_edits": _value(said.edits)}
    return body


# --- Chat Completions ----------------------------------------------------------------------------


def _chat_events(said: Said) -> list[Event]:
    message: JsonObject = {"role": "assistant", "content": None}
    texts: list[str] = []
    calls: list[JsonObject] = []
    others: JsonObject = {}
    for piece in said.pieces:
        match piece:
            case TextPart():
                texts.append(str(piece.text))
            case Called():
                calls.append(_chat_call(piece.id, piece.name, piece.arguments, piece.kind))
            case IncompletePart():
                id = f"call_incomplete_{len(calls)}"
                calls.append(_chat_call(id, str(piece.name), str(piece.text), "json"))
            case RawPart():
                refusal = _object(piece.source).get("refusal")
                if refusal is not None:
                    message["refusal"] = refusal
            case BoundPart():
                what, name = _field(piece)
                if piece.kind == "reasoning_content":
                    message["reasoning_content"] = _value(piece.source)
                elif what == "call" and calls:
                    calls[-1][name] = _value(piece.source)
                elif what == "message":
                    others[name] = _value(piece.source)
    if texts:
        message["content"] = "".join(texts)
    if calls:
        message["tool_calls"] = calls
    choice: JsonObject = {"index": 0, "message": message, "finish_reason": said.stop or None}
    head: JsonObject = {"id": said.id, "created": said.at, "model": said.model}
    body: JsonObject = {**head, "choices": [choice], "usage": _value(said.usage or "null")}
    events = chat_stream(body, api=said.api, usage=bool(said.usage), whole_calls=False)
    if others:
        delta: JsonObject = {"index": 0, "delta": others, "finish_reason": None}
        more: JsonObject = {**head, "object": "chat.completion.chunk", "choices": [delta]}
        events.insert(1, Event(dump(more, ascii=False)))
    if not said.interrupted:
        return events
    # Behind the deltas stand the reason to finish, the usage where it was said, and [DONE].
    usage = bool(said.usage) and said.api != "deepseek-chat"
    return events[: -1 if said.stop else -3 if usage else -2]


def _chat_call(id: str, name: str, arguments: str, kind: str) -> JsonObject:
    form, field = ("custom", "input") if kind == "text" else ("function", "arguments")
    return {"id": id, "type": form, form: {"name": name, field: arguments}}


# --- Responses -----------------------------------------------------------------------------------


def _response(said: Said) -> JsonObject:
    items: list[JsonObject] = []
    message: JsonObject | None = None
    for piece in said.pieces:
        if isinstance(piece, TextPart) or _is_refusal(piece):
            if message is None:
                none: list[object] = []
                message = {"id": f"msg_{said.id}_{len(items)}", "type": "message"}
                message |= {"status": "completed", "role": "assistant", "content": none}
                items.append(message)
            contents = as_list(message["content"])
            assert contents is not None
            contents.append(_content(piece))
        elif isinstance(piece, BoundPart) and _field(piece)[0]:
            if items:
                _add_field(items[-1], piece)
                if _field(piece)[0] == "message":
                    message = None  # its fields stand behind the last of its parts
        else:
            message = None
            items.append(_output(piece, len(items)))
    statuses = ("completed", "incomplete", "failed", "cancelled")
    status = said.stop if said.stop in statuses else "incomplete"
    why = None if said.stop in statuses else {"reason": said.stop or None}
    body: JsonObject = {"id": said.id, "object": "response", "created_at": said.at}
    body |= {"status": status, "error": None, "incomplete_details": why}
    body |= {"model": said.model, "output": items, "parallel_tool_calls": True}
    body |= {"tool_choice": "auto", "tools": list[object](), "usage": _value(said.usage or "null")}
    return body


def _is_refusal(piece: Piece) -> bool:
    return isinstance(piece, RawPart) and _object(piece.source).get("type") == "refusal"


def _content(piece: Piece) -> JsonObject:
    if isinstance(piece, RawPart):
        return _object(piece.source)
    assert isinstance(piece, TextPart)
    none: list[object] = []
    text: JsonObject = {"type": "output_text", "text": str(piece.text)}
    return {**text, "annotations": none, "logprobs": list[object]()}


def _add_field(item: JsonObject, part: BoundPart) -> None:
    what, name = _field(part)
    place: JsonObject | None = item
    if what == "text":
        contents = as_list(item.get("content"))
        place = as_object(contents[-1]) if contents else None
    if place is not None:
        place[name] = _value(part.source)


def _output(piece: Piece, number: int) -> JsonObject:
    if isinstance(piece, Called):
        return _call_item(piece)
    if isinstance(piece, IncompletePart):
        cut: JsonObject = {"type": "function_call", "id": f"fc_incomplete_{number}"}
        cut |= {"call_id": f"call_incomplete_{number}", "name": str(piece.name)}
        return {**cut, "arguments": str(piece.text), "status": "incomplete"}
    assert not isinstance(piece, TextPart)
    return _object(piece.source)


def _call_item(call: Called) -> JsonObject:
    ids: JsonObject = {"id": call.item, "call_id": call.id, "status": "completed"}
    if not call.item:
        del ids["id"]
    if call.kind == "search":
        search: JsonObject = {"type": "tool_search_call", "execution": "client"}
        return {**search, **ids, "arguments": _value(call.arguments)}
    if call.name in _ITEMS and call.kind == "json":
        # The type, which the name is short for, stands behind it as a field of its own.
        field = _ITEMS[call.name]
        if call.name == "computer" and call.arguments.startswith("["):
            field = "actions"
        return {**ids, field: _value(call.arguments)}
    if call.namespace:
        ids["namespace"] = call.namespace
    kind, field = "function_call", "arguments"
    if call.kind == "text":
        kind, field = "custom_tool_call", "input"
    return {"type": kind, **ids, "name": call.name, field: call.arguments}

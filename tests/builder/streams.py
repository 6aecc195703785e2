"""Streams for the tests of assemblers: a whole reply, and the events that an API makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import structs

from sawlog.builder.replies import Answered, RefusedReply, Running
from sawlog.builder.replies.assembling import assembler, reply_of

Json = dict[str, Any]
Cut = Callable[[str], list[str]]
"""Cuts a text into the pieces of its deltas."""


class Spelled:
    """A stream's event: its name, and its data as text."""

    def __init__(self, name: str, data: str) -> None:
        self.name = name
        self.data = data


def source(value: object) -> str:
    """JSON text without spaces, in ASCII."""
    return json.dumps(value, separators=(",", ":"))


def in_threes(text: str) -> list[str]:
    """A text in pieces of three characters."""
    return [text[at : at + 3] for at in range(0, len(text), 3)]


def spell(events: Iterable[Spelled], end: str = "\n") -> bytes:
    """The bytes of a stream with these events."""
    text = "".join(
        (f"event: {one.name}{end}" if one.name else "") + f"data: {one.data}{end}{end}"
        for one in events
    )
    return text.encode()


def fed(
    api: str, pieces: Iterable[bytes], *, closed: bool = True
) -> Answered | RefusedReply | Running:
    """What a stream gives that comes in these pieces."""
    one = assembler(api)
    for piece in pieces:
        one.feed(piece)
    return reply_of(one.result(closed=closed), 200, {})


def told(reply: Answered) -> Answered:
    """A reply without what only a whole one, or only a stream, has."""
    return structs.replace(reply, body="", assembler=None)


def stream_of(api: str, body: Json, cut: Cut = in_threes) -> list[Spelled]:
    """The events by which an API would send a reply."""
    match api:
        case "anthropic":
            events = _anthropic(body, cut)
        case "openai-responses":
            events = _responses(body, cut)
        case _:
            chunks = [Spelled("", source(one)) for one in _chunks(body, cut)]
            return [*chunks, Spelled("", "[DONE]")]
    return [Spelled(one["type"], source(one)) for one in events]


# --- Messages ------------------------------------------------------------------------------------


def _anthropic(body: Json, cut: Cut) -> Iterator[Json]:
    said = {name: None for name in ("stop_reason", "stop_sequence") if name in body}
    usage = body["usage"]
    first = {name: 0 if name == "output_tokens" else value for name, value in usage.items()}
    yield {"type": "message_start", "message": {**body, "content": [], **said, "usage": first}}
    for at, block in enumerate(body["content"]):
        start, deltas = _block(block, cut)
        yield {"type": "content_block_start", "index": at, "content_block": start}
        yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    end = {name: body[name] for name in said}
    yield {"type": "message_delta", "delta": end, "usage": usage}
    yield {"type": "message_stop"}


def _block(block: Json, cut: Cut) -> tuple[Json, list[Json]]:
    start: Json
    deltas: list[Json] = []
    match block["type"]:
        case "text":
            start = {**block, "text": ""}
            deltas += [{"type": "text_delta", "text": one} for one in cut(block["text"])]
            if block.get("citations"):
                start["citations"] = []
                deltas += [
                    {"type": "citations_delta", "citation": one} for one in block["citations"]
                ]
        case "thinking":
            start = {**block, "thinking": "", "signature": ""}
            deltas += [
                {"type": "thinking_delta", "thinking": one} for one in cut(block["thinking"])
            ]
            if block["signature"]:
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "compaction":
            start = {**block, "content": None}
            deltas.append({"type": "compaction_delta", "content": block["content"]})
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            start = {**block, "input": {}}
            deltas.append({"type": "input_json_delta", "partial_json": ""})
            if block["input"]:
                deltas += [
                    {"type": "input_json_delta", "partial_json": one}
                    for one in cut(source(block["input"]))
                ]
        case _:
            start = block
    return start, deltas


# --- Chat Completions ----------------------------------------------------------------------------


def _chunks(body: Json, cut: Cut) -> Iterator[Json]:
    head = {name: body[name] for name in body if name not in ("choices", "usage", "object")}
    head["object"] = "chat.completion.chunk"

    def chunk(delta: Json, finish: str | None = None, index: int = 0) -> Json:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice], "usage": None, "obfuscation": "x0Yz"}

    for choice in body["choices"]:
        index, message = choice["index"], choice["message"]
        opened = {
            name: "" if isinstance(value, str) and name != "role" else value
            for name, value in message.items()
            if name != "tool_calls"
        }
        yield chunk(opened, index=index)
        for name, value in message.items():
            if isinstance(value, str) and name != "role":
                for piece in cut(value):
                    yield chunk({name: piece}, index=index)
        for at, call in enumerate(message.get("tool_calls") or []):
            form, field = ("custom", "input") if "custom" in call else ("function", "arguments")
            begun = {**call, form: {**call[form], field: ""}}
            yield chunk({"tool_calls": [{"index": at, **begun}]}, index=index)
            for piece in cut(call[form][field]):
                yield chunk({"tool_calls": [{"index": at, form: {field: piece}}]}, index=index)
    for choice in body["choices"]:
        yield chunk({}, choice["finish_reason"], choice["index"])
    yield {**head, "choices": [], "usage": body.get("usage")}


# --- Responses -----------------------------------------------------------------------------------


def _responses(body: Json, cut: Cut) -> Iterator[Json]:
    begun: Json = {**body, "output": [], "status": "in_progress", "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for at, item in enumerate(body["output"]):
        yield from _item(at, item, cut)
    yield {"type": f"response.{body['status']}", "response": body}


def _item(at: int, item: Json, cut: Cut) -> Iterator[Json]:
    start: Json
    where = {"item_id": item.get("id", ""), "output_index": at}
    field = {"function_call": "arguments", "custom_tool_call": "input"}.get(item["type"])
    if item["type"] == "message":
        start = {**item, "content": []}
    elif field:
        start = {**item, field: "", "status": "in_progress"}
    elif item["type"] == "reasoning":
        start = {**item, "summary": []}
    else:
        start = item
    yield {"type": "response.output_item.added", "output_index": at, "item": start}
    if field:
        kind = "function_call_arguments" if field == "arguments" else "custom_tool_call_input"
        for piece in cut(item[field]):
            yield {"type": f"response.{kind}.delta", **where, "delta": piece}
        yield {"type": f"response.{kind}.done", **where, field: item[field]}
    elif item["type"] == "message":
        for index, part in enumerate(item["content"]):
            yield from _part("content", {**where, "content_index": index}, part, cut)
    elif item["type"] == "reasoning":
        for index, part in enumerate(item["summary"]):
            yield from _part("reasoning_summary", {**where, "summary_index": index}, part, cut)
    yield {"type": "response.output_item.done", "output_index": at, "item": item}


def _part(stem: str, where: Json, part: Json, cut: Cut) -> Iterator[Json]:
    field = "refusal" if part["type"] == "refusal" else "text"
    texts = {"summary_text": "reasoning_summary_text"}.get(part["type"], part["type"])
    opened = {**part, field: ""}
    if "annotations" in part:
        opened["annotations"] = []
    yield {"type": f"response.{stem}_part.added", **where, "part": opened}
    for piece in cut(part[field]):
        yield {"type": f"response.{texts}.delta", **where, "delta": piece}
    for at, one in enumerate(part.get("annotations", [])):
        kind = "response.output_text.annotation.added"
        yield {"type": kind, **where, "annotation_index": at, "annotation": one}
    yield {"type": f"response.{texts}.done", **where, field: part[field]}
    yield {"type": f"response.{stem}_part.done", **where, "part": part}

"""A reply of the Messages API as its stream: the blocks one after the other, each in deltas."""

from __future__ import annotations

from collections.abc import Iterator

from sawlog.providers.fake_json import Source, dump
from sawlog.providers.fake_streams import Event, named, pieces
from sawlog.providers.strict.reading import JsonObject, as_list, as_object

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")  # their input comes in pieces
_OF_THE_END = ("stop_reason", "stop_sequence", "stop_details", "container")
_USAGE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens") + (
    "output_tokens",
    "output_tokens_details",
    "server_tool_use",
)  # what the last count repeats of the usage

Deltas = tuple[JsonObject, list[JsonObject]]


def stream(body: JsonObject) -> list[Event]:
    """The events of a whole reply. A block that the API has no deltas for comes whole at its
    start."""
    usage = as_object(body.get("usage")) or {}
    none: list[object] = []
    start = {**body, "content": none, "usage": {**usage, "output_tokens": 1}}
    start |= {name: None for name in _OF_THE_END if name in start}
    events = [named("message_start", {"message": start})]
    calls = 0
    for index, value in enumerate(as_list(body.get("content")) or []):
        block = as_object(value) or {}
        call = calls if block.get("type") == "tool_use" else None
        calls += call is not None
        opened, deltas = _deltas(block)
        events.append(named("content_block_start", {"index": index, "content_block": opened}))
        if index == 0:
            events.append(named("ping", {}))
        for delta in deltas:
            # The first delta of an input is empty: none of its arguments is there yet.
            number = None if delta.get("partial_json") == "" else call
            events.append(named("content_block_delta", {"index": index, "delta": delta}, number))
        events.append(named("content_block_stop", {"index": index}))
    last = {name: body[name] for name in _OF_THE_END if name in body}
    counts = {name: usage[name] for name in _USAGE if name in usage}
    events.append(named("message_delta", {"delta": last, "usage": counts}))
    events.append(named("message_stop", {}))
    return events


def _deltas(block: JsonObject) -> Deltas:
    """The block as it starts, and what is added to it."""
    kind = block.get("type")
    if kind == "text":
        return _text(block)
    if kind == "thinking":
        opened = {**block, "thinking": "", "signature": ""}
        signature = {"type": "signature_delta", "signature": block.get("signature", "")}
        return opened, [*_split("thinking_delta", "thinking", block.get("thinking")), signature]
    if kind in _CALLS and "input" in block:
        nothing: JsonObject = {}
        first: JsonObject = {"type": "input_json_delta", "partial_json": ""}
        source = _source(block["input"])
        rest = _split("input_json_delta", "partial_json", source)
        return {**block, "input": nothing}, [first, *rest]
    if kind == "compaction":
        summary: JsonObject = {"type": "compaction_delta", "content": block.get("content")}
        return {**block, "content": None}, [summary]
    return block, []


def _text(block: JsonObject) -> Deltas:
    citations = as_list(block.get("citations"))
    opened = {**block, "text": ""}
    if citations is not None:
        none: list[object] = []
        opened["citations"] = none
    cited: list[JsonObject] = [
        {"type": "citations_delta", "citation": citation} for citation in citations or []
    ]
    return opened, [*cited, *_split("text_delta", "text", block.get("text"))]


def _split(kind: str, name: str, text: object) -> Iterator[JsonObject]:
    for piece in pieces(text if isinstance(text, str) else ""):
        yield {"type": kind, name: piece}


def _source(value: object) -> str:
    if isinstance(value, Source) and value.cut is not None:
        return value.cut
    return dump(value, ascii=False)

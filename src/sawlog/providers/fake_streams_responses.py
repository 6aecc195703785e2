"""A reply of Responses as its stream: the items one after the other, then the whole response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sawlog.providers.fake_replies import ScriptError
from sawlog.providers.fake_streams import Event, named, pieces
from sawlog.providers.strict.reading import JsonObject, as_list, as_object

_STAGES = {  # what is told of an item that the provider runs, between its start and its end
    "web_search_call": ("in_progress", "searching", "completed"),
    "file_search_call": ("in_progress", "searching", "completed"),
    "code_interpreter_call": ("in_progress", "interpreting", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
    "mcp_list_tools": ("in_progress", "completed"),
    "mcp_call": ("in_progress", "completed"),
    "compaction": ("compacting",),
}
_SOURCES = {  # items whose text comes in pieces: the field, and the name of its events
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
}

Told = tuple[str, JsonObject, bool]  # name, fields, whether arguments are in it


class Stream:
    """The events of a response, numbered as they are added."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tell(self, name: str, fields: Mapping[str, object], call: int | None = None) -> None:
        """Adds an event."""
        event = named(f"response.{name}", {**fields, "sequence_number": len(self.events)}, call)
        self.events.append(event)


def stream(body: JsonObject) -> list[Event]:
    """The events of a whole response. Raises ScriptError for a status that ends no stream."""
    status = body.get("status")
    if status not in ("completed", "incomplete", "failed"):
        raise ScriptError(
            f"a stream of Responses ends completed, incomplete or failed, and not {status!r}; "
            "give the reply another stop"
        )
    told = Stream()
    told.tell("created", {"response": started(body)})
    told.tell("in_progress", {"response": started(body)})
    calls = 0
    for index, value in enumerate(as_list(body.get("output")) or []):
        item = as_object(value) or {}
        call = calls if item.get("type") in _SOURCES else None
        calls += call is not None
        place: JsonObject = {"output_index": index}
        told.tell("output_item.added", {**place, "item": _opened(item)})
        for name, fields, sourced in _filled(item):
            ids = {"item_id": item.get("id"), **place}
            told.tell(name, {**ids, **fields}, call if sourced else None)
        told.tell("output_item.done", {**place, "item": item})
    told.tell(str(status), {"response": body})
    return told.events


def started(body: JsonObject) -> JsonObject:
    """The response before anything came out."""
    none: list[object] = []
    begun = {**body, "status": "in_progress", "output": none, "usage": None}
    return begun | {"error": None, "incomplete_details": None}


def _opened(item: JsonObject) -> JsonObject:
    none: list[object] = []
    opened = {**item}
    if "status" in item:
        opened["status"] = "in_progress"
    kind = item.get("type")
    if kind == "message":
        opened["content"] = none
    elif kind == "reasoning":
        opened["summary"] = none
        opened.pop("encrypted_content", None)
        if item.get("content") is not None:
            opened["content"] = none
    elif kind in _SOURCES:
        opened[_SOURCES[str(kind)][0]] = ""
    return opened


def _filled(item: JsonObject) -> Iterator[Told]:
    """What comes between the start and the end of an item."""
    kind = str(item.get("type"))
    if kind == "message":
        yield from _contents(item)
    elif kind == "reasoning":
        yield from _reasoning(item)
    elif kind in _SOURCES:
        field, name = _SOURCES[kind]
        source = str(item.get(field, ""))
        for piece in pieces(source):
            yield f"{name}.delta", {"delta": piece}, True
        yield f"{name}.done", {field: source}, False
    for stage in _STAGES.get(kind, ()):
        yield f"{kind}.{stage}", {}, False


def _contents(item: JsonObject) -> Iterator[Told]:
    for number, value in enumerate(as_list(item.get("content")) or []):
        part = as_object(value) or {}
        place: JsonObject = {"content_index": number}
        refused = part.get("type") == "refusal"
        field, name = ("refusal", "refusal") if refused else ("text", "output_text")
        text = str(part.get(field, ""))
        none: list[object] = []
        logprobs: JsonObject = {} if refused else {"logprobs": none}
        opened = {**part, field: ""}
        if "annotations" in part:
            opened["annotations"] = none
        yield "content_part.added", {**place, "part": opened}, False
        for piece in pieces(text):
            yield f"{name}.delta", {**place, "delta": piece, **logprobs}, False
        for index, annotation in enumerate(as_list(part.get("annotations")) or []):
            note = {"annotation_index": index, "annotation": annotation}
            yield "output_text.annotation.added", {**place, **note}, False
        yield f"{name}.done", {**place, field: text, **logprobs}, False
        yield "content_part.done", {**place, "part": part}, False


def _reasoning(item: JsonObject) -> Iterator[Told]:
    for number, value in enumerate(as_list(item.get("summary")) or []):
        part = as_object(value) or {}
        text = str(part.get("text", ""))
        place: JsonObject = {"summary_index": number}
        yield "reasoning_summary_part.added", {**place, "part": {**part, "text": ""}}, False
        for piece in pieces(text):
            yield "reasoning_summary_text.delta", {**place, "delta": piece}, False
        yield "reasoning_summary_text.done", {**place, "text": text}, False
        yield "reasoning_summary_part.done", {**place, "part": part}, False
    for number, value in enumerate(as_list(item.get("content")) or []):
        text = str((as_object(value) or {}).get("text", ""))
        place = {"content_index": number}
        for piece in pieces(text):
            yield "reasoning_text.delta", {**place, "delta": piece}, False
        yield "reasoning_text.done", {**place, "text": text}, False

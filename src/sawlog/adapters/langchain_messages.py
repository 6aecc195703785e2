"""Messages of LangChain as ordinary events."""

from __future__ import annotations

from typing import Any

from sawlog.adapters.missing import missing
from sawlog.adapters.records import Said
from sawlog.formats.media import Blobs, image
from sawlog.formats.values import as_object
from sawlog.store.content import IncompletePart, Part, RawPart, TextPart
from sawlog.store.errors import InvalidEvent
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.jsontext import source_of

try:
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )
except ImportError:
    raise missing("langgraph", "langgraph") from None

API = "langchain"
"""The API of parts that only LangChain has a word for."""


def said_of(message: BaseMessage) -> tuple[Said, ...]:
    """What a message says, in order."""
    if isinstance(message, AIMessage):
        return _reply(message)
    parts, blobs = _content(message)
    if isinstance(message, ToolMessage):
        status = "error" if message.status == "error" else "ok"
        result = ToolFinished(
            call_id=message.tool_call_id, name=message.name or "", status=status, parts=parts
        )
        return (Said(result, blobs=blobs),)
    if isinstance(message, SystemMessage):
        return (Said(MessageSystem(parts), blobs=blobs),)
    # The other kinds are old or a program's own: what they say is not a person's.
    origin = "" if isinstance(message, HumanMessage) else "harness"
    return (Said(MessageUser(parts, origin=origin), blobs=blobs),)


def _reply(message: AIMessage) -> tuple[Said, ...]:
    parts, blobs = _content(message)
    parts += tuple(
        IncompletePart(call.get("name") or "", call.get("args") or "")
        for call in message.invalid_tool_calls
    )
    model = str(as_object(message.response_metadata).get("model_name") or "")
    said: list[Said] = []
    if parts or not message.tool_calls:
        said.append(Said(MessageAssistant(parts, model=model), reply=True, blobs=blobs))
    for call in message.tool_calls:
        asked = ToolRequested(
            call_id=call.get("id") or "", name=call["name"], arguments=source_of(call["args"])
        )
        said.append(Said(asked, reply=True))
    return tuple(said)


def _content(message: BaseMessage) -> tuple[tuple[Part, ...], Blobs]:
    content: Any = message.content  # pyright: ignore[reportUnknownMemberType]
    if isinstance(content, str):
        return ((TextPart(content),) if content else ()), ()
    parts: list[Part] = []
    blobs: Blobs = ()
    for block in content:
        if as_object(block).get("type") in ("tool_use", "tool_call"):
            continue  # it stands among the calls
        part, more = _block(block)
        parts.append(part)
        blobs += more
    return tuple(parts), blobs


def _block(block: Any) -> tuple[Part, Blobs]:
    if isinstance(block, str):
        return TextPart(block), ()
    value = as_object(block)
    if value.get("type") == "text" and isinstance(value.get("text"), str):
        return TextPart(value["text"]), ()
    if value.get("type") == "image_url":
        url = value.get("image_url")
        url = as_object(url).get("url", url)
        if isinstance(url, str):
            return image(url)
    try:
        return RawPart(API, source_of(value)), ()
    except InvalidEvent:
        # A program's own object: the checkpoint has it, and no model reads it from here.
        return RawPart(API, source_of({"type": str(value.get("type"))})), ()

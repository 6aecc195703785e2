"""Messages of Pydantic AI as ordinary events, read from their JSON.

A request's parts are what was said to the model, a response's are one reply. Thinking is kept to be
read and never goes back from here: what binds it to its provider is in the message's own source.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from sawlog.adapters.records import Said
from sawlog.formats.media import Blobs, image
from sawlog.formats.media import content as media_content
from sawlog.formats.values import as_list, as_object, as_text
from sawlog.store.content import BoundPart, Part, RawPart, TextPart
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.jsontext import source_of

API = "pydantic-ai"
"""The API of parts that only Pydantic AI has a word for."""


_STATUS = {"": "ok", "success": "ok", "interrupted": "interrupted"}
"""Outcomes of a tool, as the status of its result; every other one is an error."""


def said_of(message: Mapping[str, Any], instructions: str) -> tuple[Said, ...]:
    """What a message says, in order; `instructions` are those of the request before it."""
    parts = [as_object(part) for part in as_list(message.get("parts")) or []]
    if message.get("kind") == "response":
        return _response(parts, as_text(message.get("model_name")))
    given = as_text(message.get("instructions"))
    said: list[Said] = []
    if given and given != instructions:
        said.append(Said(MessageSystem((TextPart(given),))))
    said.extend(_requested(part) for part in parts)
    return tuple(said)


def _requested(part: Mapping[str, Any]) -> Said:
    kind = part.get("part_kind")
    content = part.get("content")
    if kind == "system-prompt" and isinstance(content, str):
        return Said(MessageSystem((TextPart(content),)))
    if kind == "user-prompt":
        parts, blobs = _content(content)
        return Said(MessageUser(parts), blobs=blobs)
    call_id, name = as_text(part.get("tool_call_id")), as_text(part.get("tool_name"))
    if kind == "tool-return" or (kind == "retry-prompt" and name):
        outcome = "retried" if kind == "retry-prompt" else as_text(part.get("outcome"))
        status = _STATUS.get(outcome, "error")
        shown = (TextPart(_text(content)),)
        return Said(ToolFinished(call_id=call_id, name=name, status=status, parts=shown))
    if kind in ("retry-prompt", "retry-feedback"):
        return Said(MessageUser((TextPart(_text(content)),), origin="harness"))
    return Said(MessageUser((RawPart(API, source_of(part)),), origin="harness"))


def _response(parts: list[dict[str, Any]], model: str) -> tuple[Said, ...]:
    said: list[Said] = []
    run: list[Part] = []

    def close() -> None:
        if run:
            said.append(Said(MessageAssistant(tuple(run), model=model), reply=True))
            run.clear()

    for part in parts:
        call_id, name = part.get("tool_call_id"), part.get("tool_name")
        if part.get("part_kind") == "tool-call" and call_id and isinstance(name, str):
            close()
            arguments = part.get("args")
            asked = ToolRequested(call_id=as_text(call_id), name=name, arguments=_args(arguments))
            said.append(Said(asked, reply=True))
        else:
            run.append(_part(part))
    close()
    if not said:
        said.append(Said(MessageAssistant((), model=model), reply=True))
    return tuple(said)


def _part(part: Mapping[str, Any]) -> Part:
    content = as_text(part.get("content"))
    if part.get("part_kind") == "text":
        return TextPart(content)
    if part.get("part_kind") == "thinking":
        return BoundPart("unsigned_thinking", API, source_of(part), content)
    return RawPart(API, source_of(part))


def _args(value: object) -> str:
    if value is None:
        return "{}"
    return value if isinstance(value, str) else source_of(value)


def _text(content: object) -> str:
    return content if isinstance(content, str) else source_of(content)


def _content(content: object) -> tuple[tuple[Part, ...], Blobs]:
    """The parts of what a user said: a text, or a list of texts and media."""
    if isinstance(content, str):
        return (TextPart(content),), ()
    parts: list[Part] = []
    blobs: Blobs = ()
    for one in as_list(content) or []:
        part, more = _said_part(one)
        parts.append(part)
        blobs += more
    return tuple(parts), blobs


def _said_part(one: object) -> tuple[Part, Blobs]:
    if isinstance(one, str):
        return TextPart(one), ()
    value = as_object(one)
    kind = value.get("kind")
    if kind == "text-content" and isinstance(value.get("content"), str):
        return TextPart(value["content"]), ()
    if kind == "image-url" and isinstance(value.get("url"), str):
        return image(value["url"])
    if kind == "binary" and isinstance(value.get("data"), str):
        try:
            # Pydantic writes the alphabet for URLs.
            data = base64.urlsafe_b64decode(value["data"])
        except (ValueError, binascii.Error):
            return RawPart(API, source_of(one)), ()
        media = as_text(value.get("media_type")) or "application/octet-stream"
        return media_content(data, media)
    return RawPart(API, source_of(one)), ()

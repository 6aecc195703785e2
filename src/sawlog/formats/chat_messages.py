"""Chat Completions messages as parts, calls and tools: what each field of one becomes.

Fields that sawlog has no word for become bound parts of the kind `message.FIELD`, as in a live
reply; a content part that is more than text or an image stays a raw part of this API.
"""

from __future__ import annotations

from typing import Any, cast

from sawlog.formats.media import Blobs, image
from sawlog.store.content import BoundPart, Part, RawPart, TextPart
from sawlog.store.events.conversation import ToolRequested
from sawlog.store.events.world import Tool
from sawlog.store.jsonslices import elements, fields, object_of, string

API = "openai-chat"

_SAID_OTHERWISE = frozenset(
    ("role", "content", "refusal", "tool_calls", "annotations", "reasoning_content")
)
_EMPTY = frozenset(("null", '""', "[]", "{}", "false"))


def content_parts(content: object, source: str) -> tuple[tuple[Part, ...], Blobs]:
    """The parts of a message's content: a string, a list, or nothing.

    `source` is the message's JSON text.
    """
    if isinstance(content, str):
        return (TextPart(content),), ()
    if content is None:
        return (), ()
    given = fields(source)["content"]
    if not isinstance(content, list):
        return (RawPart(API, given),), ()
    parts: list[Part] = []
    blobs: Blobs = ()
    for one, text in zip(cast(list[object], content), elements(given), strict=True):
        part, more = _part(one, text)
        parts.append(part)
        blobs += more
    return tuple(parts), blobs


def _part(value: object, source: str) -> tuple[Part, Blobs]:
    if isinstance(value, str):
        return TextPart(value), ()
    if isinstance(value, dict):
        one = cast(dict[str, Any], value)
        kind, text = one.get("type"), one.get("text")
        if kind == "text" and isinstance(text, str):
            return TextPart(text), ()
        if kind == "refusal" and isinstance(one.get("refusal"), str):
            return BoundPart("refusal", API, fields(source)["refusal"], one["refusal"]), ()
        if kind == "image_url":
            given = one.get("image_url")
            url = cast(dict[str, Any], given).get("url") if isinstance(given, dict) else given
            if isinstance(url, str):
                return image(url)
    return RawPart(API, source), ()


def reply_parts(message: dict[str, Any], source: str) -> tuple[tuple[Part, ...], Blobs]:
    """The parts of an assistant's message but its calls, in the order of a live reply."""
    sources = fields(source)
    parts: list[Part] = []
    if isinstance(message.get("reasoning_content"), str):
        text = message["reasoning_content"]
        parts.append(BoundPart("reasoning_content", API, sources["reasoning_content"], text))
    said, blobs = content_parts(message.get("content"), source)
    if not message.get("tool_calls") or said != (TextPart(""),):
        parts.extend(said)
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        parts.append(BoundPart("refusal", API, sources["refusal"], message["refusal"]))
    for name, given in sources.items():
        if name not in _SAID_OTHERWISE and given not in _EMPTY:
            value = message.get(name)
            text = value if isinstance(value, str) else ""
            parts.append(BoundPart(f"message.{name}", API, given, text))
    return tuple(parts), blobs


def call_of(value: object, source: str) -> ToolRequested | None:
    """The call that an element of `tool_calls` is; None when it has no id or no name."""
    if not isinstance(value, dict):
        return None
    call = cast(dict[str, Any], value)
    form, argument, kind = "function", "arguments", "json"
    if "custom" in call:
        form, argument, kind = "custom", "input", "text"
    inner = call.get(form)
    call_id = call.get("id")
    if not isinstance(inner, dict) or not isinstance(call_id, str) or not call_id:
        return None
    given = cast(dict[str, Any], inner)
    name, arguments = given.get("name"), given.get(argument)
    if not isinstance(name, str):
        return None
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        # Some servers send the object itself.
        arguments = fields(fields(source)[form])[argument]
    return ToolRequested(call_id=call_id, name=name, arguments=arguments, kind=kind)


def tools_of(source: str) -> tuple[Tool, ...]:
    """The tools of a `tools` or `functions` array. Raises ValueError when it is none."""
    return tuple(_tool(one) for one in elements(source))


def _tool(source: str) -> Tool:
    outer = fields(source)
    kind = string(outer.get("type")) or ""
    if kind not in ("", "function", "custom"):
        # A tool that the provider runs: its whole source, under the name of its kind.
        return Tool(string(outer.get("name")) or kind, source)
    given = fields(outer[kind]) if kind and kind in outer else outer
    name = string(given.get("name"))
    if not name:
        raise ValueError("a tool without a name")
    said = {"name": given["name"]}
    if "description" in given:
        said["description"] = given["description"]
    if kind == "custom":
        said["type"] = outer["type"]
        if "format" in given:
            said["format"] = given["format"]
    else:
        said["parameters"] = given.get("parameters", "{}")
        if given.get("strict") == "true":
            said["strict"] = given["strict"]
    return Tool(name, object_of(said))

"""Response items of Codex rollouts as events: what each one is to the conversation.

An item is a reply of the model, an input to it, a result, or stands aside. The reader decides
which step it belongs to; here only the item counts.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from sawlog.formats.media import Blobs, image
from sawlog.formats.values import as_text
from sawlog.store.content import BoundPart, Part, RawPart, TextPart
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.world import Tool
from sawlog.store.jsonslices import elements, fields, object_of, string
from sawlog.store.jsontext import source_of

API = "openai-responses"

REPLY, INPUT, RESULT, ASIDE = "reply", "input", "result", "aside"

_COMPACTION = ("compaction", "compaction_summary", "context_compaction")
_RAW_REPLY = ("web_search_call", "image_generation_call")

# Texts that the harness writes into user messages, by how they begin and end.
_HARNESS = (
    ("# AGENTS.md instructions", "</INSTRUCTIONS>"),
    ("<environment_context>", "</environment_context>"),
    ("<user_instructions>", "</user_instructions>"),
    ("<turn_aborted>", "</turn_aborted>"),
    ("<skill>", "</skill>"),
    ("<hook_prompt", "</hook_prompt>"),
    ("<user_shell_command>", "</user_shell_command>"),
    ("<subagent_notification>", "</subagent_notification>"),
)


class Item(msgspec.Struct, frozen=True):
    """What a response item becomes.

    `place` is `reply`, `input`, `result` or `aside`. `turn`: a rollback counts it as the start of
    a user turn. `odd` says what about it could not be read as expected.
    """

    place: str
    payload: Payload
    blobs: Blobs = ()
    turn: bool = False
    odd: str = ""


def is_abort(payload: Payload) -> bool:
    """True for the message by which the harness tells the model that the turn was interrupted."""
    if not isinstance(payload, MessageUser) or not payload.parts:
        return False
    first = payload.parts[0]
    return isinstance(first, TextPart) and str(first.text).startswith("<turn_aborted>")


def item_of(
    value: dict[str, Any], source: str, *, model: str = "", copy: bool = False
) -> Item | None:
    """The event of a response item; None when nothing of it was ever shown to a model.

    `source` is the item's JSON text, `model` the one at work, `copy` marks an item that a
    compaction repeats.
    """
    kind = value.get("type")
    if kind == "message":
        return _message(value, source, model, copy)
    if kind == "reasoning":
        part = BoundPart("reasoning", API, source, _reasoning_text(value))
        return Item(REPLY, MessageAssistant(parts=(part,), model=model, copy=copy))
    if kind in _COMPACTION:
        part = BoundPart("compaction", API, source)
        return Item(REPLY, MessageAssistant(parts=(part,), model=model, copy=copy))
    if kind in ("function_call_output", "custom_tool_call_output", "tool_search_output"):
        if _is_server_run(value):
            return _raw(REPLY, source, model, copy)
        return _result(value, source)
    if kind in ("function_call", "custom_tool_call", "tool_search_call", "local_shell_call"):
        if _is_server_run(value):
            return _raw(REPLY, source, model, copy)
        call = _call(value, source)
        if call is not None:
            return Item(REPLY, call)
        return _raw(REPLY, source, model, copy, odd=f"a {kind} that no result can name")
    if kind in _RAW_REPLY:
        return _raw(REPLY, source, model, copy)
    if kind == "agent_message":
        # Another agent's message to this one: the model did not write it, it answers it.
        return _raw(INPUT, source, "", copy, turn=True)
    if kind == "ghost_snapshot":
        return _raw(ASIDE, source, "", copy)
    if isinstance(kind, str) and kind.endswith("_call"):
        return _raw(REPLY, source, model, copy, odd=f"a {kind}, kept as the API's own")
    return None


def _raw(
    place: str, source: str, model: str, copy: bool, *, turn: bool = False, odd: str = ""
) -> Item:
    payload = MessageAssistant(parts=(RawPart(API, source),), model=model, copy=copy)
    return Item(place, payload, (), turn, odd)


# --- messages -------------------------------------------------------------------------------------


def _message(value: dict[str, Any], source: str, model: str, copy: bool) -> Item | None:
    role = value.get("role")
    read = parts_of(value.get("content"), source, "content")
    if read is None:
        return None
    parts, blobs = read
    if role == "user":
        harness = is_harness(parts)
        payload = MessageUser(parts=parts, copy=copy, origin="harness" if harness else "")
        return Item(INPUT, payload, blobs, turn=not harness)
    if role in ("developer", "system"):
        return Item(INPUT, MessageSystem(parts=parts, role=role, copy=copy), blobs)
    if role == "assistant":
        return Item(REPLY, MessageAssistant(parts=parts, model=model, copy=copy), blobs)
    return None


def is_harness(parts: tuple[Part, ...]) -> bool:
    """True when every part is a text that the harness wrote."""
    return bool(parts) and all(
        isinstance(part, TextPart) and _is_harness_text(str(part.text)) for part in parts
    )


def _is_harness_text(text: str) -> bool:
    text = text.strip(" \t\r\n")
    return any(text.startswith(begin) and text.endswith(end) for begin, end in _HARNESS)


def parts_of(content: object, source: str, field: str) -> tuple[tuple[Part, ...], Blobs] | None:
    """The parts of a message's content or a result's output; None when it is neither text nor list.

    `source` is the JSON text of the item whose `field` holds the content.
    """
    if isinstance(content, str):
        return (TextPart(content),), ()
    if not isinstance(content, list):
        return None
    parts: list[Part] = []
    blobs: Blobs = ()
    for one, text in zip(cast(list[object], content), elements(fields(source)[field]), strict=True):
        part, more = _part(one, text)
        parts.append(part)
        blobs += more
    return tuple(parts), blobs


def _part(value: object, source: str) -> tuple[Part, Blobs]:
    if isinstance(value, dict):
        one = cast(dict[str, Any], value)
        kind, text, url = one.get("type"), one.get("text"), one.get("image_url")
        if kind in ("input_text", "output_text", "text") and isinstance(text, str):
            return TextPart(text), ()
        if kind == "input_image" and isinstance(url, str):
            return image(url)
    return RawPart(API, source), ()


def _reasoning_text(value: dict[str, Any]) -> str:
    for field in ("summary", "content"):
        given = value.get(field)
        if not isinstance(given, list):
            continue
        texts = [
            text
            for part in cast(list[object], given)
            if isinstance(part, dict)
            and isinstance(text := cast(dict[str, Any], part).get("text"), str)
        ]
        if texts:
            return "\n\n".join(texts)
    return ""


# --- calls and results ----------------------------------------------------------------------------


def _call(value: dict[str, Any], source: str) -> ToolRequested | None:
    kind = value["type"]
    if kind == "local_shell_call":
        call_id = value.get("call_id") or value.get("id")
        name: object = "local_shell"
        arguments: object = fields(source).get("action")
        form = "json"
    elif kind == "tool_search_call":
        call_id, name, form = value.get("call_id"), "tool_search", "search"
        arguments = fields(source).get("arguments")
    elif kind == "custom_tool_call":
        call_id, name, form = value.get("call_id"), value.get("name"), "text"
        arguments = value.get("input")
    else:
        call_id, name, form = value.get("call_id"), value.get("name"), "json"
        arguments = value.get("arguments")
        if not isinstance(arguments, str):
            arguments = fields(source).get("arguments")
    if not (isinstance(call_id, str) and call_id and isinstance(name, str)):
        return None
    if not isinstance(arguments, str):
        return None
    return ToolRequested(
        call_id=call_id,
        name=name,
        arguments=arguments,
        kind=form,
        namespace=as_text(value.get("namespace")),
        item=as_text(value.get("id")),
    )


def _result(value: dict[str, Any], source: str) -> Item | None:
    call_id = value.get("call_id")
    if value["type"] == "tool_search_output":
        tools = fields(source).get("tools", "[]")
        parts: tuple[Part, ...] = (TextPart(tools),)
        blobs: Blobs = ()
    else:
        output = value.get("output")
        body = "output"
        if isinstance(output, dict):
            # An early form: {"content": …, "success": …}.
            source = fields(source)["output"]
            output, body = cast(dict[str, Any], output).get("content"), "content"
        read = parts_of(output, source, body)
        parts, blobs = read if read is not None else ((RawPart(API, source),), ())
    if not isinstance(call_id, str):
        return Item(RESULT, ToolFinished(parts=parts), blobs, odd="a result that names no call")
    payload = ToolFinished(call_id=call_id, parts=parts, status=_status(value))
    return Item(RESULT, payload, blobs)


def _is_server_run(value: dict[str, Any]) -> bool:
    # A search that the provider runs needs no answer of the client.
    return value.get("execution") not in (None, "client")


def _status(value: dict[str, Any]) -> str:
    # Only what the record itself says counts; its text is the tool's.
    output = value.get("output")
    if isinstance(output, dict) and cast(dict[str, Any], output).get("success") is False:
        return "error"
    status = value.get("status")
    if status in ("incomplete", "cancelled", "interrupted"):
        return "interrupted"
    return "error" if status in ("failed", "error") else "ok"


# --- tools ----------------------------------------------------------------------------------------


def tools_of(source: str) -> tuple[Tool, ...]:
    """The tools that a `dynamic_tools` array declares, those of namespaces under full names.

    Raises ValueError when the array is not what it should be.
    """
    tools: list[Tool] = []
    for one in elements(source):
        given = fields(one)
        if given.get("type") == '"namespace"':
            prefix = _name(given)
            tools.extend(_tool(fields(inner), prefix) for inner in elements(given["tools"]))
        else:
            tools.append(_tool(given, ""))
    return tuple(tools)


def _tool(given: dict[str, str], prefix: str) -> Tool:
    name = _name(given)
    if prefix:
        joint = "" if prefix.endswith("_") or name.startswith("_") else "__"
        name = f"{prefix}{joint}{name}"
    said = {"name": source_of(name)}
    if "description" in given:
        said["description"] = given["description"]
    said["parameters"] = given.get("inputSchema") or given.get("parameters") or "{}"
    return Tool(name, object_of(said))


def _name(given: dict[str, str]) -> str:
    name = string(given.get("name"))
    if name is None:
        raise ValueError("a tool without a name")
    return name

"""What the parts of a recorded request say, as the events that a session of ours would have.

The model's own messages are read as replies are, so that a reply and the same reply sent back are
alike. What has no word of its own stays a raw part of its API.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import msgspec

from sawlog.builder.replies import Answered, parse
from sawlog.builder.requests.cutting import Body
from sawlog.formats.chat_messages import content_parts
from sawlog.formats.chat_messages import tools_of as chat_tools
from sawlog.formats.codex_items import RESULT, item_of
from sawlog.formats.media import Blobs
from sawlog.formats.media import content as media_content
from sawlog.formats.values import as_object
from sawlog.store.content import MediaPart, Part, RawPart, TextPart
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.world import Tool
from sawlog.store.jsonslices import SCANNER, elements, fields, object_of, string


class Said(msgspec.Struct, frozen=True):
    """One event that a part of a request amounts to; `source` is the channel that it came by.

    `piece` is the index of the part that it ends with.
    """

    payload: Payload
    source: str
    piece: int
    blobs: Blobs = ()


def said(body: Body, items: Sequence[str], start: int) -> list[Said]:
    """What the messages and items from `start` on say. `items` are the sources of all of them."""
    if body.api == "anthropic":
        return [one for at in range(start, len(items)) for one in _of_anthropic(items[at], at)]
    if body.api == "openai-responses":
        return _responses(items, start)
    found: list[Said] = []
    for at in range(start, len(items)):
        found.extend(_chat(body.api, items[at], at))
    return found


def group_start(body: Body, items: Sequence[str], start: int) -> int:
    """Where the message begins that the item at `start` may belong to.

    Responses spell one reply as several items; everywhere else an item is a message.
    """
    if body.api != "openai-responses":
        return start
    while start > 0 and _is_reply(items[start - 1]):
        start -= 1
    return start


def system_text(body: Body) -> str | None:
    """The system text that stands beside the messages; None where the API has no such place."""
    if body.api not in ("anthropic", "openai-responses"):
        return None
    texts: list[str] = []
    for piece in body.pieces:
        if piece.kind == "system":
            source = body.source(piece)
            text = string(source)
            texts.append(text if text is not None else string(_member(source, "text")) or "")
    return "\n\n".join(text for text in texts if text)


def tools_of(body: Body) -> tuple[Tool, ...]:
    """The tools that a request offers, in order; one that does not read stands under its kind."""
    tools: list[Tool] = []
    for piece in body.pieces:
        if piece.kind != "tool":
            continue
        source = body.source(piece)
        try:
            tools.extend(_tools(body.api, source))
        except (ValueError, KeyError):
            tools.append(Tool(string(_member(source, "type")) or "tool", source))
    return tuple(tools)


def _tools(api: str, source: str) -> tuple[Tool, ...]:
    if api != "anthropic":
        return chat_tools(f"[{source}]")
    given = fields(source)
    name = string(given.get("name")) or ""
    if "input_schema" not in given:
        return (Tool(name or string(given.get("type")) or "tool", source),)
    told = {"name": given["name"]}
    if "description" in given:
        told["description"] = given["description"]
    told["parameters"] = given["input_schema"]
    return (Tool(name, object_of(told)),)


def _member(source: str, name: str) -> str | None:
    try:
        return fields(source).get(name)
    except ValueError:
        return None


def _value(source: str) -> dict[str, object]:
    try:
        return as_object(SCANNER.decode(source))
    except ValueError:
        return {}


def _assistant(api: str, body: str, at: int) -> list[Said]:
    """A message of the model, read as the reply whose body that would be."""
    read = parse(api, 200, {}, body.encode("utf-8", "surrogateescape"))
    if not isinstance(read, Answered):
        return [_raw(api, body, at)]
    pieces = (
        one if isinstance(one, ToolRequested) else MessageAssistant(one)
        for one in read.parts_and_calls
    )
    return [Said(one, f"provider:{api}", at) for one in pieces]


def _raw(api: str, source: str, at: int) -> Said:
    return Said(MessageUser((RawPart(api, source),)), "user", at)


# --- Chat Completions ----------------------------------------------------------------------------


def _chat(api: str, source: str, at: int) -> list[Said]:
    message = _value(source)
    role = message.get("role")
    if role == "assistant":
        return _assistant(api, f'{{"choices":[{{"message":{source}}}]}}', at)
    if role not in ("system", "developer", "user", "tool", "function"):
        return [_raw(api, source, at)]
    parts, blobs = content_parts(message.get("content"), source)
    if role == "user":
        return [Said(MessageUser(parts), "user", at, blobs)]
    if role in ("system", "developer"):
        return [Said(MessageSystem(parts, role=str(role)), str(role), at, blobs)]
    name = message.get("name")
    call_id = message.get("tool_call_id")
    result = ToolFinished(
        call_id=call_id if isinstance(call_id, str) else "",
        name=name if isinstance(name, str) else "",
        parts=parts,
    )
    return [Said(result, "tool", at, blobs)]


# --- Anthropic -----------------------------------------------------------------------------------


def _of_anthropic(source: str, at: int) -> list[Said]:
    try:
        return _anthropic(source, at)
    except ValueError:
        # Content that is neither a text nor a list of objects; what was sent stays as it is.
        return [_raw("anthropic", source, at)]


def _anthropic(source: str, at: int) -> list[Said]:
    message = fields(source) if source[:1] == "{" else {}
    role, content = string(message.get("role")), message.get("content")
    if content is None or role not in ("user", "assistant", "system"):
        return [_raw("anthropic", source, at)]
    text = string(content)
    if role == "assistant":
        blocks = f'[{{"type":"text","text":{content}}}]' if text is not None else content
        return _assistant("anthropic", f'{{"content":{blocks}}}', at)
    found: list[Said] = []
    run: list[Part] = []
    blobs: Blobs = ()
    for block in [] if text is not None else elements(content):
        given = fields(block)
        if string(given.get("type")) == "tool_result":
            found.append(_tool_result(given, at))
        else:
            part, more = _anthropic_part(block)
            run.append(part)
            blobs += more
    if text is not None:
        run.append(TextPart(text))
    if run:
        payload = MessageSystem(tuple(run)) if role == "system" else MessageUser(tuple(run))
        found.append(Said(payload, role, at, blobs))
    return found


def _tool_result(given: dict[str, str], at: int) -> Said:
    parts: list[Part] = []
    blobs: Blobs = ()
    content = given.get("content")
    text = string(content)
    if text is not None:
        parts.append(TextPart(text))
    elif content is not None:
        for block in elements(content):
            part, more = _anthropic_part(block)
            parts.append(part)
            blobs += more
    status = "error" if given.get("is_error") == "true" else "ok"
    call_id = string(given.get("tool_use_id")) or ""
    return Said(ToolFinished(call_id=call_id, status=status, parts=tuple(parts)), "tool", at, blobs)


def _anthropic_part(block: str) -> tuple[Part, Blobs]:
    given = fields(block)
    kind = string(given.get("type"))
    text = string(given.get("text"))
    if kind == "text" and text is not None:
        return TextPart(text), ()
    if kind in ("image", "document") and "source" in given:
        source = fields(given["source"])
        media = string(source.get("media_type")) or ("image/*" if kind == "image" else "")
        raw = _decoded(string(source.get("data")))
        if raw is not None and media:
            return media_content(raw, media, string(given.get("title")) or "")
        url = string(source.get("url"))
        if url:
            return MediaPart(media=media, url=url), ()
        file = string(source.get("file_id"))
        if file:
            return MediaPart(media=media, file=file), ()
    return RawPart("anthropic", block), ()


def _decoded(data: str | None) -> bytes | None:
    if data is None:
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


# --- Responses -----------------------------------------------------------------------------------


def _is_reply(source: str) -> bool:
    item = fields(source) if source[:1] == "{" else {}
    kind = string(item.get("type"))
    if kind in (None, "message"):
        return string(item.get("role")) == "assistant"
    return not kind.endswith("_output") and kind != "item_reference"


def _responses(items: Sequence[str], start: int) -> list[Said]:
    found: list[Said] = []
    group: list[str] = []

    def close(at: int) -> None:
        if group:
            output = ",".join(group)
            body = f'{{"status":"completed","output":[{output}]}}'
            found.extend(_assistant("openai-responses", body, at))
            group.clear()

    for at in range(start, len(items)):
        source = items[at]
        if _is_reply(source):
            group.append(_as_output(source))
            continue
        close(at - 1)
        found.append(_input(source, at))
    close(len(items) - 1)
    return found


def _as_output(source: str) -> str:
    """A message of the model as a reply spells it: the short form leaves type and parts out."""
    item = fields(source)
    text = string(item.get("content"))
    if string(item.get("type")) not in (None, "message"):
        return source
    if text is not None:
        item["content"] = f'[{{"type":"output_text","text":{item["content"]}}}]'
    return object_of({"type": '"message"', **item})


def _input(source: str, at: int) -> Said:
    text = string(source)
    if text is not None:
        return Said(MessageUser((TextPart(text),)), "user", at)
    value = _value(source)
    if "type" not in value and "role" in value:
        value["type"] = "message"
    item = item_of(value, source)
    if item is None:
        return _raw("openai-responses", source, at)
    payload = item.payload
    if item.place == RESULT:
        return Said(payload, "tool", at, item.blobs)
    if isinstance(payload, MessageSystem):
        return Said(payload, payload.role, at, item.blobs)
    if isinstance(payload, MessageUser):
        return Said(MessageUser(payload.parts), "user", at, item.blobs)
    return _raw("openai-responses", source, at)

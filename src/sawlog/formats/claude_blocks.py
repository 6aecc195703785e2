"""Content blocks of Claude Code messages as parts, calls and results.

What has a word of its own becomes text, media, a call or a result; everything else stays the
exact source of its block.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

import msgspec

from sawlog.formats.claude_notes import Notes
from sawlog.formats.lines import Line
from sawlog.formats.media import ANY_IMAGE, Blobs
from sawlog.formats.media import content as media_content
from sawlog.formats.values import as_list, as_object
from sawlog.store.content import BoundPart, MediaPart, Part, RawPart, TextPart, WithheldPart
from sawlog.store.events.conversation import MessageAssistant, ToolRequested
from sawlog.store.jsonslices import elements, source_at

API = "anthropic"
"""The API whose blocks these are."""

# How images that a provider takes begin. A redactor puts a word where the bytes were.
_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_GONE = "the file does not hold its bytes"


class Result(msgspec.Struct, frozen=True):
    """A tool's result as a user record holds it; `call_id` is empty where it names none."""

    call_id: str
    error: bool
    parts: tuple[Part, ...]
    blobs: Blobs


class UserContent(msgspec.Struct, frozen=True):
    """What a user record holds: its results in order, and all else as the parts of a message."""

    results: tuple[Result, ...]
    parts: tuple[Part, ...]
    blobs: Blobs


class _Block(msgspec.Struct, frozen=True):
    """A block and the way to its exact source, which most blocks never need."""

    value: object
    source: Callable[[], str]

    def text_of(self, key: str) -> str | None:
        """The text under a key, or None where the block has none there."""
        found = self.get(key)
        return found if isinstance(found, str) else None

    def get(self, key: str) -> object:
        """The value under a key, or None."""
        return as_object(self.value).get(key)


def assistant_content(
    line: Line, content: object, model: str
) -> list[MessageAssistant | ToolRequested] | None:
    """The events of an assistant record's blocks, a run of parts between calls being one message.

    None when the content is neither a text nor a list of blocks.
    """
    blocks = _blocks(line, content)
    if blocks is None:
        return None
    events: list[MessageAssistant | ToolRequested] = []
    run: list[Part] = []

    def close() -> None:
        if run:
            events.append(MessageAssistant(parts=tuple(run), model=model))
            run.clear()

    for block in blocks:
        call = _call(block)
        if call is None:
            run.append(_assistant_part(block))
        else:
            close()
            events.append(call)
    close()
    return events


def user_content(line: Line, content: object, notes: Notes) -> UserContent | None:
    """What a user record holds; None when it is neither a text nor a list of blocks."""
    blocks = _blocks(line, content)
    if blocks is None:
        return None
    results: list[Result] = []
    parts: list[Part] = []
    blobs: dict[bytes, str] = {}
    for block in blocks:
        if block.text_of("type") == "tool_result":
            results.append(_result(block, line.position, notes))
        else:
            parts.append(_user_part(block, blobs, line.position, notes))
    return UserContent(tuple(results), tuple(parts), tuple(blobs.items()))


def _blocks(line: Line, content: object) -> list[_Block] | None:
    if isinstance(content, str):
        block = {"type": "text", "text": content}
        return [_Block(block, lambda: "")]
    values = as_list(content)
    if values is None:
        return None
    found: list[str] = []

    def source(at: int) -> str:
        if not found:
            found.extend(elements(source_at(line.text, "message", "content") or "[]"))
        return found[at]

    def way(at: int) -> Callable[[], str]:
        return lambda: source(at)

    return [_Block(value, way(at)) for at, value in enumerate(values)]


def _call(block: _Block) -> ToolRequested | None:
    call_id, name = block.text_of("id"), block.text_of("name")
    if block.text_of("type") != "tool_use" or call_id is None or name is None:
        return None
    arguments = source_at(block.source(), "input")
    if arguments is None:
        return None
    return ToolRequested(call_id=call_id, name=name, arguments=arguments)


def _assistant_part(block: _Block) -> Part:
    match block.text_of("type"):
        case "text" if (text := block.text_of("text")) is not None:
            return TextPart(text)
        case "thinking" | "redacted_thinking" as kind:
            return BoundPart(
                kind=kind, api=API, source=block.source(), text=block.text_of("thinking") or ""
            )
        case _:
            return RawPart(api=API, source=block.source())


def _result(block: _Block, position: int, notes: Notes) -> Result:
    content = block.get("content")
    blobs: dict[bytes, str] = {}
    parts: list[Part] = []
    if isinstance(content, str):
        parts.append(TextPart(content))
    elif (values := as_list(content)) is not None:
        for at, value in enumerate(values):
            inner = _Block(value, _inside(block, at))
            parts.append(_user_part(inner, blobs, position, notes))
    elif content is not None:
        parts.append(RawPart(api=API, source=source_at(block.source(), "content") or ""))
    call_id = block.text_of("tool_use_id")
    if call_id is None:
        notes.add("a result names no call", position)
    error = block.get("is_error") is True
    return Result(call_id or "", error, tuple(parts), tuple(blobs.items()))


def _inside(block: _Block, at: int) -> Callable[[], str]:
    return lambda: source_at(block.source(), "content", at) or ""


def _user_part(block: _Block, blobs: dict[bytes, str], position: int, notes: Notes) -> Part:
    kind = block.text_of("type")
    if kind == "text" and (text := block.text_of("text")) is not None:
        return TextPart(text)
    if kind in ("image", "document"):
        media = _media(block, kind, blobs, position, notes)
        if media is not None:
            return media
    return RawPart(api=API, source=block.source())


def _media(
    block: _Block, kind: str, blobs: dict[bytes, str], position: int, notes: Notes
) -> Part | None:
    source = _Block(block.get("source"), block.source)
    name = block.text_of("title") or ""
    media = source.text_of("media_type") or (ANY_IMAGE if kind == "image" else "application/pdf")
    match source.text_of("type"):
        case "base64" if (data := source.text_of("data")) is not None:
            raw = _decoded(data)
            if not raw or (kind == "image" and not raw.startswith(_IMAGES)):
                notes.add(f"a block of type {kind} holds no such bytes", position)
                return WithheldPart(kind=kind, reason=_GONE)
            part, contents = media_content(raw, media, name)
            blobs.update(contents)
            return part
        case "url" if (url := source.text_of("url")) is not None:
            return MediaPart(media=media, url=url, name=name)
        case "file" if (file := source.text_of("file_id")) is not None:
            return MediaPart(media=media, file=file, name=name)
        case _:
            return None


def _decoded(data: str) -> bytes:
    # Empty when it is no base64: the caller says so, nothing is guessed.
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return b""

"""The content blocks of the Messages API: which fields, in which message, with which text."""

from __future__ import annotations

import re

from sawlog.providers.strict import media
from sawlog.providers.strict.reading import JsonObject, as_list, as_object
from sawlog.providers.strict.refusal import invalid

_USER = frozenset(("text", "image", "document", "search_result", "tool_result", "container_upload"))
_ASSISTANT = frozenset(
    ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use")
    + ("mcp_tool_result", "compaction", "container_upload")
)
# What a block may hold besides its type; blocks that are missing here are passed on unread.
_FIELDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {  # type: (required, allowed)
    "text": (frozenset({"text"}), frozenset({"cache_control", "citations"})),
    "thinking": (frozenset({"signature", "thinking"}), frozenset()),
    "redacted_thinking": (frozenset({"data"}), frozenset()),
    "image": (frozenset({"source"}), frozenset({"cache_control", "transformations"})),
    "tool_use": (
        frozenset({"id", "input", "name"}),
        frozenset({"cache_control", "caller", "toolset_name"}),
    ),
    "tool_result": (
        frozenset({"tool_use_id"}),
        frozenset({"cache_control", "content", "is_error", "toolset_name"}),
    ),
}
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
ID_PATTERN = "^[a-zA-Z0-9_-]+$"
NAME_PATTERN = "^[a-zA-Z0-9_-]{1,128}$"


def is_name(text: str) -> bool:
    """Whether a tool may be called so."""
    return _NAME.fullmatch(text) is not None


def is_provider_run(block: JsonObject) -> bool:
    """Whether the block is a call that Anthropic runs, or its result."""
    kind = str(block.get("type"))
    return kind in ("server_tool_use", "mcp_tool_use") or is_provider_result(kind)


def is_provider_result(kind: str) -> bool:
    """Whether blocks of this type are results of calls that Anthropic runs."""
    return kind.endswith("_tool_result")


def blocks_of(where: str, content: object) -> list[JsonObject]:
    """The content of a message or a tool result as blocks; a string is one text block.
    Raises Refusal when it is neither a string nor a list of objects with a type."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    items = as_list(content)
    if items is None:
        raise invalid(f"{where}: Input should be a valid list")
    blocks: list[JsonObject] = []
    for number, item in enumerate(items):
        block = as_object(item)
        if block is None:
            raise invalid(f"{where}.{number}: Input should be a valid dictionary or object")
        if not isinstance(block.get("type"), str):
            raise invalid(f"{where}.{number}.type: Field required")
        blocks.append(block)
    return blocks


def check_text(field: str, text: object, where: str) -> None:
    """Refuses text that is empty or only white space; `field` is `messages` or `system`."""
    if not isinstance(text, str):
        raise invalid(f"{where}: Input should be a valid string")
    if not text:
        raise invalid(f"{field}: text content blocks must be non-empty")
    if not text.strip():
        raise invalid(f"{field}: text content blocks must contain non-whitespace text")


def check_block(where: str, role: str, block: JsonObject) -> None:
    """Refuses a block that may not stand in a message of this role, or is not well formed.
    `where` is its place, as `messages.N.content.M`."""
    kind = str(block["type"])
    _check_place(where, role, kind)
    required, allowed = _FIELDS.get(kind, (frozenset(), frozenset(block)))
    for name in sorted(required - block.keys()):
        raise invalid(f"{where}.{kind}.{name}: Field required")
    for name in sorted(block.keys() - required - allowed - {"type"}):
        raise invalid(f"{where}.{kind}.{name}: Extra inputs are not permitted")
    match kind:
        case "text":
            check_text("messages", block["text"], f"{where}.text.text")
        case "thinking" | "redacted_thinking":
            for name in sorted(required):
                if not isinstance(block[name], str):
                    raise invalid(f"{where}.{kind}.{name}: Input should be a valid string")
        case "image":
            _check_image(f"{where}.image.source", block["source"])
        case "tool_use":
            _check_id(f"{where}.tool_use.id", block["id"])
            called = block["name"]
            if not isinstance(called, str) or not is_name(called):
                raise invalid(
                    f"{where}.tool_use.name: String should match pattern '{NAME_PATTERN}'"
                )
            if as_object(block["input"]) is None:
                raise invalid(f"{where}.tool_use.input: Input should be a valid dictionary")
        case "tool_result":
            _check_id(f"{where}.tool_result.tool_use_id", block["tool_use_id"])
            _check_result(f"{where}.tool_result", block)
        case _:
            pass


def _check_place(where: str, role: str, kind: str) -> None:
    if role == "system":  # besides text it may hold changes of tools, which are not read here
        return
    allowed = _USER if role == "user" else _ASSISTANT
    other = _ASSISTANT if role == "user" else _USER
    provider_result = is_provider_result(kind)
    if kind in allowed or (role == "assistant" and provider_result):
        return
    if kind in other or provider_result:
        home = "user" if kind in _USER else "assistant"
        message = where.partition(".content.")[0]
        raise invalid(f"{message}: `{kind}` blocks can only be in `{home}` messages")
    tags = ", ".join(f"'{name}'" for name in sorted(allowed))
    raise invalid(
        f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected "
        f"tags: {tags}"
    )


def _check_id(where: str, value: object) -> None:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise invalid(f"{where}: String should match pattern '{ID_PATTERN}'")


def _check_result(where: str, block: JsonObject) -> None:
    if not isinstance(block.get("is_error", False), bool):
        raise invalid(f"{where}.is_error: Input should be a valid boolean")
    if "content" not in block or isinstance(block["content"], str):
        return  # an empty result is legal as a string or absent, not as an empty text block
    for number, part in enumerate(blocks_of(f"{where}.content", block["content"])):
        place = f"{where}.content.{number}"
        if part["type"] not in ("text", "image", "document", "search_result", "tool_reference"):
            raise invalid(
                f"{place}: Input tag '{part['type']}' found using 'type' does not match any of "
                "the expected tags: 'document', 'image', 'search_result', 'text', 'tool_reference'"
            )
        if part["type"] != "tool_reference":
            check_block(place, "user", part)


def _check_image(where: str, value: object) -> None:
    source = as_object(value)
    if source is None:
        raise invalid(f"{where}: Input should be a valid dictionary or object")
    match source.get("type"):
        case "base64":
            _check_base64(f"{where}.base64", source)
        case "url":
            url = source.get("url")
            if not isinstance(url, str) or not url.startswith("https://"):
                raise invalid(f"{where}.url.url: Only HTTPS URLs are supported")
        case "file":
            if not isinstance(source.get("file_id"), str) or not source["file_id"]:
                raise invalid(f"{where}.file.file_id: Field required")
        case kind:
            raise invalid(
                f"{where}: Input tag '{kind}' found using 'type' does not match any of the "
                "expected tags: 'base64', 'url', 'file'"
            )


def _check_base64(where: str, source: JsonObject) -> None:
    media_type, data = source.get("media_type"), source.get("data")
    if media_type not in media.IMAGE_TYPES:
        raise invalid(
            f"{where}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or "
            "'image/webp'"
        )
    raw = media.base64_bytes(data) if isinstance(data, str) else None
    if raw is None:
        raise invalid(f"{where}.data: invalid base64 data")
    if media.image_type(raw) not in (None, media_type):
        raise invalid(f"{where}.data: Image does not match the provided media type {media_type}")

"""The Messages API: what it refuses of a request (https://platform.claude.com/docs/en/api).

Stricter than the oldest models: a request that ends with an assistant message (a prefill) is
refused for all, and thinking is always bound to its prefix. A paused reply with provider-run
calls may end a request, for that is how it is continued.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sawlog.providers.strict.anthropic_blocks import (
    NAME_PATTERN,
    blocks_of,
    check_block,
    check_text,
    is_name,
    is_provider_result,
    is_provider_run,
)
from sawlog.providers.strict.anthropic_compaction import check_blocks, check_parameters
from sawlog.providers.strict.reading import JsonObject, Malformed, as_list, as_object, read
from sawlog.providers.strict.refusal import invalid
from sawlog.providers.strict.signing import PrefixDigest, check_thinking

_MARKS = 4
# Models before Opus 4.8 take no system message between the others.
_NO_SYSTEM_MESSAGES = re.compile(
    r"claude-(?:instant|[123])|claude-(?:opus|sonnet|haiku)-4(?:-[0-7])?(?:-\d{8})?$"
)
_EXTENDED_THINKING = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"

Messages = list[tuple[str, list[JsonObject]]]  # role, blocks


def check(body: bytes, headers: Mapping[str, str] | None, key: bytes | None) -> None:
    """Raises Refusal if Anthropic would refuse this request.

    With `headers` (names in any case) they are checked, too; with a `key` thinking blocks must be
    signed with it where they stand.
    """
    if headers is not None and not any(name.lower() == "anthropic-version" for name in headers):
        raise invalid("anthropic-version: header is required")
    try:
        request = as_object(read(body))
    except Malformed as error:
        raise invalid(
            f"The request body is not valid JSON: {error.reason}: line {error.line} column "
            f"{error.column} (char {error.char})"
        ) from None
    if request is None:
        raise invalid("Input should be a valid dictionary or object to extract fields from")
    _check_fields(request)
    _check_system(request.get("system"))
    _check_tools(request.get("tools"))
    messages = _messages(request["messages"])
    _check_marks(request)
    _check_system_messages(str(request["model"]), messages)
    compacts = check_parameters(request, messages, headers)
    check_blocks(messages, headers, key)
    _check_calls(messages)
    _check_provider_results(messages)
    _check_thinking(request, messages, key)
    if not compacts:
        _check_end(messages)


def _check_fields(request: JsonObject) -> None:
    for name in ("model", "max_tokens", "messages"):
        if name not in request:
            raise invalid(f"{name}: Field required")
    if not isinstance(request["model"], str) or not request["model"]:
        raise invalid("model: String should have at least 1 character")
    limit = request["max_tokens"]
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise invalid("max_tokens: Input should be a valid integer")
    if limit < 1:
        raise invalid("max_tokens: must be greater than or equal to 1")
    if not isinstance(request.get("stream", False), bool):
        raise invalid("stream: Input should be a valid boolean")
    thinking = as_object(request.get("thinking")) or {}
    budget = thinking.get("budget_tokens")
    if thinking.get("type") == "enabled" and isinstance(budget, int) and budget >= limit:
        raise invalid(
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our "
            f"documentation at {_EXTENDED_THINKING}#max-tokens-and-context-window-size"
        )


def _check_system(system: object) -> None:
    if system is None or isinstance(system, str):
        return
    for number, block in enumerate(blocks_of("system", system)):
        if block["type"] != "text":
            raise invalid(f"system.{number}.type: Input should be 'text'")
        check_text("system", block.get("text"), f"system.{number}.text")


def _check_tools(value: object) -> None:
    tools = as_list(value) if value is not None else []
    if tools is None:
        raise invalid("tools: Input should be a valid list")
    names: set[str] = set()
    for number, item in enumerate(tools):
        tool = as_object(item)
        if tool is None:
            raise invalid(f"tools.{number}: Input should be a valid dictionary or object")
        name = tool.get("name")
        if tool.get("type", "custom") == "custom":
            where = f"tools.{number}.custom"
            if not isinstance(name, str):
                raise invalid(f"{where}.name: Field required")
            if not is_name(name):
                raise invalid(f"{where}.name: String should match pattern '{NAME_PATTERN}'")
            schema = as_object(tool.get("input_schema"))
            if schema is None:
                raise invalid(f"{where}.input_schema: Field required")
            if schema.get("type") != "object":
                raise invalid(f"{where}.input_schema.type: Input should be 'object'")
        if isinstance(name, str):
            if name in names:
                raise invalid("tools: Tool names must be unique.")
            names.add(name)


def _messages(value: object) -> Messages:
    items = as_list(value)
    if items is None:
        raise invalid("messages: Input should be a valid list")
    if not items:
        raise invalid("messages: at least one message is required")
    messages: Messages = []
    for index, item in enumerate(items):
        message = as_object(item)
        if message is None:
            raise invalid(f"messages.{index}: Input should be a valid dictionary or object")
        role = message.get("role")
        if role not in ("user", "assistant", "system"):
            raise invalid(f"messages.{index}.role: Input should be 'user' or 'assistant'")
        if "content" not in message:
            raise invalid(f"messages.{index}.content: Field required")
        for name in sorted(message.keys() - {"role", "content"}):
            raise invalid(f"messages.{index}.{name}: Extra inputs are not permitted")
        blocks = blocks_of(f"messages.{index}.content", message["content"])
        if not blocks and role != "system":
            raise invalid(
                f"messages.{index}: all messages must have non-empty content except for the "
                "optional final assistant message"
            )
        for number, block in enumerate(blocks):
            check_block(f"messages.{index}.content.{number}", str(role), block)
        messages.append((str(role), blocks))
    role, blocks = messages[0]
    # What came before a compaction block may be left out, and the block is an assistant's.
    if role == "assistant" and not any(block["type"] == "compaction" for block in blocks):
        raise invalid('messages: first message must use the "user" role')
    return messages


def _check_marks(request: JsonObject) -> None:
    def marks(value: object) -> int:
        found = 0
        for item in as_list(value) or []:
            block = as_object(item) or {}
            found += block.get("cache_control") is not None
            if block.get("type") == "tool_result":
                found += marks(block.get("content"))
        return found

    found = marks(request.get("system")) + marks(request.get("tools"))
    for item in as_list(request["messages"]) or []:
        found += marks((as_object(item) or {}).get("content"))
    if found > _MARKS:
        raise invalid(
            f"A maximum of {_MARKS} blocks with cache_control may be provided. Found {found}."
        )


def _check_system_messages(model: str, messages: Messages) -> None:
    """A system message follows a user message (or a provider-run call) and ends the request or
    stands before an assistant message."""
    for index, (role, _) in enumerate(messages):
        if role != "system":
            continue
        if index == 0:
            raise invalid(
                "messages.0: use the top-level 'system' parameter for the initial system prompt"
            )
        if _NO_SYSTEM_MESSAGES.match(model):
            raise invalid("role 'system' is not supported on this model")
        before, blocks = messages[index - 1]
        paused = before == "assistant" and is_provider_run(blocks[-1])
        if before != "user" and not paused:
            raise invalid(f"messages.{index}: a system message must follow a user message")
        if index + 1 < len(messages) and messages[index + 1][0] != "assistant":
            raise invalid(
                f"messages.{index}: a system message must be the last message or be followed by "
                "an assistant message"
            )


def _check_calls(messages: Messages) -> None:
    """Every call is answered once, at the start of the user turn right after its message."""
    used: set[str] = set()
    calls: list[str] = []  # of the assistant message right before the turn
    leading = True  # whether only results were seen in this turn
    answered: set[str] = set()
    asked_at = 0

    def close(index: int) -> None:
        missing = [id for id in calls if id not in answered]
        if missing:
            raise invalid(
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )

    for index, (role, blocks) in enumerate(messages):
        if role != "user":
            close(asked_at)
            calls, asked_at, leading = [], index, True
            answered.clear()
        for number, block in enumerate(blocks):
            where = f"messages.{index}.content.{number}"
            if block["type"] in ("tool_use", "server_tool_use", "mcp_tool_use"):
                id = str(block.get("id"))
                if id in used:
                    raise invalid(f"{where}: `tool_use` ids must be unique")
                used.add(id)
                if block["type"] == "tool_use":
                    calls.append(id)
            elif block["type"] == "tool_result":
                id = str(block["tool_use_id"])
                if id in answered:
                    raise invalid(
                        f"{where}: each tool_use must have a single result. Found multiple "
                        f"`tool_result` blocks with id: {id}"
                    )
                if id not in calls:
                    raise invalid(
                        f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. "
                        "Each `tool_result` block must have a corresponding `tool_use` block in "
                        "the previous message."
                    )
                if leading:
                    answered.add(id)
            elif role == "user":
                leading = False
    close(asked_at)


def _check_provider_results(messages: Messages) -> None:
    """A result of a provider-run call has its call somewhere before it."""
    used: set[str] = set()
    for index, (_, blocks) in enumerate(messages):
        for number, block in enumerate(blocks):
            kind = str(block["type"])
            call = "mcp_tool_use" if kind == "mcp_tool_result" else "server_tool_use"
            if kind in ("server_tool_use", "mcp_tool_use"):
                used.add(str(block.get("id")))
            elif is_provider_result(kind) and block.get("tool_use_id") not in used:
                raise invalid(
                    f"messages.{index}.content.{number}: unexpected `tool_use_id` found in "
                    f"`{kind}` blocks: {block.get('tool_use_id')}. Each `{kind}` block must have "
                    f"a corresponding `{call}` block before it."
                )


_ANY_PREFIX = (
    "claude-fable-5",
    "claude-mythos-5",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-opus-4-8",
    "claude-opus-4-7",
    "claude-opus-4-6",
    "claude-sonnet-4-6",
    "claude-opus-4-5",
    "claude-opus-4-5-20251101",
    "claude-sonnet-4-5",
    "claude-sonnet-4-5-20250929",
    "claude-haiku-4-5",
    "claude-haiku-4-5-20251001",
)
"""Models that take their own thinking behind any prefix, as all did before Claude Fable 5.1."""


def _check_thinking(request: JsonObject, messages: Messages, key: bytes | None) -> None:
    """Thinking stands behind what it was signed for, and opens a turn that thinks."""
    thinking = as_object(request.get("thinking")) or {}
    if thinking.get("type") == "enabled":
        _check_turn_thinks(messages)
    if key is None or not any(_is_thinking(b) for _, blocks in messages for b in blocks):
        return
    prefix = PrefixDigest(request)
    for index, (role, blocks) in enumerate(messages):
        for number, block in enumerate(blocks):
            if not _is_thinking(block):
                continue
            kind = str(block["type"])
            text = str(block["thinking"]) if kind == "thinking" else ""
            signature = str(block["signature" if kind == "thinking" else "data"])
            before = prefix.before(list(blocks[:number]))
            fault = check_thinking(key, kind, before, text, signature)
            if fault == "forged" or (fault and request.get("model") not in _ANY_PREFIX):
                raise invalid(
                    f"messages.{index}.content.{number}: Invalid "
                    f"`{'signature' if kind == 'thinking' else 'data'}` in `{kind}` block"
                    + _MISMATCH[fault]
                )
        prefix.add_message({"role": role, "content": list(blocks)})


_BOUND = (
    ". The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block". '
)
_MISMATCH = {
    "forged": "",
    "system": _BOUND + "The `system` prompt differs from the one this block was created with.",
    "tools": _BOUND + "The `tools` differ from those this block was created with.",
    "messages": _BOUND + "The messages before it differ from those this block was created with.",
}


def _is_thinking(block: JsonObject) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def _check_turn_thinks(messages: Messages) -> None:
    """With thinking switched on, an unfinished turn (it ends with results) began with thinking."""
    start = len(messages)
    while start and (
        messages[start - 1][0] == "assistant"
        or any(block["type"] == "tool_result" for block in messages[start - 1][1])
    ):
        start -= 1
    while start < len(messages) and messages[start][0] != "assistant":
        start += 1
    if start == len(messages) or messages[-1][0] == "assistant":
        return
    first = messages[start][1][0]
    if not _is_thinking(first):
        raise invalid(
            f"messages.{start}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
            f"found `{first['type']}`. When `thinking` is enabled, a final `assistant` message "
            "must start with a thinking block (preceeding the lastmost set of `tool_use` and "
            "`tool_result` blocks). We recommend you include thinking blocks from previous turns. "
            "To avoid this requirement, disable `thinking`. Please consult our documentation at "
            f"{_EXTENDED_THINKING}"
        )


def _check_end(messages: Messages) -> None:
    role, blocks = messages[-1]
    if role == "assistant" and not any(is_provider_run(block) for block in blocks):
        raise invalid(
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )

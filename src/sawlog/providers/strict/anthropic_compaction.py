"""Compaction by the Messages API: asked for, switched on by a threshold, and its blocks going back.

On request the parameter `compaction` has the whole conversation summarised; the signed block then
stands first, in the place of what it summarises. By a threshold (`context_management`) the block
stands in a reply, unsigned. Either needs its header (https://platform.claude.com/docs/en/
build-with-claude/compaction).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sawlog.providers.strict.anthropic_blocks import is_provider_run
from sawlog.providers.strict.reading import JsonObject, as_list, as_object
from sawlog.providers.strict.refusal import Refusal, invalid
from sawlog.providers.strict.signing import check_compaction

ON_REQUEST = "compact-2026-09-04"
BY_THRESHOLD = "compact-2026-01-12"
_EDIT = "compact_20260112"
_LEAST = 50_000  # tokens at which a threshold may stand
_OF_A_REPLY = ("stop_sequences", "output_format", "stream")
_FIELDS = {"type", "content", "encrypted_content", "signature", "tool_changes", "cache_control"}

Messages = list[tuple[str, list[JsonObject]]]


def check_parameters(
    request: JsonObject, messages: Messages, headers: Mapping[str, str] | None
) -> bool:
    """Whether this request asks for a compaction; refused if it does in a wrong way."""
    _check_threshold(request.get("context_management"), headers)
    value = request.get("compaction")
    if value is None:
        return False
    _check_header(headers, ON_REQUEST, "compaction")
    asked = as_object(value)
    if asked is None:
        raise invalid("compaction: Input should be a valid dictionary or object")
    if asked.get("type") != "summarize":
        raise invalid("compaction.type: Input should be 'summarize'")
    for name in sorted(asked.keys() - {"type", "instructions"}):
        raise invalid(f"compaction.{name}: Extra inputs are not permitted")
    if request.get("context_management") is not None:
        raise invalid("compaction: cannot be combined with `context_management`")
    for name in _OF_A_REPLY:
        if request.get(name):
            raise invalid(f"{name}: not permitted in a compaction request, which gives no reply")
    choice = as_object(request.get("tool_choice")) or {}
    if choice.get("type") in ("any", "tool"):
        raise invalid("tool_choice: a compaction request calls no tool; use `auto` or `none`")
    if "format" in (as_object(request.get("output_config")) or {}):
        raise invalid("output_config.format: not permitted in a compaction request")
    spoken = [blocks for role, blocks in messages if role != "system"]
    if not any(block["type"] != "compaction" for blocks in spoken for block in blocks):
        raise _refused("compaction_nothing_to_summarize", "messages: nothing to summarize")
    role, blocks = messages[-1]
    unfinished = any(block["type"] == "tool_use" or is_provider_run(block) for block in blocks)
    if role == "assistant" and unfinished:
        raise _refused(
            "compaction_incomplete_turn",
            f"messages.{len(messages) - 1}: the conversation ends on an `assistant` turn that is "
            "not finished",
        )
    return True


def _check_threshold(value: object, headers: Mapping[str, str] | None) -> None:
    if value is None:
        return
    where = "context_management"
    managed = as_object(value)
    if managed is None:
        raise invalid(f"{where}: Input should be a valid dictionary or object")
    for number, item in enumerate(as_list(managed.get("edits")) or []):
        edit = as_object(item) or {}
        if edit.get("type") != _EDIT:
            continue
        _check_header(headers, BY_THRESHOLD, f"{where}.edits.{number}")
        trigger = as_object(edit.get("trigger"))
        if trigger is None:
            continue
        least = trigger.get("value")
        if not isinstance(least, int) or least < _LEAST:
            raise invalid(
                f"{where}.edits.{number}.{_EDIT}.trigger.value: Input should be greater than or "
                f"equal to {_LEAST}"
            )


def check_blocks(messages: Messages, headers: Mapping[str, str] | None, key: bytes | None) -> None:
    """Refuses a compaction block that is not well formed, was altered, or stands elsewhere than
    where a signed one may. With a `key` signatures must come from it."""
    found = list(_blocks(messages))
    for index, number, block in found:
        where = f"messages.{index}.content.{number}.compaction"
        for name in sorted(block.keys() - _FIELDS):
            raise invalid(f"{where}.{name}: Extra inputs are not permitted")
        content = block.get("content")
        if content is not None and not isinstance(content, str):
            raise invalid(f"{where}.content: Input should be a valid string")
        if content == "":
            raise invalid(f"{where}.content: String should have at least 1 character")
    signed = [one for one in found if one[2].get("signature") is not None]
    if not signed:
        return
    _check_header(headers, ON_REQUEST, "compaction")
    if sum(block.get("content") is not None for _, _, block in found) > 1:
        raise _refused(
            "compaction_block_ambiguous",
            "messages: more than one `compaction` block with content; send the last one alone",
        )
    index, number, block = signed[0]
    where = f"messages.{index}.content.{number}"
    if (index, number) != (0, 0):
        raise _refused(
            "compaction_block_misplaced",
            f"{where}: a `compaction` block must be the first block of the conversation",
        )
    fault = ""
    if key is not None:
        fault = check_compaction(key, str(block.get("content")), str(block["signature"]))
    if fault == "content":
        raise _refused(
            "compaction_content_mismatch",
            f"{where}: the `content` differs from the one that the `signature` was made for",
        )
    if fault:
        raise _refused("compaction_signature_invalid", f"{where}: the `signature` is not valid")


def _blocks(messages: Messages) -> Iterator[tuple[int, int, JsonObject]]:
    for index, (_, blocks) in enumerate(messages):
        for number, block in enumerate(blocks):
            if block["type"] == "compaction":
                yield index, number, block


def _check_header(headers: Mapping[str, str] | None, beta: str, what: str) -> None:
    if headers is None:
        return
    given = next((value for name, value in headers.items() if name.lower() == "anthropic-beta"), "")
    if beta not in [one.strip() for one in given.split(",")]:
        raise invalid(f"{what}: requires the `anthropic-beta` header `{beta}`")


def _refused(code: str, message: str) -> Refusal:
    return invalid(message, code=code)

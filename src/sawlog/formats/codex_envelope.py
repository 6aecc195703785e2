"""The envelopes of Codex rollouts: what kind of record a line is, and where its payload stands.

A record is {timestamp, type, payload, ordinal?}. In the first releases a bare line named the
session and items stood bare, too; some later records have the payload's fields at their top.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from sawlog.formats.lines import Line
from sawlog.formats.values import as_object
from sawlog.store.jsonslices import fields, object_of, source_at

_ENVELOPES = frozenset(
    (
        "session_meta",
        "turn_context",
        "response_item",
        "event_msg",
        "compacted",
        "world_state",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
    )
)
# Without a payload the type says what the fields at the top are.
_FLAT = frozenset(("session_meta", "turn_context", "compacted"))
_ITEMS = frozenset(
    (
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "tool_search_call",
        "tool_search_output",
        "local_shell_call",
        "web_search_call",
        "image_generation_call",
        "compaction",
        "compaction_summary",
        "context_compaction",
        "ghost_snapshot",
    )
)
_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FILE_NAME = re.compile(rf"rollout-.*?({_ID})\.jsonl")


def is_ours(line: Line) -> bool:
    """True for a record that only a Codex rollout has."""
    value = line.value
    if value is None:
        return False
    kind = value.get("type")
    if isinstance(value.get("payload"), dict):
        return isinstance(kind, str) and kind in _ENVELOPES
    return _is_bare_meta(value) or ("ordinal" in value and isinstance(kind, str) and kind in _FLAT)


def envelope(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a record and its payload; fields at the top count as the payload."""
    kind = value.get("type")
    payload = value.get("payload")
    if isinstance(kind, str) and isinstance(payload, dict):
        return kind, cast(dict[str, Any], payload)
    if _is_bare_meta(value):
        return "session_meta", value
    if not isinstance(kind, str):
        named = value.get("record_type")
        return (named if isinstance(named, str) else "unknown"), value
    if kind in _FLAT:
        return kind, value
    if kind in _ENVELOPES:
        # The payload's own type is lost, and with it what the record says.
        return f"{kind} without a payload", value
    if kind in _ITEMS or (kind == "agent_message" and "content" in value):
        return "response_item", value
    return "event_msg", value


def payload_source(line: Line) -> str:
    """The JSON text of a record's payload."""
    value = line.value or {}
    if isinstance(value.get("payload"), dict):
        return fields(line.text)["payload"]
    if "timestamp" not in value and "ordinal" not in value:
        return line.text
    return object_of(
        {k: v for k, v in fields(line.text).items() if k not in ("timestamp", "ordinal")}
    )


def payload_field(line: Line, name: str) -> str | None:
    """The JSON text of one field of a record's payload, or None."""
    value = line.value or {}
    path = ("payload", name) if isinstance(value.get("payload"), dict) else (name,)
    return source_at(line.text, *path)


# --- who the session is ---------------------------------------------------------------------------


def session_id(line: Line) -> str:
    """The session id that a record names, or empty."""
    if line.value is None:
        return ""
    kind, payload = envelope(line.value)
    return meta_id(payload) if kind == "session_meta" else ""


def meta_id(meta: dict[str, Any]) -> str:
    """The id in a `session_meta` payload, or empty."""
    id = meta.get("id", meta.get("session_id"))
    return id if isinstance(id, str) else ""


def identity(path: Path, first: Sequence[Line]) -> str:
    """The source id of the session whose first records these are.

    The first meta record names it; in a fork, copies of the parent's follow. A file without one
    still says its id in its name; else its first record is all that a longer file shares with it.
    """
    for line in first:
        id = session_id(line)
        if id:
            return id
    named = _FILE_NAME.fullmatch(path.name)
    return named.group(1) if named else f"sha256:{first[0].digest}"


def parent(meta: dict[str, Any]) -> str:
    """The source id of the thread that spawned this one, else that it was forked from, or empty."""
    named: list[object] = [meta.get("parent_thread_id")]
    agent = as_object(meta.get("source")).get("subagent")
    named.append(as_object(as_object(agent).get("thread_spawn")).get("parent_thread_id"))
    named.append(meta.get("forked_from_id"))
    return next((one for one in named if isinstance(one, str) and one), "")


def _is_bare_meta(value: dict[str, Any]) -> bool:
    return (
        "type" not in value
        and isinstance(value.get("id"), str)
        and "timestamp" in value
        and ("instructions" in value or "git" in value)
    )

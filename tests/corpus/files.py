"""The real transcripts, which may stand beside the checkout, and what their JSON says by itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FORMATS = {"codex": "*.jsonl", "claude-code": "*.jsonl", "openai-chat": "*.json"}
WHY_NOT = "the folder of real transcripts (shared/corpus) is not beside the checkout"


def files(*formats: str) -> list[Path]:
    """The files of these formats, smallest name first; none where the folder is missing."""
    return [file for name in formats for file in sorted((CORPUS / name).glob(FORMATS[name]))]


def params(*formats: str) -> list[Any]:
    """A parameter for each file of these formats, or one that is skipped and says why."""
    found = [pytest.param(file, id=f"{file.parent.name}-{short(file)}") for file in files(*formats)]
    return found or [pytest.param(Path("none"), marks=pytest.mark.skip(reason=WHY_NOT), id="none")]


def short(file: Path) -> str:
    """What tells a file from the others of its folder."""
    return file.stem[-14:] if file.parent.name == "openai-chat" else file.stem[:24]


def named(name: str, start: str) -> Path:
    """The one file of a format whose name begins so; skips the test where the folder is missing."""
    found = [file for file in files(name) if file.name.startswith(start)]
    if not found:
        pytest.skip(WHY_NOT)
    (only,) = found
    return only


# --- what a file says, read without sawlog --------------------------------------------------------


class Counted(NamedTuple):
    """Model calls; tool calls that expect a result; those without one; results without a call."""

    steps: int
    calls: int
    unanswered: int
    orphans: int


def counted(file: Path) -> Counted:
    """The steps and calls of a file, counted over its raw JSON."""
    asked: Counter[str] = Counter()
    given: Counter[str] = Counter()
    steps: set[str] = set()
    for side, id in _WALKS[file.parent.name](file):
        if side == "step":
            steps.add(id)
        else:
            (asked if side == "call" else given)[id] += 1
    unanswered, orphans = (asked - given).total(), (given - asked).total()
    return Counted(len(steps), asked.total(), unanswered, orphans)


def lines(file: Path) -> Iterator[str]:
    """The records of a file of lines: the text of each object, glued ones apart, or of what is
    none."""
    decoder = json.JSONDecoder()
    for line in file.read_bytes().decode().split("\n"):
        rest = line.strip()
        while rest:
            try:
                _, end = decoder.raw_decode(rest)
            except ValueError:
                end = len(rest)
            yield rest[:end]
            rest = rest[end:].lstrip()


def objects(file: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of lines that are JSON; a redactor broke one in two of the files."""
    for line in lines(file):
        with suppress(ValueError):
            yield json.loads(line)


def _codex(file: Path) -> Iterator[tuple[str, str]]:
    steps = 0
    running = False
    for value in objects(file):
        item: dict[str, Any] = value.get("payload") or {}
        kind = item.get("type", "") if value["type"] == "response_item" else ""
        if kind.endswith("_output") or item.get("role") in ("user", "developer"):
            running = False
        elif value["type"] == "compacted" or item.get("type") == "task_complete":
            running = False
        elif kind.endswith("_call") or kind in ("reasoning", "message"):
            steps += not running
            running = True
            yield "step", str(steps)
        if kind in ("function_call", "custom_tool_call", "tool_search_call"):
            yield "call", item["call_id"]
        elif kind.endswith("_output"):
            yield "result", item["call_id"]


def _claude(file: Path) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for value in objects(file):
        if value.get("type") not in ("user", "assistant") or value["uuid"] in seen:
            continue
        seen.add(value["uuid"])
        message = value["message"]
        if value["type"] == "assistant" and message["model"] != "<synthetic>":
            yield "step", message["id"]
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                yield "call", block["id"]
            elif block["type"] == "tool_result":
                yield "result", block["tool_use_id"]


def _chat(file: Path) -> Iterator[tuple[str, str]]:
    whole: Any = json.loads(file.read_bytes())
    logged: dict[str, Any] = {"messages": whole} if isinstance(whole, list) else whole
    messages: list[dict[str, Any]] = list(logged["messages"])
    if logged.get("response"):
        messages.append(logged["response"]["choices"][0]["message"])
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            yield "step", str(at)
        for call in message.get("tool_calls") or ():
            yield "call", call["id"]
        if message["role"] == "tool":
            yield "result", message["tool_call_id"]


_WALKS = {"codex": _codex, "claude-code": _claude, "openai-chat": _chat}

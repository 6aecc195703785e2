"""What holds of every Codex rollout, written or real, whole or cut."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sawlog.formats import codex
from sawlog.formats.base import ForeignEvent
from sawlog.store.content import BoundPart, RawPart
from sawlog.store.errors import FormatError, UnknownFormat
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
)
from tests.doors.foreign import check_prefixes, check_session, corpus_params
from tests.doors.junk import spoiled
from tests.doors.rollouts import (
    FILES,
    compactions,
    texts,
)

# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_read_in_pieces_gives_the_same_events(path: Path, tmp_path: Path) -> None:
    raw = path.read_bytes()
    borders = [at for at, byte in enumerate(raw) if byte == 0x0A]
    around = [at + off for at in borders for off in (-1, 0, 1, 2)]
    cuts = sorted({cut for cut in [*around, *range(1, len(raw), 13)] if 0 < cut <= len(raw)})
    check_prefixes(codex.read, path, cuts, tmp_path)


LINES = [line for path in FILES for line in path.read_text().splitlines()]


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_value_in_a_record_breaks_the_reader(data: st.DataObject, tmp_path: Path) -> None:
    chosen = data.draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=6))
    out = data.draw(st.sampled_from([[], [LINES[0]]]))[:]
    for line in chosen:
        try:
            value = json.loads(line)
        except ValueError:
            out.append(line)
            continue
        out.append(json.dumps(spoiled(data, value)))
    path = tmp_path / "file.jsonl"
    path.write_text("\n".join(out))
    try:
        (only,) = codex.read(path)
    except UnknownFormat:
        assert not codex.sniff(path)
        return
    check_session(only)


# --- real files -----------------------------------------------------------------------------------

CALLS = ("function_call", "custom_tool_call", "tool_search_call", "local_shell_call")
REPLIES = (*CALLS, "reasoning", "web_search_call")


@pytest.mark.parametrize("path", corpus_params("codex"))
def test_real_file_agrees_with_an_independent_count(path: Path) -> None:
    (only,) = codex.read(path)
    check_session(only)
    records = steps = 0
    calls: list[str] = []
    results: list[str] = []
    running = False
    for line in path.read_text("utf-8").splitlines():
        records += 1
        try:
            value = json.loads(line)
        except ValueError:
            continue
        item = value["payload"]
        kind = item.get("type")
        if value["type"] == "compacted":
            running = False
        if value["type"] != "response_item":
            continue
        if kind in CALLS:
            calls.append(item["call_id"])
        if kind.endswith("_output"):
            results.append(item["call_id"])
        reply = kind in REPLIES or (kind == "message" and item["role"] == "assistant")
        steps += reply and not running
        running = reply
    counts = only.counts
    assert counts.records == records
    assert counts.steps == steps
    assert counts.calls == len(calls)
    assert counts.unanswered == len(set(calls) - set(results))
    assert counts.orphans == len(set(results) - set(calls))


@pytest.mark.parametrize("path", corpus_params("codex"))
def test_real_file_read_in_pieces_gives_the_same_events(path: Path, tmp_path: Path) -> None:
    size = path.stat().st_size
    chance = random.Random(path.name)
    cuts = [100, size - 1, *(chance.randrange(1, size) for _ in range(8))]
    check_prefixes(codex.read, path, cuts, tmp_path)


@pytest.mark.parametrize("path", corpus_params("codex"))
def test_real_compactions_continue_with_the_files_list(path: Path) -> None:
    (only,) = codex.read(path)
    lists = [
        value["payload"]["replacement_history"]
        for value in _values(path)
        if value["type"] == "compacted"
    ]
    found = compactions(only)
    assert len(found) == len(lists)
    for kept, items in zip(found, lists, strict=True):
        assert [_said(event) for event in kept] == [_meant(item) for item in items]


def _values(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text("utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _said(event: ForeignEvent) -> tuple[str, list[str]]:
    payload = event.payload
    if isinstance(payload, MessageUser):
        return "user", texts(event)
    if isinstance(payload, MessageSystem):
        return payload.role, texts(event)
    assert isinstance(payload, MessageAssistant)
    part = payload.parts[0]
    if isinstance(part, BoundPart | RawPart):
        return cast(str, json.loads(str(part.source))["type"]), []
    return "assistant", texts(event)


def _meant(item: dict[str, Any]) -> tuple[str, list[str]]:
    if item["type"] != "message":
        return item["type"], []
    return item["role"], [one["text"] for one in item["content"] if "text" in one]


def test_no_error_but_those_of_formats_leaves_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(b'{"type":"session_meta","payload":{"id":"a"}}\n{"x":"' + b"[" * 300)
    (only,) = codex.read(path)
    assert only.counts.records == 1
    path.write_bytes(b"\x00")
    with pytest.raises(FormatError):
        codex.read(path)

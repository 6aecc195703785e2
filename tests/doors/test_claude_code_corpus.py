"""Real Claude Code transcripts, where the folder with them stands beside the checkout."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sawlog.formats.claude_code import read, sniff
from sawlog.store.content import MediaPart
from sawlog.store.events.compaction import (
    CompactionCompleted1,
)
from sawlog.store.events.conversation import MessageUser, ToolFinished
from sawlog.store.events.lifecycle import (
    HistoryRewound1,
    HistoryTrimmed,
)
from tests.doors.test_claude_code_law import assert_begins, assert_fits, records_of

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "claude-code"
FILES = sorted(CORPUS.rglob("*.jsonl"))

pytestmark = pytest.mark.skipif(
    not FILES, reason="the folder of real transcripts is not beside the checkout"
)
each_file = pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)


def objects(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, read without sawlog."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        rest = line.strip()
        while rest:
            try:
                value, end = decoder.raw_decode(rest)
            except ValueError:
                break
            found.append(value)
            rest = rest[end:].lstrip()
    return found


def blocks(path: Path, role: str) -> list[tuple[str, dict[str, Any]]]:
    """(message id, block) of a role, each record once."""
    uuids: set[str] = set()
    found: list[tuple[str, dict[str, Any]]] = []
    for value in objects(path):
        if value.get("type") != role or value["uuid"] in uuids:
            continue
        uuids.add(value["uuid"])
        message = value["message"]
        if message.get("model") == "<synthetic>" or not isinstance(message["content"], list):
            continue
        found.extend((message.get("id", ""), block) for block in message["content"])
    return found


@each_file
def test_counts_agree_with_an_independent_count(file: Path) -> None:
    session = read(file)[0]
    replies = blocks(file, "assistant")
    calls = Counter(block["id"] for _, block in replies if block["type"] == "tool_use")
    results = Counter(
        block["tool_use_id"] for _, block in blocks(file, "user") if block["type"] == "tool_result"
    )
    counts = session.counts
    assert counts.calls == calls.total()
    assert counts.unanswered == (calls - results).total()
    assert counts.orphans == (results - calls).total()
    assert counts.steps == len({id for id, _ in replies})
    unreadable = sum("no JSON object" in sentence for sentence in counts.anomalies)
    assert counts.records == len(objects(file)) + unreadable


@each_file
def test_events_fit_each_other(file: Path) -> None:
    assert sniff(file)
    for session in read(file):
        assert_fits(session)


@each_file
def test_a_cut_file_gives_the_beginning_of_the_whole(file: Path, tmp_path: Path) -> None:
    raw = file.read_bytes()
    path = tmp_path / file.name
    shutil.copy(file, path)
    whole = records_of(path)
    # While no record names the session, a file without its own name is another session's.
    start = next(at for at in range(len(raw)) if raw[at : at + 12] == b'"sessionId":')
    start = raw.index(b"\n", start) + 1
    for step in range(12):
        path.write_bytes(raw[: start + (len(raw) - start) * step // 12])
        assert_begins(whole, path)


def test_a_grown_file_gives_the_same_events_and_more() -> None:
    a, b, c = (records_of(CORPUS / f"31-growth-{name}.jsonl") for name in "abc")
    (key,) = a
    assert b[key][: len(a[key])] == a[key]
    assert c[key][: len(b[key])] == b[key]
    assert len(a[key]) < len(b[key]) < len(c[key])


def test_two_slices_of_one_session_share_its_id_and_no_record() -> None:
    one, two = (
        read(CORPUS / name)[0]
        for name in ("06-v2.1.14-orphan-result.jsonl", "28-v2.1.14-orphan+compaction-slice.jsonl")
    )
    assert one.source_id == two.source_id
    assert not {r.digest for r in one.records} & {r.digest for r in two.records}


def test_compactions_leave_the_summary_alone() -> None:
    found: dict[str, list[int]] = {}
    for file in FILES:
        for record in read(file)[0].records:
            for event in record.events:
                if isinstance(event.payload, CompactionCompleted1):
                    kept = found.setdefault(file.name[:2], [])
                    kept.append(len(event.payload.history))
    assert found == {"03": [1], "11": [1], "15": [1], "28": [1], "30": [1, 1]}


def test_the_named_files_show_what_they_are_named_for() -> None:
    def payloads(name: str) -> list[Any]:
        (file,) = CORPUS.glob(f"{name}-*.jsonl")
        return [e.payload for record in read(file)[0].records for e in record.events]

    (trimmed,) = [p for p in payloads("36") if isinstance(p, HistoryTrimmed)]
    assert len(trimmed.calls) == 5
    assert not any(isinstance(p, HistoryRewound1) for p in payloads("26"))
    assert any(
        isinstance(part, MediaPart)
        for p in payloads("13")
        if isinstance(p, MessageUser)
        for part in p.parts
    )
    assert any(
        isinstance(part, MediaPart)
        for p in payloads("23")
        if isinstance(p, ToolFinished)
        for part in p.parts
    )


def test_sub_agent_files_are_children() -> None:
    (file,) = CORPUS.glob("15-*.jsonl")
    main, *children = read(file)
    assert [child.parent for child in children] == [main.source_id] * 3
    assert len({child.source_id for child in children}) == 3
    assert children == [
        session for path in sorted(CORPUS.glob("*/*.jsonl")) for session in read(path)
    ]

"""The law of imports on Claude Code transcripts: a longer file gives the same events and more.

Held on every written file, cut at its lines and inside them, and on files of random records, whose
events must also fit each other.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sawlog.fixtures
from sawlog.formats.base import ForeignRecord, ForeignSession
from sawlog.formats.claude_code import read
from sawlog.store.codec import prepare
from sawlog.store.envelope import Blob, NewEvent
from sawlog.store.errors import UnknownFormat
from sawlog.store.events import CORE
from sawlog.store.events.compaction import (
    CompactionCompleted1,
)
from sawlog.store.events.conversation import ToolFinished, ToolRequested
from sawlog.store.events.lifecycle import (
    HistoryRewound1,
)
from sawlog.store.events.steps import StepCompleted

FOLDER = Path(next(iter(sawlog.fixtures.__path__))) / "foreign" / "claude-code"
SESSION = "5f0c1a52-8d1e-4b7a-9c3f-2a6d10e4b001"


def records_of(path: Path) -> dict[str, list[ForeignRecord]]:
    return {session.source_id: list(session.records) for session in read(path)}


def assert_begins(whole: dict[str, list[ForeignRecord]], path: Path) -> None:
    """What a cut file gives is the beginning of what the whole one gives."""
    try:
        part = records_of(path)
    except UnknownFormat as error:
        assert "holds no whole record" in str(error) or "is empty" in str(error)
        return
    for source_id, records in part.items():
        assert records == whole[source_id][: len(records)]


def cuts(raw: bytes) -> Iterator[int]:
    """Places in and around each line."""
    start = 0
    for line in raw.splitlines(keepends=True):
        end = start + len(line)
        yield from sorted({start, start + 1, (start + end) // 2, end - 2, end - 1, end})
        start = end


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_cut_file_gives_the_beginning_of_the_whole(file: Path, tmp_path: Path) -> None:
    raw = file.read_bytes()
    path = tmp_path / f"{SESSION}.jsonl"
    shutil.copy(file, path)
    whole = records_of(path)
    for cut in cuts(raw):
        path.write_bytes(raw[:cut])
        assert_begins(whole, path)


# --- random files --------------------------------------------------------------------------------

_uuids = st.sampled_from([f"u{n}" for n in range(12)])
_parents = st.none() | _uuids
_calls = st.sampled_from(["toolu_1", "toolu_2", "toolu_3"])
_messages = st.sampled_from(["msg_a", "msg_b", "msg_c", "msg_d"])
_flags = st.sampled_from([{}, {}, {}, {"isMeta": True}, {"isSidechain": True}])
_texts = st.sampled_from(["do it", "[Request interrupted by user]", "\ud800", "x" * 5000, ""])


def _record(type: str, **more: object) -> dict[str, Any]:
    return {"type": type, "sessionId": SESSION, "timestamp": "2026-01-05T10:00:00.000Z", **more}


def _linked(build: Callable[..., dict[str, Any]], *values: Any) -> st.SearchStrategy[Any]:
    def make(uuid: str, parent: str | None, flags: dict[str, Any], *rest: Any) -> dict[str, Any]:
        return {**build(*rest), "uuid": uuid, "parentUuid": parent, **flags}

    return st.builds(make, _uuids, _parents, _flags, *values)


def _user(*blocks: object) -> dict[str, Any]:
    return _record("user", message={"role": "user", "content": list(blocks)})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _result(call: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": "done"}


def _reply(id: str, block: dict[str, Any]) -> dict[str, Any]:
    return _record("assistant", message={"id": id, "model": "m", "content": [block]})


def _call(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "Run", "input": {}}


def _meanwhile(call: str) -> dict[str, Any]:
    return _user(_result(call), _text("meanwhile"))


def _summary(text: str) -> dict[str, Any]:
    return {**_user(_text(text)), "isCompactSummary": True}


def _boundary(uuids: list[str], anchor: str) -> dict[str, Any]:
    kept = {"preservedMessages": {"anchorUuid": anchor, "uuids": uuids}}
    return _record("system", subtype="compact_boundary", compactMetadata=kept)


def _stretch(head: str, tail: str) -> dict[str, Any]:
    kept = {"preservedSegment": {"headUuid": head, "tailUuid": tail}}
    return _record("system", subtype="compact_boundary", compactMetadata=kept)


def _trim(ids: list[str]) -> dict[str, Any]:
    trimmed = {"compactedToolIds": ids}
    return _record("system", subtype="microcompact_boundary", microcompactMetadata=trimmed)


def _aside(type: str) -> dict[str, Any]:
    return _record(type, subtype="turn_duration", data={"type": "hook_progress"})


_SEARCH: dict[str, Any] = {"type": "server_tool_use", "id": "s", "name": "search", "input": {}}
_blocks = st.one_of(
    st.builds(_text, _texts),
    st.builds(_call, _calls),
    st.just({"type": "thinking", "thinking": "", "signature": "s"}),
    st.just(_SEARCH),
)
_records = st.one_of(
    _linked(_user, st.builds(_text, _texts)),
    _linked(_user, st.builds(_result, _calls)),
    _linked(_meanwhile, _calls),
    _linked(_reply, _messages, _blocks),
    _linked(_reply, _messages, _blocks),
    _linked(_summary, _texts),
    _linked(_boundary, st.lists(_uuids, max_size=4), _uuids),
    _linked(_stretch, _uuids, _uuids),
    _linked(_trim, st.lists(_calls, max_size=2)),
    _linked(_aside, st.sampled_from(["system", "progress", "attachment"])),
    st.just(_record("mode", mode="plan")),
    st.just({"type": "summary", "leafUuid": "x"}),
    st.just({"of": "no known type"}),
)
_files = st.lists(_records, min_size=1, max_size=25)
_head = {"type": "summary", "summary": "first", "leafUuid": "x"}


def _lines(records: list[dict[str, Any]]) -> list[bytes]:
    # In ASCII, so that lone surrogates travel as escapes.
    return [json.dumps(record).encode() + b"\n" for record in [_head, *records]]


@settings(max_examples=100, deadline=None)
@given(_files)
def test_random_files_only_grow(records: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{SESSION}.jsonl"
        lines = _lines(records)
        path.write_bytes(b"".join(lines))
        whole = records_of(path)
        for count in range(1, len(lines)):
            path.write_bytes(b"".join(lines[:count]) + lines[count][: len(lines[count]) // 2])
            assert_begins(whole, path)


@settings(max_examples=100, deadline=None)
@given(_files)
def test_the_events_of_random_files_fit_each_other(records: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{SESSION}.jsonl"
        path.write_bytes(b"".join(_lines(records)))
        sessions = read(path)
    assert len(sessions[0].records) == len(records) + 1
    for session in sessions:
        assert_fits(session)


def assert_fits(session: ForeignSession) -> None:
    """What holds of every session that an importer gives."""
    seen: set[bytes] = set()
    calls: dict[str, ToolRequested] = {}
    requested: Counter[str] = Counter()
    results: Counter[str] = Counter()
    steps: list[int] = []
    ended: set[int] = set()
    for record in session.records:
        assert record.events
        for event in record.events:
            payload = event.payload
            assert payload.record is not None
            assert payload.record.position == record.position
            assert payload.record.digest == record.digest
            line = str(payload.record.line).encode("utf-8", "surrogateescape")
            assert hashlib.sha256(line).hexdigest() == record.digest
            assert event.id not in seen
            if event.step and not isinstance(payload, StepCompleted | ToolFinished):
                if event.step not in steps:
                    assert event.step == len(steps) + 1
                    steps.append(event.step)
            match payload:
                case ToolRequested():
                    requested[str(payload.call_id)] += 1
                    calls[event.id.hex()] = payload
                case ToolFinished():
                    results[str(payload.call_id)] += 1
                    assert (event.step == 0) == (payload.call == "")
                    if payload.call:
                        assert calls[payload.call].call_id == payload.call_id
                case StepCompleted():
                    assert event.step in steps and event.step not in ended
                    ended.add(event.step)
                case HistoryRewound1():
                    assert event.rewind_to is not None
                    assert not event.rewind_to or event.rewind_to in seen
                case CompactionCompleted1():
                    assert {bytes.fromhex(id) for id in payload.history} <= seen
                    assert len(set(payload.history)) == len(payload.history)
                case _:
                    pass
            seen.add(event.id)
            blobs = tuple(Blob(hashlib.sha256(raw).digest(), raw, m) for raw, m in event.blobs)
            new = NewEvent(
                payload=payload,
                source=f"import:{session.format}",
                step=event.step,
                id=event.id,
                occurred_at=event.occurred_at,
                ignorable=event.ignorable,
                blobs=blobs,
            )
            prepare(new, CORE, 0, lambda: b"", lambda: bytes(16))
    counts = session.counts
    assert counts.records == len(session.records)
    assert counts.events == len(seen)
    assert counts.steps == len(steps)
    assert counts.calls == requested.total()
    assert counts.unanswered == (requested - results).total()
    assert counts.orphans == sum(n for id, n in results.items() if id not in requested)


@pytest.mark.parametrize("file", sorted(FOLDER.rglob("*.jsonl")), ids=lambda path: path.stem)
def test_the_events_of_written_files_fit_each_other(file: Path) -> None:
    for session in read(file):
        assert_fits(session)

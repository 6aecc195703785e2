"""Transcripts of the Claude Agent SDK, mirrored: its conformance suite, every kind of record."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import sawlog
from sawlog.adapters.claude_agent_sdk import Key, SawlogStore
from sawlog.importing import import_path
from sawlog.store.event import Event
from sawlog.store.events.lifecycle import SessionCreated
from tests.adapters.children import ROOT, sound
from tests.doors.transcripts import FOLDER, prompt

WRITTEN = sorted(FOLDER.glob("*.jsonl"))

# Mirrors an entry after the other, says so, and is killed while it goes on.
ENDLESS = """
import asyncio, itertools, sys
from sawlog.adapters.claude_agent_sdk import SawlogStore
from tests.doors.transcripts import prompt

async def main():
    store = SawlogStore(sys.argv[1])
    for number in itertools.count():
        entry = prompt(f"prompt {number}", f"u{number}")
        await store.append({"project_key": "proj", "session_id": "task"}, [entry])
        print(number, flush=True)

asyncio.run(main())
"""


def key(session: str, subpath: str = "") -> Key:
    """Where a transcript belongs."""
    found: Key = {"project_key": "proj", "session_id": session}
    if subpath:
        found["subpath"] = subpath
    return found


def append(store: SawlogStore, where: Key, *entries: Any) -> None:
    """Mirror a batch."""
    asyncio.run(store.append(where, entries))


def load(store: SawlogStore, where: Key) -> list[Any] | None:
    """What is there."""
    found = asyncio.run(store.load(where))
    return None if found is None else list(found)


def told(events: Sequence[Event]) -> list[Any]:
    """Events but for what a session is called and where it came from."""
    return [
        (event.type, event.step, event.occurred_at, event.ignorable, _bare(event.content))
        for event in events
    ]


def _bare(content: Any) -> Any:
    if isinstance(content, SessionCreated):
        return content.format, content.source_id
    record = content.record
    return record and record.position


def test_it_conforms_to_what_the_sdk_asks_of_a_store(tmp_path: Path) -> None:
    testing = pytest.importorskip(
        "claude_agent_sdk.testing",
        reason="claude-agent-sdk is not installed: it is large, for it brings its own program; "
        "pip install 'sawlog[claude-agent-sdk]' and run this again",
    )
    made: list[SawlogStore] = []

    def store() -> SawlogStore:
        made.append(SawlogStore(tmp_path / f"{len(made)}.db"))
        return made[-1]

    asyncio.run(testing.run_session_store_conformance(store))
    for one in made:
        one.close()
    for number in range(len(made)):
        with sawlog.open(str(tmp_path / f"{number}.db")) as log:
            assert all(log.read(row.id.hex()).verify().sound for row in log.sessions())


def test_transcripts_are_kept_apart_and_listed(tmp_path: Path) -> None:
    with SawlogStore(tmp_path / "agent.db") as store:
        assert load(store, key("a")) is None and asyncio.run(store.list_sessions("proj")) == []
        append(store, key("a"), {"type": "x", "n": -0.5, "text": "\u00e9\ud800"}, {"type": "x"})
        append(store, key("a"))
        append(store, key("a", "subagents/agent-1"), {"type": "x", "n": 1})
        append(store, {"project_key": "other", "session_id": "a"}, {"type": "x", "n": 2})
        assert load(store, key("a")) == [
            {"type": "x", "n": -0.5, "text": "\u00e9\ud800"},
            {"type": "x"},
        ]
        [listed] = asyncio.run(store.list_sessions("proj"))
        assert listed["session_id"] == "a" and listed["mtime"] > 1_700_000_000_000
        assert asyncio.run(store.list_subkeys(key("a"))) == ["subagents/agent-1"]
        assert load(store, key("a", "subagents/agent-1")) == [{"type": "x", "n": 1}]


def test_what_is_tried_again_is_there_once_whoever_tries(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    first, second, third = (prompt(f"p{n}", f"u{n}") for n in range(3))
    with SawlogStore(path) as store, SawlogStore(path) as other:
        append(store, key("a"), first)
        append(other, key("a"), first, second, second)
        append(store, key("a"), second, third, {"type": "mode"}, {"type": "mode"})
        expected = [first, second, third, {"type": "mode"}, {"type": "mode"}]
        assert load(store, key("a")) == load(other, key("a")) == expected
    sound(path, "proj/a")


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_a_mirror_is_what_an_import_makes_of_the_same_transcript(
    tmp_path: Path, path: Path, size: int
) -> None:
    """And the transcript's own file adds nothing to it."""
    values: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        try:
            values.append(json.loads(line))
        except ValueError:
            continue  # what no SDK would give
    once: dict[str, dict[str, Any]] = {}
    for number, value in enumerate(values):
        once.setdefault(value.get("uuid") or f"entry {number}", value)
    entries = list(once.values())
    session = next(filter(None, (entry.get("sessionId") for entry in entries)), "none")
    store_path, file = tmp_path / "agent.db", tmp_path / f"{session}.jsonl"
    with SawlogStore(store_path) as store:
        for start in range(0, len(values), size):
            append(store, key(session), *values[start : start + size])
        assert load(store, key(session)) == entries
    mirrored = sound(store_path, f"proj/{session}")
    if any(entry.get("isSidechain") for entry in entries):
        return  # the SDK gives a sub-agent's entries under a key of their own
    # As the SDK's own program writes it: nothing between tokens, text as it is.
    lines = [json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in entries]
    lines = [re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", x) for x in lines]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with sawlog.open(str(store_path)) as log:
        assert import_path(log, file)[0].added == 0
        assert len(log.sessions()) == 1
    with sawlog.open(str(tmp_path / "other.db")) as log:
        [imported] = import_path(log, file)
        expected = told(list(log.read(imported.session).as_stored()))
        assert told(list(mirrored.as_stored())) == expected


def test_a_mirror_that_was_killed_goes_on(tmp_path: Path) -> None:
    """Every batch that was taken is there, and the next one goes behind it."""
    path = tmp_path / "agent.db"
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(path)],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        cwd=ROOT,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 20:
            os.kill(process.pid, signal.SIGKILL)
            break
    process.communicate(timeout=60)
    with SawlogStore(path) as store:
        found = load(store, key("task")) or []
        assert len(found) >= 21
        assert [entry["uuid"] for entry in found] == [f"u{n}" for n in range(len(found))]
        append(store, key("task"), prompt("and on", "last"))
        assert len(load(store, key("task")) or []) == len(found) + 1
    sound(path, "proj/task")


def test_a_session_of_something_else_is_refused(tmp_path: Path) -> None:
    with sawlog.open(str(tmp_path / "agent.db")) as log:
        with log.session("proj/mine") as s:
            s.user("go")
        with SawlogStore(log) as store:
            with pytest.raises(sawlog.errors.ConfigError, match="is no transcript of Claude's"):
                append(store, key("mine"), prompt("p"))
            append(store, key("a"), prompt("p"))
            with log.session("proj/a") as s:
                s.user("past the SDK")
            with pytest.raises(sawlog.errors.ConfigError, match="event 4 .* was said past the SDK"):
                load(store, key("a"))
            with pytest.raises(sawlog.errors.InvalidEvent, match=r"entries\[0\].n: nan is no JSON"):
                append(store, key("b"), {"type": "x", "n": float("nan")})


def test_a_file_of_the_mirrored_session_goes_on_where_the_mirror_ended(tmp_path: Path) -> None:
    session = "5f0c1a52-8d1e-4b7a-9c3f-2a6d10e4b0ff"
    records = [prompt(f"p{n}", f"u{n}", sessionId=session) for n in range(3)]
    with SawlogStore(tmp_path / "agent.db") as store:
        append(store, key(session), *records[:2])
    file = tmp_path / f"{session}.jsonl"
    file.write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in records))
    with sawlog.open(str(tmp_path / "agent.db")) as log:
        [imported] = import_path(log, file)
        assert imported.added == 1 and log.read(imported.session).name == f"proj/{session}"

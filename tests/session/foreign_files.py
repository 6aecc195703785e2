"""The hand-written foreign files, pieces of them, and what became of them in a log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from sawlog.importing import Imported, import_path
from sawlog.store.events.lifecycle import SessionCreated
from tests.session.agents import opened

FOREIGN = Path(__file__).parents[2] / "fixtures" / "foreign"
TURNS = FOREIGN / "codex" / "turns.jsonl"
REWIND = FOREIGN / "claude-code" / "rewind.jsonl"
ARRAY = FOREIGN / "openai-chat" / "array.json"
WITH_AGENTS = FOREIGN / "claude-code" / "5f0c1a52-8d1e-4b7a-9c3f-2a6d10e4b001.jsonl"

FILES = [*sorted(FOREIGN.glob("*/*.jsonl")), ARRAY]
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)

PATHS = {"stored": "absent", "cold": "ok", "incremental": "ok", "snapshot": "ok"}


def stream(log: AgentLog, one: Imported | str) -> list[tuple[object, ...]]:
    """What of a session's events does not depend on when they were stored."""
    id = bytes.fromhex(one if isinstance(one, str) else one.session)
    return [
        (e.seq, e.id, e.type, e.version, e.flags, e.step, e.source, e.occurred_at, e.payload)
        for e in log.store.read(id)
    ]


def streams(log: AgentLog) -> dict[str, list[tuple[object, ...]]]:
    """All sessions of a log, by name."""
    return {row.name or "": stream(log, row.id.hex()) for row in log.sessions()}


def created(log: AgentLog, one: Imported) -> SessionCreated:
    """The first event of a session."""
    (event,) = log.read(one.session).events(0, 1)
    assert isinstance(event.content, SessionCreated)
    return event.content


def lines(file: Path) -> list[bytes]:
    """The lines of a file, each with its end."""
    return file.read_bytes().splitlines(keepends=True)


def beginning(file: Path, folder: Path, count: int) -> Path:
    """A copy of the first lines, or messages, of a file under its own name."""
    copy = folder / file.name
    if file.suffix == ".json":
        copy.write_text(json.dumps(json.loads(file.read_bytes())[:count]))
    else:
        copy.write_bytes(b"".join(lines(file)[:count]))
    return copy


def sizes(file: Path) -> range:
    """How many records a beginning of the file may have."""
    whole = json.loads(file.read_bytes()) if file.suffix == ".json" else lines(file)
    return range(1, len(whole) + 1)


def whole(file: Path, folder: Path) -> AgentLog:
    """A log into which the file was imported at once."""
    log = opened(str(folder / "whole.db"))
    import_path(log, file)
    return log

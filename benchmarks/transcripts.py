"""Row 14: the import of a foreign transcript, durable and verified, against reading its JSON.

A real one is given with `--transcript`. Without one the workload is written as a Codex rollout of
about 4 MB, which has the records that make the most of a real one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sawlog
from benchmarks.measuring import Run, say, seconds
from benchmarks.results import Line, ratio
from benchmarks.workload import Part, Steps, load
from sawlog.importing import import_path

_BYTES = 4_000_000


def measure(run: Run, folder: Path, given: Path | None) -> list[Line]:
    """Each round imports into a new store, and verifies what was stored."""
    if given is None:
        file = folder / "rollout.jsonl"
        written(file, load(30 if run.quick else 1000), 100_000 if run.quick else _BYTES)
        note = "the workload as a Codex rollout"
    else:
        file = given
        note = "the file given"
    lines = file.read_bytes().splitlines()
    ours: list[float] = []
    theirs: list[float] = []
    verifying: list[float] = []
    for turn in range(run.rounds):
        say(f"sqlite: import, round {turn + 1} of {run.rounds}")
        theirs.append(seconds(lambda: [json.loads(line) for line in lines]))
        with sawlog.open(str(folder / f"import{turn}.db")) as log:
            names: list[str] = []
            took = seconds(lambda: names.extend(_imported(log, file)))  # noqa: B023
            verifying.append(seconds(lambda: _verify(log, names)))  # noqa: B023
        ours.append(took + verifying[-1])
    size = sum(map(len, lines)) / 1e6
    return [
        ratio(
            "14",
            "import, durable and verified, to json.loads",
            [1e3 * took for took in ours],
            [1e3 * took for took in theirs],
            "ms",
            target=40.0,
            note=f"{size:.1f} MB, {note}",
        ),
        Line(
            row="14",
            what="of it the verifying",
            values=[took / whole for took, whole in zip(verifying, ours, strict=True)],
        ),
    ]


def _imported(log: sawlog.AgentLog, file: Path) -> list[str]:
    return [one.session for one in import_path(log, file)]


def _verify(log: sawlog.AgentLog, sessions: list[str]) -> None:
    for session in sessions:
        if not log.read(session).verify().sound:
            raise RuntimeError(f"session {session} of the transcript does not verify")


def written(file: Path, steps: Steps, size: int) -> None:
    """Write the workload's beginning as a rollout of about that many bytes."""
    total = 0
    with file.open("w", encoding="utf-8") as out:
        for record in _records(steps):
            line = json.dumps(record)
            total += len(line) + 1
            out.write(line + "\n")
            if total >= size and record["payload"].get("type") == "function_call_output":
                break


def _records(steps: Steps) -> Iterator[dict[str, Any]]:
    meta = {
        "id": "00000000-0000-7000-8000-0000000000be",
        "timestamp": "2026-05-04T10:00:00.000Z",
        "cwd": "/repo",
        "originator": "codex_cli_rs",
        "cli_version": "0.142.0",
        "source": "cli",
        "model_provider": "openai",
        "base_instructions": {"text": "You work on this repository."},
    }
    yield _record("session_meta", meta)
    for parts in steps:
        for part in parts:
            payload = _payload(part)
            if payload is not None:
                yield _record("response_item", payload)


def _record(type: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": "2026-05-04T10:00:00.100Z", "type": type, "payload": payload}


def _payload(part: Part) -> dict[str, Any] | None:
    match part["kind"]:
        case "user":
            return _message("user", "input_text", part["text"])
        case "assistant":
            return _message("assistant", "output_text", part["text"])
        case "tool_call":
            return {
                "type": "function_call",
                "name": part["name"],
                "arguments": part["args"],
                "call_id": part["call_id"],
            }
        case "tool_result":
            return {
                "type": "function_call_output",
                "call_id": part["call_id"],
                "output": part["text"],
            }
        case _:
            return None  # a rollout has no word for it


def _message(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

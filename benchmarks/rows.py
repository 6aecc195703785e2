"""Times the rows of the cost table that exist, each against the bare driver in the same run.

    python benchmarks/rows.py WORKLOAD [--steps 100 1000] [--window 200000]

WORKLOAD is a Python file with `load(n)`: a list of steps, each a list of parts with `kind` (`user`,
`assistant`, `tool_call`, `tool_result`, `state`). Ratios are what counts; times are this machine's.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import sawlog
from sawlog.store.content import TextPart
from sawlog.store.envelope import NewEvent
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.world import ObservationRecorded
from sawlog.work.session import Session

Part = dict[str, Any]
now = time.perf_counter
encode = msgspec.json.Encoder().encode


def load(path: str, n: int, variant: str = "base") -> list[list[Part]]:
    """The first n steps of the workload."""
    spec = importlib.util.spec_from_file_location("workload", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cache = os.path.join(tempfile.gettempdir(), "sawlog-bench")
    os.makedirs(cache, exist_ok=True)
    steps: list[list[Part]] = module.load(n, variant, cache)
    return steps


# --- floors ------------------------------------------------------------------------------------


class Floor:
    """A bare sqlite3 table: WAL, FULL, one INSERT per part."""

    def __init__(self, path: str) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS ev(id INTEGER PRIMARY KEY, sid TEXT NOT NULL, "
            "seq INTEGER NOT NULL, step INTEGER NOT NULL, body BLOB NOT NULL)"
        )
        self.db.execute("CREATE UNIQUE INDEX IF NOT EXISTS ev_i ON ev(sid, seq)")
        self.seq = 0

    def append(self, part: Part) -> None:
        self.db.execute(
            "INSERT INTO ev(sid,seq,step,body) VALUES(?,?,?,?)",
            ("s1", self.seq, part["step"], encode(part)),
        )
        self.seq += 1

    def batch(self, parts: list[Part]) -> None:
        rows = []
        for part in parts:
            rows.append(("s1", self.seq, part["step"], encode(part)))
            self.seq += 1
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("INSERT INTO ev(sid,seq,step,body) VALUES(?,?,?,?)", rows)
        self.db.execute("COMMIT")

    def resume(self) -> list[Part]:
        rows = self.db.execute("SELECT body FROM ev WHERE sid='s1' ORDER BY seq")
        decode = msgspec.json.Decoder().decode
        return build_chat([decode(body) for (body,) in rows])


def build_chat(parts: list[Part]) -> list[Part]:
    """The floor's own projector: parts to chat messages, the whole history each time."""
    done = {p["call_id"] for p in parts if p["kind"] == "tool_result"}
    out: list[Part] = []
    for part in parts:
        kind = part["kind"]
        if kind == "tool_result":
            out.append({"role": "tool", "tool_call_id": part["call_id"], "content": part["text"]})
        elif kind == "tool_call":
            call = {"id": part["call_id"], "type": "function", "function": part["args"]}
            if out and out[-1]["role"] == "assistant":
                out[-1].setdefault("tool_calls", []).append(call)
            else:
                out.append({"role": "assistant", "tool_calls": [call]})
            if part["call_id"] not in done:
                out.append({"role": "tool", "content": "[interrupted]"})
        else:
            out.append({"role": kind, "content": part["text"]})
    return out


# --- sawlog --------------------------------------------------------------------------------------


def event_of(part: Part, step: int) -> NewEvent:
    kind = part["kind"]
    text = (TextPart(part["text"]),) if "text" in part else ()
    if kind == "user":
        return NewEvent(payload=MessageUser(text), source="user")
    if kind == "assistant":
        return NewEvent(payload=MessageAssistant(text), source="provider:openai-chat", step=step)
    if kind == "tool_call":
        payload = ToolRequested(part["call_id"], part["name"], part["args"])
        return NewEvent(payload=payload, source="provider:openai-chat", step=step)
    if kind == "tool_result":
        done = ToolFinished(call_id=part["call_id"], name=part["name"], parts=text)
        return NewEvent(payload=done, source=f"tool:{part['name']}", step=step)
    value = (TextPart(json.dumps(part["value"])),)
    return NewEvent(payload=ObservationRecorded(value), source="harness")


def reply_of(parts: list[Part], sent: int) -> bytes:
    """The reply of a step; its usage counts a quarter of the `sent` bytes of the request."""
    calls = [
        {
            "id": p["call_id"],
            "type": "function",
            "function": {"name": p["name"], "arguments": p["args"]},
        }
        for p in parts
        if p["kind"] == "tool_call"
    ]
    text = next((p["text"] for p in parts if p["kind"] == "assistant"), "")
    message: Part = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return json.dumps(
        {
            "id": "r",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [choice],
            "usage": {
                "prompt_tokens": sent // 4,
                "completion_tokens": 1,
                "total_tokens": sent // 4 + 1,
            },
        }
    ).encode()


def whole_step(session: Session, parts: list[Part]) -> tuple[float, float, int]:
    """One recorded step; gives the time until the packet was ready, the whole, the commits."""
    commits = 3
    t0 = now()
    for part in parts:
        if part["kind"] == "user":
            session.user(part["text"])
            commits += 1
    t1 = now()
    step = session.step("openai-chat", model="m")
    t2 = now()
    reply = step.answer(reply_of(parts, step.packet.request.size))
    texts = {p["call_id"]: p["text"] for p in parts if p["kind"] == "tool_result"}
    for call in reply.tool_calls:
        with session.tool(call) as run:
            run.result(texts[call.call_id])
        commits += 2
    for part in parts:
        if part["kind"] == "state":
            value = (TextPart(json.dumps(part["value"])),)
            session.append(ObservationRecorded(value))
            commits += 1
    return t2 - t1, now() - t0, commits


def record(path: str, steps: list[list[Part]], window: int) -> dict[str, Any]:
    log = sawlog.open(path)
    builds: list[float] = []
    whole: list[float] = []
    commits: list[int] = []
    with log.session("bench", window=window) as session:
        if steps[0][0]["kind"] != "user":
            session.user("go")
        for parts in steps:
            build, total, k = whole_step(session, parts)
            builds.append(build)
            whole.append(total)
            commits.append(k)
    log.close()
    return {"build": builds, "whole": whole, "commits": commits, "bytes": size_of(path)}


def size_of(path: str) -> int:
    return sum(os.path.getsize(path + s) for s in ("", "-wal", "-shm") if os.path.exists(path + s))


def timed(work: Callable[[], Any], times: int = 5) -> float:
    took = []
    for _ in range(times):
        gc.collect()
        start = now()
        work()
        took.append(now() - start)
    return statistics.median(took)


def append_rows(folder: str, steps: list[list[Part]]) -> None:
    parts = [part for step in steps for part in step]
    took: dict[str, list[float]] = {"floor": [], "sawlog": [], "floor batch": [], "batch": []}
    for n in range(3):
        floor = Floor(f"{folder}/f{n}.db")
        start = now()
        for part in parts:
            floor.append(part)
        took["floor"].append(now() - start)
        log = sawlog.open(f"{folder}/s{n}.db")
        row = log.store.session("s", create=True)
        events = [event_of(part, part["step"] + 1) for part in parts]
        start = now()
        for event in events:
            log.store.append(row, (event,))
        took["sawlog"].append(now() - start)
        log.close()
        floor = Floor(f"{folder}/fb{n}.db")
        start = now()
        for step in steps:
            floor.batch(step)
        took["floor batch"].append(now() - start)
        log = sawlog.open(f"{folder}/sb{n}.db")
        row = log.store.session("s", create=True)
        batches = [[event_of(part, part["step"] + 1) for part in step] for step in steps]
        start = now()
        for batch in batches:
            log.store.append(row, batch)
        took["batch"].append(now() - start)
        log.close()
    f, s = statistics.median(took["floor"]), statistics.median(took["sawlog"])
    fb, sb = statistics.median(took["floor batch"]), statistics.median(took["batch"])
    print(f"1  append one by one: floor {len(parts) / f:,.0f}/s, sawlog {len(parts) / s:,.0f}/s: "
          f"{f / s:.2f} x F (target >= 0.7)")  # fmt: skip
    print(f"2  a step's parts in one batch: floor {1e3 * fb / len(steps):.3f} ms, sawlog "
          f"{1e3 * sb / len(steps):.3f} ms: {sb / fb:.2f} (target <= 1.5)")  # fmt: skip


def session_rows(folder: str, workload: str, sizes: list[int], window: int) -> None:
    single = Floor(f"{folder}/single.db")
    sample = [part for step in load(workload, 100) for part in step]
    start = now()
    for part in sample:
        single.append(part)
    f = (now() - start) / len(sample)
    for n in sizes:
        steps = load(workload, n)
        path = f"{folder}/r{n}.db"
        out = record(path, steps, window)
        tail = slice(-50, None)
        whole = statistics.median(out["whole"][tail])
        k = statistics.median(out["commits"][tail])
        floor = Floor(f"{folder}/fr{n}.db")
        floor.batch([part for step in steps for part in step])
        rebuild = timed(floor.resume, 3)
        print(f"-- N={n}, window {window or 'none'}")
        print(f"3  whole step: {1e3 * whole:.2f} ms, k={k:.0f}: {whole / (k * f):.2f} x k x F "
              "(target <= 2)")  # fmt: skip
        build = statistics.median(out["build"][tail])
        print(f"5  packet ready and logged: {1e3 * build:.3f} ms; the floor's rebuild "
              f"{1e3 * rebuild:.1f} ms: {build / rebuild:.3f}")  # fmt: skip
        raw = sum(len(json.dumps(part)) for step in steps for part in step)
        print(f"8  bytes on disk: {out['bytes'] / raw:.2f} x JSON (target <= 0.50)")

        def resume(path: str = path) -> None:
            log = sawlog.open(path)
            with log.session("bench", window=window) as session:
                assert session.state.seq

            log.close()

        took = timed(resume, 5)
        print(f"6  resume: {1e3 * took:.1f} ms: {took / rebuild:.2f} x the floor (target <= 0.1 at "
              "5000)")  # fmt: skip

        def middle(path: str = path, n: int = n) -> None:
            with sawlog.open(path, read_only=True) as log:
                assert log.read("bench").steps[n // 2].verify()

        took = timed(middle, 5)
        print(f"7  packet of step N/2, checked: {1e3 * took:.1f} ms: {took / rebuild:.2f} x")
        start = now()
        with sawlog.open(path, read_only=True) as log:
            assert log.read("bench").verify().sound
        took = now() - start
        print(
            f"10 verify by every path: {took:.2f} s: {took / rebuild:.0f} x (target <= 60 at 1000)"
        )
        code = f"import sys; from sawlog.cli import main; main(['--store','{path}','show','-'])"
        cold = timed(
            lambda code=code: subprocess.run(  # type: ignore[misc]
                [sys.executable, "-c", code], check=True, capture_output=True
            ),
            3,
        )
        print(f"13 cold process to a shown session: {cold:.2f} s")


def repeated_row(folder: str, workload: str, window: int) -> None:
    """Each result text twenty times."""
    steps = load(workload, 1000, "repeat")
    out = record(f"{folder}/repeat.db", steps, window)
    raw = sum(len(json.dumps(part)) for step in steps for part in step)
    print(f"9  the same, each text 20 times: {out['bytes'] / raw:.2f} x JSON (target <= 0.18)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--steps", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--window", type=int, default=200_000, help="units, about 4 bytes each")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        append_rows(folder, load(given.workload, 400))
        session_rows(folder, given.workload, given.steps, given.window)
        repeated_row(folder, given.workload, given.window)


if __name__ == "__main__":
    main()

"""Claude's own program under its Agent SDK, its transcripts mirrored: killed, resumed, verified.

The program is large (400 MB), so these tests run where the SDK is installed and skip elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import sawlog
from sawlog.providers.fake import Call, FakeProvider, Hang, Reply
from tests.adapters.children import ROOT, sound

pytest.importorskip(
    "claude_agent_sdk",
    reason="claude-agent-sdk is not installed: it is large, for it brings its own program; "
    "pip install 'sawlog[claude-agent-sdk]' and run this again",
)

# The SDK's quick start, but for the store and what a test needs to find its session again.
PROGRAM = """
import asyncio, json, sys
from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, TextBlock, query
from sawlog.adapters.claude_agent_sdk import SawlogStore

async def main():
    options = ClaudeAgentOptions(
        session_store=SawlogStore(sys.argv[1]), session_store_flush="eager",
        allowed_tools=["Read"], **json.loads(sys.argv[3])
    )
    async for message in query(prompt=sys.argv[2], options=options):
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, TextBlock):
                    print(block.text, flush=True)

asyncio.run(main())
"""


def start(fake: FakeProvider, folder: Path, prompt: str, **options: Any) -> subprocess.Popen[str]:
    """The program in a process group of its own, pointed at the fake provider."""
    home = folder / "home"
    (home / ".claude").mkdir(parents=True, exist_ok=True)
    settings = {
        "ANTHROPIC_BASE_URL": fake.url,
        "ANTHROPIC_API_KEY": "sk-ant-of-nobody-0000000000",
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    asked = {"cwd": str(folder / "work"), "env": settings, **options}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder / "agent.db"), prompt, json.dumps(asked)],
        env={**os.environ, **settings, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        cwd=ROOT,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    """End the program and all that it started, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)


def told(store: Path, name: str) -> list[str]:
    """The types of the events that the log has of a session of the program's."""
    with sawlog.open(str(store)) as log:
        rows = [one for one in log.sessions() if name in str(one.name)]
        return [event.type for row in rows for event in log.read(row.id.hex()).events()]


def test_it_is_killed_resumed_from_the_log_and_verified(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("port = 8443\n")
    name = str(uuid.uuid4())
    processes: list[subprocess.Popen[str]] = []

    def answer(api: str, request: Any, number: int) -> Any:
        if number == 0:
            return Reply("I look.", calls=[Call("Read", {"file_path": str(work / "a.py")})])
        if number == 1:  # the result of the tool is here: the machine dies once it is mirrored
            kill_soon.append(number)
            return Hang(60)
        return Reply("It is 8443.")

    kill_soon: list[int] = []
    with FakeProvider(answer) as fake:
        processes.append(start(fake, tmp_path, "Which port does a.py name?", session_id=name))
        first = processes[0]
        waits = 0
        while not kill_soon and first.poll() is None and waits < 600:
            waits += 1
            with contextlib.suppress(subprocess.TimeoutExpired):
                first.wait(0.1)
        assert kill_soon, first.communicate(timeout=30)
        for _ in range(100):
            if "tool.finished" in told(tmp_path / "agent.db", name):
                break
            time.sleep(0.1)
        kill(first)
        # Nothing of it is left on disk but the log.
        for path in sorted((tmp_path / "home").rglob("*.jsonl")):
            path.unlink()
        again = start(fake, tmp_path, "Go on.", resume=name)
        out, err = again.communicate(timeout=90)
        assert again.returncode == 0, err
        assert out.strip().splitlines()[-1] == "It is 8443."
        last = fake.bodies()[-1]
    assert b"Which port does a.py name?" in last and b"8443" in last and b"Go on." in last
    types = told(tmp_path / "agent.db", name)
    with sawlog.open(str(tmp_path / "agent.db")) as log:
        [row] = [one for one in log.sessions() if name in str(one.name)]
    recorded = sound(tmp_path / "agent.db", str(row.name))
    assert types.count("tool.requested") == 1 and "tool.finished" in types
    assert "message.user" in types and recorded is not None


def test_every_body_of_it_is_recorded_behind_the_proxy(tmp_path: Path) -> None:
    """`sawlog run` in front of the same program: what its requests were, byte for byte."""
    (tmp_path / "work").mkdir()
    store = str(tmp_path / "recorded.db")
    with FakeProvider(lambda api, request, number: Reply("Four.")) as fake:
        (tmp_path / "home" / ".claude").mkdir(parents=True)
        settings = {
            **os.environ,
            "ANTHROPIC_BASE_URL": fake.url,
            "ANTHROPIC_API_KEY": "sk-ant-of-nobody-0000000000",
            "HOME": str(tmp_path / "home"),
            "CLAUDE_CONFIG_DIR": str(tmp_path / "home" / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "PYTHONPATH": str(ROOT),
        }
        asked = json.dumps({"cwd": str(tmp_path / "work"), "max_turns": 1})
        done = subprocess.run(
            [sys.executable, "-m", "sawlog", "--store", store, "run", "--session", "claude", "--",
             sys.executable, "-c", PROGRAM, str(tmp_path / "agent.db"), "What is 2+2?", asked],
            env=settings, capture_output=True, encoding="utf-8", timeout=120, cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0 and "Four." in done.stdout, done.stderr
        received = {one.body for one in fake.requests if one.api == "anthropic"}
    with sawlog.open(store) as log:
        stored: set[bytes] = set()
        for row in log.sessions():
            recorded = log.read(row.id.hex())
            assert recorded.verify().sound
            stored.update(step.packet.body for step in recorded.steps)
    assert received == stored

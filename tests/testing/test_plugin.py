"""The pytest plugin, in a project of its own that a child process tests with the real pytest.

A strict fake provider is the real provider there; offline means that it is gone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sawlog.providers.fake import Call, FakeProvider, Reply
from sawlog.testing import plugin
from tests.fresh import imported_modules
from tests.timing import slowness

AGENT = """
import os

import openai

ASK = os.environ.get("AGENT_ASK", "Why does the refund fail?")


def run(ask=ASK, kind="string", turns=9):
    schema = {"type": "object", "properties": {"path": {"type": kind}}}
    tools = [{"type": "function", "function": {"name": "read", "parameters": schema}}]
    messages = [
        {"role": "system", "content": "You fix bugs.\\nBe brief."},
        {"role": "user", "content": ask},
    ]
    for _ in range(turns):
        with openai.OpenAI() as client:
            reply = client.chat.completions.create(model="gpt-x", messages=messages, tools=tools)
        message = reply.choices[0].message
        messages.append(message.to_dict())
        for call in message.tool_calls or []:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "x = 1"})
        if not message.tool_calls:
            return message.content


async def stream():
    import anthropic

    async with anthropic.AsyncAnthropic() as client:
        async with client.messages.stream(
            model="claude-opus-5-5", max_tokens=99, messages=[{"role": "user", "content": ASK}]
        ) as stream:
            return await stream.get_final_text()


def both():
    with openai.OpenAI() as client:
        kind = client.chat.completions.create(
            model="gpt-x", messages=[{"role": "user", "content": "Bug or wish: " + ASK}]
        )
    return kind.choices[0].message.content, run()
"""

TESTS = """
import asyncio
from concurrent.futures import ThreadPoolExecutor

import agent


def test_a_task(sawlog_replay):
    with sawlog_replay("fixtures/task.jsonl"):
        assert agent.run() == "Done."


def test_a_stream(sawlog_replay):
    sawlog_replay("fixtures/stream.jsonl")
    assert asyncio.run(agent.stream()) == "Streamed: Grüße."


def test_two_conversations_in_a_thread(sawlog_replay):
    sawlog_replay("fixtures/two.jsonl")
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(agent.both).result() == ("bug", "Done.")
"""

OTHERS = """
import pytest

import agent

CHANGED = {
    "prompt": {"ask": "Why does the payment fail?"},
    "schema": {"kind": "integer"},
    "turns": {"turns": 1},
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed(sawlog_replay, name):
    with sawlog_replay("fixtures/task.jsonl"):
        agent.run(**CHANGED[name])


def test_again(sawlog_replay):
    sawlog_replay("fixtures/task.jsonl")
    agent.run()
    agent.run()


def test_swallowed(sawlog_replay):
    sawlog_replay("fixtures/task.jsonl")
    try:
        agent.run(ask="What?")
    except BaseException:
        pass


def test_missing(sawlog_replay):
    sawlog_replay("fixtures/none.jsonl")
"""

LOG = """
def test_an_open_log(sawlog_log):
    with sawlog_log.session("task") as s:
        s.user("Hi.")
    assert [row.name for row in sawlog_log.sessions()] == ["task"]


def test_another(sawlog_log):
    assert sawlog_log.sessions() == []
"""

TASK = [Reply(calls=[Call("read", {"path": "refund.py"})]), Reply("Done.")]
SCRIPT = [*TASK, Reply("Streamed: Grüße."), Reply("bug"), *TASK]
NAMES = ["stream.jsonl", "task.jsonl", "two.2.jsonl", "two.jsonl"]
OFF = "http://127.0.0.1:9"  # nobody listens there


def made(folder: Path, tests: str = TESTS) -> Path:
    """A project with these tests."""
    (folder / "tests").mkdir(parents=True)
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    (folder / "tests" / "test_agent.py").write_text(tests, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\nfilterwarnings = error\n")
    return folder


def run(folder: Path, *arguments: str, url: str = OFF, **env: str) -> tuple[int, str]:
    """Run pytest in a project, with a provider at `url`, or with none; give code and output."""
    keys = {"OPENAI_API_KEY": "secret-key-1", "ANTHROPIC_API_KEY": "secret-key-2"}
    urls = {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url}
    # No other plugin takes part, so it is named: a checkout may be installed as of before it.
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", plugin.__name__, "-p", "xdist", *arguments],
        cwd=folder,
        env={**os.environ, **alone, **keys, **urls, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
    )
    return done.returncode, done.stdout


def updated(folder: Path, *arguments: str, script: list[Reply], **env: str) -> str:
    """Run it with --sawlog-update against a provider of that script; it has to pass."""
    with FakeProvider(script) as fake:
        code, output = run(folder, "--sawlog-update", *arguments, url=fake.url, **env)
        assert code == 0, output
        assert len(fake.bodies()) == len(script)
    return output


def test_a_project_records_once_and_replays_offline(tmp_path: Path) -> None:
    """Sync and async, whole and streamed, several conversations, in two processes."""
    project = made(tmp_path / "project")
    output = updated(project, script=SCRIPT)
    files = sorted((project / "tests" / "fixtures").iterdir())
    assert [path.name for path in files] == NAMES
    for path in files:
        assert f"recorded: {path}" in output.splitlines()
        assert "secret-key" not in path.read_text(encoding="utf-8")
    code, output = run(project, "-n", "2")
    assert code == 0 and "3 passed" in output, output
    assert "recorded:" not in output


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of the first test."""
    project = made(tmp_path_factory.mktemp("recorded") / "project")
    updated(project, "-k", "test_a_task", script=TASK)
    return project / "tests" / "fixtures" / "task.jsonl"


def with_recording(project: Path, task: Path) -> Path:
    """Put the recording of the first test into a project; gives the file."""
    (project / "tests" / "fixtures").mkdir()
    return Path(shutil.copy(task, project / "tests" / "fixtures" / "task.jsonl"))


def test_what_changed_fails_by_item(task: Path, tmp_path: Path) -> None:
    """The prompt, a tool's schema, the number of turns; where the agent asked is shown."""
    project = made(tmp_path / "project", OTHERS)
    with_recording(project, task)
    code, output = run(project)
    assert code == 1 and "5 failed, 1 passed, 1 error" in output, output
    lines = "\n".join(" ".join(line.split()) for line in output.splitlines())
    for shown in (
        "RequestDiffers: request 1 is not the one recorded as step 1 of task.jsonl: "
        "item 1, messages[1] (user) differs",
        "E expected: 'Why does the refund fail?'",
        "E came: 'Why does the payment fail?'",
        "E if that is meant, run pytest with --sawlog-update to record it anew",
        "tools[0] (tool read) differs",
        'E - "type": "string"',
        'E + "type": "integer"',
        "StepsLeft: 1 of 2 recorded requests were not made; the next one is step 2",
        "RequestBeyond: request 3 is one too many: task.jsonl ends after 2 requests",
        "fixtures/none.jsonl: there is no such recording; run pytest with --sawlog-update once",
        "agent.py:",  # where the agent asked
    ):
        assert shown in lines, f"{shown}\n{output}"
    assert "httpx" not in output and "APIConnectionError" not in output, output


def test_an_update_accepts_what_changed(task: Path, tmp_path: Path) -> None:
    """Where the test passes; else the file stays as it was."""
    project = made(tmp_path / "project")
    file = with_recording(project, task)
    chosen = ("-k", "test_a_task")
    code, output = run(project, "--sawlog-update", *chosen, AGENT_ASK="What?")  # nobody answers
    assert code == 1 and f"not recorded, for the test did not pass: {file}" in output, output
    assert file.read_bytes() == task.read_bytes()
    updated(project, *chosen, script=[TASK[0], *TASK], AGENT_ASK="What?")
    code, output = run(project, *chosen, AGENT_ASK="What?")
    assert code == 0, output


def test_what_a_test_recorded_is_a_session_like_any_other(task: Path, tmp_path: Path) -> None:
    """`sawlog import`, `show`, `packet` and `diff` work on the file."""

    def command(*arguments: str) -> str:
        store = str(tmp_path / "look.db")
        done = subprocess.run(
            [sys.executable, "-m", "sawlog", "--store", store, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    command("import", str(task))
    assert "refund.py" in command("show", "task")
    assert "Why does the refund fail?" in command("packet", "task@1", "--raw")
    assert "x = 1" in command("diff", "task@1", "task@2")


def test_a_log_for_a_test_is_its_own(tmp_path: Path) -> None:
    code, output = run(made(tmp_path / "project", LOG))
    assert code == 0 and "2 passed" in output, output


def test_the_plugin_is_named_in_the_project_and_loads_next_to_nothing() -> None:
    """pytest imports it in every run, so it may load no database, no HTTP client and no msgspec."""
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {"sawlog": plugin.__name__}
    loaded = imported_modules(f"import pytest, {plugin.__name__}")
    assert not {"sqlalchemy", "sqlite3", "msgspec", "httpx", "httpx2", "openai"} & loaded


TIMED = f"""
import time, pytest
start = time.perf_counter()
import {plugin.__name__}
print((time.perf_counter() - start) * 1000)
"""


@pytest.mark.alone
def test_the_plugin_costs_next_to_nothing_to_import() -> None:
    """Milliseconds beside pytest, the shortest of some runs; on the machine of `slowness`."""
    run = [sys.executable, "-P", "-c", TIMED]
    outputs = [subprocess.run(run, capture_output=True, check=True).stdout for _ in range(5)]
    assert min(map(float, outputs)) < 5 * slowness()

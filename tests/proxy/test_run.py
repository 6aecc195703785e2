"""`sawlog run`: a command behind the proxy, as if nothing stood in between."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import open as open_log
from sawlog.providers.fake import FakeProvider
from tests.cli.command import Done
from tests.proxy.behind import COMMAND, always

AGENT = """
import os, sys, anthropic, openai
anthropic.Anthropic(api_key="sk-none-at-all", max_retries=0).messages.create(
    model="m", max_tokens=5, messages=[{"role": "user", "content": "one"}])
said = openai.OpenAI(api_key="sk-none-at-all", max_retries=0).chat.completions.create(
    model="m", messages=[{"role": "user", "content": "two"}])
print(said.choices[0].message.content)
sys.exit(int(sys.argv[1]))
"""


def run(store: Path, *arguments: object, **environment: str) -> Done:
    """Run `sawlog run` with these arguments."""
    done = subprocess.run(
        [*COMMAND, "--store", str(store), "run", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr.decode())


def python(code: str, *arguments: object) -> list[object]:
    """A command that runs this code."""
    return ["--", sys.executable, "-c", code, *arguments]


def test_an_unmodified_program_is_recorded_and_its_status_given_back(tmp_path: Path) -> None:
    """The base URLs that were set say where its requests go on to."""
    store = tmp_path / "s.db"
    with FakeProvider(always("hello")) as fake:
        places = {"ANTHROPIC_BASE_URL": fake.url, "OPENAI_BASE_URL": f"{fake.url}/v1"}
        done = run(store, "--session", "agent", *python(AGENT, 7), **places)
    assert (done.code, done.text) == (7, "hello\n")
    assert done.err == "sawlog: recorded 2 requests in agent and 1 session beside it: " + (
        f"sawlog --store {store} show agent\n"
    )
    with open_log(str(store)) as log:
        bodies = [bytes(log.read(name).steps[1].packet.body) for name in ("agent", "agent/2")]
    assert bodies == fake.bodies()


def test_what_it_reads_and_writes_is_untouched(tmp_path: Path) -> None:
    """Standard streams byte for byte, and files that are open already."""
    code = (
        "import os, sys; raw = sys.stdin.buffer.read(); sys.stdout.buffer.write(raw[::-1]); "
        "sys.stderr.buffer.write(raw); os.write(int(sys.argv[1]), b'through')"
    )
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    raw = bytes(range(256)) * 50
    done = subprocess.run(
        [*COMMAND, "--store", str(tmp_path / "s"), "run", "--quiet"]
        + [str(one) for one in python(code, writing)],
        input=raw,
        capture_output=True,
        pass_fds=(writing,),
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stdout, done.stderr) == (0, raw[::-1], raw)
    assert os.read(reading, 100) == b"through"
    os.close(reading)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_it(tmp_path: Path, number: signal.Signals) -> None:
    """It may catch one and end as it likes."""
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda n, f: sys.exit(40 + n))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    with started(tmp_path, *python(code)) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (40 + number, b"sawlog: nothing was recorded\n")


def started(tmp_path: Path, *arguments: object) -> subprocess.Popen[bytes]:
    """`sawlog run`, started in a session of its own, so that no terminal sends it signals."""
    return subprocess.Popen(
        [*COMMAND, "--store", str(tmp_path / "s"), "run", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def test_one_that_a_signal_ended_gives_128_and_its_number(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert run(tmp_path / "s.db", *python(code)).code == 137


def test_a_key_of_the_terminal_reaches_it_once(tmp_path: Path) -> None:
    """Ctrl-C goes to all programs of the terminal: it is not sent on for a second time."""
    import pty

    code = (
        "import signal, time\nseen = []\n"
        "signal.signal(signal.SIGINT, lambda n, f: seen.append(n))\n"
        "print('ready', flush=True)\nend = time.monotonic() + 2\n"
        "while time.monotonic() < end: time.sleep(0.05)\nprint('seen', len(seen), flush=True)"
    )
    child, terminal = pty.fork()
    if child == 0:
        given = [*COMMAND, "--store", str(tmp_path / "s"), "run", *map(str, python(code))]
        os.execv(given[0], given)
    said = b""
    end = time.monotonic() + 60
    pressed = False
    while not re.search(rb"seen \d", said) and time.monotonic() < end:
        said += os.read(terminal, 1000)
        if b"ready" in said and not pressed:
            os.write(terminal, b"\x03")
            pressed = True
    os.waitpid(child, 0)
    os.close(terminal)
    assert b"seen 1" in said, said


@pytest.mark.parametrize(("command", "code"), [("no-such-command-here", 127), ("/", 126)])
def test_a_command_that_cannot_be_started_is_said(tmp_path: Path, command: str, code: int) -> None:
    done = run(tmp_path / "s.db", "--", command)
    assert done.code == code and done.err.startswith(f"sawlog: {command}: ")


def test_json_says_what_was_recorded_and_the_commands_own_options_stay(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    done = run(tmp_path / "s.db", "--json", *python(code, "--json", "-@3", "--quiet", "--", "x"))
    assert done.text == "['--json', '-@3', '--quiet', '--', 'x']\n"
    told = json.loads(done.err)
    first = told.pop("first")
    assert told == {"recorded": 0, "broke": 0, "passed": 0, "sessions": 0}
    assert first.startswith("run-20") and len(first) == len("run-20261130-061500")


def test_nothing_recorded_leaves_no_session(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    assert run(store, *python("pass")).code == 0
    with open_log(str(store)) as log:
        assert log.sessions() == []


def test_the_usual_variables_lead_to_the_proxy(tmp_path: Path) -> None:
    """Another proxy in the environment is told to leave this one alone."""
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    done = run(tmp_path / "s", *python(code), HTTP_PROXY="http://127.0.0.1:1", NO_PROXY="there")
    env: dict[str, Any] = json.loads(done.out)
    assert env["NO_PROXY"] == "there,127.0.0.1"
    assert env["OPENAI_BASE_URL"] == env["OPENAI_API_BASE"]
    ends = {"ANTHROPIC": "/anthropic", "OPENAI": "/openai/v1", "DEEPSEEK": "/deepseek"}
    for name, end in ends.items():
        assert env[f"{name}_BASE_URL"].startswith("http://127.0.0.1:")
        assert env[f"{name}_BASE_URL"].endswith(end)


def test_two_variables_that_disagree_are_named(tmp_path: Path) -> None:
    places = {"OPENAI_BASE_URL": "http://one/v1", "OPENAI_API_BASE": "http://two/v1"}
    done = run(tmp_path / "s", *python("pass"), **places)
    assert done.code == 2
    assert "OPENAI_BASE_URL and OPENAI_API_BASE name different places" in done.err
    assert run(tmp_path / "s", "--openai", "http://one/v1", *python("pass"), **places).code == 0

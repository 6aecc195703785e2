"""Sessions of many conversations: what is held, what is let go, what is loaded for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from sawlog.proxy.keeping import Keeping
from sawlog.recorder.requests import asked_as
from tests.fresh import imported_modules

ROOM = 64
"""What is held at once: conversations of a session, and sessions of clients' choosing."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    """A store."""
    with open_log(str(tmp_path / "s.db")) as opened:
        yield opened


def ask(keeping: Keeping, name: str, *said: str) -> None:
    """A request that says this in turns with the model, and its reply."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(said)]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    told = asked_as("openai-chat", "/v1/chat/completions", "http://there/v1", {}, body, "test")
    exchange = keeping.sent(name, told)
    assert exchange is not None
    exchange.head(200, {})
    reply = {"role": "assistant", "content": f"to {said[-1]}"}
    exchange.feed(json.dumps({"choices": [{"message": reply, "finish_reason": "stop"}]}).encode())
    exchange.end()


def held(log: AgentLog) -> list[str]:
    """The sessions whose leases are held."""
    return [str(row.name) for row in log.sessions() if row.owner]


def test_conversations_that_nobody_goes_on_with_are_let_go(log: AgentLog) -> None:
    """Those that were used last stay, and so does the session that was named."""
    keeping = Keeping(log, "s", strict=True, say=print)
    for n in range(ROOM + 10):
        ask(keeping, "s", f"I am {n}")
    ask(keeping, "s", "I am 70", "to I am 70", "again")
    assert "s" in held(log) and len(held(log)) <= ROOM + 1
    assert keeping.tally.sessions == ROOM + 10
    assert len(log.read("s/71").steps) == 2
    ask(keeping, "s", "I am 3", "to I am 3", "and now")  # which was let go
    assert len(log.read(f"s/{ROOM + 11}").steps) == 1
    keeping.close()
    assert held(log) == []
    assert all(log.read(row.id.hex()).verify().sound for row in log.sessions()[::10])


def test_the_first_session_that_is_told_of_holds_a_request(log: AgentLog) -> None:
    keeping = Keeping(log, "s", strict=True, say=print)
    assert keeping.tally.first == "s"
    ask(keeping, "chosen", "hello")
    assert keeping.tally.first == "chosen"  # "s" is in no store yet
    ask(keeping, "s", "hello")
    assert keeping.tally.first == "s"
    keeping.close()


def test_sessions_of_clients_choosing_are_let_go_and_taken_up_again(log: AgentLog) -> None:
    keeping = Keeping(log, "s", strict=True, say=print)
    for n in range(ROOM + 5):
        ask(keeping, f"n{n}", "hello")
    assert len(held(log)) == ROOM and "n0" not in held(log)
    ask(keeping, "n0", "hello", "to hello", "more")
    assert len(log.read("n0").steps) == 2
    assert keeping.tally.recorded == ROOM + 6
    keeping.close()
    assert held(log) == []


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path) -> None:
    code = "import sys; sys.modules['h11'] = None; from sawlog.cli import main; sys.exit(main())"
    for arguments in (["proxy"], ["run", "--", "true"]):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, "--store", str(tmp_path / "x.db"), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 2
        assert done.stderr == (
            "sawlog: the proxy needs h11, which is not installed: pip install 'sawlog[proxy]'\n"
        )


def test_nothing_of_it_is_loaded_before_it_is_used() -> None:
    loaded = imported_modules("import sawlog, sawlog.cli.app, sawlog.cli.proxy")
    assert not {"h11", "httpx", "asyncio", "sawlog.proxy"} & loaded

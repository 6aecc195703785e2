"""A small agent for the tests of sessions: its tools, its clients, its loop as in the README."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.audit.recorded import Recorded
from sawlog.providers.fake import Call, FakeProvider, Reply
from sawlog.store import directory
from sawlog.store.content import TextPart
from sawlog.store.database import open_database
from sawlog.store.errors import Busy, NoStore
from sawlog.store.events.conversation import ToolFinished
from sawlog.work.call import Call as Asked
from sawlog.work.reply import Reply as Answer
from sawlog.work.session import Session
from sawlog.work.step import Step

APIS = ("anthropic", "openai-chat", "openai-responses", "deepseek-chat")
ROOT = Path(__file__).parents[2]
SYSTEM = "You fix bugs. Run the tests before you say you are done."


def read_file(path: str) -> str:
    """Read a file of the project."""
    return f"text of {path}"


def run_tests(only: str = "") -> dict[str, Any]:
    """Run the tests."""
    return {"only": only, "failed": 0}


def breaks(why: str) -> str:
    """Fail."""
    raise ValueError(why)


TOOLS: list[Any] = [read_file, run_tests, breaks]
FIX = [
    Reply("I look.", calls=[Call("read_file", {"path": "a.py"}), Call("run_tests")]),
    Reply(thinking="It is simple.", calls=[Call("breaks", {"why": "no disk"})]),
    Reply("Done."),
]
"""A task of three steps."""


def fix(api: str) -> list[Reply]:
    """The same in what an API can say: Chat Completions of OpenAI show no thinking."""
    return [Reply(r.text, None, r.calls) if api == "openai-chat" else r for r in FIX]


def opened(url: str, **options: Any) -> AgentLog:
    """The store at a URL, made first where it must be."""
    log: AgentLog
    try:
        log = sawlog.open(url, **options)
    except NoStore:
        if not url.startswith("postgresql"):
            raise
        from sawlog import migrations

        migrations.upgrade(url)
        log = sawlog.open(url, **options)
    return log


def stop(process: subprocess.Popen[str], log: AgentLog, name: str) -> None:
    """Stop a process that has the lease of a session, and not while it renews that.

    Who sleeps in the middle of a commit keeps everybody else out until it wakes.
    """
    row = log.find(name)
    for _ in range(100):
        os.kill(process.pid, signal.SIGSTOP)
        other = open_database(log.store.database.url, wait=0.2)
        try:
            with other.write() as tx:
                directory.hold(tx, log.store.tenant, row.id)
            return
        except Busy:
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(0.01)
        finally:
            other.close()
    raise AssertionError("it holds the store whenever it is stopped")


@contextlib.contextmanager
def client_of(api: str, fake: FakeProvider) -> Generator[Any]:
    """The official client of an API, unmodified but for where it is pointed at."""
    with contextlib.ExitStack() as closing:
        client: Any
        # Loaded where they are used: the processes that tests start have no need of them.
        if api == "anthropic":
            import anthropic

            client = anthropic.Anthropic(api_key="test", base_url=fake.base_url(api))
        else:
            import openai

            client = openai.OpenAI(api_key="test", base_url=fake.base_url(api))
        closing.callback(client.close)
        yield client


@contextlib.contextmanager
def provided(api: str, script: Any) -> Generator[tuple[FakeProvider, Any]]:
    """A fake provider that plays a script, and the official client pointed at it."""
    with FakeProvider(script) as fake, client_of(api, fake) as client:
        yield fake, client


def params(api: str) -> dict[str, Any]:
    """Parameters that an API does not do without."""
    return {"max_tokens": 1000} if api == "anthropic" else {}


def next_step(s: Session, api: str, **options: Any) -> Step:
    """The session's next step."""
    return s.step(api, model="test-model", **params(api), **options)


def script(s: Session, api: str, client: Any) -> list[Answer]:
    """The loop of the README; gives the replies."""
    s.system(SYSTEM)
    s.tools(TOOLS)
    s.user("refund_should_reject_expired_order fails", key="task")
    return loop(s, api, client)


def loop(s: Session, api: str, client: Any) -> list[Answer]:
    """Steps until the model asks for no more calls."""
    replies: list[Answer] = []
    while True:
        reply = next_step(s, api).send(client)
        replies.append(reply)
        if not reply.tool_calls:
            return replies
        for call in reply.tool_calls:
            with s.tool(call) as run:
                run.result(call.run())


def asked(s: Session, *calls: Call, tools: list[Any] | None = None) -> tuple[Asked, ...]:
    """A step whose reply asks for these calls."""
    s.tools(TOOLS if tools is None else tools)
    s.user("go")
    with provided("openai-chat", [Reply(calls=calls)]) as (_, client):
        return next_step(s, "openai-chat").send(client).tool_calls


def one(s: Session, name: str = "read_file", arguments: Any = None, **options: Any) -> Asked:
    """A step whose reply asks for one call."""
    given = {"path": "a"} if arguments is None else arguments
    [call] = asked(s, Call(name, given), **options)
    return call


def results(log: AgentLog) -> list[ToolFinished]:
    """The results in the session."""
    return [e.content for e in log.read("task").events() if isinstance(e.content, ToolFinished)]


def told(log: AgentLog) -> list[tuple[str, Any]]:
    """Status and text of each result."""
    return [(r.status, r.parts[0].text) for r in results(log) if isinstance(r.parts[0], TextPart)]


def giving(reply: Any) -> Callable[[bytes], Any]:
    """A callable provider that gives this, whatever it is asked."""

    def give(body: bytes) -> Any:
        return reply

    return give


def talker(text: str = "ok") -> Callable[[bytes], bytes]:
    """A callable provider of Chat Completions that says one thing."""
    body = (
        '{"id":"r","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,'
        f'"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}]}}'
    )
    return giving(body.encode())


def types(recorded: Recorded | Session, log: AgentLog | None = None) -> list[str]:
    """The types of a session's events, in order."""
    if isinstance(recorded, Session):
        assert log is not None
        recorded = log.read(recorded.id)
    return [event.type for event in recorded.events()]


def sound(log: AgentLog, name: str) -> Recorded:
    """The recorded session, checked by every path."""
    recorded = log.read(name)
    report = recorded.verify()
    assert report.sound and not report.blocked, report
    return recorded


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A fresh Python process that runs `code`, with the checkout's `tests` importable."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def finished(process: subprocess.Popen[str]) -> str:
    """What a process printed. Fails with its words if it failed."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out

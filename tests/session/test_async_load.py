"""A hundred sessions at once, and a loop that is never kept waiting."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import openai
import pytest

from sawlog.agentlog import AgentLog
from sawlog.work.reply import Reply
from tests.session.agents import python, sound
from tests.timing import slowness

SESSIONS = 100
CLIENTS = 10
LONGEST = 0.050
"""Seconds that one callback may hold the loop, in which no other task has its turn; on a machine
that is slower than that of `slowness`, so many times as long."""

PROVIDER = """
import json, sys
from sawlog.providers.fake import Call, FakeProvider, Reply

def answers(api, request, number):
    # By what was asked, for sessions come in any order: two rounds of calls, then the end.
    rounds = sum(message["role"] == "assistant" for message in request["messages"])
    if rounds == 2:
        return Reply("Done.")
    return Reply("I look.", calls=[Call("read_file", {"path": f"{rounds}.{n}"}) for n in range(2)])

with FakeProvider(answers) as fake:
    print(fake.base_url("openai-chat"), flush=True)
    sys.stdin.readline()
    refused = [str(request.refusal) for request in fake.requests if request.refusal]
    print(json.dumps({"requests": len(fake.requests), "refused": refused}))
"""


def ended(process: subprocess.Popen[str]) -> str:
    """What a process prints once it is told to end."""
    out, err = process.communicate("\n", timeout=60)
    assert process.returncode == 0, err
    return out


@pytest.fixture
def provider() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A fake provider in a process of its own, and its URL."""
    process = python(PROVIDER)
    assert process.stdout is not None
    yield process.stdout.readline().strip(), process
    if process.poll() is None:
        process.kill()
        process.communicate()


async def read_file(path: str) -> str:
    """Read a file."""
    await asyncio.sleep(0.001)
    return f"text of {path} " + "x" * 200


async def agent(log: AgentLog, name: str, client: Any) -> Reply:
    """The README's loop, its tools in a group."""
    async with log.asession(name) as s:
        await s.system("You fix bugs.")
        await s.tools([read_file])
        await s.user(f"fix {name}")
        while True:
            step = await s.step("openai-chat", model="m")
            reply = await step.send(client)
            if not reply.tool_calls:
                return reply

            async def act(call: Any) -> None:
                async with s.tool(call) as run:
                    run.result(await run.run())

            async with asyncio.TaskGroup() as tasks:
                for call in reply.tool_calls:
                    tasks.create_task(act(call))


class Held(NamedTuple):
    """How long one callback held the loop: on the clock, and what its thread computed meanwhile.

    On a machine that others use, too, the first is theirs as well; the second is ours alone.
    """

    clock: float
    computed: float


@contextlib.contextmanager
def watched(found: list[Held]) -> Generator[None]:
    """Measure each callback of the loop: while one runs, no other task has its turn."""
    original: Any = asyncio.Handle._run  # pyright: ignore[reportPrivateUsage]

    def run(handle: asyncio.Handle) -> None:
        clock, computed = time.perf_counter(), time.thread_time()
        original(handle)
        found.append(Held(time.perf_counter() - clock, time.thread_time() - computed))

    patched: Any = asyncio.Handle
    patched._run = run
    try:
        yield
    finally:
        patched._run = original


async def crowd(log: AgentLog, url: str, name: str) -> list[Held]:
    """A hundred agents at once, after a few that load what is loaded on first use."""
    found: list[Held] = []
    async with contextlib.AsyncExitStack() as closing:
        # One for ten agents: at each request a client looks at every connection that it has open,
        # which for a hundred of them takes the loop longer than all of sawlog.
        clients = [
            await closing.enter_async_context(openai.AsyncOpenAI(api_key="test", base_url=url))
            for _ in range(CLIENTS)
        ]
        for number, client in enumerate(clients):
            await agent(log, f"{name} warm {number}", client)
        gc.collect()
        gc.freeze()  # or a full collection looks at all of the test run, once, in the middle
        with watched(found):
            replies = await asyncio.gather(
                *(agent(log, f"{name} {n}", clients[n % CLIENTS]) for n in range(SESSIONS))
            )
        gc.unfreeze()
    assert [reply.text for reply in replies] == ["Done."] * SESSIONS
    return found


def off_the_loop(log: AgentLog) -> list[int]:
    """Threads that the database was used from, from now on."""
    seen: list[int] = []

    def noted(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            seen.append(threading.get_ident())
            return work(*args, **options)

        return call

    database: Any = log.store.database
    for name in ("read", "write", "append_at_once"):
        setattr(database, name, noted(getattr(database, name)))
    return seen


@pytest.mark.alone
def test_a_hundred_sessions_at_once_and_the_loop_is_never_blocked(
    any_log: AgentLog, provider: tuple[str, subprocess.Popen[str]]
) -> None:
    """No wait for the database is the loop's, and no callback holds it for 50 ms.

    Three rounds at most: whoever is kept waiting by others has more to do at once afterwards.
    """
    log = any_log
    url, process = provider
    used = off_the_loop(log)
    measured: list[str] = []
    for round in ("one", "two", "three"):
        found = asyncio.run(asyncio.wait_for(crowd(log, url, round), 600))
        clock = max(held.clock for held in found)
        ours = max(held.computed for held in found)
        measured.append(f"{clock * 1000:.0f} ms, {ours * 1000:.0f} ms of it ours")
        assert len(found) > SESSIONS * 20
        if min(clock, ours) < LONGEST * slowness():
            break
    else:
        pytest.fail(f"one callback held the loop for {'; for '.join(measured)}")
    print(f"\nno callback held the loop longer than {measured[-1]}")
    assert len(used) > SESSIONS * 20 and threading.get_ident() not in used
    for number in range(0, SESSIONS, 10):
        recorded = sound(log, f"{round} {number}")
        assert [step.outcome for step in recorded.steps] == ["completed"] * 3
        events = [event.type for event in recorded.events()]
        assert (events.count("tool.started"), events.count("tool.finished")) == (4, 4)
    requests = (SESSIONS + CLIENTS) * 3 * len(measured)
    assert ended(process) == f'{{"requests": {requests}, "refused": []}}\n'

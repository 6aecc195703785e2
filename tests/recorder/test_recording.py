"""`with sawlog.recording(…)`: what belongs to a block, and what does not."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import At, FakeProvider, Reply, Stall, Streamed
from sawlog.store.errors import Leased, NotEntered
from tests.recorder.programs import APIS, Program
from tests.session.agents import client_of, opened, sound
from tests.session.tasks import async_client, run

API = "openai-chat"


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


@pytest.fixture
def fake() -> Generator[FakeProvider]:
    """A provider that answers whatever it is asked."""
    with FakeProvider(lambda api, request, number: Reply(f"answer {number}")) as fake:
        yield fake


def asks(client: Any, text: str, api: str = API) -> None:
    """One question, in a conversation of its own."""
    program = Program(api, client)
    program.says(text)
    program.take(program.ask())


async def aasks(client: Any, text: str, api: str = API) -> None:
    """The same in a task."""
    program = Program(api, client)
    program.says(text)
    program.take(await program.aask())


def held(log: AgentLog, name: str) -> list[str]:
    """What was asked in the conversations of a recording."""
    rows = [row for row in log.sessions() if str(row.name).split("/")[0] == name]
    bodies = (step.packet.body for row in rows for step in sound(log, str(row.name)).steps)
    return sorted(word for body in bodies for word in _WORDS if f'"{word}"'.encode() in body)


_WORDS = ("before", "inside", "after", "one", "two", "three", "task", "thread", "left", "right")


@pytest.mark.parametrize("api", APIS)
def test_a_block_is_recorded_whoever_makes_the_client_and_nothing_else(
    log: AgentLog, fake: FakeProvider, api: str
) -> None:
    with client_of(api, fake) as early:
        asks(early, "before", api)
        with sawlog.recording(log, "task"), client_of(api, fake) as late:
            asks(early, "one", api)
            asks(late, "two", api)
        asks(early, "after", api)
    assert held(log, "task") == ["one", "two"] and len(fake.requests) == 4
    assert {row.owner for row in log.sessions()} == {None}


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_bare_clients_of_both_libraries_are_recorded(
    log: AgentLog, fake: FakeProvider, library: Any
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "inside"}]}
    with library.Client(base_url=fake.url) as early, sawlog.recording(log, "task"):
        assert early.post("/v1/chat/completions", json=body).status_code == 200

        async def main() -> None:
            async with library.AsyncClient(base_url=fake.url) as late:
                assert (await late.post("/v1/chat/completions", json=body)).status_code == 200

        asyncio.run(main())
    assert held(log, "task") == ["inside", "inside"]


def test_a_store_may_be_named_by_its_file(tmp_path: Path, fake: FakeProvider) -> None:
    with sawlog.recording(str(tmp_path / "new.db"), "task") as s, client_of(API, fake) as client:
        asks(client, "inside")
        assert s.name == "task"
    with opened(str(tmp_path / "new.db")) as log:
        assert held(log, "task") == ["inside"]


def test_tasks_and_threads_with_the_context_belong_to_it_and_other_threads_do_not(
    log: AgentLog, fake: FakeProvider
) -> None:
    def elsewhere(work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    async def main() -> None:
        async with async_client(API, fake) as client:
            with client_of(API, fake) as plain, sawlog.recording(log, "task"):
                await asyncio.gather(aasks(client, "one"), aasks(client, "two"))
                await asyncio.create_task(aasks(client, "task"))
                await asyncio.to_thread(asks, plain, "thread")
                context = contextvars.copy_context()
                elsewhere(lambda: context.run(asks, plain, "three"))
                elsewhere(lambda: asks(plain, "after"))

    run(main())
    assert held(log, "task") == ["one", "task", "thread", "three", "two"]
    assert len(fake.requests) == 6


def test_the_inner_recording_is_in_force_and_then_the_outer_again(
    log: AgentLog, fake: FakeProvider
) -> None:
    with client_of(API, fake) as client, sawlog.recording(log, "outer"):
        asks(client, "before")
        with sawlog.recording(log, "inner"):
            asks(client, "inside")
        with pytest.raises(KeyError), sawlog.recording(log, "inner"):
            raise KeyError("mine")
        asks(client, "after")
    assert held(log, "outer") == ["after", "before"] and held(log, "inner") == ["inside"]


def test_the_same_session_is_not_recorded_twice_at_once(log: AgentLog, fake: FakeProvider) -> None:
    with client_of(API, fake) as client, sawlog.recording(log, "task"):
        with pytest.raises(Leased), sawlog.recording(log, "task"):
            raise AssertionError("unreachable")
        asks(client, "inside")
    assert held(log, "task") == ["inside"]


def test_recordings_of_two_tasks_do_not_mix(log: AgentLog, fake: FakeProvider) -> None:
    """One client, two recordings, all the requests in flight at once."""

    async def records(client: Any, name: str, both: asyncio.Barrier) -> None:
        with sawlog.recording(log, name):
            program = Program(API, client, seed=len(name))
            for _ in range(4):
                await both.wait()
                program.says(name)
                program.take(await program.aask())

    async def main() -> None:
        both = asyncio.Barrier(2)
        async with async_client(API, fake) as client:
            await asyncio.gather(records(client, "left", both), records(client, "right", both))

    run(main())
    assert sorted(str(row.name) for row in log.sessions()) == ["left", "right"]
    for name in ("left", "right"):
        assert held(log, name) == [name] * 4


def test_a_task_that_outlives_the_block_sends_nothing_that_is_not_recorded(
    log: AgentLog, fake: FakeProvider
) -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def late(client: Any) -> None:
            await over.wait()
            await aasks(client, "after")

        async with async_client(API, fake) as client:
            with sawlog.recording(log, "task"):
                await aasks(client, "inside")
                task = asyncio.create_task(late(client))
            over.set()
            with pytest.raises(NotEntered, match="over"):
                await task

    run(main())
    assert held(log, "task") == ["inside"] and len(fake.requests) == 1
    assert [(row.name, row.owner) for row in log.sessions()] == [("task", None)]


def test_a_stream_that_outlives_the_block_ends_with_it(log: AgentLog) -> None:
    """What had come is in the log; the program may read on."""
    slow = Streamed(Reply("word " * 40), [Stall(At(events=8), 0.3)])
    with FakeProvider([slow]) as fake, client_of(API, fake) as client:
        with sawlog.recording(log, "task"):
            program = Program(API, client, stream=True)
            program.says("inside")
            create, given = program.request()
            events = iter(create(**given, stream=True))
            first = [next(events) for _ in range(4)]
        rest = list(events)
    assert len(first) + len(rest) > 30
    [answered] = [e for e in sound(log, "task").events() if e.type == "attempt.answered"]
    assert answered.content.interrupted  # type: ignore[union-attr]


def test_a_block_that_fails_keeps_its_own_error_and_what_was_said(
    log: AgentLog, fake: FakeProvider
) -> None:
    with client_of("anthropic", fake) as client:
        with pytest.raises(anthropic.BadRequestError), sawlog.recording(log, "task"):
            asks(client, "one", "anthropic")
            client.messages.create(model="m", max_tokens=1, messages=[{"role": "user"}])
    recorded = sound(log, "task/2")
    assert held(log, "task") == ["one"]
    assert [e.type for e in recorded.events()][-2:] == ["attempt.refused", "step.failed"]


def test_a_recorded_client_inside_a_recording_is_recorded_once_each(
    log: AgentLog, fake: FakeProvider
) -> None:
    """`record` names a session for its client: both hold the exchange, each in its own."""
    with client_of(API, fake) as client, log.session("own") as s:
        sawlog.record(client, session=s)
        with sawlog.recording(log, "task"):
            asks(client, "inside")
    assert held(log, "own") == held(log, "task") == ["inside"] and len(fake.requests) == 1


def test_what_is_refused_while_it_connects_is_lost(log: AgentLog) -> None:
    with FakeProvider([]) as gone:
        url = gone.base_url(API)
    client = openai.OpenAI(api_key="test", base_url=url, max_retries=0)
    with sawlog.recording(log, "task"), pytest.raises(openai.APIConnectionError):
        asks(client, "inside")
    client.close()
    assert [e.type for e in sound(log, "task").events()][-1] == "attempt.lost"

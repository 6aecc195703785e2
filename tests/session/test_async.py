"""The async face: tasks on one handle, cancelled at any moment, and many sessions side by side."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from sawlog.agentlog import AgentLog
from sawlog.aio import AsyncSession
from sawlog.call import Call as Asked
from sawlog.providers.fake import FakeProvider, HttpError, Reply
from sawlog.step import Reply as Answer
from sawlog.store.errors import (
    AttemptFailed,
    ConfigError,
    Refused,
    StepEnded,
)
from sawlog.store.events.conversation import ApprovalDecided, ToolFinished
from sawlog.store.events.steps import PacketBuilt
from tests.session.agents import (
    APIS,
    SYSTEM,
    TOOLS,
    client_of,
    fix,
    read_file,
    sound,
    talker,
    told,
    types,
)
from tests.session.tasks import async_client, begun, calls_of, run, step_of

apis = pytest.mark.parametrize("api", APIS)


# --- the loop -------------------------------------------------------------------------------------


@apis
def test_the_loop_runs_with_official_async_clients(log: AgentLog, api: str) -> None:
    async def agent(client: Any) -> list[Answer]:
        replies: list[Answer] = []
        async with log.asession("task") as s:
            await s.system(SYSTEM)
            await s.tools(TOOLS)
            await s.user("fix it", key="task")
            while True:
                reply = await (await step_of(s, api)).send(client)
                replies.append(reply)
                if not reply.tool_calls:
                    return replies
                async with asyncio.TaskGroup() as tasks:
                    for call in reply.tool_calls:
                        tasks.create_task(act(s, call))

    async def act(s: AsyncSession, call: Asked) -> None:
        async with s.tool(call) as tool:
            tool.result(await tool.run())

    async def work() -> None:
        async with async_client(api, fake) as client:
            replies = await agent(client)
        assert [reply.text for reply in replies][-1] == "Done."

    with FakeProvider(fix(api)) as fake:
        run(work())
        assert [step.packet.body for step in sound(log, "task").steps] == fake.bodies(api)
    assert told(log)[-1] == ("error", "ValueError: no disk")


def test_fifty_tools_of_one_reply_run_at_once_on_one_handle(any_log: AgentLog) -> None:
    log = any_log
    most = 0

    async def work() -> None:
        nonlocal most
        running = 0

        async def act(s: AsyncSession, call: Asked) -> None:
            nonlocal most, running
            async with s.tool(call) as tool:
                running += 1
                most = max(most, running)
                while most < 50:  # nobody ends before all have begun
                    await asyncio.sleep(0.001)
                tool.result(f"result of {call.args['path']}")
                running -= 1

        async with log.asession("task") as s:
            calls = await calls_of(s, 50)
            async with asyncio.TaskGroup() as tasks:
                for call in calls:
                    tasks.create_task(act(s, call))
            step = await step_of(s)
            shown = [e.text for e in step.sync.packet.entries if e.kind == "result"]
            assert shown == [f"result of {n}" for n in range(50)]

    run(work())
    assert most == 50
    events = [event.type for event in sound(log, "task").events()]
    assert (events.count("tool.started"), events.count("tool.finished")) == (50, 50)


def test_functions_are_awaited_or_run_in_a_thread_of_their_own(log: AgentLog) -> None:
    """A tool that blocks keeps neither the loop nor the log waiting."""
    where = contextvars.ContextVar("where", default="nowhere")
    blocked = threading.Event()

    async def sleeps(path: str) -> str:
        """Wait until the other blocks."""
        while not blocked.is_set():
            await asyncio.sleep(0.001)
        return f"awaited {path} {where.get()}"

    def blocks(path: str) -> str:
        """Block."""
        blocked.set()
        return f"in a thread {path} {where.get()}"

    async def work() -> None:
        where.set("here")
        async with log.asession("task") as s:
            calls = await calls_of(s, 2)
            await s.tools([sleeps, blocks])
            async with asyncio.TaskGroup() as tasks:
                for call, name in zip(calls, ("sleeps", "blocks"), strict=True):
                    tasks.create_task(act(s, replace(call, name=name)))

    async def act(s: AsyncSession, call: Asked) -> None:
        async with s.tool(call) as tool:
            tool.result(await tool.run())

    run(work())
    assert sorted(text for _, text in told(log)) == ["awaited 0 here", "in a thread 1 here"]


# --- many -----------------------------------------------------------------------------------------


def test_those_who_wait_for_a_lease_do_not_keep_its_owner_from_working(log: AgentLog) -> None:
    """More of them than the log has threads; each has its turn."""

    async def turn(number: int) -> None:
        async with log.asession("task", wait=60, owner=f"number {number}") as s:
            for _ in range(3):
                await s.user(f"from {number}")

    async def work() -> None:
        await asyncio.gather(*(turn(number) for number in range(12)))

    run(work())
    events = types(log.read("task"))
    assert events == ["session.created", *["message.user"] * 36]


def test_tasks_and_threads_share_one_handle(log: AgentLog) -> None:
    async def work() -> None:
        async with log.asession("task") as s:
            await asyncio.gather(
                *(s.user(f"task {n}") for n in range(20)),
                *(asyncio.to_thread(s.sync.user, f"thread {n}") for n in range(20)),
            )

    run(work())
    assert len(types(log.read("task"))) == 41


# --- the same rules -------------------------------------------------------------------------------


def test_what_is_no_async_client_is_said_before_anything_leaves(log: AgentLog) -> None:
    async def work() -> None:
        with FakeProvider([]) as fake, client_of("anthropic", fake) as client:
            async with log.asession("task") as s:
                step = await begun(s)
                with httpx.Client(base_url="http://localhost") as other:
                    for wrong in (client, other):
                        with pytest.raises(ConfigError, match="would block the loop"):
                            await step.send(wrong)
                with pytest.raises(ConfigError, match="object is no client"):
                    await step.send(object())
                with pytest.raises(ConfigError, match="less than none"):
                    await step.send(talker(), retries=-1)
                assert types(log.read("task"))[-1] == "packet.built"
                assert (await step.send(talker())).text == "ok"
                with pytest.raises(StepEnded):
                    await step.send(talker())
                with pytest.raises(StepEnded):
                    await step.abandon()

    run(work())


def test_retries_are_attempts_and_pauses_are_awaited(log: AgentLog) -> None:
    soon = {"retry-after-ms": "1"}

    async def work() -> None:
        async with httpx.AsyncClient(base_url=fake.url) as client, log.asession("task") as s:
            step = await begun(s)
            assert (await step.send(client, retries=3)).text == "ok"
            with pytest.raises(AttemptFailed) as failed:
                await (await begun(s)).send(client, retries=1)
            assert failed.value.kind == "provider_error"
            with pytest.raises(Refused):
                async with log.asession("other") as other:
                    await step_of(other)
            fallback = await step_of(s, fallback_of=step)
            assert fallback.number == 3

    busy = [HttpError(529, headers=soon), HttpError(429, headers=soon)]
    with FakeProvider([*busy, Reply("ok"), *[HttpError(500, headers=soon)] * 2]) as fake:
        run(work())
    events = types(log.read("task"))
    assert events.count("attempt.refused") == 4
    assert events.count("step.failed") == 1
    last = [e.content for e in log.read("task").events() if isinstance(e.content, PacketBuilt)][-1]
    assert last.fallback_of


def test_the_rest_of_the_face_is_the_same(log: AgentLog) -> None:
    async def work() -> None:
        closed = log.asession("task")
        with pytest.raises(RuntimeError, match="enter the session first"):
            _ = closed.sync
        async with closed as s:
            await s.user([s.media(b"\x89PNG", "image/png")])
            seq = await s.append(ToolFinished(call_id="x", external=True), source="tool:x")
            assert seq == 3
            [call] = await calls_of(s, 1)
            approval = await s.ask(call, "may I?")
            with pytest.raises(Refused):
                await step_of(s)
            log.decide("task", approval, allow=True, by="me")
            assert [c.event_id for c in await s.open_calls()] == [call.event_id]
            async with s.tool(call, effect="read_only") as tool:
                assert tool.key == tool.call.event_id == call.event_id
                tool.saw("a")
                tool.result(read_file("a"), limit=1000)
            step = await step_of(s)
            assert step.body == step.sync.body
            await step.abandon("enough")

    run(work())
    assert types(log.read("task"))[-1] == "step.abandoned"
    assert any(isinstance(e.content, ApprovalDecided) for e in log.read("task").events())

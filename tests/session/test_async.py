"""The async face: its loop with official clients, and many tasks on one handle."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider
from sawlog.work.aio import AsyncSession
from sawlog.work.call import Call as Asked
from sawlog.work.reply import Reply as Answer
from tests.session.agents import APIS, SYSTEM, TOOLS, fix, sound, told, types
from tests.session.tasks import async_client, calls_of, run, step_of

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
            calls = await calls_of(s, 2, [sleeps, blocks])
            async with asyncio.TaskGroup() as tasks:
                for call in calls:
                    tasks.create_task(act(s, call))

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

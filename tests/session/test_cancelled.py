"""Tasks cancelled at any moment: what began is finished, and the log says what is not known."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider, Hang, Reply
from sawlog.store.errors import Busy, Leased, ToolError
from sawlog.store.events.steps import AttemptLost
from sawlog.work.aio import AsyncSession
from sawlog.work.call import Call as Asked
from sawlog.work.offloop import OffLoop
from tests.session.agents import APIS, sound, talker, told, types
from tests.session.tasks import async_client, begun, calls_of, run, step_of

apis = pytest.mark.parametrize("api", APIS)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_tool_leaves_an_interrupted_result(log: AgentLog) -> None:
    async def work() -> None:
        async with log.asession("task") as s:
            [call, other] = await calls_of(s, 2)
            begun = asyncio.Event()

            async def act() -> None:
                async with s.tool(call) as tool:
                    tool.result("half of it")
                    begun.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(act())
            await begun.wait()
            await cancelled(task)
            async with s.tool(other) as tool:
                tool.result("whole")
            step = await step_of(s)
            shown = [(e.status, e.text) for e in step.sync.packet.entries if e.kind == "result"]
            assert shown == [("interrupted", "interrupted: CancelledError"), ("ok", "whole")]

    run(work())
    assert types(log.read("task")).count("tool.finished") == 2


@pytest.mark.parametrize("after", [0, 0.0005, 0.001, 0.002, 0.005, 0.02])
def test_a_tool_cancelled_at_any_moment_has_a_start_and_a_result_or_neither(
    log: AgentLog, after: float
) -> None:
    async def work() -> None:
        async with log.asession("task") as s:

            async def act(call: Asked) -> None:
                async with s.tool(call) as tool:
                    await asyncio.sleep(0.001)
                    tool.result("done")

            for call in await calls_of(s, 8):
                task = asyncio.create_task(act(call))
                await asyncio.sleep(after)
                task.cancel()
                await asyncio.wait([task])
            await step_of(s)

    run(work())
    events = types(log.read("task"))
    assert events.count("tool.started") == events.count("tool.finished")
    sound(log, "task")


def test_a_tool_that_takes_too_long_has_an_error_result(log: AgentLog) -> None:
    async def work() -> None:
        async with log.asession("task") as s:
            slow, quick = await calls_of(s, 2)
            async with s.tool(slow, timeout=0.05) as tool:
                await asyncio.sleep(60)
                tool.result("never")
            async with s.tool(quick, timeout=60) as tool:
                tool.result("in time")

    run(work())
    assert told(log) == [
        ("error", "TimeoutError: the tool took longer than 0.05 s"),
        ("ok", "in time"),
    ]


def test_one_tool_of_a_group_that_fails_is_the_models_to_mend(log: AgentLog) -> None:
    """An exception ends no other task; an interrupt of the group leaves a result for each."""

    async def work() -> None:
        async with log.asession("task") as s:
            calls = await calls_of(s, 4)

            async def act(call: Asked) -> None:
                async with s.tool(call) as tool:
                    if call is calls[0]:
                        raise ValueError("mine")
                    tool.result("fine")

            async with asyncio.TaskGroup() as tasks:
                for call in calls:
                    tasks.create_task(act(call))
            again = await calls_of(s, 3)
            with pytest.raises(ExceptionGroup):
                async with asyncio.TaskGroup() as tasks:
                    for call in again:
                        tasks.create_task(stops(s, call, call is again[2]))

    async def stops(s: AsyncSession, call: Asked, fails: bool) -> None:
        async with s.tool(call):
            if fails:
                raise ToolError("the agent's own")
            await asyncio.sleep(60)

    run(work())
    statuses = [status for status, _ in told(log)]
    assert sorted(statuses[:4]) == ["error", "ok", "ok", "ok"]
    assert statuses[4:] == ["interrupted", "interrupted"]
    sound(log, "task")


@apis
def test_a_cancelled_send_leaves_the_attempt_as_lost_before_it_goes_on(
    log: AgentLog, api: str
) -> None:
    async def work() -> None:
        async with async_client(api, fake) as client, log.asession("task") as s:
            step = await begun(s, api)
            task = asyncio.create_task(step.send(client))
            while not fake.requests:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert types(log.read("task"))[-2:] == ["attempt.sent", "attempt.lost"]
            assert (await step.send(client)).text == "ok"

    with FakeProvider([Hang(30), Reply("ok")]) as fake:
        run(work())
    [lost] = [e.content for e in sound(log, "task").events() if isinstance(e.content, AttemptLost)]
    assert lost == AttemptLost(1, "CancelledError: ")


@pytest.mark.parametrize("after", [0, 0.0005, 0.001, 0.002, 0.004, 0.008])
def test_a_step_cancelled_at_any_moment_leaves_a_log_that_goes_on(
    log: AgentLog, after: float
) -> None:
    async def slow(body: bytes) -> bytes:
        await asyncio.sleep(0.002)
        return talker()(body)

    async def whole(s: AsyncSession) -> None:
        await (await begun(s)).send(slow)

    async def work() -> None:
        async with log.asession("task") as s:
            for _ in range(8):
                task = asyncio.create_task(whole(s))
                await asyncio.sleep(after)
                task.cancel()
                await asyncio.wait([task])
            await s.user("and at last")
            assert (await (await step_of(s)).send(slow)).text == "ok"

    run(work())
    recorded = sound(log, "task")
    events = types(recorded)
    settled = events.count("attempt.answered") + events.count("attempt.lost")
    assert events.count("attempt.sent") == settled
    assert recorded.steps[len(recorded.steps)].outcome == "completed"


def test_a_timeout_of_the_client_is_a_lost_attempt(log: AgentLog) -> None:
    async def work() -> None:
        async with async_client("openai-chat", fake) as client, log.asession("task") as s:
            step = await begun(s)
            with pytest.raises(openai.APITimeoutError):
                await step.send(client, timeout=0.1)
            assert types(log.read("task"))[-1] == "attempt.lost"

    with FakeProvider([Hang(30)]) as fake:
        run(work())


def test_a_session_cancelled_while_it_opens_keeps_no_lease(log: AgentLog) -> None:
    async def enters(wait: float) -> None:
        async with log.asession("task", wait=wait):
            await asyncio.sleep(60)

    async def work() -> None:
        for after in (0, 0.0005, 0.001, 0.003, 0.01, 0.05):
            task = asyncio.create_task(enters(0))
            await asyncio.sleep(after)
            await cancelled(task)
            assert log.store.find("task") == [] or log.find("task").owner is None
        async with log.asession("task", owner="the first"):
            task = asyncio.create_task(enters(60))
            await asyncio.sleep(0.2)
            await cancelled(task)
            with pytest.raises(Leased, match="the first"):
                await enters(0)
        async with log.asession("task") as s:
            await s.user("free again")

    run(work())


def test_a_cancelled_caller_waits_and_is_told_what_failed_meanwhile() -> None:
    """An append that began is finished before the cancellation goes on, however often it comes."""
    ended: list[BaseException | None] = []
    may_end = threading.Event()

    def fails() -> None:
        may_end.wait(20)
        raise Busy("locked")

    async def waits(off_loop: OffLoop) -> None:
        try:
            await off_loop(fails)
        except asyncio.CancelledError as error:
            ended.append(error.__cause__)
            raise

    async def work() -> None:
        with ThreadPoolExecutor(1) as pool:
            task = asyncio.create_task(waits(OffLoop(pool)))
            for _ in range(3):
                await asyncio.sleep(0.01)
                assert not task.done()
                task.cancel()
            may_end.set()
            await asyncio.wait([task])
            assert task.cancelled()

    run(work())
    [cause] = ended
    assert isinstance(cause, Busy)

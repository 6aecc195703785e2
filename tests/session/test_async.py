"""The async face: tasks on one handle, cancelled at any moment, and many sessions side by side."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import httpx
import openai
import pytest
from msgspec.structs import replace

from sawlog.agentlog import AgentLog
from sawlog.aio import AsyncSession, AsyncStep, OffLoop
from sawlog.call import Call as Asked
from sawlog.providers.fake import FakeProvider, Hang, HttpError, Reply
from sawlog.step import Reply as Answer
from sawlog.store.errors import (
    AttemptFailed,
    Busy,
    ConfigError,
    Leased,
    Refused,
    StepEnded,
    ToolError,
)
from sawlog.store.events.conversation import ApprovalDecided, ToolFinished
from sawlog.store.events.steps import AttemptLost, PacketBuilt
from tests.session.agents import (
    APIS,
    SYSTEM,
    TOOLS,
    client_of,
    fix,
    params,
    read_file,
    sound,
    talker,
    told,
    types,
)

apis = pytest.mark.parametrize("api", APIS)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run to its end, within a minute."""
    asyncio.run(asyncio.wait_for(work, 60))


def async_client(api: str, fake: FakeProvider) -> Any:
    """The official async client of an API."""
    if api == "anthropic":
        return anthropic.AsyncAnthropic(api_key="test", base_url=fake.base_url(api))
    return openai.AsyncOpenAI(api_key="test", base_url=fake.base_url(api))


async def step_of(s: AsyncSession, api: str = "openai-chat", **options: Any) -> AsyncStep:
    """The session's next step."""
    return await s.step(api, model="test-model", **params(api), **options)


async def begun(s: AsyncSession, api: str = "openai-chat") -> AsyncStep:
    """A step over one message."""
    await s.user("hello")
    return await step_of(s, api)


async def calls_of(s: AsyncSession, count: int) -> tuple[Asked, ...]:
    """A step whose reply asks for so many calls."""
    await s.tools(TOOLS)
    await s.user("go")
    asked = [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": "read_file", "arguments": json.dumps({"path": str(n)})},
        }
        for n in range(count)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": asked}
    body = {"id": "r", "model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
    return (await (await step_of(s)).answer(body)).tool_calls


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


# --- cancelled ------------------------------------------------------------------------------------


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


def test_a_cancelled_caller_waits_and_is_told_what_failed_meanwhile() -> None:
    """An append that began is finished before the cancellation goes on, however often it comes."""
    ended: list[BaseException | None] = []

    def fails() -> None:
        time.sleep(0.1)
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
            await asyncio.wait([task])
            assert task.cancelled()

    run(work())
    [cause] = ended
    assert isinstance(cause, Busy)

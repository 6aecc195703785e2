"""What may go wrong between a recorded client and its provider: the record says what happened, and
the conversation goes on in its session."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import anyio
import httpx2
import openai
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.audit.recorded import Recorded
from sawlog.builder.contents import text_of
from sawlog.providers.fake import (
    At,
    Call,
    Cut,
    Drop,
    ErrorEvent,
    FakeProvider,
    Garbage,
    Hang,
    HttpError,
    Reply,
    Stall,
    Streamed,
    storm,
)
from sawlog.store.content import TextPart
from sawlog.store.events.conversation import MessageAssistant
from sawlog.store.events.steps import AttemptAnswered, AttemptLost, AttemptRefused
from tests.recorder.programs import APIS, Program
from tests.session.agents import client_of, next_step, opened, sound, types
from tests.session.tasks import async_client, run

apis = pytest.mark.parametrize("api", APIS)

TALK = "I look into it, slowly and with care: é, 漢字, 🙂. "
LONG = Reply(TALK * 40)
CALL = Reply("I look.", calls=[Call("read_file", {"path": "a" * 400})])

FAILS = (anthropic.APIError, openai.APIError, httpx2.HTTPError, ValueError)
"""What a client raises when a line breaks, nothing comes or an event is no JSON."""


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


def outcomes(recorded: Recorded) -> list[str]:
    """The outcome of each attempt, in a word."""
    found: list[str] = []
    for event in recorded.events():
        match event.content:
            case AttemptAnswered():
                found.append("interrupted" if event.content.interrupted else "answered")
            case AttemptRefused():
                found.append(event.content.kind)
            case AttemptLost():
                found.append("lost")
            case _:
                pass
    return found


def settled(log: AgentLog, name: str = "task") -> Recorded:
    """The session, sound, each attempt of it with its outcome."""
    recorded = sound(log, name)
    assert types(recorded).count("attempt.sent") == len(outcomes(recorded))
    return recorded


def goes_on(log: AgentLog, api: str, program: Program) -> None:
    """The program asks on, and so does sawlog, in the one session: the provider takes both."""
    program.stream = False
    program.says("go on")
    program.take(program.ask())
    assert [row.name for row in log.sessions()] == ["task"]


def then_sawlog(log: AgentLog, api: str, fake: FakeProvider) -> None:
    """Sawlog's own next packet is one that the provider takes."""
    with client_of(api, fake) as client, log.session("task") as s:
        for call in s.recover().not_started:
            with s.tool(call) as tool:
                tool.result("text")
        s.user("and at last")
        assert next_step(s, api).send(client).text == "Last."


# What goes wrong, and what the record says of it: of a stream, and of a whole reply.
FAULTS: dict[str, tuple[Any, set[str]]] = {
    "cut in a call": (Streamed(CALL, [Cut(At(call=0))]), {"interrupted"}),
    "cut at once": (Streamed(LONG, [Cut(At(bytes=0))]), {"interrupted"}),
    "cut late": (Streamed(LONG, [Cut(At(events=12))]), {"interrupted"}),
    "stall": (Streamed(LONG, [Stall(At(events=8), 30)]), {"interrupted"}),
    "error": (Streamed(LONG, [ErrorEvent(At(events=8))]), {"interrupted"}),
    "error at once": (
        Streamed(LONG, [ErrorEvent(At(events=0))]),
        {"overload", "provider_error"},
    ),
    "garbage": (Streamed(LONG, [Garbage(At(events=8))]), {"interrupted", "malformed"}),
    "dropped": (Drop(), {"lost"}),
    "silence": (Hang(30), {"lost"}),
}


def patience(fault: str) -> float:
    """Seconds that a client waits for more: long enough for what comes, on a machine that may stand
    still for one."""
    return {"stall": 1.5, "silence": 0.2}.get(fault, 60)


@apis
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_stream_is_recorded_and_the_program_goes_on(
    log: AgentLog, api: str, fault: str
) -> None:
    broken, says = FAULTS[fault]
    with FakeProvider([broken, Reply("Done."), Reply("Last.")]) as fake:
        with client_of(api, fake) as plain:
            client = plain.with_options(max_retries=0)
            with log.session("task") as s:
                program = Program(api, sawlog.record(client, session=s), stream=True)
                program.says("hello")
                create, given = program.request()
                with contextlib.suppress(*FAILS):
                    list(create(**given, stream=True, timeout=patience(fault)))
                assert types(s, log)[-1] not in ("attempt.sent", "packet.recorded")
                goes_on(log, api, program)
            found = outcomes(settled(log))
            assert found[0] in says and found[1:] == ["answered"]
            then_sawlog(log, api, fake)
        assert len(fake.requests) == 3
    settled(log)


@apis
@pytest.mark.parametrize("fault", ["cut in a call", "stall", "error", "dropped", "silence"])
def test_in_a_task_it_is_the_same(log: AgentLog, api: str, fault: str) -> None:
    broken, says = FAULTS[fault]

    async def main(fake: FakeProvider) -> None:
        async with async_client(api, fake) as plain, log.asession("task") as s:
            client = plain.with_options(max_retries=0)
            program = Program(api, sawlog.record(client, session=s))
            program.says("hello")
            create, given = program.request()
            with contextlib.suppress(*FAILS):
                async for _ in await create(**given, stream=True, timeout=patience(fault)):
                    pass
            program.says("go on")
            program.take(await program.aask())

    with FakeProvider([broken, Reply("Done."), Reply("Last.")]) as fake:
        run(main(fake))
        found = outcomes(settled(log))
        assert found[0] in says and found[1:] == ["answered"]
        then_sawlog(log, api, fake)
    assert [row.name for row in log.sessions()] == ["task"]


@apis
@pytest.mark.parametrize("broken", [Drop(), Drop(Reply(TALK), sent=40), Hang(30)], ids=repr)
def test_a_whole_reply_that_never_came_is_lost(log: AgentLog, api: str, broken: Any) -> None:
    with FakeProvider([broken, Reply("Done."), Reply("Last.")]) as fake:
        with client_of(api, fake) as plain:
            client = plain.with_options(max_retries=0)
            with log.session("task") as s:
                program = Program(api, sawlog.record(client, session=s))
                program.says("hello")
                create, given = program.request()
                with pytest.raises(FAILS):
                    create(**given, timeout=0.2 if isinstance(broken, Hang) else 60)
                goes_on(log, api, program)
            assert outcomes(settled(log)) == ["lost", "answered"]
            then_sawlog(log, api, fake)


@apis
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_storm_is_weathered_by_the_client_and_each_refusal_is_one(
    log: AgentLog, api: str, stream: bool
) -> None:
    """Of a stream clients do not read what a refusal says when they try again: its status does."""
    soon = [HttpError(one.status, headers={"retry-after-ms": "1"}) for one in storm(3)]
    with FakeProvider([*soon, LONG, *soon[:1], Reply("Done."), Reply("Last.")]) as fake:
        with client_of(api, fake) as plain:
            client = plain.with_options(max_retries=3)
            with log.session("task") as s:
                program = Program(api, sawlog.record(client, session=s), stream=stream)
                program.says("hello")
                program.take(program.ask())
                goes_on(log, api, program)
            found = outcomes(settled(log))
            then_sawlog(log, api, fake)
    assert found == [*["rate_limit"] * 3, "answered", "rate_limit", "answered"]
    assert len(log.read("task").steps) == 3


def test_a_refusal_does_not_speak_for_the_next_attempt(log: AgentLog) -> None:
    """The second try breaks before its head came: nobody knows what became of it."""
    soon = HttpError(429, headers={"retry-after-ms": "1"})
    with FakeProvider([soon, Drop(), Reply("Done.")]) as fake, log.session("task") as s:
        with client_of("openai-chat", fake) as plain:
            client = plain.with_options(max_retries=1)
            program = Program("openai-chat", sawlog.record(client, session=s), stream=True)
            program.says("hello")
            with pytest.raises(FAILS):
                program.ask()
            goes_on(log, "openai-chat", program)
    assert outcomes(settled(log)) == ["rate_limit", "lost", "answered"]


# --- tasks that are cancelled ---------------------------------------------------------------------

BACKENDS = ["asyncio", "anyio", "trio"]


def looped(backend: str, work: Callable[[], Any]) -> None:
    """Run work to its end, in the loop of that library."""
    if backend == "trio":
        pytest.importorskip("trio")
    anyio.run(work, backend="trio" if backend == "trio" else "asyncio")


async def cancelled(backend: str, seconds: float, work: Callable[[], Any]) -> None:
    """Do work that is cancelled after so many seconds, in the way of each library."""
    if backend != "asyncio":
        with anyio.move_on_after(seconds):
            await work()
        return
    task = asyncio.create_task(work())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
# trio's word on how the official clients read their streams.
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
def test_a_request_cancelled_at_any_moment_has_an_outcome(
    log: AgentLog, backend: str, stream: bool
) -> None:
    """However early: while its record is written nothing leaves, and the conversation is free."""
    slow = Streamed(LONG, wait=0.02) if stream else Hang(0.02, LONG)

    async def main() -> None:
        async with async_client("openai-chat", fake) as plain:
            client = sawlog.record(plain.with_options(max_retries=0), session=s)
            program = Program("openai-chat", client, stream=stream)
            program.says("hello")
            for after in (0, 0.001, 0.002, 0.003, 0.004, 0.006, 0.01, 0.015, 0.02, 0.03, 0.05):
                await cancelled(backend, after, program.aask)
                assert types(s, log)[-1:] not in (["attempt.sent"], ["packet.recorded"])
            program.says("and again")
            program.take(await program.aask())

    with FakeProvider(lambda api, request, number: slow) as fake, log.session("task") as s:
        looped(backend, main)
    # After a reply that came in time the same words begin another conversation.
    assert log.sessions()[0].name == "task"
    assert outcomes(settled(log))[-1] == "answered"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_request_cancelled_while_its_record_is_written_does_not_leave(
    log: AgentLog, backend: str
) -> None:
    append = log.store.append

    def slow(*args: Any, **options: Any) -> Any:
        done = append(*args, **options)
        if any(type(one.payload).__name__ == "AttemptSent" for one in args[1]):
            time.sleep(0.2)
        return done

    async def main() -> None:
        async with async_client("anthropic", fake) as plain:
            client = sawlog.record(plain.with_options(max_retries=0), session=s)
            program = Program("anthropic", client)
            program.says("hello")
            log.store.append = slow  # type: ignore[method-assign]
            await cancelled(backend, 0.1, program.aask)
            log.store.append = append  # type: ignore[method-assign]
            assert fake.requests == []
            assert types(s, log)[-2:] == ["attempt.sent", "attempt.lost"]
            program.take(await program.aask())
            assert len(fake.requests) == 1

    with FakeProvider([LONG]) as fake, log.session("task") as s:
        looped(backend, main)
    assert len(log.sessions()) == 1 and len(log.read("task").steps) == 1
    assert outcomes(settled(log)) == ["lost", "answered"]


# --- two at once ----------------------------------------------------------------------------------


def two(api: str, request: Any, number: int) -> Streamed:
    """A stream that stands still to the one, and one that takes its time to the other."""
    last = (request.get("messages") or request.get("input"))[-1]
    if "stop" in str(last):
        return Streamed(LONG, [Stall(At(events=8), 30)])
    return Streamed(LONG, [Stall(At(events=5), 0.2), Stall(At(events=9), 0.3)])


@apis
def test_a_task_that_is_cancelled_takes_nothing_from_the_other(log: AgentLog, api: str) -> None:
    async def main(fake: FakeProvider) -> None:
        async with async_client(api, fake) as client, log.asession("task") as s:
            sawlog.record(client, session=s)
            programs = [Program(api, client, seed=n, stream=True) for n in range(2)]
            programs[0].says("stop half way")
            programs[1].says("go to the end")
            reached = asyncio.Event()

            async def stands_still() -> None:
                create, given = programs[0].request()
                seen = 0
                async for _ in await create(**given, stream=True):
                    seen += 1
                    if seen == 4:
                        reached.set()

            tasks: list[asyncio.Task[Any]] = [
                asyncio.create_task(stands_still()),
                asyncio.create_task(programs[1].aask()),
            ]
            await reached.wait()
            tasks[0].cancel()
            await asyncio.wait(tasks)
            assert tasks[0].cancelled()
            whole.append(tasks[1].result())

    whole: list[Any] = []
    with FakeProvider(two) as fake:
        run(main(fake))
    _one_is_whole(log)


@apis
def test_a_thread_that_leaves_takes_nothing_from_the_other(log: AgentLog, api: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with FakeProvider(two) as fake, client_of(api, fake) as client, log.session("task") as s:
        sawlog.record(client, session=s)
        programs = [Program(api, client, seed=n, stream=True) for n in range(2)]
        programs[0].says("stop half way")
        programs[1].says("go to the end")

        def leaves() -> None:
            create, given = programs[0].request()
            stream = create(**given, stream=True)
            for number, _ in enumerate(stream):
                if number == 4:
                    break
            stream.close()

        with ThreadPoolExecutor(2) as pool:
            for one in [pool.submit(leaves), pool.submit(programs[1].ask)]:
                one.result()
    _one_is_whole(log)


def _one_is_whole(log: AgentLog) -> None:
    found: dict[str, str] = {}
    for row in log.sessions():
        recorded = settled(log, str(row.name))
        body = recorded.steps[1].packet.body
        [outcome] = outcomes(recorded)
        found["stop" if b"stop half way" in body else "go"] = outcome
        said = ""
        for event in recorded.events():
            if isinstance(event.content, MessageAssistant):
                for part in event.content.parts:
                    if isinstance(part, TextPart):
                        said += text_of(part.text, recorded.window)
        if outcome == "answered":
            assert said == LONG.text
        else:
            assert LONG.text.startswith(said) and len(said) < len(LONG.text)
    assert found == {"stop": "interrupted", "go": "answered"}

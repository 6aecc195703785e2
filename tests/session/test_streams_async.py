"""Streams of tasks that go wrong: each fault as with sync clients, and cancelled at any time."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from sawlog.agentlog import AgentLog
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
)
from sawlog.store.errors import AttemptFailed
from tests.session.agents import APIS, TOOLS, sound, types
from tests.session.tasks import async_client, run, step_of

apis = pytest.mark.parametrize("api", APIS)

LONG = Reply("I look into it, slowly and with care. " * 40)
CALL = Reply("I look.", calls=[Call("read_file", {"path": "a" * 400})])
FAILS = (
    AttemptFailed,
    anthropic.APIError,
    openai.APIError,
    httpx.HTTPError,
    httpx2.HTTPError,
)

# What goes wrong -> how the attempt ends, for one who reads the stream on and for one who waits for
# the whole of it.
FAULTS: dict[str, tuple[Any, str]] = {
    "cut in a call": (Streamed(CALL, [Cut(At(call=0))]), "attempt.answered"),
    "cut at once": (Streamed(LONG, [Cut(At(bytes=0))]), "attempt.answered"),
    "stall": (Streamed(LONG, [Stall(At(events=8), 30)]), "attempt.answered"),
    "error": (Streamed(LONG, [ErrorEvent(At(events=8))]), "attempt.answered"),
    "error at once": (Streamed(LONG, [ErrorEvent(At(events=0))]), "attempt.refused"),
    "garbage": (Streamed(LONG, [Garbage(At(events=8))]), "attempt.answered"),
    "dropped": (Drop(), "attempt.lost"),
    "silence": (Hang(30), "attempt.lost"),
    "refused": (HttpError(429), "attempt.refused"),
}


def patience(fault: str) -> float:
    """Seconds that a client waits for more: long enough for what comes, on a machine that may stand
    still for one."""
    return {"stall": 1.5, "silence": 0.2}.get(fault, 60)


def ends(log: AgentLog) -> list[str]:
    """How the attempts ended, in order."""
    found = types(sound(log, "task"))
    outcomes = ("attempt.answered", "attempt.refused", "attempt.lost")
    assert found.count("attempt.sent") == sum(one in outcomes for one in found)
    return [one for one in found if one in outcomes]


def client_of(kind: str, api: str, fake: FakeProvider) -> Any:
    """An async client: the official one, or one of either HTTP library."""
    if kind == "official":
        return async_client(api, fake)
    library: Any = httpx if kind == "httpx" else httpx2
    return library.AsyncClient(base_url=fake.base_url(api))


@apis
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("how", ["send", "stream"])
def test_a_fault_leaves_its_outcome_and_a_packet_that_is_taken(
    log: AgentLog, api: str, fault: str, how: str
) -> None:
    broken, end = FAULTS[fault]
    kind = ("official", "httpx", "httpx2")[(list(FAULTS).index(fault) + APIS.index(api)) % 3]

    async def main(fake: FakeProvider) -> None:
        async with log.asession("task") as s, client_of(kind, api, fake) as client:
            await s.tools(TOOLS)
            await s.user("hello")
            step = await step_of(s, api, stream=True)
            with pytest.raises(FAILS):
                if how == "send":
                    await step.send(client, timeout=patience(fault))
                else:
                    async for _ in step.stream(client, timeout=patience(fault)):
                        pass
            await s.user("go on")
            assert (await (await step_of(s, api)).send(client)).text == "Done."

    with FakeProvider([broken, Reply("Done.")]) as fake:
        run(main(fake))
        assert len(fake.requests) == 2
    assert ends(log) == [end, "attempt.answered"]


@pytest.mark.parametrize("kind", ["official", "httpx"])
def test_a_stream_cancelled_at_any_moment_has_an_outcome(log: AgentLog, kind: str) -> None:
    slow = Streamed(LONG, [Stall(At(events=6), 0.01)], wait=0.005)

    async def main(fake: FakeProvider) -> None:
        async with log.asession("task") as s, client_of(kind, "openai-chat", fake) as client:

            async def ask() -> None:
                await s.user("hello")
                async for _ in (await step_of(s, stream=True)).stream(client):
                    pass

            for after in (0, 0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05):
                task = asyncio.create_task(ask())
                await asyncio.sleep(after)
                task.cancel()
                await asyncio.wait([task])
                assert types(log.read("task"))[-1:] != ["attempt.sent"]
            await ask()

    with FakeProvider(lambda api, request, number: slow) as fake:
        run(main(fake))
    assert ends(log)[-1] == "attempt.answered"

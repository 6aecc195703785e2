"""The program that `test_attempts_killed` kills: one request, sent in each way that there is.

It kills itself at a border of the attempt: in front of an append or behind it, when the head of the
answer is there, or in the middle of a stream.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.work.session import Session
from tests.recorder.programs import Program
from tests.session.agents import next_step, params

BUILT = ("send", "stream", "astream")
RECORDED = ("record", "record-stream", "arecord-stream")
WAYS = (*BUILT, *RECORDED)

APPENDS = {
    # In front of an append with an event of this type, or behind it.
    "unsent": ("AttemptSent", "before"),
    "unleft": ("AttemptSent", "after"),
    "refused": ("AttemptRefused", "after"),
    "unwritten": ("AttemptAnswered", "before"),
    "written": ("AttemptAnswered", "after"),
}


def streams(way: str) -> bool:
    """True where the reply is a stream."""
    return way.endswith("stream")


def client_of(api: str, url: str, way: str, head: Callable[[], None]) -> Any:
    """The official client of an API, with two tries; `head` is called with each head."""
    import anthropic
    import httpx2
    import openai

    def hook(response: Any) -> None:
        head()

    async def ahook(response: Any) -> None:
        head()

    given: dict[str, Any] = {"api_key": "test", "base_url": url, "max_retries": 1}
    if way.startswith("a"):
        given["http_client"] = httpx2.AsyncClient(event_hooks={"response": [ahook]})
        return (anthropic.AsyncAnthropic if api == "anthropic" else openai.AsyncOpenAI)(**given)
    given["http_client"] = httpx2.Client(event_hooks={"response": [hook]})
    return (anthropic.Anthropic if api == "anthropic" else openai.OpenAI)(**given)


def kill() -> None:
    """End this very process, at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def run(store: str, api: str, url: str, way: str, at: str) -> None:
    """Ask once, and die at that border. `received` is the parent's: it kills this process."""
    log = sawlog.open(store)
    append = log.store.append

    def watched(*args: Any, **options: Any) -> Any:
        kind, side = APPENDS.get(at, ("", ""))
        meant = any(type(event.payload).__name__ == kind for event in args[1])
        if meant and side == "before":
            kill()
        done = append(*args, **options)
        if meant:
            kill()
        return done

    log.store.append = watched  # type: ignore[method-assign]
    client = client_of(api, url, way, kill if at == "headers" else lambda: None)
    if way.startswith("a"):
        asyncio.run(_asked(log, api, client, way, at))
    else:
        with log.session("task", ttl=0.1) as s:
            _ask(s, api, client, way, at)
    log.close()


def _half(at: str, count: int) -> None:
    if at == "half" and count == 4:
        kill()


def _ask(s: Session, api: str, client: Any, way: str, at: str) -> None:
    if way in RECORDED:
        program = Program(api, sawlog.record(client, session=s))
        program.says("hello")
        create, given = program.request()
        if not streams(way):
            create(**given)
            return
        for count, _ in enumerate(create(**given, stream=True)):
            _half(at, count)
        return
    s.user("hello", key="hello")
    if not streams(way):
        next_step(s, api).send(client, retries=1)
        return
    for count, _ in enumerate(next_step(s, api, stream=True).stream(client)):
        _half(at, count)


async def _asked(log: AgentLog, api: str, client: Any, way: str, at: str) -> None:
    async with log.asession("task", ttl=0.1) as s:
        if way in RECORDED:
            program = Program(api, sawlog.record(client, session=s))
            program.says("hello")
            create, given = program.request()
            events = await create(**given, stream=True)
        else:
            await s.user("hello", key="hello")
            step = await s.step(api, model="test-model", stream=True, **params(api))
            events = step.stream(client)
        count = 0
        async for _ in events:
            _half(at, count)
            count += 1

"""Streams told once more from what the log keeps of them: broken ones, refused ones, async ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import sawlog
from sawlog.builder.replies import Answered
from sawlog.builder.replies.assembling import assemble
from sawlog.providers.fake import (
    At,
    Call,
    Cut,
    ErrorEvent,
    FakeProvider,
    Part,
    Reply,
    Streamed,
    Text,
)
from sawlog.testing.recordings import recording_of
from tests.doors.provoke import STARTS
from tests.testing.agents import MODEL

OFF = "http://127.0.0.1:9"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[sawlog.AgentLog]:
    with sawlog.open(str(tmp_path / "agent.db")) as opened:
        yield opened


def said(url: str, api: str) -> Any:
    """What a client reads of one stream: its text, and the error that ended it."""
    text = ""
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Hi."}]}
    try:
        if api == "anthropic":
            with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0) as client:
                with client.messages.stream(**asked, max_tokens=99) as stream:
                    for one in stream.text_stream:
                        text += one
        else:
            with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as other:
                chunks: Any = other.chat.completions.create(**asked, stream=True)
                for chunk in chunks:
                    text += chunk.choices[0].delta.content or ""
    except Exception as error:
        return text, type(error).__name__
    return text, ""


@pytest.mark.parametrize("api", ["anthropic", "openai-chat"])
def test_a_stream_that_broke_off_breaks_off_again(log: sawlog.AgentLog, api: str) -> None:
    """What had come of it comes, and then the line breaks."""
    script = [Streamed(Reply("A long answer, cut in the middle."), [Cut(At(events=6))])]
    with FakeProvider(script) as fake, sawlog.recording(log, "task"):
        text, error = said(fake.url, api)
    assert text and error
    with sawlog.replaying(log.read("task")):
        again, failed = said(OFF, api)
    assert again == text and failed == error


@pytest.mark.parametrize("api", ["anthropic", "openai-chat"])
def test_a_stream_that_refused_refuses_again(log: sawlog.AgentLog, api: str) -> None:
    script = [Streamed(Reply("Never said."), [ErrorEvent(At(events=0))])]
    with FakeProvider(script) as fake, sawlog.recording(log, "task"):
        first = said(fake.url, api)
    assert first[0] == "" and first[1]
    with sawlog.replaying(log.read("task")):
        assert said(OFF, api) == first


def test_an_async_client_in_parallel_tasks(log: sawlog.AgentLog) -> None:
    """Two conversations side by side, each held to its own order."""

    async def ask(client: openai.AsyncOpenAI, what: str) -> str:
        reply = await client.chat.completions.create(
            model="gpt-x", messages=[{"role": "user", "content": what}]
        )
        return str(reply.choices[0].message.content)

    async def run(url: str, *asks: str) -> list[str]:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1") as client:
            return list(await asyncio.gather(*(ask(client, one) for one in asks)))

    def script(api: str, request: Any, number: int) -> Reply:
        return Reply(f"You said {request['messages'][0]['content']}")

    names = [f"number {n}" for n in range(4)]
    with FakeProvider(script) as fake, sawlog.recording(log, "task"):
        told = asyncio.run(run(fake.url, *names))
    recordings = [log.read(row.name or "") for row in log.sessions()]
    assert len(recordings) == 4
    with sawlog.replaying(recordings):
        assert asyncio.run(run(OFF, *reversed(names))) == told[::-1]


@pytest.mark.parametrize("api", list(STARTS))
def test_what_is_told_again_assembles_to_the_same_reply(log: sawlog.AgentLog, api: str) -> None:
    """For every API, texts and calls in any order, with arguments of odd spelling."""
    import httpx

    parts: list[Part] = [
        Text("One."),
        Call("read", '{"a": 1e2, "b": "\\u00e9 \\ud83d\\ude00", "c": -0.0}', id="call_1"),
        Call("look", "{}", id="call_2"),
    ]
    body = {**STARTS[api], "stream": True}
    path = {"openai-chat": "/v1/chat/completions", "openai-responses": "/v1/responses"}.get(
        api, "/chat/completions" if api == "deepseek-chat" else "/v1/messages"
    )
    with FakeProvider([Reply(parts=parts)]) as fake, sawlog.recording(log, "task"):
        with httpx.Client(base_url=fake.url, headers={"anthropic-version": "2023-06-01"}) as client:
            received = client.post(path, json=body, headers={"x-api-key": "k"}).content
    [recording] = recording_of(log.read("task"))
    [exchange] = recording.exchanges
    assert exchange.answer is not None
    again = assemble(api, 200, {}, b"".join(exchange.answer.pieces))
    first = assemble(api, 200, {}, received)
    assert isinstance(first, Answered) and isinstance(again, Answered)
    for name in ("parts_and_calls", "text", "stop_reason", "usage", "model", "response_id"):
        assert getattr(again, name) == getattr(first, name), name

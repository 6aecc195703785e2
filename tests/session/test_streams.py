"""Streamed replies: the client's own events go through, and what came is in the log."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.contents import text_of
from sawlog.providers.fake import (
    At,
    Call,
    Cut,
    ErrorEvent,
    FakeProvider,
    Garbage,
    HttpError,
    Reply,
    Stall,
    Streamed,
)
from sawlog.store.content import IncompletePart, TextPart
from sawlog.store.errors import AttemptFailed, ConfigError
from sawlog.store.events.conversation import MessageAssistant, ToolRequested
from sawlog.store.events.steps import AttemptAnswered, AttemptLost, AttemptRefused
from sawlog.work.session import Session
from sawlog.work.step import Step
from tests.session.agents import (
    APIS,
    TOOLS,
    client_of,
    giving,
    next_step,
    params,
    provided,
    sound,
    types,
)
from tests.session.tasks import async_client, run

apis = pytest.mark.parametrize("api", APIS)

BROKEN = (anthropic.APIError, openai.APIError, httpx2.HTTPError)
"""What the official clients raise when a line breaks or nothing comes."""

TALK = "I look into it, slowly and with care: é, 漢字, 🙂."
CALLS = Reply(TALK, calls=[Call("read_file", {"path": "a.py"}), Call("run_tests")])


def begun(s: Session, api: str, **options: Any) -> Step:
    s.tools(TOOLS)
    s.user("hello", key="hello")
    return next_step(s, api, stream=True, **options)


def said(log: AgentLog, name: str = "task") -> list[tuple[str, ...]]:
    """What the log has of the replies: texts, calls, halves of calls."""
    recorded = log.read(name)
    out: list[tuple[str, ...]] = []
    for event in recorded.events():
        match event.content:
            case ToolRequested():
                arguments = text_of(event.content.arguments, recorded.window)
                out.append(("call", str(event.content.name), arguments))
            case MessageAssistant():
                for part in event.content.parts:
                    if isinstance(part, TextPart):
                        out.append(("text", text_of(part.text, recorded.window)))
                    elif isinstance(part, IncompletePart):
                        out.append(("incomplete", text_of(part.text, recorded.window)))
            case _:
                pass
    return out


def contents(log: AgentLog, kind: type[Any]) -> list[Any]:
    return [e.content for e in log.read("task").events() if isinstance(e.content, kind)]


def goes_on(s: Session, api: str, client: Any) -> None:
    """The next packet is one that the provider takes."""
    s.user("go on")
    assert next_step(s, api).send(client).text == "Done."


# --- what goes through, and what stays ------------------------------------------------------------


@apis
def test_a_stream_leaves_what_the_whole_reply_leaves(log: AgentLog, api: str) -> None:
    with provided(api, [CALLS, CALLS]) as (fake, client), log.session("task") as s:
        stream = begun(s, api).stream(client)
        events = list(stream)
        assert len(events) > 5 and type(events[0]).__module__.startswith(("openai", "anthropic"))
        assert stream.reply is not None and stream.reply.text == TALK
        assert [call.name for call in stream.reply.tool_calls] == ["read_file", "run_tests"]
        with log.session("whole") as other:
            other.tools(TOOLS)
            other.user("hello")
            next_step(other, api).send(client)
        assert fake.requests[0].body == log.read("task").steps[1].packet.body
    assert said(log) == said(log, "whole")
    answered = contents(log, AttemptAnswered)[0]
    assert answered.body == "" and answered.assembler is not None and not answered.interrupted
    assert str(answered.assembler).startswith(api)
    assert answered.response_id and answered.request_id
    # Chat tells the usage of a stream only where the parameters ask for it.
    assert bool(answered.usage) == (api != "openai-chat")
    assert sound(log, "task").steps[1].sent == "exact"


def plain(api: str, fake: FakeProvider) -> httpx.Client:
    return httpx.Client(
        base_url=fake.base_url(api), headers={"x-api-key": "k", "authorization": "k"}
    )


def own(api: str, fake: FakeProvider) -> httpx.Client:
    return sawlog.client(api, base_url=fake.base_url(api), api_key="key-of-nobody")


@apis
@pytest.mark.parametrize("make", [plain, own])
def test_other_clients_give_the_events_as_they_came(
    log: AgentLog, api: str, make: Callable[[str, FakeProvider], httpx.Client]
) -> None:
    with FakeProvider([CALLS]) as fake, make(api, fake) as client, log.session("task") as s:
        events = list(begun(s, api).stream(client))
    assert all(isinstance(event.data, str) and event.data for event in events)
    assert said(log)[-2:] == [("call", "read_file", '{"path":"a.py"}'), ("call", "run_tests", "{}")]
    sound(log, "task")


@apis
def test_a_function_may_give_the_pieces_of_a_stream(log: AgentLog, api: str) -> None:
    with FakeProvider([Streamed(CALLS, chunk=7)]) as fake, log.session("task") as s:
        with plain(api, fake) as client:

            def ask(body: bytes) -> Iterator[bytes]:
                with client.stream("POST", step.path.removeprefix("/v1"), content=body) as response:
                    yield from response.iter_raw()

            step = begun(s, api)
            if api == "anthropic" or api == "deepseek-chat":
                client.base_url = httpx.URL(fake.url + ("/v1" if api == "anthropic" else ""))
            if api == "anthropic":
                client.headers["anthropic-version"] = "2023-06-01"
            assert list(step.stream(ask))
            assert step.reply is not None and step.reply.text == TALK


@apis
def test_send_reads_a_stream_to_its_end(log: AgentLog, api: str) -> None:
    with provided(api, [Streamed(CALLS, chunk=3)]) as (_, client), log.session("task") as s:
        reply = begun(s, api).send(client)
    assert reply.text == TALK and len(reply.tool_calls) == 2 and reply.body == b""
    sound(log, "task")


@apis
def test_the_bytes_of_a_stream_are_an_answer(log: AgentLog, api: str) -> None:
    with provided(api, [CALLS]) as (fake, client), log.session("task") as s:
        begun(s, api).send(client)
        again = begun(s, api)
        reply = again.answer(fake.requests[0].answer, headers={"content-type": "text/event-stream"})
    assert reply.text == TALK
    assert said(log)[:3] == said(log)[3:]


def test_a_packet_that_asks_for_no_stream_is_not_streamed(log: AgentLog) -> None:
    with provided("anthropic", [CALLS]) as (fake, client), log.session("task") as s:
        s.user("hello")
        step = next_step(s, "anthropic")
        with pytest.raises(ConfigError, match="stream=True"):
            step.stream(client)
        assert not fake.requests
        assert step.send(client).text == TALK


@apis
def test_a_server_that_does_not_stream_gives_its_reply_all_the_same(
    log: AgentLog, api: str
) -> None:
    with provided(api, [Reply("whole", raw=None)]) as (fake, client), log.session("task") as s:
        s.user("hello", key="hello")
        next_step(s, api).send(client)
        body = fake.requests[0].answer
        s.user("and again")
        step = begun(s, api)
        stream = step.stream(giving(body))
        assert list(stream) == []
        assert stream.reply is not None and stream.reply.text == "whole"


# --- what stops in the middle ---------------------------------------------------------------------


@apis
@pytest.mark.parametrize("how", ["break", "close", "raise", "with", "session"])
def test_a_loop_that_is_left_keeps_what_had_come(log: AgentLog, api: str, how: str) -> None:
    slow = Streamed(Reply(TALK * 50), faults=[Stall(At(events=8), 20)])
    with provided(api, [slow, Reply("Done.")]) as (_, client):
        with log.session("task") as s:
            leave(begun(s, api), client, how)
            if how == "session":
                # Nobody closed it: the session does, when it goes on.
                s.user("go on")
                assert next_step(s, api).send(client).text == "Done."
        if how != "session":
            with log.session("task") as s:
                goes_on(s, api, client)
    first = contents(log, AttemptAnswered)[0]
    assert first.interrupted and first.stop_reason == ""
    assert said(log)[0][0] == "text" and (TALK * 50).startswith(said(log)[0][1])
    assert contents(log, MessageAssistant)[0].interrupted
    assert types(log.read("task")).count("step.completed") == 2
    sound(log, "task")


def leave(step: Step, client: Any, how: str) -> None:
    """Read five events of a stream, and stop in one way or another."""
    stream = step.stream(client)
    seen = 0
    if how == "with":
        with pytest.raises(KeyError), stream:
            for _ in stream:
                seen += 1
                if seen == 5:
                    raise KeyError("mine")
        return
    if how == "session":
        events = iter(stream)
        for _ in range(5):
            next(events)
        KEPT.append(events)  # nothing collects it
        return
    with pytest.raises(KeyError) if how == "raise" else contextlib.nullcontext():
        for _ in stream:
            seen += 1
            if seen == 5 and how == "raise":
                raise KeyError("mine")
            if seen == 5:
                break
    if how == "close":
        stream.close()


KEPT: list[Any] = []


@apis
def test_a_line_that_breaks_in_a_call_leaves_half_a_call(log: AgentLog, api: str) -> None:
    broken = Streamed(
        Reply("I look.", calls=[Call("read_file", {"path": "a" * 400})]),
        faults=[Cut(At(call=0))],
    )
    with provided(api, [broken, Reply("Done.")]) as (_, client), log.session("task") as s:
        step = begun(s, api)
        with pytest.raises(BROKEN):
            list(step.stream(client))
        assert "step.completed" in types(s, log)
        goes_on(s, api, client)
    assert said(log)[0] == ("text", "I look.")
    assert not any(one[0] == "call" for one in said(log))
    assert contents(log, AttemptAnswered)[0].interrupted
    sound(log, "task")


@apis
def test_a_line_that_breaks_before_anything_was_said(log: AgentLog, api: str) -> None:
    with provided(api, [Streamed(Reply(TALK), faults=[Cut(At(bytes=0))]), Reply("Done.")]) as (
        _,
        client,
    ):
        with log.session("task") as s:
            with pytest.raises(BROKEN):
                list(begun(s, api).stream(client))
            goes_on(s, api, client)
    assert said(log) == [("text", "Done.")]
    sound(log, "task")


@apis
def test_a_failure_that_the_provider_tells_in_mid_stream_has_its_class(
    log: AgentLog, api: str
) -> None:
    failing = Streamed(Reply(TALK), faults=[ErrorEvent(At(events=4))])
    with provided(api, [failing, failing, Reply("Done.")]) as (_, client), log.session("task") as s:
        with pytest.raises(AttemptFailed) as failed:
            list(begun(s, api).stream(client))
        assert failed.value.kind in ("overload", "provider_error")
        # Whoever waits for the whole reply saw nothing of the half: it is asked for again.
        s.user("go on")
        step = next_step(s, api, stream=True)
        assert step.send(client, retries=1).text == "Done."
    assert [one.kind for one in contents(log, AttemptRefused)][-1:] == [failed.value.kind]
    sound(log, "task")


@apis
def test_an_event_that_is_no_json_is_malformed(log: AgentLog, api: str) -> None:
    odd = Streamed(Reply(TALK), faults=[Garbage(At(events=4))])
    with provided(api, [odd, Reply("Done.")]) as (_, client), log.session("task") as s:
        with pytest.raises(AttemptFailed) as failed:
            list(begun(s, api).stream(client))
        assert failed.value.kind == "malformed"
        goes_on(s, api, client)
    sound(log, "task")


@apis
def test_a_stall_runs_into_the_timeout(log: AgentLog, api: str) -> None:
    stalling = Streamed(Reply(TALK), faults=[Stall(At(events=4), 30)])
    with provided(api, [stalling, Reply("Done.")]) as (_, client), log.session("task") as s:
        with pytest.raises(BROKEN) as broke:
            list(begun(s, api).stream(client, timeout=1.5))
        assert "imeout" in type(broke.value).__name__
        assert contents(log, AttemptAnswered)[0].interrupted
        goes_on(s, api, client)
    sound(log, "task")


@apis
def test_a_refusal_before_the_stream_is_a_refusal(log: AgentLog, api: str) -> None:
    storm = [HttpError(429, headers={"retry-after-ms": "1"})] * 3
    with provided(api, [*storm, CALLS]) as (fake, client), log.session("task") as s:
        assert begun(s, api).send(client, retries=3).text == TALK
        assert len(fake.requests) == 4
    assert [one.kind for one in contents(log, AttemptRefused)] == ["rate_limit"] * 3
    sound(log, "task")


# --- tasks ----------------------------------------------------------------------------------------


@apis
def test_async_events_go_through_and_the_reply_is_logged(log: AgentLog, api: str) -> None:
    async def main(fake: FakeProvider) -> None:
        async with log.asession("task") as s, async_client(api, fake) as client:
            await s.tools(TOOLS)
            await s.user("hello")
            step = await s.step(api, model="test-model", stream=True, **params(api))
            count = 0
            async for event in step.stream(client):
                assert type(event).__module__.startswith(("openai", "anthropic"))
                count += 1
            assert count > 5 and step.reply is not None and step.reply.text == TALK
            step = await s.step(
                api, model="test-model", stream=True, allow_waiting=True, **params(api)
            )
            assert (await step.send(client)).text == "Done."

    with FakeProvider([CALLS, Streamed(Reply("Done."), chunk=2)]) as fake:
        run(main(fake))
    sound(log, "task")


@apis
@pytest.mark.parametrize("how", ["break", "cancel", "raise"])
def test_an_async_loop_that_is_left_keeps_what_had_come(log: AgentLog, api: str, how: str) -> None:
    async def read(step: Any, client: Any, reached: asyncio.Event) -> None:
        seen = 0
        async for _ in step.stream(client):
            seen += 1
            if seen == 5:
                reached.set()
                if how == "break":
                    break
                if how == "raise":
                    raise KeyError("mine")

    async def main(fake: FakeProvider) -> None:
        async with log.asession("task") as s, async_client(api, fake) as client:
            await s.user("hello")
            step = await s.step(api, model="test-model", stream=True, **params(api))
            reached = asyncio.Event()
            task = asyncio.create_task(read(step, client, reached))
            await reached.wait()
            if how == "cancel":
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, KeyError):
                await task
            await s.user("go on")
            step = await s.step(api, model="test-model", **params(api))
            assert (await step.send(client)).text == "Done."

    slow = Streamed(Reply(TALK * 50), faults=[Stall(At(events=8), 5)])
    with FakeProvider([slow, Reply("Done.")]) as fake:
        run(main(fake))
    assert contents(log, AttemptAnswered)[0].interrupted
    assert (TALK * 50).startswith(said(log)[0][1])
    assert not contents(log, AttemptLost)
    sound(log, "task")


# --- sawlog's own client --------------------------------------------------------------------------


@apis
def test_the_own_client_tries_again_as_often_as_it_says(log: AgentLog, api: str) -> None:
    soon = {"retry-after-ms": "1"}
    refusals = [HttpError(429, headers=soon), HttpError(500, headers=soon)]
    with FakeProvider([*refusals, Reply("ok")]) as fake, log.session("task") as s:
        with sawlog.client(api, base_url=fake.base_url(api), api_key="key-of-nobody") as client:
            s.user("hello")
            assert next_step(s, api).send(client).text == "ok"
        assert len({request.body for request in fake.requests}) == 1 and len(fake.requests) == 3
    assert types(log.read("task")).count("attempt.refused") == 2


def test_without_httpx_a_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sawlog.providers.httpclient", raising=False)
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigError, match=r"pip install 'sawlog\[providers\]'"):
        importlib.import_module("sawlog.providers.httpclient")


def test_a_client_is_made_with_a_key_and_a_url_that_it_may_go_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        sawlog.client("openai")
    with pytest.raises(ConfigError, match="https"):
        sawlog.client("openai", base_url="http://models.invalid", api_key="secret-key-1")
    with pytest.raises(ConfigError, match="no API"):
        sawlog.client("nobody", api_key="k")
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with sawlog.client("openai", headers={"x-team": "a"}, retries=0) as client:
        assert client.headers["authorization"] == "Bearer from-the-environment"
        assert str(client.base_url) == "http://127.0.0.1:9/v1/"
        assert client.sawlog_retries == 0 and not client.follow_redirects


# --- what was dialled, and what stays out ---------------------------------------------------------


@apis
def test_the_log_says_what_was_dialled_and_no_key(log: AgentLog, api: str) -> None:
    from sawlog.audit.sending import dialled

    key = "sk-secret-0123456789abcdef"
    echo = f'{{"error":{{"message":"wrong key {key}","type":"authentication_error"}}}}'
    with FakeProvider([Reply("ok"), Reply("ok"), HttpError(401, body=echo.encode())]) as fake:
        with client_of(api, fake) as client, log.session("task") as s:
            client = client.with_options(api_key=key)
            s.user("hello")
            next_step(s, api).send(client)
            s.user("again")
            next_step(s, api).send(client)
            s.user("again")
            with pytest.raises(AttemptFailed) as failed:
                next_step(s, api).send(client)
        assert key not in str(failed.value)
        url = fake.url
    recorded = log.read("task")
    first, second, _ = [dialled(recorded, e) for e in recorded.events() if e.type == "attempt.sent"]
    assert str(first.url).startswith(url) and first.url == second.url
    assert dict(second.headers)["content-type"] == "application/json"
    assert "user-agent" in dict(first.headers) and first.headers == second.headers
    stored = b"".join(one.payload or b"" for one in log.store.read(log.find("task")))
    assert key.encode() not in stored and b"wrong key" in stored
    assert not {"authorization", "x-api-key"} & {name for name, _ in first.headers}

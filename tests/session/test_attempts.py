"""Attempts: each sending is an event before and after, whatever becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import openai
import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call, Drop, FakeProvider, Hang, HttpError, Reply, tool_use_failed
from sawlog.store.content import BoundPart, IncompletePart, TextPart
from sawlog.store.errors import AttemptFailed, ConfigError, StepEnded
from sawlog.store.events.conversation import MessageAssistant
from sawlog.store.events.steps import (
    AttemptAnswered,
    AttemptLost,
    AttemptRefused,
    AttemptRunning,
    AttemptSent,
    PacketBuilt,
    StepAbandoned,
    StepFailed,
)
from sawlog.work.exchange import RawReply, pause_after
from sawlog.work.session import Session
from sawlog.work.step import Step
from tests.session.agents import APIS, giving, loop, next_step, provided, sound, talker, types

apis = pytest.mark.parametrize("api", APIS)


def contents(log: AgentLog, *kinds: type[Any]) -> list[Any]:
    """The contents of the session's events of these kinds."""
    return [e.content for e in log.read("task").events() if isinstance(e.content, kinds)]


def begun(s: Session, api: str = "openai-chat", **options: Any) -> Step:
    """A step over one message."""
    s.user("hello")
    return next_step(s, api, **options)


# --- refusals and retries -------------------------------------------------------------------------

REFUSALS = [
    ("anthropic", HttpError(401), "auth"),
    ("anthropic", HttpError(413), "context_overflow"),
    ("anthropic", HttpError(529), "overload"),
    ("openai-chat", HttpError(429), "rate_limit"),
    ("openai-chat", HttpError(429, type="insufficient_quota", code="insufficient_quota"), "auth"),
    ("openai-responses", HttpError(500), "provider_error"),
    ("openai-responses", HttpError(400, code="context_length_exceeded"), "context_overflow"),
    ("openai-chat", tool_use_failed("the call is invalid", "<call>"), "malformed"),
    ("deepseek-chat", HttpError(422, "no such thing"), "invalid_request"),
    ("deepseek-chat", HttpError(503, body=b"<html>busy</html>"), "overload"),
]


@pytest.mark.parametrize(("api", "error", "kind"), REFUSALS)
def test_a_refusal_has_a_class_and_ends_the_step(
    log: AgentLog, api: str, error: HttpError, kind: str
) -> None:
    with provided(api, [error]) as (fake, client):
        with log.session("task") as s, pytest.raises(AttemptFailed) as failed:
            begun(s, api).send(client)
        assert len(fake.requests) == 1  # the client's own retries are off
        received = fake.requests[0].answer
    assert (failed.value.kind, failed.value.status) == (kind, error.status)
    assert types(log.read("task"))[-3:] == ["attempt.sent", "attempt.refused", "step.failed"]
    [refused] = contents(log, AttemptRefused)
    assert (refused.kind, refused.status, refused.number) == (kind, error.status, 1)
    assert refused.body == received.decode()
    assert bool(refused.request_id) and refused.request_id == failed.value.request_id
    assert contents(log, StepFailed) == [StepFailed(reason=kind)]
    assert log.read("task").steps[1].outcome == "failed"


@apis
def test_a_retry_is_an_attempt_of_its_own_with_the_same_bytes(log: AgentLog, api: str) -> None:
    soon = {"retry-after": "0"}
    errors = [HttpError(429, headers=soon), HttpError(503, headers=soon)]
    with provided(api, [*errors, Reply("ok")]) as (fake, client), log.session("task") as s:
        step = begun(s, api)
        assert step.send(client, retries=2).text == "ok"
        assert {request.body for request in fake.requests} == {step.body}
        assert len(fake.requests) == 3
    attempts = ["attempt.sent", "attempt.refused"] * 2 + ["attempt.sent", "attempt.answered"]
    assert types(log.read("task"))[4:10] == attempts
    assert [one.number for one in contents(log, AttemptSent)] == [1, 2, 3]
    assert [one.kind for one in contents(log, AttemptRefused)] == ["rate_limit", "overload"]
    assert contents(log, AttemptAnswered)[0].number == 3
    assert sound(log, "task").steps[1].outcome == "completed"


def test_the_last_retry_ends_the_step_and_what_will_not_change_is_not_tried_again(
    log: AgentLog,
) -> None:
    soon = {"retry-after-ms": "1"}
    script = [HttpError(500, headers=soon), HttpError(500, headers=soon), HttpError(401)]
    with provided("openai-chat", script) as (fake, client), log.session("task") as s:
        with pytest.raises(AttemptFailed, match="provider_error"):
            begun(s).send(client, retries=1)
        with pytest.raises(AttemptFailed, match="auth"):
            begun(s).send(client, retries=5)
        assert len(fake.requests) == 3
    assert types(log.read("task"))[5:9] == [
        "attempt.refused", "attempt.sent", "attempt.refused", "step.failed",
    ]  # fmt: skip
    assert [step.outcome for step in log.read("task").steps] == ["failed", "failed"]


def test_pauses_are_those_that_the_provider_asks_for() -> None:
    def pause(number: int, **headers: str) -> float:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return pause_after(RawReply(429, named, b""), number)

    assert pause(0, retry_after="7") == 7
    assert pause(0, retry_after_ms="250", retry_after="7") == 0.25
    assert [pause(n) for n in range(6)] == [0.5, 1, 2, 4, 8, 8]
    assert pause(1, retry_after="Wed, 21 Oct 2026 07:28:00 GMT") == 1
    assert pause(0, retry_after="86400") == 0.5


def test_fewer_than_no_retries_mean_nothing(log: AgentLog) -> None:
    with log.session("task") as s, pytest.raises(ConfigError):
        begun(s).send(talker(), retries=-1)
    assert "attempt.sent" not in types(log.read("task"))


# --- lost -----------------------------------------------------------------------------------------

BROKEN = [Drop(), Drop(Reply("a reply that breaks off"), sent=40), Hang(30)]


@apis
@pytest.mark.parametrize("how", BROKEN, ids=lambda how: type(how).__name__.lower())
def test_a_connection_that_broke_leaves_the_attempt_as_lost(
    log: AgentLog, api: str, how: Any
) -> None:
    with provided(api, [how, Reply("ok")]) as (fake, client), log.session("task") as s:
        step = begun(s, api)
        with pytest.raises((anthropic.APIConnectionError, openai.APIConnectionError)) as broke:
            step.send(client, timeout=0.3 if isinstance(how, Hang) else None)
        assert types(s, log)[-2:] == ["attempt.sent", "attempt.lost"]
        [lost] = contents(log, AttemptLost)
        assert lost.number == 1
        assert lost.reason.startswith(type(broke.value).__name__)
        assert step.send(client).text == "ok"  # the same bytes, as an attempt of their own
        assert [request.body for request in fake.requests] == [step.body] * 2
    assert contents(log, AttemptAnswered)[0].number == 2
    assert sound(log, "task").steps[1].outcome == "completed"


def test_another_step_after_a_lost_attempt_says_what_it_replaces(log: AgentLog) -> None:
    with provided("openai-chat", [Drop(), Reply("ok")]) as (_, client), log.session("task") as s:
        first = begun(s)
        with pytest.raises(openai.APIConnectionError):
            first.send(client)
        second = begun(s)
        assert second.send(client).text == "ok"
    recorded = sound(log, "task")
    assert [step.outcome for step in recorded.steps] == ["abandoned", "completed"]
    assert len(contents(log, StepAbandoned)) == 1
    one, two = contents(log, PacketBuilt)
    assert (one.replaces, two.replaces) == ("", first.event_id)


def test_a_fallback_names_the_packet_that_it_stands_in_for(log: AgentLog) -> None:
    with log.session("task") as s:
        first = begun(s)
        with pytest.raises(AttemptFailed):
            first.answer(b'{"error":{"message":"m","type":"overloaded_error"}}', status=529)
        s.step("openai-chat", model="other", fallback_of=first).send(talker())
    assert [one.fallback_of for one in contents(log, PacketBuilt)] == ["", first.event_id]
    assert [one.replaces for one in contents(log, PacketBuilt)] == ["", ""]


# --- any other client -----------------------------------------------------------------------------


def test_a_reply_is_handed_over_as_bytes_text_or_a_dict(log: AgentLog) -> None:
    raw = talker("héllo")(b"")
    given: list[bytes | str | dict[str, Any]] = [raw, raw.decode(), json.loads(raw)]
    with log.session("task") as s:
        for body in given:
            step = begun(s)
            assert json.loads(step.body)["model"] == "test-model"
            assert b"".join(step.chunks) == step.body
            assert (step.method, step.path) == ("POST", "/v1/chat/completions")
            reply = step.answer(body, headers={"X-Request-Id": "req_7"})
            assert (reply.text, reply.request_id) == ("héllo", "req_7")
    answered = contents(log, AttemptAnswered)
    assert [json.loads(one.body) for one in answered] == [json.loads(raw)] * 3
    assert answered[0].body == raw.decode()
    assert [one.client for one in contents(log, AttemptSent)] == ["caller"] * 3
    sound(log, "task")


def test_an_answer_may_be_a_refusal_and_headers_are_the_steps_own(log: AgentLog) -> None:
    with log.session("task") as s:
        step = begun(s, "anthropic", headers={"Anthropic-Beta": "x"})
        assert step.headers == {"anthropic-beta": "x", "anthropic-version": "2023-06-01"}
        with pytest.raises(AttemptFailed) as failed:
            step.answer({"type": "error", "error": {"type": "rate_limit_error"}}, status=429)
        assert failed.value.kind == "rate_limit"
        with pytest.raises(AttemptFailed) as failed:
            begun(s).answer(b"", status=502)
        assert failed.value.kind == "provider_error"
        with pytest.raises(AttemptFailed) as failed:
            begun(s).answer("data: {}")
        assert failed.value.kind == "malformed"
    assert len(contents(log, StepFailed)) == 3


ANSWERS = [giving(talker()(b"")), giving(talker()(b"").decode()), giving(json.loads(talker()(b"")))]


@pytest.mark.parametrize("client", ANSWERS, ids=["bytes", "text", "dict"])
def test_any_callable_is_a_client(log: AgentLog, client: Callable[[bytes], Any]) -> None:
    seen: list[bytes] = []

    def call(body: bytes) -> Any:
        seen.append(body)
        return client(body)

    with log.session("task") as s:
        step = begun(s)
        assert step.send(call).text == "ok"
    assert seen == [step.body]
    assert sound(log, "task").steps[1].packet.body == step.body


def test_what_a_callable_raises_goes_on_and_the_attempt_is_lost(log: AgentLog) -> None:
    def fails(body: bytes) -> bytes:
        raise KeyboardInterrupt("enough")

    with log.session("task") as s:
        step = begun(s)
        with pytest.raises(KeyboardInterrupt):
            step.send(fails)
        with pytest.raises(ConfigError, match="int is no reply"):
            step.send(giving(7))
        assert [one.reason for one in contents(log, AttemptLost)] == [
            "KeyboardInterrupt: enough",
            "ConfigError: int is no reply: give the body as bytes or text, or the object as a dict "
            "(of an official client's object: `.to_json()`)",
        ]


@apis
def test_an_httpx_client_with_a_base_url_will_do(log: AgentLog, api: str) -> None:
    with FakeProvider([HttpError(404), Reply("ok")]) as fake, log.session("task") as s:
        with httpx.Client(base_url=fake.url) as client:
            with pytest.raises(AttemptFailed, match="invalid_request"):
                begun(s, api).send(client)
            step = begun(s, api)
            assert step.send(client).text == "ok"
        assert fake.bodies(api) == [log.read("task").steps[1].packet.body, step.body]
    sound(log, "task")


class Ours(openai.OpenAI):
    """A client of the caller's own making."""


def test_a_class_made_of_an_official_client_is_one(log: AgentLog) -> None:
    with FakeProvider([Reply("ok")]) as fake, log.session("task") as s:
        with Ours(api_key="test", base_url=fake.base_url("openai-chat")) as client:
            assert begun(s).send(client).text == "ok"
    assert contents(log, AttemptSent)[0].client == "openai"


async def awaited(body: bytes) -> bytes:
    """An async callable, which a sync step cannot use."""
    return body


@pytest.mark.parametrize(
    ("client", "mend"),
    [
        (object(), "object is no client"),
        (awaited, "function is awaited: use asession"),
        (openai.AsyncOpenAI(api_key="test"), "AsyncOpenAI is awaited: use asession"),
        (anthropic.AsyncAnthropic(api_key="test"), "AsyncAnthropic is awaited: use asession"),
        (httpx.AsyncClient(base_url="http://localhost"), "AsyncClient is awaited: use asession"),
        (httpx.Client(), "this httpx client has no base_url"),
    ],
)
def test_what_is_no_client_is_said_before_anything_leaves(
    log: AgentLog, client: object, mend: str
) -> None:
    with log.session("task") as s:
        step = begun(s)
        with pytest.raises(ConfigError, match=mend):
            step.send(client)
        assert types(s, log)[-1] == "packet.built"
        assert step.send(talker()).text == "ok"


# --- one end a step -------------------------------------------------------------------------------


def test_a_step_with_its_reply_is_neither_sent_nor_answered_again(log: AgentLog) -> None:
    with log.session("task") as s:
        step = begun(s)
        step.send(talker())
        head = log.find("task").head
        for again in (
            lambda: step.send(talker()),
            lambda: step.answer(talker()(b"")),
            lambda: step.abandon(),
        ):
            with pytest.raises(StepEnded) as ended:
                again()
            assert ended.value.step == 1
        assert log.find("task").head == head


def test_a_step_that_was_given_up_or_failed_is_not_sent(log: AgentLog) -> None:
    with log.session("task") as s:
        failed, abandoned, overtaken = begun(s), None, None
        with pytest.raises(AttemptFailed):
            failed.answer(b"", status=500)
        abandoned = begun(s)
        abandoned.abandon("the user changed the task")
        overtaken = begun(s)
        last = begun(s)
        for step in (failed, abandoned, overtaken):
            with pytest.raises(StepEnded):
                step.send(talker())
        last.send(talker())
    recorded = sound(log, "task")
    outcomes = [step.outcome for step in recorded.steps]
    assert outcomes == ["failed", "abandoned", "abandoned", "completed"]


def test_a_reply_to_a_step_that_was_overtaken_meanwhile_is_not_taken_for_an_answer(
    log: AgentLog,
) -> None:
    with log.session("task") as s:

        def slow(body: bytes) -> bytes:
            s.user("never mind")
            next_step(s, "openai-chat").send(talker("quick"))
            return talker("slow")(body)

        with pytest.raises(StepEnded):
            begun(s).send(slow)
    assert [m.parts for m in contents(log, MessageAssistant)] == [(TextPart("quick"),)]
    assert [step.outcome for step in sound(log, "task").steps] == ["abandoned", "completed"]


# --- replies of other kinds -----------------------------------------------------------------------


def test_a_reply_in_the_background_is_answered_later(log: AgentLog) -> None:
    running = b'{"id":"resp_1","object":"response","status":"in_progress","output":[]}'
    whole: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "done", "annotations": []}],
            }
        ],
    }
    with log.session("task") as s:
        step = begun(s, "openai-responses", background=True)
        with pytest.raises(AttemptFailed) as failed:
            step.send(giving(running))
        assert failed.value.kind == "running"
        assert step.answer(whole).text == "done"
    assert contents(log, AttemptRunning) == [AttemptRunning(1, "resp_1")]
    assert [one.number for one in contents(log, AttemptSent, AttemptAnswered)] == [1, 1]
    assert sound(log, "task").steps[1].outcome == "completed"


@apis
def test_case_14_a_call_that_was_cut_off_is_no_call(log: AgentLog, api: str) -> None:
    """Its text stays in the message, and the conversation goes on without a result for it."""
    cut = {
        "anthropic": Reply("I wri", calls=[Call("write", '{"path":"a"}')], stop="max_tokens"),
        "openai-chat": Reply("I wri", calls=[Call("write", '{"path":"a')], stop="length"),
        "deepseek-chat": Reply("I wri", calls=[Call("write", '{"path":"a')], stop="length"),
    }.get(api)
    if cut is None:
        cut = Reply(raw=json.dumps(CUT_RESPONSE))
    with provided(api, [cut, Reply("ok")]) as (_, client), log.session("task") as s:
        reply = begun(s, api).send(client)
        assert reply.text == "I wri"
        assert reply.tool_calls == ()
        s.user("go on")
        assert [reply.text for reply in loop(s, api, client)] == ["ok"]
    first = contents(log, MessageAssistant)[0]
    text, cut_off = [part for part in first.parts if not isinstance(part, BoundPart)]
    assert text == TextPart("I wri")
    assert isinstance(cut_off, IncompletePart) and cut_off.name == "write"
    sound(log, "task")


CUT_RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "model": "m",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I wri", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "write",
            "arguments": '{"path":"a',
            "status": "incomplete",
        },
    ],
}

"""How far what is in the log is what left, and what the model saw: one word for each step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider, Reply
from sawlog.store.events.steps import AttemptAnswered
from tests.session.agents import client_of, next_step, opened, sound

EDITS = [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2, "cleared_input_tokens": 90}]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


def recorded(log: AgentLog, path: str, body: dict[str, Any], reply: Any) -> None:
    """One request of a bare client, recorded."""
    with FakeProvider([reply]) as fake, log.session("task") as s:
        with sawlog.record(httpx.Client(base_url=fake.url), session=s) as client:
            headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "authorization": "k"}
            client.post(path, json=body, headers=headers)


def message(**more: Any) -> dict[str, Any]:
    """A whole reply of Anthropic's."""
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}, **more,
    }  # fmt: skip


@pytest.mark.parametrize("member", ["previous_response_id", "conversation"])
def test_a_request_that_leans_on_the_provider_is_held(log: AgentLog, member: str) -> None:
    body = {"model": "m", "input": "go on", member: "resp_1"}
    recorded(log, "/v1/responses", body, Reply("Done."))
    assert log.read("task").steps[1].sent == "held"


def test_a_member_that_names_nothing_holds_nothing(log: AgentLog) -> None:
    body = {"model": "m", "input": "go on", "previous_response_id": None}
    recorded(log, "/v1/responses", body, Reply("Done."))
    assert log.read("task").steps[1].sent == "exact"


@pytest.mark.parametrize("by", ["send", "record"])
def test_a_context_that_the_provider_edited_is_edited(log: AgentLog, by: str) -> None:
    reply = Reply(raw=json.dumps(message(context_management={"applied_edits": EDITS})))
    if by == "record":
        messages = [{"role": "user", "content": "hello"}]
        body = {"model": "m", "max_tokens": 9, "messages": messages}
        recorded(log, "/v1/messages", body, reply)
    else:
        with FakeProvider([reply]) as fake, client_of("anthropic", fake) as client:
            with log.session("task") as s:
                s.user("hello")
                next_step(s, "anthropic").send(client)
    step = sound(log, "task").steps[1]
    assert step.sent == "edited"
    [answered] = [
        event.content
        for event in log.read("task").events()
        if isinstance(event.content, AttemptAnswered)
    ]
    assert json.loads(str(answered.edits)) == EDITS


def test_no_edits_are_none(log: AgentLog) -> None:
    reply = Reply(raw=json.dumps(message(context_management={"applied_edits": []})))
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
    recorded(log, "/v1/messages", body, reply)
    assert log.read("task").steps[1].sent == "exact"


def test_an_image_that_is_only_named_is_external(log: AgentLog) -> None:
    url = "https://media.invalid/a.png"
    content = [{"type": "image_url", "image_url": {"url": url}}]
    body = {"model": "m", "messages": [{"role": "user", "content": content}]}
    recorded(log, "/v1/chat/completions", body, Reply("A cat."))
    assert log.read("task").steps[1].sent == "external"


def test_a_reply_that_the_caller_brings_leaves_its_packet_unconfirmed(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("hello")
        next_step(s, "anthropic").answer(message())
    assert log.read("task").steps[1].sent == "unconfirmed"


@pytest.mark.parametrize("api", ["anthropic", "openai-chat", "openai-responses"])
def test_a_packet_that_a_client_writes_again_is_rewritten(log: AgentLog, api: str) -> None:
    """The caller gives the client the packet's values, and the client makes bytes of its own."""
    with FakeProvider([Reply("I look."), Reply("Done.")]) as fake:
        with log.session("task") as s, client_of(api, fake) as client:
            sawlog.record(client, session=s)
            s.system("You fix bugs.")
            s.user("hello")
            most = "max_output_tokens" if api == "openai-responses" else "max_tokens"
            step = s.step(api, model="test-model", params=f'{{"{most}":1e2}}')
            values = {**json.loads(step.body), most: 100}
            create(client, api)(**values)
            s.user("go on")
            assert next_step(s, api).send(client).text == "Done."
        received = [request.body for request in fake.requests]
    recorded = sound(log, "task")
    built = recorded.built(step.number)
    again = recorded.steps[step.number]
    assert again.packet.body == received[0] != built.body == step.body
    assert (again.sent, again.outcome) == ("rewritten", "completed")
    assert again.diff(step.number) and again.packet.origin == "recorded"
    last = recorded.steps[step.number + 1]
    assert last.packet.body == received[1] and last.sent == "exact"
    assert b"I look." in received[1]


def create(client: Any, api: str) -> Any:
    if api == "anthropic":
        return client.messages.create
    return client.responses.create if api == "openai-responses" else client.chat.completions.create


def test_a_packet_whose_bytes_a_recorded_client_sends_is_exact(log: AgentLog) -> None:
    with FakeProvider([Reply("Done.")]) as fake, log.session("task") as s:
        with sawlog.record(httpx.Client(base_url=fake.url), session=s) as client:
            s.user("hello")
            step = next_step(s, "openai-chat")
            client.post("/v1/chat/completions", content=step.body)
    recorded = sound(log, "task")
    assert recorded.steps[1].sent == "exact" and recorded.steps[1].outcome == "completed"
    assert "packet.recorded" not in [event.type for event in recorded.events()]

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

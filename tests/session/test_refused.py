"""A turn that the model refused: it stays in the log, and no model is shown it again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider, Reply
from sawlog.store.events.steps import StepRefused
from tests.session.agents import APIS, client_of, next_step, sound, types

WORDS = "I will not help with that."


def refused(api: str) -> Any:
    """A refusal as each API spells it."""
    if api == "anthropic":
        body: Any = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": "Well, "}], "stop_reason": "refusal",
            "stop_sequence": None, "stop_details": {"type": "refusal", "explanation": WORDS},
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
    elif api == "openai-responses":
        content = [{"type": "refusal", "refusal": WORDS}]
        body = {
            "id": "resp_1", "object": "response", "status": "completed", "model": "m",
            "output": [{"id": "msg_1", "type": "message", "role": "assistant",
                        "status": "completed", "content": content}],
        }  # fmt: skip
    else:
        message = {"role": "assistant", "content": None, "refusal": WORDS}
        body = {
            "id": "r", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }  # fmt: skip
    return Reply(raw=json.dumps(body))


@pytest.mark.parametrize("api", APIS)
def test_a_refused_turn_leaves_and_another_model_answers(log: AgentLog, api: str) -> None:
    with FakeProvider([refused(api), Reply("Of course.")]) as fake, log.session("task") as s:
        with client_of(api, fake) as client:
            s.user("do it")
            step = next_step(s, api)
            reply = step.send(client)
            assert reply.refusal == WORDS and not reply.tool_calls
            again = next_step(s, api, fallback_of=step)
            assert again.send(client).text == "Of course."
        assert WORDS.encode() not in again.body and b"Well, " not in again.body
        assert again.body == step.body
    recorded = sound(log, "task")
    assert [one.outcome for one in recorded.steps] == ["refused", "completed"]
    [ended] = [e.content for e in recorded.events() if isinstance(e.content, StepRefused)]
    assert ended.reason == WORDS
    assert "step.refused" in types(recorded)


def test_a_refused_turn_stays_out_after_it_was_gone_on_with(log: AgentLog) -> None:
    with FakeProvider([refused("anthropic"), Reply("Better."), Reply("Done.")]) as fake:
        with log.session("task") as s, client_of("anthropic", fake) as client:
            s.user("do it")
            next_step(s, "anthropic").send(client)
            s.user("do it kindly")
            next_step(s, "anthropic").send(client)
        with log.session("task") as s, client_of("anthropic", fake) as client:
            s.user("thanks")
            body = next_step(s, "anthropic").body
    texts = [message["content"] for message in json.loads(body)["messages"]]
    assert "Well, " not in str(texts) and "do it kindly" in str(texts)
    sound(log, "task")

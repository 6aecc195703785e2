"""Thinking that Anthropic signs is accepted where it was issued and nowhere else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from sawlog.providers.fake import Call, FakeProvider, Reply, Text, Thinking
from sawlog.providers.strict import Refusal, check
from tests.doors.provoke import Clients, as_bytes, connected

Json = dict[str, Any]
MARK: Json = {"type": "ephemeral"}
TOOL: Json = {"name": "read", "input_schema": {"type": "object"}}
START: Json = {
    "model": "claude-opus-5-5",
    "max_tokens": 100,
    "system": "You fix bugs.",
    "tools": [TOOL],
    "messages": [{"role": "user", "content": "Fix the test."}],
}
SCRIPT = [
    Reply(
        parts=[
            Thinking("First I read it."),
            Text("I read it."),
            Thinking("And its test.", redacted=True),
            Call("read", '{"path": "a.py", "lines": 1e2, "cache_control": true}', id="c1"),
        ]
    ),
    Reply("Done.", thinking="That was all."),
    Reply("You are welcome."),
]


def send(clients: Clients, body: Json) -> list[Json]:
    response = clients.post("anthropic", as_bytes(body))
    assert response.status_code == 200, response.text
    return cast("list[Json]", response.json()["content"])


@pytest.fixture(scope="module")
def request_with_thinking() -> Json:
    """The third request of a conversation in which the model thought three times."""
    body = copy.deepcopy(START)
    with connected(FakeProvider(SCRIPT)) as clients:
        body["messages"].append({"role": "assistant", "content": send(clients, body)})
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "text"}
        body["messages"].append({"role": "user", "content": [result]})
        body["messages"].append({"role": "assistant", "content": send(clients, body)})
        body["messages"].append({"role": "user", "content": "Thanks."})
        send(clients, body)
    return body


def marked(body: Json) -> None:
    body["system"] = [{"type": "text", "text": body["system"], "cache_control": MARK}]
    body["tools"][0]["cache_control"] = MARK
    body["messages"][0]["content"] = [
        {"type": "text", "text": "Fix the test.", "cache_control": MARK}
    ]
    body["messages"][2]["content"][0]["cache_control"] = MARK


def more_at_the_end(body: Json) -> None:
    body["messages"].append({"role": "user", "content": "One thing more."})


def other_parameters(body: Json) -> None:
    body |= {"max_tokens": 200, "temperature": 1, "metadata": {"user_id": "u"}}


def keys_in_another_order(body: Json) -> None:
    body["messages"] = [dict(reversed(message.items())) for message in body["messages"]]
    body["messages"][1]["content"][3]["input"] = {
        "cache_control": True,
        "lines": 100.0,
        "path": "a.py",
    }


def without_any_thinking(body: Json) -> None:
    for message in body["messages"]:
        if message["role"] == "assistant":
            message["content"] = [b for b in message["content"] if "thinking" not in b["type"]]


@pytest.mark.parametrize(
    "change",
    [marked, more_at_the_end, other_parameters, keys_in_another_order, without_any_thinking],
)
def test_what_is_not_the_prefix_may_change(
    change: Callable[[Json], None], request_with_thinking: Json
) -> None:
    body = copy.deepcopy(request_with_thinking)
    change(body)
    check("anthropic", as_bytes(body))


FORGED = "Invalid `signature` in `thinking` block"
OTHER = FORGED + ". The block is bound to a different conversation. Remove the block, or set "


def other_text(body: Json) -> None:
    body["messages"][1]["content"][0]["thinking"] += "!"


def other_signature(body: Json) -> None:
    block = body["messages"][1]["content"][0]
    block["signature"] = block["signature"][:-8] + "AAAAAAA="


def another_block_s_signature(body: Json) -> None:
    block = body["messages"][1]["content"][0]
    block["signature"] = body["messages"][3]["content"][0]["signature"]


def no_signature(body: Json) -> None:
    body["messages"][1]["content"][0]["signature"] = ""


def other_data(body: Json) -> None:
    body["messages"][1]["content"][2]["data"] = "AAAA"


def other_system(body: Json) -> None:
    body["system"] += " It is Monday."


def one_more_tool(body: Json) -> None:
    body["tools"].append({**TOOL, "name": "write"})


def other_first_message(body: Json) -> None:
    body["messages"][0]["content"] += "!"


def other_result(body: Json) -> None:
    body["messages"][2]["content"][0]["content"] = "[left out]"


def other_text_beside_it(body: Json) -> None:
    body["messages"][1]["content"][1]["text"] = "I read."


def thinking_left_out_before(body: Json) -> None:
    del body["messages"][1]["content"][0]


def another_message_before(body: Json) -> None:
    body["messages"].insert(3, {"role": "user", "content": "And its test."})


CHANGES: list[tuple[Callable[[Json], None], str, str]] = [
    (other_text, "messages.1.content.0", FORGED),
    (other_signature, "messages.1.content.0", FORGED),
    (another_block_s_signature, "messages.1.content.0", FORGED),
    (no_signature, "messages.1.content.0", FORGED),
    (other_data, "messages.1.content.2", "Invalid `data` in `redacted_thinking` block"),
    (other_system, "messages.1.content.0", OTHER),
    (one_more_tool, "messages.1.content.0", OTHER),
    (other_first_message, "messages.1.content.0", OTHER),
    (other_result, "messages.3.content.0", OTHER),
    (other_text_beside_it, "messages.1.content.2", "Invalid `data` in `redacted_thinking` block."),
    (thinking_left_out_before, "messages.1.content.1", "Invalid `data` in `redacted_thinking`"),
    (another_message_before, "messages.4.content.0", OTHER),
]


@pytest.mark.parametrize(
    ("change", "place", "message"), CHANGES, ids=lambda v: getattr(v, "__name__", "")
)
def test_changed_or_moved_thinking_is_refused(
    change: Callable[[Json], None], place: str, message: str, request_with_thinking: Json
) -> None:
    body = copy.deepcopy(request_with_thinking)
    change(body)
    with pytest.raises(Refusal) as caught:
        check("anthropic", as_bytes(body))
    assert caught.value.message.startswith(f"{place}: {message}")


@pytest.mark.parametrize(
    ("change", "part"),
    [(other_system, "`system` prompt"), (one_more_tool, "`tools`"), (other_result, "messages")],
)
def test_the_refusal_names_what_differs(
    change: Callable[[Json], None], part: str, request_with_thinking: Json
) -> None:
    body = copy.deepcopy(request_with_thinking)
    change(body)
    with pytest.raises(Refusal, match=f"The {part}.* this block was created with"):
        check("anthropic", as_bytes(body))


def test_thinking_of_another_provider_is_refused(request_with_thinking: Json) -> None:
    """The fake's own, that is, by a provider with another key; without a key none is compared."""
    body = as_bytes(request_with_thinking)
    with pytest.raises(Refusal, match="messages.1.content.0: Invalid `signature`"):
        check("anthropic", body, key=b"another provider")
    check("anthropic", body, key=None)


def test_an_unfinished_turn_that_thinks_must_begin_with_thinking(
    request_with_thinking: Json,
) -> None:
    """With thinking enabled, calls whose thinking was left out cannot be answered."""
    body = copy.deepcopy(request_with_thinking)
    del body["messages"][3:]
    body["thinking"] = {"type": "enabled", "budget_tokens": 50}
    check("anthropic", as_bytes(body))
    without_any_thinking(body)
    with pytest.raises(Refusal) as caught:
        check("anthropic", as_bytes(body))
    assert caught.value.message.startswith(
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."
    )
    body["messages"].append({"role": "user", "content": "Go on."})  # a new turn demands nothing
    check("anthropic", as_bytes(body))
    del body["thinking"]
    check("anthropic", as_bytes(body))


def test_a_scripted_call_opens_with_thinking_when_that_is_enabled() -> None:
    """So that a script that does not think is not refused for the fake's own reply."""
    body = START | {"thinking": {"type": "enabled", "budget_tokens": 50}}
    with connected(FakeProvider([Reply(calls=[Call("read", id="c1")])])) as clients:
        content = send(clients, body)
    assert [block["type"] for block in content] == ["thinking", "tool_use"]
    assert content[0]["thinking"] == ""
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "text"}
    again = {"role": "assistant", "content": json.loads(json.dumps(content))}
    messages = [*START["messages"], again, {"role": "user", "content": [result]}]
    check("anthropic", as_bytes(body | {"messages": messages}))

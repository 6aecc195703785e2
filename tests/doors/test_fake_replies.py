"""What the fake answers: replies in the form of each API, with ids and signatures that hold."""

from __future__ import annotations

from typing import Any, cast

import anthropic
import openai
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from sawlog.providers.fake import Call, FakeProvider, Part, Raw, Reply, Text, Thinking
from tests.doors.provoke import PATHS, STARTS, Json, answered, as_bytes, connected, goes_on

CALLS = Reply(
    "I read both.",
    thinking="Two files.",
    calls=[Call("read", '{"path": "a.py", "n": 1e2}'), Call("read", {"path": "ü.py"}, id="mine")],
)


@pytest.mark.parametrize("api", STARTS)
def test_a_conversation_goes_on_with_what_was_answered(api: str) -> None:
    """Replies as received, with thinking and ids in them, are taken back. Made ids never repeat."""
    call = Call("read", '{"path": "a.py", "n": 1e2}')
    calls = Reply("I read both.", thinking="Two files.", calls=[call, call])
    script = [calls, Reply("Done.", thinking="Good."), calls, Reply("You are welcome.")]
    seen: list[str] = []
    body = STARTS[api]
    with connected(FakeProvider(script)) as clients:
        for _ in script:
            body, ids = goes_on(api, body, answered(clients, api, body))
            seen += ids
    assert len(seen) == len(set(seen)) == 4


def test_replies_have_the_form_of_their_api() -> None:
    """As the official clients parse them."""
    with FakeProvider([CALLS] * 4) as fake:
        with anthropic.Anthropic(api_key="k", base_url=fake.url, max_retries=0) as client:
            message = client.post(
                PATHS["anthropic"],
                content=as_bytes(STARTS["anthropic"]),
                cast_to=anthropic.types.Message,
            )
        assert [block.type for block in message.content] == [
            "thinking",
            "text",
            "tool_use",
            "tool_use",
        ]
        assert message.content[2].to_dict()["input"] == {"path": "a.py", "n": 100.0}
        assert (message.stop_reason, message.model) == ("tool_use", "claude-opus-5-5")
        assert message.usage.input_tokens > 0
        with openai.OpenAI(api_key="k", base_url=f"{fake.url}/v1", max_retries=0) as client:
            chat = client.post(
                PATHS["openai-chat"],
                content=as_bytes(STARTS["openai-chat"]),
                cast_to=ChatCompletion,
            )
            answer = client.post(
                PATHS["openai-responses"],
                content=as_bytes(STARTS["openai-responses"]),
                cast_to=Response,
            )
        with openai.OpenAI(api_key="k", base_url=fake.url, max_retries=0) as client:
            deep = client.post(
                PATHS["deepseek-chat"],
                content=as_bytes(STARTS["deepseek-chat"]),
                cast_to=ChatCompletion,
            )
    for completion in (chat, deep):
        choice = completion.choices[0]
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", "I read both.")
        calls = cast(Any, choice.message.tool_calls)
        assert [call.function.arguments for call in calls] == [
            '{"path": "a.py", "n": 1e2}',
            '{"path":"ü.py"}',
        ]
        assert calls[1].id == "mine" != calls[0].id
    assert cast(Any, deep.choices[0].message).reasoning_content == "Two files."
    assert [item.type for item in answer.output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert answer.output_text == "I read both." and answer.status == "completed"


def test_parts_keep_their_order() -> None:
    found: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    search: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
    search["input"] = {}
    parts: list[Part] = [
        Raw(search),
        Raw(found),
        Text("Found."),
        Thinking("x", redacted=True),
    ]
    script = [Reply(parts=parts, stop="pause_turn", model="claude-opus-5-5-20261101")]
    with connected(FakeProvider(script)) as clients:
        reply = answered(clients, "anthropic", STARTS["anthropic"])
    kinds = [block["type"] for block in reply["content"]]
    assert kinds == ["server_tool_use", "web_search_tool_result", "text", "redacted_thinking"]
    assert (reply["stop_reason"], reply["model"]) == ("pause_turn", "claude-opus-5-5-20261101")


def test_custom_calls_and_whole_bodies() -> None:
    call = Call("patch", "*** Begin", custom=True)
    with connected(FakeProvider([Reply(calls=[call]), Reply(calls=[call]), Reply(raw="{}")])) as c:
        item = answered(c, "openai-responses", STARTS["openai-responses"])["output"][0]
        assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin")
        message = answered(c, "openai-chat", STARTS["openai-chat"])["choices"][0]["message"]
        assert message["tool_calls"][0]["custom"] == {"name": "patch", "input": "*** Begin"}
        assert c.post("openai-chat", as_bytes(STARTS["openai-chat"])).content == b"{}"


def test_encrypted_reasoning_comes_only_when_asked_for() -> None:
    plain: Json = STARTS["openai-responses"] | {"include": None}
    with connected(FakeProvider([Reply("a", thinking="b")] * 2)) as clients:
        without = answered(clients, "openai-responses", plain)
        asked = answered(clients, "openai-responses", STARTS["openai-responses"])
    assert "encrypted_content" not in without["output"][0]
    assert asked["output"][0]["encrypted_content"].startswith("gAAAAA")


def test_the_same_conversation_gets_the_same_ids() -> None:
    """And another one others, also from a fake that starts at its first answer again."""
    bodies = [STARTS["anthropic"], STARTS["anthropic"] | {"system": "Be brief."}]
    replies: list[Json] = []
    for body in [bodies[0], bodies[0], bodies[1]]:
        with connected(FakeProvider([CALLS])) as clients:
            replies.append(answered(clients, "anthropic", body))
    assert replies[0] == replies[1]
    assert replies[1]["content"][2]["id"] != replies[2]["content"][2]["id"]

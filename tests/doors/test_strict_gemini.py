"""Gemini behind Chat Completions: first calls come back with their signatures, or are refused."""

from __future__ import annotations

from typing import Any

import pytest

from sawlog.providers.fake import Call, FakeProvider, Reply
from sawlog.providers.strict import FAKE_KEY, Refusal, check
from sawlog.providers.strict.gemini import NO_SIGNATURE, first_call_content
from tests.doors.provoke import STARTS, USER, Json, answered, as_bytes, connected, goes_on

START = STARTS["openai-chat"] | {"model": "gemini-3-pro"}
MISSING = "Function call is missing a thought_signature in functionCall parts. Additional data, "
CORRUPTED = "Corrupted thought signature."


def call(id: str, arguments: str = "{}", **more: Any) -> Json:
    return {
        "id": id,
        "type": "function",
        "function": {"name": "read", "arguments": arguments},
    } | more


def signed(id: str, arguments: str = "{}") -> Json:
    plain = call(id, arguments)
    return plain | {"extra_content": first_call_content(FAKE_KEY, plain)}


def asked(*calls: Json, model: str = "gemini-3-pro") -> bytes:
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    results = [{"role": "tool", "tool_call_id": one["id"], "content": "ok"} for one in calls]
    return as_bytes(START | {"model": model, "messages": [USER, message, *results]})


def test_the_first_call_of_each_message_is_signed_and_comes_back() -> None:
    reply = Reply("I read.", calls=[Call("read", {"n": 1}), Call("read", {"n": 2})])
    with connected(FakeProvider([reply, reply, Reply("Done.")])) as clients:
        body: Json = START
        for _ in range(2):
            said = answered(clients, "openai-chat", body)
            calls = said["choices"][0]["message"]["tool_calls"]
            assert calls[0]["extra_content"]["google"]["thought_signature"]
            assert "extra_content" not in calls[1]
            body, _ids = goes_on("openai-chat", body, said)
        last: Json = body["messages"][4]
        assert last["role"] == "assistant"
        signature = last["tool_calls"][0].pop("extra_content")
        refused = clients.post("openai-chat", as_bytes(body))
        # Google's shape: a list, and the status in words.
        message = MISSING + "function call `default_api:read` , position 5."
        error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
        assert (refused.status_code, refused.json()) == (400, [{"error": error}])
        last["tool_calls"][0]["extra_content"] = signature
        assert answered(clients, "openai-chat", body)["choices"][0]["message"]["content"] == "Done."


@pytest.mark.parametrize(
    ("refused", "message", "taken"),
    [
        (asked(call("a")), MISSING, asked(signed("a"))),
        (asked(call("a"), signed("b")), MISSING, asked(signed("a"), call("b"))),
        (asked(call("a", extra_content={"google": {}})), MISSING, asked(signed("a"), signed("b"))),
        (
            asked(signed("a") | {"function": {"name": "read", "arguments": '{"n": 1}'}}),
            CORRUPTED,
            asked(signed("a", '{"n": 1}')),
        ),
        (
            asked(call("a", extra_content={"google": {"thought_signature": "c2ln"}})),
            CORRUPTED,
            asked(call("a", extra_content={"google": {"thought_signature": NO_SIGNATURE}})),
        ),
        (
            asked(call("a", extra_content={"google": {"thought_signature": "ü"}})),
            CORRUPTED,
            asked(signed("a") | {"id": "renamed"}),
        ),
    ],
)
def test_signatures_are_looked_at(refused: bytes, message: str, taken: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        check("openai-chat", refused)
    assert caught.value.message.startswith(message)
    assert (caught.value.status, caught.value.type) == (400, "INVALID_ARGUMENT")
    check("openai-chat", taken)


def test_without_a_key_a_signature_is_only_looked_for() -> None:
    foreign = asked(call("a", extra_content={"google": {"thought_signature": "c2ln"}}))
    check("openai-chat", foreign, key=None)
    with pytest.raises(Refusal, match="missing a thought_signature"):
        check("openai-chat", asked(call("a")), key=None)
    with pytest.raises(Refusal, match="Corrupted"):
        check("openai-chat", asked(signed("a")), key=b"another fake's")


def test_openai_itself_knows_no_extra_content() -> None:
    check("openai-chat", asked(call("a"), model="gpt-6"))
    with pytest.raises(Refusal) as caught:
        check("openai-chat", asked(signed("a"), model="gpt-6"))
    assert caught.value.message == "Unknown parameter: 'messages[1].tool_calls[0].extra_content'."

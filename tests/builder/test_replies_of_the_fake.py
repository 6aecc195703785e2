"""What the fake provider was told to answer is what is read out of its answer."""

from __future__ import annotations

import json

import pytest

from sawlog.builder.replies import Answered
from sawlog.providers.fake_rendering import Request, render
from sawlog.providers.fake_replies import Call, Part, Raw, Reply, Text, Thinking
from sawlog.providers.strict.reading import JsonObject
from sawlog.store.content import BoundPart, RawPart, TextPart
from tests.builder.reading import answered, assert_exact, order_of, parts_of

APIS = ("anthropic", "openai-chat", "openai-responses", "deepseek-chat")
SOURCE = '{"path": "a.py", "n": -0.0, "text": "\\u00e9\\ud800"}'


def read(api: str, reply: Reply) -> Answered:
    """The reply as it is read out of the fake's body, its sources checked."""
    asked: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
    asked["include"] = ["reasoning.encrypted_content"]
    request = Request(api, asked, json.dumps(asked).encode(), 0)
    body = render(request, reply, b"key")
    found = answered(api, body)
    assert_exact(found, body)
    return found


@pytest.mark.parametrize("api", APIS)
def test_text_and_calls_come_out_as_they_went_in(api: str) -> None:
    calls = (Call("read", SOURCE, "call_a"), Call("grep", "{}", "call_b"))
    found = read(api, Reply("I look.", calls=calls, model="served"))
    assert order_of(found) == ["[text]", "call read", "call grep"] or api == "deepseek-chat"
    assert [(one.call_id, one.name, one.arguments) for one in found.calls] == [
        ("call_a", "read", SOURCE),
        ("call_b", "grep", "{}"),
    ]
    assert (found.text, found.model, found.paused) == ("I look.", "served", False)


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("anthropic", "thinking"),
        ("openai-responses", "reasoning"),
        ("deepseek-chat", "reasoning_content"),
    ],
)
def test_thinking_is_bound_and_readable(api: str, kind: str) -> None:
    found = read(api, Reply("Done.", thinking='I "think".'))
    bound, text = parts_of(found)
    assert isinstance(bound, BoundPart)
    assert (bound.kind, bound.api, bound.text) == (kind, api, 'I "think".')
    assert text == TextPart("Done.")


def test_what_the_provider_ran_comes_out_raw_and_in_its_place() -> None:
    search: dict[str, object] = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {},
    }
    parts: list[Part] = [
        Thinking("a"),
        Raw(search),
        Text("b"),
        Thinking("c", redacted=True),
        Call("run"),
    ]
    found = read("anthropic", Reply(parts=parts))
    assert order_of(found) == ["[thinking raw text redacted_thinking]", "call run"]
    assert RawPart("anthropic", json.dumps(search, separators=(",", ":"))) in parts_of(found)
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    found = read("openai-responses", Reply(parts=[Raw(item), Text("b")]))
    assert order_of(found) == ["[raw text]"]


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
def test_free_text_of_a_custom_tool(api: str) -> None:
    found = read(api, Reply(calls=[Call("patch", "*** x\n", custom=True)]))
    assert [(one.kind, one.arguments) for one in found.calls] == [("text", "*** x\n")]


@pytest.mark.parametrize(
    ("api", "stop"), [("anthropic", "max_tokens"), ("openai-responses", "max_output_tokens")]
)
def test_why_it_stopped(api: str, stop: str) -> None:
    assert read(api, Reply("half", stop=stop)).stop_reason == stop

"""What the fake provider streams is put together to what it answers whole."""

from __future__ import annotations

import json

import pytest

from sawlog.builder.replies import Answered
from sawlog.builder.replies.assembling import assemble
from sawlog.providers.fake_answers import answer_of
from sawlog.providers.fake_rendering import Request, render
from sawlog.providers.fake_replies import Call, Part, Raw, Reply, Text, Thinking
from sawlog.providers.strict.reading import JsonObject
from tests.builder.reading import answered, parts_of
from tests.builder.streams import told
from tests.builder.test_replies_exact import APIS

SOURCE = '{"path": "a.py", "n": -0.0, "text": "\\u00e9\\ud800"}'
SEARCH: JsonObject = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
BLOCK: JsonObject = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}


def both(api: str, reply: Reply) -> tuple[Answered, bytes]:
    """A reply that was given whole, and the stream of it."""
    asked: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
    asked["include"] = ["reasoning.encrypted_content"]
    asked["stream"] = True
    asked["stream_options"] = {"include_usage": True}
    request = Request(api, asked, json.dumps(asked).encode(), 0)
    streamed = answer_of(request, reply, {}, b"key")
    assert streamed.pieces is not None
    whole = answered(api, render(request, reply, b"key"))
    return whole, b"".join(piece.data for piece in streamed.pieces)


REPLIES = {
    "text": Reply("Näher 😀."),
    "nothing": Reply(""),
    "calls": Reply("I look.", calls=[Call("read", SOURCE, "a"), Call("now", "{}", "b")]),
    "cut": Reply("half", stop="max_tokens"),
}
FOR_ONE: dict[str, list[Part]] = {
    "anthropic": [Thinking("a"), Raw(BLOCK), Text("b"), Thinking("c", redacted=True), Call("run")],
    "openai-responses": [Thinking("a"), Raw(SEARCH), Text("b"), Call("x", "*** x\n", custom=True)],
    "openai-chat": [Text("a"), Call("patch", "*** x\n", custom=True), Call("run", SOURCE)],
    "deepseek-chat": [Thinking("a"), Text("b"), Call("run", SOURCE), Call("now")],
}


@pytest.mark.parametrize("name", [*REPLIES, "all"])
@pytest.mark.parametrize("api", APIS)
def test_a_stream_gives_what_the_whole_reply_gives(api: str, name: str) -> None:
    reply = Reply(parts=FOR_ONE[api]) if name == "all" else REPLIES[name]
    if name == "cut" and api == "openai-responses":
        reply = Reply("half", stop="max_output_tokens")
    if name == "cut" and api.endswith("chat"):
        reply = Reply("half", stop="length")
    whole, stream = both(api, reply)
    found = assemble(api, 200, {}, stream)
    assert isinstance(found, Answered)
    assert told(found) == told(whole)


@pytest.mark.parametrize("api", APIS)
def test_any_beginning_of_a_stream_holds_no_call_that_did_not_end(api: str) -> None:
    whole, stream = both(api, Reply(parts=FOR_ONE[api]))
    for at in range(0, len(stream), 7):
        found = assemble(api, 200, {"content-type": "text/event-stream"}, stream[:at])
        if isinstance(found, Answered):
            assert [one for one in found.calls if one not in whole.calls] == []
            assert whole.text.startswith(found.text)
            assert len(parts_of(found)) <= len(parts_of(whole)) + len(whole.calls)

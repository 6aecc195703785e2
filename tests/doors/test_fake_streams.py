"""What the fake's streams say: the whole reply, in events of each API, read by its own client."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any, cast

import anthropic
import httpx2
import openai
import pytest
from anthropic.types import RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from sawlog.providers.fake import (
    Call,
    FakeProvider,
    Part,
    Raw,
    Reply,
    Streamed,
    Text,
    Thinking,
)
from sawlog.providers.fake_streams import pieces
from tests.doors.provoke import STARTS, Json, as_bytes, goes_on
from tests.doors.streams import (
    GEMINI,
    KINDS,
    api_of,
    as_json,
    assembled,
    read,
    read_async,
    start_of,
    whole_of,
)

kinds = pytest.mark.parametrize("kind", KINDS)

ODD = 'Ä\n \u2028 日本語 🎉 \\u00e4 "quoted" \x85 and on it goes, word by word by word.'
CALLS = [
    Call("read", '{"path": "a\\u00fc\\n.py", "n": 1e2, "emoji": "\\ud83c\\udf89"}'),
    Call("read", {"path": "日本.py"}, id="mine"),
    Call("now", "{}"),
]
REPLIES = {
    "text": Reply("Done."),
    "odd text": Reply(ODD),
    "thinking": Reply("So it is.", thinking=ODD),
    "calls": Reply("I read both.", thinking="Two files.", calls=CALLS),
    "calls alone": Reply(calls=CALLS),
    "nothing": Reply(),
}


def expected(kind: str, whole: Json) -> Json:
    """What a stream can tell of a whole reply."""
    if api_of(kind) not in ("openai-chat", "deepseek-chat"):
        return whole
    choice = whole["choices"][0]
    message = {name: value for name, value in choice["message"].items() if name != "annotations"}
    for call in message.get("tool_calls", []):
        call.pop("index", None)
    found = {name: whole[name] for name in ("id", "created", "model", "system_fingerprint")}
    if kind == "deepseek-chat":
        found["usage"] = whole["usage"]
    return found | {"message": message, "finish_reason": choice["finish_reason"]}


@pytest.mark.parametrize("name", REPLIES)
@kinds
def test_a_stream_says_what_the_whole_reply_says(kind: str, name: str) -> None:
    """Ids, signatures and counts, too; and the asynchronous client reads the same events."""

    async def again(fake: FakeProvider) -> list[Json]:
        return as_json([event async for event in read_async(fake, kind, start_of(kind))])

    reply = REPLIES[name]
    with FakeProvider([reply]) as fake:
        events = as_json(list(read(fake, kind, start_of(kind))))
        whole = whole_of(fake.requests[0], reply)
    with FakeProvider([reply]) as fake:
        assert asyncio.run(again(fake)) == events
        assert fake.hung_up == 0
    told = assembled(kind, events)
    assert told == expected(kind, whole)


@kinds
def test_a_conversation_goes_on_with_what_was_streamed(kind: str) -> None:
    """The checker takes it back: calls, thinking with its signature, sealed reasoning."""
    call = Call("read", '{"path": "a.py"}')
    asks = Reply("I read.", thinking="One file.", calls=[call, call])
    script = [asks, Reply("Hm.", thinking="So."), asks, Reply("You are welcome.")]
    body = start_of(kind)
    with FakeProvider(script) as fake:
        for _ in script:
            told = assembled(kind, as_json(list(read(fake, kind, body))))
            told["choices"] = [{"message": told.get("message")}]
            body, _ids = goes_on(api_of(kind), body, told)
        assert len(fake.bodies()) == len(script)


TYPES: dict[str, TypeAdapter[Any]] = {
    "anthropic": TypeAdapter(RawMessageStreamEvent),
    "openai-chat": TypeAdapter(ChatCompletionChunk),
    "openai-responses": TypeAdapter(ResponseStreamEvent),
}


@pytest.mark.parametrize("kind", TYPES)
def test_the_events_are_those_of_the_client_s_types(kind: str) -> None:
    """Validated, which the clients themselves do not do; with their names in front, and a ping."""
    with FakeProvider([REPLIES["calls"]]) as fake, httpx2.Client() as client:
        path = {"anthropic": "/messages", "openai-responses": "/responses"}.get(kind)
        url = f"{fake.url}/v1{path or '/chat/completions'}"
        body = as_bytes(start_of(kind) | {"stream": True})
        headers = {"anthropic-version": "2023-06-01"}
        lines = client.post(url, content=body, headers=headers).text.split("\n\n")
    assert lines.pop() == ""
    if kind == "openai-chat":
        assert lines.pop() == "data: [DONE]"
    names: list[str] = []
    for line in lines:
        name, _, data = line.rpartition("data: ")
        event = cast(Json, json.loads(data))
        if kind == "openai-chat":
            assert name == ""
        else:
            assert name == f"event: {event['type']}\n"
            names.append(event["type"])
        # Younger than the fake's whole replies, whose bytes are in recorded sessions.
        if usage := cast(Json, event.get("response", {})).get("usage"):
            usage["input_tokens_details"]["cache_write_tokens"] = 0
        if name != "event: ping\n":
            parsed = TYPES[kind].validate_python(event)
            assert parsed.to_dict() == event
    assert names.count("ping") == (kind == "anthropic")


def test_the_clients_own_helpers_come_to_the_same_reply() -> None:
    reply = Reply("I read.", thinking="One.", calls=[Call("read", {"path": "ü.py"})])
    with FakeProvider([reply] * 3) as fake:
        with anthropic.Anthropic(api_key="k", base_url=fake.url, max_retries=0) as client:
            with client.messages.stream(**STARTS["anthropic"]) as stream:
                message = stream.get_final_message()
        whole = whole_of(fake.requests[0], reply, 0)
        assert cast(Any, message).to_dict() == whole | {"stop_details": None}
        with openai.OpenAI(api_key="k", base_url=f"{fake.url}/v1", max_retries=0) as client:
            with client.chat.completions.stream(**STARTS["openai-chat"]) as stream:
                choice = stream.get_final_completion().choices[0]
            with client.responses.stream(**STARTS["openai-responses"]) as stream:
                response = stream.get_final_response()
        said = whole_of(fake.requests[1], reply, 1)["choices"][0]
        assert (choice.message.content, choice.finish_reason) == ("I read.", "tool_calls")
        calls = choice.message.tool_calls or []
        assert [call.function.arguments for call in calls] == ['{"path":"ü.py"}']
        assert [call.id for call in calls] == [c["id"] for c in said["message"]["tool_calls"]]
        assert response.output_text == "I read."
        assert response.id == whole_of(fake.requests[2], reply, 2)["id"]


@pytest.mark.parametrize(
    ("kind", "asked", "where"),
    [
        ("openai-chat", False, []),
        ("openai-chat", True, [-1]),
        ("deepseek-chat", False, [-1]),
        ("deepseek-chat", True, [-1]),
    ],
)
def test_the_counts_of_chat_come_as_each_gives_them(
    kind: str, asked: bool, where: list[int]
) -> None:
    """OpenAI on demand and in a chunk without choices, DeepSeek always and with the last one; who
    asks finds the field in each chunk."""
    body = start_of(kind) | ({"stream_options": {"include_usage": True}} if asked else {})
    with FakeProvider([Reply("Hello there.")]) as fake:
        events = as_json(list(read(fake, kind, body)))
        whole = whole_of(fake.requests[0], Reply("Hello there."))
    counted = [number - len(events) for number, e in enumerate(events) if e.get("usage")]
    assert counted == where
    assert all(("usage" in event) == asked for event in events[:-1])
    if where:
        assert events[-1]["usage"] == whole["usage"]
        assert bool(events[-1]["choices"]) == (kind == "deepseek-chat")


def test_calls_in_chat_take_turns() -> None:
    """Pieces of several calls come mixed, so that only the index tells whose they are; Gemini gives
    each call in one piece, the first with its signature."""
    with FakeProvider([REPLIES["calls"]] * 2) as fake:
        mixed, whole = (
            [
                (piece["index"], "id" in piece, piece["function"]["arguments"])
                for event in as_json(list(read(fake, kind, start_of(kind))))
                for choice in event["choices"]
                for piece in choice["delta"].get("tool_calls", [])
            ]
            for kind in ("openai-chat", GEMINI)
        )
    order = [index for index, _, _ in mixed]
    assert order[:6] == [0, 1, 2, 0, 1, 2] and order.count(0) > 3
    assert [opens for _, opens, _ in mixed] == [True] * 3 + [False] * (len(mixed) - 3)
    assert whole == [(number, True, call.source) for number, call in enumerate(CALLS)]


def test_arguments_come_to_the_character() -> None:
    """Anthropic's, too: as the model wrote them, and behind an empty first piece."""
    with FakeProvider([REPLIES["calls"]]) as fake:
        events = as_json(list(read(fake, "anthropic", STARTS["anthropic"])))
    sources: dict[int, list[str]] = {}
    for event in events:
        if event.get("delta", {}).get("type") == "input_json_delta":
            sources.setdefault(event["index"], []).append(event["delta"]["partial_json"])
    assert ["".join(found) for found in sources.values()] == [call.source for call in CALLS]
    assert all(found[0] == "" and len(found) > 2 for found in sources.values())


def test_blocks_of_the_provider_come_as_they_are() -> None:
    """Server tools with their input in pieces, results whole, citations one by one."""
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0}
    cited |= {"document_title": None, "start_char_index": 0, "end_char_index": 1, "file_id": None}
    found: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    search: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
    search["input"] = {"query": "日本"}
    blocks = [search, found, {"type": "text", "text": "Found it.", "citations": [cited, cited]}]
    parts: list[Part] = [*map(Raw, blocks), Thinking("x", redacted=True), Text("So.")]
    reply = Reply(parts=parts, stop="pause_turn", model="claude-opus-5-5-20261101")
    with FakeProvider([reply]) as fake:
        events = as_json(list(read(fake, "anthropic", STARTS["anthropic"])))
        assert assembled("anthropic", events) == whole_of(fake.requests[0], reply)
    deltas = [event["delta"]["type"] for event in events if "index" in event and "delta" in event]
    assert deltas.count("citations_delta") == 2 and deltas.count("input_json_delta") > 2
    starts = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    assert starts[0]["input"] == {} and starts[1] == found


def test_items_of_the_provider_come_with_their_stages() -> None:
    note = {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "t", "url": "u"}
    content = [{"type": "output_text", "text": "Found.", "annotations": [note], "logprobs": []}]
    message = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"}
    search: Json = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {}}
    parts: list[Part] = [
        Raw(search),
        Raw(message | {"content": content}),
        Call("patch", "*** Begin\n日本", custom=True),
    ]
    reply = Reply(parts=parts)
    with FakeProvider([reply]) as fake:
        events = as_json(list(read(fake, "openai-responses", STARTS["openai-responses"])))
        assert assembled("openai-responses", events) == whole_of(fake.requests[0], reply)
    names = [event["type"].removeprefix("response.") for event in events]
    assert names[2:7] == [
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
        "output_item.done",
    ]
    assert "output_text.annotation.added" in names and "custom_tool_call_input.delta" in names


def test_a_compaction_is_streamed() -> None:
    """A summary comes in one delta, its signature at the start; only the beta's types know it."""
    block = {"type": "compaction", "content": "We fixed it.", "signature": "s"}
    reply = Reply(parts=[Raw(block), Text("On we go.")])
    with FakeProvider([reply]) as fake:
        with anthropic.Anthropic(api_key="k", base_url=fake.url, max_retries=0) as client:
            stream = client.beta.messages.create(**STARTS["anthropic"], stream=True)
            events = as_json(list(cast(Any, stream)))
        assert assembled("anthropic", events) == whole_of(fake.requests[0], reply)
    assert events[1]["content_block"] == block | {"content": None}
    assert events[2]["delta"] == {"type": "compaction_delta", "content": "We fixed it."}


@pytest.mark.parametrize(
    ("kind", "stop"),
    [
        ("anthropic", "max_tokens"),
        ("openai-chat", "length"),
        ("deepseek-chat", "length"),
        ("openai-responses", "max_output_tokens"),
    ],
)
def test_a_call_that_the_limit_cut(kind: str, stop: str) -> None:
    """Its arguments end where they end; Anthropic's whole reply cannot show them."""
    cut = '{"path": "a'
    reply = Reply("I write.", calls=[Call("write", cut)], stop=stop)
    with FakeProvider([reply]) as fake:
        events = as_json(list(read(fake, kind, STARTS[kind])))
        whole = whole_of(fake.requests[0], reply)
    if kind == "anthropic":
        deltas = [
            e["delta"].get("partial_json", "") for e in events if "index" in e and "delta" in e
        ]
        assert "".join(deltas) == cut
        assert (whole["content"][1]["input"], whole["stop_reason"]) == ({}, stop)
        assert events[-2]["delta"]["stop_reason"] == stop
        return
    told = assembled(kind, events)
    assert told == expected(kind, whole)
    if kind == "openai-responses":
        assert events[-1]["type"] == "response.incomplete"
        assert told["incomplete_details"] == {"reason": stop}
        item = told["output"][-1]
        assert (item["arguments"], item["status"]) == (cut, "incomplete")
    else:
        assert told["message"]["tool_calls"][0]["function"]["arguments"] == cut
        assert told["finish_reason"] == stop


@kinds
def test_chunks_may_cut_a_character(kind: str) -> None:
    """Single bytes on the wire, and the clients read the same events."""
    reply = REPLIES["odd text"]
    with FakeProvider([reply]) as fake:
        usual = as_json(list(read(fake, kind, start_of(kind))))
    with FakeProvider([Streamed(reply, chunk=1)]) as fake:
        assert as_json(list(read(fake, kind, start_of(kind)))) == usual
        assert "日本語".encode() in fake.requests[0].answer


@kinds
def test_a_whole_body_of_the_script_is_streamed_too(kind: str) -> None:
    """As the reply it is; a text that is no body of the API goes out as it is."""
    with FakeProvider([REPLIES["calls"]]) as fake:
        usual = as_json(list(read(fake, kind, start_of(kind))))
        body = json.dumps(whole_of(fake.requests[0], REPLIES["calls"]))
    text = "event: x\ndata: {}\n\n"
    with FakeProvider([Reply(raw=body), Reply(raw=text)]) as fake:
        again = as_json(list(read(fake, kind, start_of(kind))))
        list(read(fake, kind, start_of(kind)))
        assert fake.requests[1].answer == text.encode()
    if kind != "anthropic":  # there the arguments are JSON by now, and no longer spelt as they were
        assert again == usual
    assert assembled(kind, again) == assembled(kind, usual)


@given(st.text(), st.booleans())
def test_pieces_are_the_text(text: str, escaped: bool) -> None:
    """And each of them is a string of JSON on its own, so none cuts an escape or a character."""
    source = json.dumps(text, ensure_ascii=escaped)[1:-1]
    found = pieces(source)
    assert "".join(found) == source and "" not in found
    assert "".join(cast(str, json.loads(f'"{piece}"')) for piece in found) == text
    assert len(found) > 1 or len(text) < 2


@given(st.text(st.characters(min_codepoint=0xD700, max_codepoint=0xE100), min_size=2))
def test_pieces_keep_halves_of_a_character_together(text: str) -> None:
    for before, behind in pairwise(pieces(text)):
        assert not ("\ud800" <= before[-1] < "\udc00" <= behind[0] < "\ue000")


def test_long_texts_come_in_few_pieces() -> None:
    assert len(pieces("x" * 1_000_000)) < 1000
    assert pieces("") == [] and pieces("x") == ["x"]

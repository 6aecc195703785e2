"""A stream that came to its end gives what the whole reply gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sawlog.builder.replies import Answered, RefusedReply, Running, parse
from sawlog.builder.replies.assembling import assemble, assembler
from sawlog.store.codec import sealed
from sawlog.store.content import BoundPart
from sawlog.store.errors import ConfigError
from sawlog.store.events.base import Named
from sawlog.store.events.conversation import MessageAssistant, ToolRequested
from tests.builder.reading import answered, order_of, parts_of
from tests.builder.streams import Cut, Json, Spelled, fed, in_threes, source, spell, stream_of, told
from tests.builder.test_replies_exact import APIS, TEXTS, typed
from tests.timing import growth


def record(
    fields: Mapping[str, st.SearchStrategy[Any]],
    optional: Mapping[str, st.SearchStrategy[Any]] | None = None,
) -> st.SearchStrategy[Json]:
    """Objects with these fields."""
    return st.fixed_dictionaries(fields, optional=optional or {})


NUMBERS = st.integers(0, 10**12)
PLAIN = st.recursive(
    st.none() | st.booleans() | TEXTS | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab_"), inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(st.text("abc_", min_size=1), PLAIN, max_size=3)
BLOCKS = (
    typed("text", text=TEXTS)
    | typed("text", text=TEXTS, citations=st.lists(OBJECT, min_size=1, max_size=2))
    | typed("thinking", thinking=TEXTS, signature=TEXTS)
    | typed("redacted_thinking", data=TEXTS)
    | typed("compaction", content=TEXTS)
    | typed("tool_use", id=TEXTS, name=TEXTS, input=OBJECT)
    | typed("server_tool_use", id=TEXTS, name=TEXTS, input=OBJECT)
    | typed("web_search_tool_result", content=PLAIN)
    | typed("of_tomorrow", anything=PLAIN)
)
MESSAGES = record(
    {
        "id": TEXTS,
        "type": st.just("message"),
        "role": st.just("assistant"),
        "model": TEXTS,
        "content": st.lists(BLOCKS, max_size=4),
        "stop_reason": st.sampled_from(["end_turn", "tool_use", "pause_turn", "refusal", None]),
        "stop_sequence": st.none() | TEXTS,
        "usage": record(
            {"input_tokens": NUMBERS, "output_tokens": NUMBERS, "server_tool_use": st.none()}
        ),
    }
)

FUNCTIONS = record(
    {
        "id": st.text(min_size=1),
        "type": st.just("function"),
        "function": record({"name": st.text(min_size=1), "arguments": TEXTS}),
    },
    optional={"extra_content": OBJECT.filter(bool)},
)
CUSTOM = record(
    {
        "id": st.text(min_size=1),
        "type": st.just("custom"),
        "custom": record({"name": st.text(min_size=1), "input": TEXTS}),
    }
)
CHOICES = record(
    {
        "message": record(
            {"role": st.just("assistant"), "content": TEXTS | st.none()},
            optional={
                "refusal": TEXTS | st.none(),
                "reasoning_content": TEXTS,
                "reasoning": TEXTS,
                "tool_calls": st.lists(FUNCTIONS | CUSTOM, min_size=1, max_size=3),
            },
        ),
        "finish_reason": st.sampled_from(["stop", "tool_calls", "length", "content_filter"]),
    }
)
COMPLETIONS = record(
    {
        "id": TEXTS,
        "created": NUMBERS,
        "model": TEXTS,
        "system_fingerprint": TEXTS | st.none(),
        "choices": st.lists(CHOICES, min_size=1, max_size=2).map(
            lambda found: [{"index": at, **one} for at, one in enumerate(found)]
        ),
        "usage": OBJECT | st.none(),
    }
)

PARTS = typed("output_text", text=TEXTS, annotations=st.lists(OBJECT, max_size=2)) | typed(
    "refusal", refusal=TEXTS
)
SUMMARIES = st.lists(typed("summary_text", text=TEXTS), max_size=2)
ITEMS = (
    typed(
        "message",
        id=TEXTS,
        role=st.just("assistant"),
        status=st.just("completed"),
        content=st.lists(PARTS, max_size=2),
    )
    | typed(
        "function_call",
        id=TEXTS,
        call_id=TEXTS,
        name=st.text(min_size=1),
        arguments=TEXTS,
        status=st.just("completed"),
    )
    | typed("custom_tool_call", call_id=TEXTS, name=st.text(min_size=1), input=TEXTS)
    | typed("reasoning", id=TEXTS, summary=SUMMARIES, encrypted_content=TEXTS)
    | typed("web_search_call", id=TEXTS, status=st.just("completed"), action=OBJECT)
)
RESPONSES = record(
    {
        "id": TEXTS,
        "model": TEXTS,
        "status": st.sampled_from(["completed", "incomplete"]),
        "output": st.lists(ITEMS, max_size=4),
        "usage": OBJECT,
    }
)
BODIES: dict[str, st.SearchStrategy[Json]] = {
    "anthropic": MESSAGES,
    "openai-chat": COMPLETIONS,
    "deepseek-chat": COMPLETIONS,
    "openai-responses": RESPONSES,
}


@st.composite
def replies(draw: st.DrawFn) -> tuple[str, Json]:
    """An API, and a whole reply of it."""
    api = draw(st.sampled_from(APIS))
    return api, draw(BODIES[api])


def random_cut(draw: Callable[[st.SearchStrategy[list[int]]], list[int]]) -> Cut:
    """Cuts a text anywhere."""

    def cut(text: str) -> list[str]:
        places = draw(st.lists(st.integers(0, len(text)), max_size=3).map(sorted))
        return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]

    return cut


@st.composite
def spelled(draw: st.DrawFn, events: list[Spelled]) -> bytes:
    """The bytes of events, in any of the ways that a server may write them."""
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    noise = st.sampled_from(["", ":", f": ping{end}{end}", f"retry: 10{end}", f"id: 1{end}{end}"])
    text = "\ufeff" if draw(st.booleans()) else ""
    for one in events:
        some = draw(noise)
        text += some + end if some == ":" else some
        text += f"event: {one.name}{end}" if one.name and draw(st.booleans()) else ""
        data = one.data
        if draw(st.booleans()) and data.startswith('{"'):
            data = "{\n" + data[1:]  # JSON may have white space there, so it is two lines of data
        space = draw(st.sampled_from(["", " "]))
        text += "".join(f"data:{space}{line}{end}" for line in data.split("\n")) + end
    return text.encode()


@given(replies(), st.data())
def test_a_stream_gives_what_the_whole_reply_gives(
    reply: tuple[str, Json], data: st.DataObject
) -> None:
    api, body = reply
    whole = answered(api, source(body))
    stream = data.draw(spelled(stream_of(api, body, random_cut(data.draw))))
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=4).map(sorted))
    pieces = [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]
    found = fed(api, pieces)
    assert isinstance(found, Answered)
    assert (found.assembler, found.body) == (assembler(api).named, "")
    assert not found.interrupted
    assert told(found) == told(whole)
    assert assemble(api, 200, {}, stream) == found


@given(RESPONSES, st.data())
def test_items_alone_give_what_the_last_event_gives(body: Json, data: st.DataObject) -> None:
    """Of a response that broke off between its last item and its end."""
    events = stream_of("openai-responses", body, random_cut(data.draw))[:-1]
    found = assemble("openai-responses", 200, {}, spell(events))
    assert isinstance(found, Answered)
    assert found.interrupted
    whole = answered("openai-responses", source({**body, "status": "completed"}))
    assert found.parts_and_calls == whole.parts_and_calls
    # Some servers say the end without the items.
    outputs: list[Json] = [{}, {"output": None}, {"output": []}]
    for output in outputs:
        end = {name: value for name, value in body.items() if name != "output"} | output
        last = Spelled("", source({"type": f"response.{body['status']}", "response": end}))
        found = assemble("openai-responses", 200, {}, spell([*events, last]))
        assert isinstance(found, Answered)
        assert told(found) == told(answered("openai-responses", source(body)))


WHOLE: dict[str, Json] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [
            {"type": "thinking", "thinking": "Näher.", "signature": "EqQ="},
            {"type": "text", "text": "I look 😀.", "citations": [{"cited_text": "é"}]},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py"}},
            {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 7},
    },
    "openai-chat": {
        "id": "chatcmpl-1",
        "created": 1,
        "model": "gpt",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "I look 😀.",
                    "tool_calls": [
                        {
                            "id": f"call_{at}",
                            "type": "function",
                            "function": {"name": "read", "arguments": '{"path": "ä.py"}'},
                        }
                        for at in range(2)
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 3},
    },
    "openai-responses": {
        "id": "resp_1",
        "model": "gpt",
        "status": "completed",
        "output": [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Näher."}],
                "encrypted_content": "gAAA",
            },
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "I look 😀.", "annotations": []}],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "read",
                "arguments": '{"path": "ä.py"}',
                "status": "completed",
            },
        ],
        "usage": {"input_tokens": 3},
    },
}
WHOLE["deepseek-chat"] = json.loads(json.dumps(WHOLE["openai-chat"]))
WHOLE["deepseek-chat"]["choices"][0]["message"]["reasoning_content"] = "Näher."


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("api", APIS)
def test_a_stream_may_be_cut_at_any_byte(api: str, end: str) -> None:
    events = stream_of(api, WHOLE[api])
    for one in events:
        one.data = one.data if one.data == "[DONE]" else utf8(one.data)
    stream = spell(events, end)
    whole = fed(api, [stream])
    assert isinstance(whole, Answered)
    expected = answered(api, utf8(source(WHOLE[api])))
    assert told(whole) == told(expected)
    assert fed(api, [stream[at : at + 1] for at in range(len(stream))]) == whole
    for at in range(0, len(stream), 3):
        assert fed(api, [stream[:at], stream[at:]]) == whole


def utf8(text: str) -> str:
    """JSON text with its characters as they are and not as escapes."""
    return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("api", APIS)
def test_unknown_events_and_fields_change_nothing(api: str) -> None:
    events = stream_of(api, WHOLE[api])
    whole = fed(api, [spell(events)])
    odd = [
        Spelled("of_tomorrow", '{"type":"of_tomorrow","index":0,"output_index":0}'),
        Spelled("response.of.tomorrow", '{"type":"response.of.tomorrow","delta":[1]}'),
        Spelled("", '{"type":"content_block_delta","index":0,"delta":{"type":"x_delta","x":1}}'),
    ]
    if api != "anthropic":
        odd = odd[:2]
    if api.endswith("chat"):
        odd = [Spelled("", '{"choices":[{"index":0,"delta":{},"x":{"y":1}}],"x":[1]}')]
    assert isinstance(whole, Answered)
    for at in range(3, len(events) - 1):
        found = fed(api, [spell([*events[:at], *odd, *events[at:]])])
        assert found == whole


@pytest.mark.parametrize("api", APIS)
def test_what_is_no_stream_is_read_whole(api: str) -> None:
    body = source(WHOLE[api]).encode()
    assert assemble(api, 200, {}, body) == parse(api, 200, {}, body)
    error = b'{"error":{"type":"rate_limit_error","message":"slow"}}'
    for data in (error, b"data: {}\n\n"):
        assert assemble(api, 429, {}, data) == parse(api, 429, {}, data)
    page = b"<html>"
    assert assemble(api, 200, {}, page) == parse(api, 200, {}, page)


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(ConfigError, match="no API 'telepathy'"):
        assembler("telepathy")
    with pytest.raises(ConfigError, match="no API 'telepathy'"):
        assemble("telepathy", 200, {}, b"")


def test_each_api_has_an_assembler_of_its_own_name() -> None:
    names = [assembler(api).named for api in APIS]
    assert Named("anthropic-sse", 1) in names
    assert len(set(names)) == len(APIS)


# --- what whole replies do not have --------------------------------------------------------------


def anthropic(*events: str) -> Answered:
    """The reply of a Messages stream with these events between its start and its end."""
    start = '{"type":"message_start","message":{"id":"m","content":[],"usage":{"a":1,"b":2}}}'
    lines = (start, *events, '{"type":"message_stop"}')
    found = assemble("anthropic", 200, {}, spell(Spelled("", one) for one in lines))
    assert isinstance(found, Answered)
    return found


def test_usage_is_overlaid_field_by_field() -> None:
    assert anthropic().usage == '{"a":1,"b":2}'
    usage = '{"b":1e1,"c":{},"a":null}'
    end = f'{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{usage}}}'
    assert anthropic(end).usage == '{"a":1,"b":1e1,"c":{}}'
    assert anthropic(end).stop_reason == "end_turn"


@pytest.mark.parametrize("text", ['{"a": 1,', "[1]", '"a"', ' {"a":1}', '{"a":"\\ud800"', "{'a'}"])
def test_arguments_that_are_no_object_stay_as_the_model_wrote_them(text: str) -> None:
    start: Json = {"type": "tool_use", "id": "t", "name": "run", "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": one} for one in in_threes(text)]
    found = anthropic(
        source({"type": "content_block_start", "index": 0, "content_block": start}),
        *(source({"type": "content_block_delta", "index": 0, "delta": one}) for one in deltas),
        '{"type":"content_block_stop","index":0}',
    )
    assert [call.arguments for call in found.calls] == [text]


def test_escapes_are_kept_and_halves_of_a_character_meet() -> None:
    block = '{"type":"thinking","thinking":"","signature":""}'
    start = f'{{"type":"content_block_start","index":0,"content_block":{block}}}'
    deltas = [
        f'{{"type":"content_block_delta","index":0,"delta":{{"type":"{kind}_delta",{said}}}}}'
        for kind, said in (
            ("thinking", '"thinking":"a\\/\\ud83d"'),
            ("thinking", '"thinking":"\\ude00"'),
            ("signature", '"signature":"E\\/="'),
        )
    ]
    (bound,) = parts_of(anthropic(start, *deltas))
    assert isinstance(bound, BoundPart)
    assert bound.source == (
        '{"type":"thinking","thinking":"a\\/\\ud83d\\ude00","signature":"E\\/="}'
    )
    assert bound.text == "a/😀"


def chat(*deltas: str, finish: str = "stop") -> Answered:
    """The reply of a Chat stream with these deltas."""
    lines = [f'{{"choices":[{{"index":0,"delta":{one}}}]}}' for one in deltas]
    lines.append(f'{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}]}}')
    found = assemble("openai-chat", 200, {}, spell(Spelled("", one) for one in lines))
    assert isinstance(found, Answered)
    assert not found.interrupted
    return found


def test_ids_and_names_that_are_repeated_count_once() -> None:
    call = '{"index":0,"id":"a","function":{"name":"f","arguments":"%s"}}'
    one = f'{{"role":"assistant","tool_calls":[{call}]}}'
    found = chat(one % "{", one % "}")
    assert [(call.call_id, call.name, call.arguments) for call in found.calls] == [("a", "f", "{}")]


def test_calls_that_share_an_index_are_still_two() -> None:
    one = '{"tool_calls":[{"index":0,"id":"%s","function":{"name":"f","arguments":"{}"}}]}'
    assert [call.call_id for call in chat(one % "a", one % "b").calls] == ["a", "b"]


def test_calls_without_an_index_follow_each_other() -> None:
    begin = '{"tool_calls":[{"id":"%s","function":{"name":"f","arguments":"{"}}]}'
    more = '{"tool_calls":[{"function":{"arguments":"}"}}]}'
    found = chat(begin % "a", more, begin % "b", more)
    assert [(call.call_id, call.arguments) for call in found.calls] == [("a", "{}"), ("b", "{}")]


def test_calls_stand_in_the_order_of_their_index() -> None:
    one = '{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{}"}}]}'
    assert [call.call_id for call in chat(one % (1, 1), one % (0, 0)).calls] == ["c0", "c1"]


def test_arguments_given_as_an_object_keep_their_source() -> None:
    found = chat('{"tool_calls":[{"index":0,"function":{"name":"f","arguments":{"a": 1e0}}}]}')
    assert [call.arguments for call in found.calls] == ['{"a": 1e0}']


def test_content_in_parts_is_continued() -> None:
    found = chat('{"content":"a"}', '{"content":[{"type":"x"}]}', '{"content":"b"}')
    assert order_of(found) == ["[text raw text]"]
    assert found.text == "ab"


def test_reasoning_details_are_merged_by_index() -> None:
    one = '{"reasoning_details":[{"index":0,"type":"reasoning.text","text":"%s"}]}'
    (part,) = parts_of(chat(one % "a", one % "b"))
    assert isinstance(part, BoundPart)
    assert part.source == '[{"index":0,"type":"reasoning.text","text":"ab"}]'


def test_the_first_chunk_may_hold_nothing_of_the_reply() -> None:
    """Azure sends one with the filter's findings, without id and model."""
    lines = [
        '{"id":"","model":"","choices":[],"prompt_filter_results":[{}]}',
        '{"id":"c","model":"gpt","choices":[{"index":0,"delta":{"content":"a"}}]}',
        '{"id":"c","model":"gpt","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
        "[DONE]",
    ]
    found = assemble("openai-chat", 200, {}, spell(Spelled("", one) for one in lines))
    assert isinstance(found, Answered)
    assert (found.response_id, found.model, found.text) == ("c", "gpt", "a")


KINDS = st.sampled_from(
    "message_start content_block_start content_block_delta content_block_stop message_delta error "
    "message_stop response.created response.completed response.failed response.output_item.added "
    "response.output_item.done response.output_text.delta response.content_part.added tool_use "
    "text response.function_call_arguments.delta input_json_delta text_delta function_call".split()
)
FIELDS = st.sampled_from(
    "type index message delta usage content_block content text input partial_json response output "
    "output_index content_index item part choices tool_calls function arguments id name status "
    "error role finish_reason signature citation annotations reasoning_details".split()
)
ODD = st.recursive(
    st.none() | st.integers(0, 2) | KINDS | TEXTS,
    lambda deeper: (
        st.lists(deeper, max_size=3) | st.dictionaries(FIELDS, deeper, max_size=4).map(dict)
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(APIS),
    st.lists(st.dictionaries(FIELDS, ODD, max_size=5) | ODD, max_size=5),
    st.integers(0, 8),
    st.booleans(),
)
def test_events_of_any_shape_never_raise(
    api: str, odd: list[object], at: int, interrupted: bool
) -> None:
    """Alone, and in the middle of a good stream."""
    events = [Spelled("", source(one)) for one in odd]
    good = stream_of(api, WHOLE[api])
    for stream in (events, [*good[:at], *events, *good[at:]]):
        found = assemble(api, 200, {}, spell(stream), interrupted=interrupted)
        assert isinstance(found, Answered | RefusedReply | Running)
        for one in found.parts_and_calls if isinstance(found, Answered) else ():
            sealed(one if isinstance(one, ToolRequested) else MessageAssistant(one))


@given(st.sampled_from(APIS), st.binary(), st.booleans())
def test_bytes_never_raise(api: str, data: bytes, interrupted: bool) -> None:
    for start in (b"", b"data: ", b"event: error\ndata:"):
        assemble(api, 200, {}, start + data, interrupted=interrupted)


@pytest.mark.parametrize("api", APIS)
def test_a_large_stream_is_put_together_at_once(api: str) -> None:
    """Thousands of deltas, in time that grows with their bytes."""

    def cut(text: str) -> list[str]:
        return [text[at : at + 5] for at in range(0, len(text), 5)]

    def stream(deltas: int) -> list[bytes]:
        body = json.loads(json.dumps(WHOLE[api]))
        if api == "anthropic":
            body["content"][1]["text"] = "word " * deltas
        elif api == "openai-responses":
            body["output"][1]["content"][0]["text"] = "word " * deltas
        else:
            body["choices"][0]["message"]["content"] = "word " * deltas
        whole = spell(stream_of(api, body, cut))
        assert whole.count(b"word ") >= deltas
        return [whole[at : at + 4096] for at in range(0, len(whole), 4096)]

    streams = {deltas: stream(deltas) for deltas in (5_000, 20_000)}
    assert growth(lambda deltas: fed(api, streams[deltas]), 5_000) < 9
    found = fed(api, streams[20_000])
    assert isinstance(found, Answered)
    assert found.text == "word " * 20_000
    assert structs.asdict(found)["interrupted"] is False

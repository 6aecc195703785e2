"""Streams that did not come to their end: what there was stays, and nothing is made of a half."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.replies import Answered, RefusedReply, Running
from sawlog.builder.replies.assembling import assemble, assembler
from sawlog.store.content import BoundPart, IncompletePart, RawPart, TextPart
from sawlog.store.events.conversation import ToolRequested
from tests.builder.reading import order_of, parts_of
from tests.builder.streams import Json, Spelled, source, spell, stream_of
from tests.builder.test_assembling import WHOLE, replies
from tests.builder.test_replies_exact import APIS


def answered(api: str, data: bytes, *, interrupted: bool = True) -> Answered:
    """What a broken stream gives; the test fails when it is no reply."""
    found = assemble(api, 200, {}, data, interrupted=interrupted)
    assert isinstance(found, Answered), found
    return found


def broken(api: str, body: Json, last: str, interrupted: bool = True) -> Answered:
    """What is left of a reply whose stream ends with the last event that holds some words."""
    events = stream_of(api, body)
    at = max(at for at, one in enumerate(events) if last in one.data)
    found = answered(api, spell(events[: at + 1]), interrupted=interrupted)
    assert found.interrupted
    assert not found.paused
    return found


def anthropic(*blocks: Json) -> Json:
    return {**WHOLE["anthropic"], "content": list(blocks)}


READ: Json = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.py"}}
GREP: Json = {"type": "tool_use", "id": "t2", "name": "grep", "input": {"for": "refund"}}


def test_a_call_that_ended_is_a_call_and_one_that_did_not_is_none() -> None:
    found = broken("anthropic", anthropic(READ, GREP), '"partial_json":"efu"')
    assert order_of(found) == ["call read", "[incomplete]"]
    assert parts_of(found) == [IncompletePart("grep", '{"for":"refu')]
    assert found.stop_reason == ""


def test_arguments_that_close_are_still_no_call_before_their_block_ends() -> None:
    found = broken("anthropic", anthropic(READ, GREP), '"partial_json":"}"')
    assert parts_of(found) == [IncompletePart("grep", '{"for":"refund"}')]


def test_half_a_call_that_the_provider_runs_is_incomplete_too() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "abc"}}
    found = broken("anthropic", anthropic(search), '"partial_json":"abc"')
    assert parts_of(found) == [IncompletePart("web_search", '{"q":"abc')]


def test_thinking_without_its_signature_never_goes_back() -> None:
    thinking = {"type": "thinking", "thinking": "So it is.", "signature": "EqQ="}
    text = {"type": "text", "text": "Done."}
    found = broken("anthropic", anthropic(thinking, text), '"thinking":"it "')
    (part,) = parts_of(found)
    assert isinstance(part, BoundPart)
    assert (part.kind, part.text) == ("unsigned_thinking", "So it ")
    assert part.source == '{"type":"thinking","thinking":"So it ","signature":""}'
    found = broken("anthropic", anthropic(thinking, text), '"text":"Don"')
    assert order_of(found) == ["[thinking text]"]
    assert parts_of(found)[1] == TextPart("Don")


def test_what_was_said_last_counts_when_only_the_end_is_missing() -> None:
    found = broken("anthropic", anthropic(READ), "message_delta")
    assert order_of(found) == ["call read"]
    assert found.stop_reason == "tool_use"
    assert found.usage == '{"input_tokens":12,"output_tokens":7}'
    assert broken("anthropic", anthropic(READ), "partial").usage.endswith('"output_tokens":0}')


@pytest.mark.parametrize("api", ["openai-chat", "deepseek-chat"])
def test_the_last_call_of_a_chat_ends_with_the_next_or_with_a_reason(api: str) -> None:
    before = "reasoning_content text" if api == "deepseek-chat" else "text"
    events = stream_of(api, WHOLE[api])
    second = next(at for at, one in enumerate(events) if "call_1" in one.data)
    first = answered(api, spell(events[:second]))
    assert order_of(first) == [f"[{before} incomplete]"]
    found = answered(api, spell(events[: second + 1]))
    assert order_of(found) == [f"[{before}]", "call read", "[incomplete]"]
    assert parts_of(found)[-1] == IncompletePart("read", "")
    finish = next(at for at, one in enumerate(events) if '"finish_reason":"tool_calls"' in one.data)
    for end in (finish, finish + 1):
        found = answered(api, spell(events[: end + 1]))
        assert [call.call_id for call in found.calls] == ["call_0", "call_1"]
        assert (found.interrupted, found.stop_reason) == (True, "tool_calls")


@pytest.mark.parametrize("api", ["openai-chat", "deepseek-chat"])
def test_a_chat_that_closes_behind_a_reason_is_whole(api: str) -> None:
    """Some servers send no `[DONE]`; a stream that its reader left could have had more."""
    data = spell(stream_of(api, WHOLE[api])[:-1])
    assert not answered(api, data, interrupted=False).interrupted
    assert answered(api, data, interrupted=True).interrupted


@pytest.mark.parametrize(
    ("form", "field", "texts", "open"),
    [
        ("function", "arguments", ['{"a":', "{}", '{"b"', ":1}"], [0, 1]),
        ("function", "arguments", ['{"a":', "{", "1}", ""], [1]),
        ("function", "arguments", ["", "{}", "", ""], [0, 1]),
        ("custom", "input", ["a", "b", "c", ""], [0, 1]),
    ],
)
def test_calls_whose_arguments_come_in_turns(
    form: str, field: str, texts: list[str], open: list[int]
) -> None:
    """Where the next call's beginning ends none, only what shows its end is a call."""
    deltas = [
        {"tool_calls": [{"index": at % 2, "id": f"c{at % 2}", form: {"name": "f", field: text}}]}
        for at, text in enumerate(texts)
    ]
    events = [Spelled("", source({"choices": [{"index": 0, "delta": one}]})) for one in deltas]
    found = answered("openai-chat", spell(events))
    assert len([part for part in parts_of(found) if isinstance(part, IncompletePart)]) == len(open)
    assert [call.call_id for call in found.calls] == [f"c{at}" for at in (0, 1) if at not in open]
    last = Spelled("", '{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}')
    assert len(answered("openai-chat", spell([*events, last])).calls) == 2


def test_items_that_ended_are_whole_and_others_are_put_together() -> None:
    api = "openai-responses"
    found = broken(api, WHOLE[api], "function_call_arguments.delta")
    assert order_of(found) == ["[reasoning text incomplete]"]
    assert parts_of(found)[-1] == IncompletePart("read", '{"path": "ä.py"}')
    assert found.stop_reason == ""
    found = broken(api, WHOLE[api], "response.output_item.done")
    assert order_of(found) == ["[reasoning text]", "call read"]
    found = broken(api, WHOLE[api], '"delta":"I l')
    assert parts_of(found)[-1] == TextPart("I l")


def test_reasoning_that_did_not_end_never_goes_back() -> None:
    api = "openai-responses"
    found = broken(api, WHOLE[api], "response.reasoning_summary_text.delta")
    (part,) = parts_of(found)
    assert isinstance(part, BoundPart)
    assert (part.kind, part.text) == ("unsigned_thinking", "Näher.")


def test_a_call_without_its_field_yet_is_incomplete() -> None:
    item = {"type": "local_shell_call", "id": "l", "call_id": "c", "status": "in_progress"}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    found = answered("openai-responses", spell([Spelled("", source(added))]))
    assert parts_of(found) == [IncompletePart("local_shell", "")]


def test_a_response_in_the_background_is_running_still() -> None:
    body = {**WHOLE["openai-responses"], "background": True}
    events = stream_of("openai-responses", body)
    found = assemble("openai-responses", 200, {"x-request-id": "r"}, spell(events[:8]))
    assert isinstance(found, Running)
    assert (found.handle, found.request_id) == ("resp_1", "r")
    assert not answered("openai-responses", spell(events)).interrupted


def test_a_response_that_failed_is_the_refusal_that_it_says() -> None:
    error = {"code": "server_error", "message": "It broke."}
    body = {**WHOLE["openai-responses"], "status": "failed", "error": error}
    found = assemble("openai-responses", 200, {}, spell(stream_of("openai-responses", body)))
    assert isinstance(found, RefusedReply)
    assert (found.kind, found.message, found.body) == ("provider_error", "It broke.", source(body))


ERRORS = {
    "anthropic": '{"type":"error","error":{"type":"overloaded_error","message":"Full."}}',
    "openai-chat": '{"error":{"code":"engine_overloaded","message":"Full."}}',
    "deepseek-chat": '{"error":{"type":"engine_overloaded_error","message":"Full."}}',
    "openai-responses": '{"type":"error","code":"server_is_overloaded","message":"Full."}',
}


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_an_error_with_nothing_before_it_is_a_refusal(api: str, interrupted: bool) -> None:
    error = Spelled("error", ERRORS[api])
    events = stream_of(api, WHOLE[api])
    for before in (0, 1):
        data = spell([*events[:before], error, *events[before:]])
        found = assemble(api, 200, {"request-id": "r"}, data, interrupted=interrupted)
        assert isinstance(found, RefusedReply)
        assert (found.kind, found.status, found.request_id) == ("overload", 200, "r")
        assert (found.message, found.body) == ("Full.", ERRORS[api])


@pytest.mark.parametrize("api", APIS)
def test_an_error_behind_content_is_the_fault_of_an_interrupted_reply(api: str) -> None:
    events = stream_of(api, WHOLE[api])
    at = next(at for at, one in enumerate(events) if "I l" in one.data) + 1
    found = answered(api, spell([*events[:at], Spelled("", ERRORS[api]), *events[at:]]))
    assert found.interrupted
    assert found.fault is not None
    assert (found.fault.kind, found.fault.message) == ("overload", "Full.")
    assert found.text == "I l"
    assert found.calls == ()


@pytest.mark.parametrize("api", APIS)
def test_an_event_that_is_no_json_ends_what_counts(api: str) -> None:
    events = stream_of(api, WHOLE[api])
    at = next(at for at, one in enumerate(events) if "I l" in one.data) + 1
    odd = Spelled("", '{"choices":[}')
    found = answered(api, spell([*events[:at], odd, *events[at:]]), interrupted=False)
    assert found.fault is not None
    assert found.fault.kind == "malformed"
    assert "no JSON object: '{\"choices\":[}'" in found.fault.message
    assert (found.interrupted, found.text) == (True, "I l")
    refused = assemble(api, 200, {}, spell([odd, *events]))
    assert isinstance(refused, RefusedReply)
    assert refused.kind == "malformed"


def test_a_block_that_never_began_is_malformed() -> None:
    start, *_ = stream_of("anthropic", WHOLE["anthropic"])
    delta = Spelled("", '{"type":"content_block_delta","index":4,"delta":{"type":"text_delta"}}')
    for events, why in (([start, delta], "never began"), ([delta], "no `message_start`")):
        found = assemble("anthropic", 200, {}, spell(events))
        assert isinstance(found, RefusedReply)
        assert (found.kind, why in found.message) == ("malformed", True)


@pytest.mark.parametrize("api", APIS)
def test_an_event_nested_too_deeply_is_malformed(api: str) -> None:
    deep = '{"type":"content_block_start","index":0,"content_block":' + '{"a":[' * 100_000
    data = spell([stream_of(api, WHOLE[api])[0], Spelled("", deep)])
    found = assemble(api, 200, {}, data)
    assert isinstance(found, RefusedReply | Answered)
    fault = found if isinstance(found, RefusedReply) else found.fault
    assert fault is not None
    assert fault.kind == "malformed"


@pytest.mark.parametrize("api", APIS)
def test_a_stream_without_a_reply(api: str) -> None:
    """Left by its reader it holds nothing yet; closed it is no reply."""
    headers = {"Content-Type": "text/event-stream; charset=utf-8", "request-id": "r"}
    for data in (b"", b": ping\n\n", b"event: mess"):
        found = assemble(api, 200, headers, data, interrupted=True)
        assert isinstance(found, Answered)
        assert (found.parts_and_calls, found.interrupted, found.request_id) == ((), True, "r")
        refused = assemble(api, 200, headers, data)
        assert isinstance(refused, RefusedReply)
        assert (refused.kind, refused.message) == (
            "malformed",
            "the stream of events ended before a reply began",
        )


@pytest.mark.parametrize("api", APIS)
def test_the_end_is_seen_when_it_comes(api: str) -> None:
    events = stream_of(api, WHOLE[api])
    one = assembler(api)
    for event in events[:-1]:
        one.feed(spell([event]))
        assert not one.ended
        assert not one.result(closed=False).ended
    one.feed(spell(events[-1:]))
    assert one.ended
    ended = one.result(closed=False)
    one.feed(spell(events))  # nothing counts behind the end
    assert one.result(closed=False) == ended
    assert one.result(closed=True).body == ended.body


@given(replies(), st.data())
def test_any_beginning_of_a_stream_is_a_beginning_of_its_reply(
    reply: tuple[str, Json], data: st.DataObject
) -> None:
    """No text and no call that the whole does not have, whoever broke it off, wherever."""
    api, body = reply
    stream = spell(stream_of(api, body))
    whole = answered(api, stream)
    cut = stream[: data.draw(st.integers(0, len(stream)))]
    interrupted = data.draw(st.booleans())
    found = assemble(api, 200, {"content-type": "text/event-stream"}, cut, interrupted=interrupted)
    if not isinstance(found, Answered):
        assert isinstance(found, RefusedReply)
        assert not interrupted
        assert "before a reply began" in found.message
        return
    assert found.fault is None
    assert whole.text.startswith(found.text)
    calls = whole.calls
    assert found.calls[: len(calls)] == calls[: len(found.calls)]
    # Only its end tells that a reply was cut off, and that its last call, which seemed whole, may
    # be half of one.
    halves = [part.name for part in parts_of(whole) if isinstance(part, IncompletePart)]
    assert [call.name for call in found.calls[len(calls) :]] in ([], halves[-1:])
    unfinished = [part for part in parts_of(found) if isinstance(part, IncompletePart)]
    wanted = [part for part in parts_of(whole) if isinstance(part, IncompletePart)]
    # Of Chat a call that shows no end is none, though the next one had begun.
    assert len(unfinished) <= max(1, len(wanted)) or api.endswith("chat")
    assert len(found.calls) + len(unfinished) <= len(calls) + len(wanted)
    kept = [one for one in found.parts_and_calls if not isinstance(one, ToolRequested)]
    for part in (part for run in kept for part in run):
        if isinstance(part, RawPart) and found.interrupted and api == "anthropic":
            assert part in parts_of(whole)


def test_a_rest_without_its_last_empty_line_counts_when_the_stream_closed() -> None:
    data = spell(stream_of("anthropic", WHOLE["anthropic"])).rstrip()
    assert not answered("anthropic", data, interrupted=False).interrupted
    assert answered("anthropic", data, interrupted=True).interrupted
    assert answered("anthropic", data[:-1], interrupted=False).interrupted


def test_memory_holds_the_text_and_not_the_events() -> None:
    one = assembler("anthropic")
    events = stream_of("anthropic", anthropic({"type": "text", "text": "a"}))
    one.feed(spell(events[:2]))
    delta: dict[str, Any] = {"type": "text_delta", "text": "word "}
    piece = spell(
        [Spelled("", source({"type": "content_block_delta", "index": 0, "delta": delta}))]
    )
    tracemalloc.start()
    for _ in range(20_000):
        one.feed(piece)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 20_000 * len(piece)

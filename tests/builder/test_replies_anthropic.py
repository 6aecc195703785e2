"""Replies of the Messages API, in the shapes that the official client knows."""

from __future__ import annotations

import json

import pytest
from anthropic.types import Message
from anthropic.types.beta import BetaMessage

from sawlog.builder.replies import Answered
from sawlog.store.content import BoundPart, IncompletePart, RawPart, TextPart
from tests.builder.reading import answered, assert_exact, order_of, parts_of, refused

API = "anthropic"
USAGE = '{"input_tokens": 12,"output_tokens":7,  "cache_read_input_tokens":0}'


def message(content: str, stop: str = "end_turn", more: str = "") -> str:
    """A body around these blocks, with white space where a server may put it."""
    body = (
        '{"id":"msg_01A", "type":"message","role":"assistant","model":"claude-opus-5-5",\n'
        f'"content":[{content}],"stop_reason":"{stop}","stop_sequence":null,{more}"usage":{USAGE}}}'
    )
    # The body is one that the official client takes for a message, strictly.
    BetaMessage.model_validate(json.loads(body), strict=True)
    return body


def read(content: str, stop: str = "end_turn", more: str = "") -> Answered:
    """The reply, its sources checked to be exact."""
    body = message(content, stop, more)
    found = answered(API, body)
    assert_exact(found, body)
    return found


THINKING = '{"type":"thinking","thinking":"Look first.","signature":"EqQ\\/x+8="}'
TEXT = '{"type":"text","text":"I read it."}'
CALL = '{"type":"tool_use","id":"toolu_1","name":"read","input":{"path": "a.py","n":1e2}}'


def test_a_reply_with_thinking_text_and_parallel_calls_keeps_its_order() -> None:
    second = CALL.replace("toolu_1", "toolu_2").replace("read", "grep")
    body = message(f"{THINKING} , {TEXT},{CALL},\n{second}", "tool_use")
    Message.model_validate(json.loads(body), strict=True)
    found = answered(API, body)
    assert order_of(found) == ["[thinking text]", "call read", "call grep"]
    assert_exact(found, body)
    thinking, text = parts_of(found)
    assert thinking == BoundPart("thinking", API, THINKING, "Look first.")
    assert text == TextPart("I read it.")
    first, _ = found.calls
    assert first.call_id == "toolu_1"
    assert first.arguments == '{"path": "a.py","n":1e2}'
    assert first.kind == "json"
    assert (found.response_id, found.model) == ("msg_01A", "claude-opus-5-5")
    assert (found.stop_reason, found.usage) == ("tool_use", USAGE)
    assert found.text == "I read it."
    assert not found.paused
    assert not found.refusal


def test_ids_and_the_organisation_come_from_headers_in_any_case() -> None:
    headers = {"Request-Id": "req_1", "Anthropic-Organization-Id": "org-7"}
    found = answered(API, message(TEXT), headers)
    assert (found.request_id, found.account) == ("req_1", "org-7")
    assert answered(API, message(TEXT)).account == ""


def test_parts_between_calls_are_runs_of_their_own() -> None:
    found = read(f"{TEXT},{CALL},{TEXT},{CALL}", "tool_use")
    assert order_of(found) == ["[text]", "call read", "[text]", "call read"]
    assert found.text == "I read it.I read it."


def test_thinking_without_a_signature_never_goes_back() -> None:
    unsigned = '{"type":"thinking","thinking":"hm","signature":""}'
    absent = '{"type":"thinking","thinking":"hm"}'
    redacted = '{"type":"redacted_thinking","data":"Ev8="}'
    body = f'{{"content":[{unsigned},{absent},{redacted}],"type":"message"}}'
    found = answered(API, body)
    assert_exact(found, body)
    assert order_of(found) == ["[unsigned_thinking unsigned_thinking redacted_thinking]"]
    assert parts_of(found)[1] == BoundPart("unsigned_thinking", API, absent, "hm")


def test_citations_stand_exactly_behind_their_text() -> None:
    citations = (
        '[{"type":"char_location","cited_text":"caf\\u00e9","document_index":0,'
        '"document_title":null,"start_char_index":0,"end_char_index":4, "file_id":null}]'
    )
    found = read(f'{TEXT},{{"citations":{citations},"type":"text","text":"caf\\u00e9"}}')
    assert parts_of(found) == [
        TextPart("I read it."),
        TextPart("café"),
        BoundPart("text.citations", API, citations),
    ]
    assert found.text == "I read it.café"
    assert order_of(read('{"type":"text","text":"x","citations":null}')) == ["[text]"]
    assert order_of(read('{"type":"text","text":"x","citations":[ ]}')) == ["[text]"]


@pytest.mark.parametrize(
    "block",
    [
        '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}}',
        '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}',
        '{"type":"mcp_tool_use","id":"mcptoolu_1","name":"n","server_name":"s","input":{}}',
        '{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","is_error":false,"content":[]}',
        '{"type":"container_upload","file_id":"file_1"}',
    ],
)
def test_what_the_provider_runs_itself_stays_a_raw_part(block: str) -> None:
    found = read(f"{TEXT},{block}")
    assert parts_of(found) == [TextPart("I read it."), RawPart(API, block)]
    assert found.calls == ()


def test_a_block_of_a_later_day_is_kept_as_it_came() -> None:
    block = '{"type":"hologram","z":-0.0,"a":[1 , 2]}'
    body = f'{{"type":"message","content":[{block}],"usage":null}}'
    found = answered(API, body)
    assert parts_of(found) == [RawPart(API, block)]
    assert found.usage == ""


def test_a_compaction_block_is_bound_and_its_reply_goes_on() -> None:
    block = '{"type":"compaction","content":"Summary.","encrypted_content":"gA=="}'
    found = read(block, "compaction")
    assert parts_of(found) == [BoundPart("compaction", API, block, "Summary.")]
    assert found.paused
    assert read(TEXT, "pause_turn").paused


def test_the_last_call_of_a_reply_that_was_cut_off_is_no_call() -> None:
    found = read(f"{CALL},{TEXT},{CALL}", "max_tokens")
    assert order_of(found) == ["call read", "[text incomplete]"]
    assert parts_of(found)[1] == IncompletePart("read", '{"path": "a.py","n":1e2}')
    window = read(CALL, "model_context_window_exceeded")
    assert order_of(window) == ["[incomplete]"]


def test_a_call_before_the_cut_is_a_call() -> None:
    found = read(f"{CALL},{TEXT}", "max_tokens")
    assert order_of(found) == ["call read", "[text]"]


def test_a_caller_that_is_not_the_model_stands_behind_its_call() -> None:
    caller = '{"type":"code_execution_20250825","tool_id":"srvtoolu_9"}'
    call = CALL[:-1] + f',"caller":{caller}}}'
    found = read(f"{call},{CALL}", "tool_use")
    assert order_of(found) == ["call read", "[call.caller]", "call read"]
    assert parts_of(found) == [BoundPart("call.caller", API, caller)]
    direct = CALL[:-1] + ',"caller":{"type":"direct"}}'
    assert order_of(read(direct, "tool_use")) == ["call read"]


def test_a_model_that_declined_is_answered_and_says_why() -> None:
    more = '"stop_details":{"type":"refusal","category":"cyber","explanation":"Not this."},'
    found = read(TEXT, "refusal", more)
    assert (found.stop_reason, found.refusal) == ("refusal", "Not this.")
    bare = read("", "refusal", '"stop_details":null,')
    assert (bare.refusal, bare.parts_and_calls) == ("refusal", ())


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('{"type":"tool_use","id":"t","input":{}}', "content 0"),
        ('{"type":"text","text":"x"},{"type":"tool_use","id":"t","name":"n"}', "content 1"),
        ("7", "content 0"),
    ],
)
def test_a_block_that_cannot_be_kept_is_named(content: str, place: str) -> None:
    found = refused(API, 200, f'{{"type":"message","content":[{content}]}}')
    assert found.kind == "malformed"
    assert place in found.message


def test_an_error_in_a_body_with_200_is_a_refusal() -> None:
    body = '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    found = refused(API, 200, body, {"request-id": "req_2"})
    assert (found.kind, found.status, found.message) == ("overload", 200, "Overloaded")
    assert (found.request_id, found.body) == ("req_2", body)

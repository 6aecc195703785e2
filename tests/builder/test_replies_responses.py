"""Replies of the Responses API, in the shapes that the official client knows."""

from __future__ import annotations

import json

import pytest
from openai.types.responses import Response

from sawlog.builder.replies import Answered
from sawlog.store.content import BoundPart, IncompletePart, RawPart, TextPart
from tests.builder.reading import answered, assert_exact, order_of, parts_of, refused, running

API = "openai-responses"
USAGE = (
    '{"input_tokens":3,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},'
    '"output_tokens":4,\n"output_tokens_details":{"reasoning_tokens":1},"total_tokens":7}'
)


def response(output: str, status: str = "completed", reason: str = "") -> str:
    """A body around these items."""
    details = f'{{"reason":"{reason}"}}' if reason else "null"
    return (
        '{"id":"resp_1","object":"response","created_at":1764000000.0,"error":null,'
        f'"status":"{status}","incomplete_details":{details},"instructions":null,"metadata":{{}},'
        f'"model":"gpt-5.5-2026-08-01","output":[ {output} ],"parallel_tool_calls":true,'
        f'"temperature":1.0,"tool_choice":"auto","tools":[],"top_p":1.0,"usage":{USAGE}}}'
    )


def read(output: str, status: str = "completed", reason: str = "") -> Answered:
    """The reply, its sources checked to be exact, in a body that the official client takes."""
    body = response(output, status, reason)
    Response.model_validate(json.loads(body), strict=True)
    found = answered(API, body)
    assert_exact(found, body)
    return found


REASONING = (
    '{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"One."},'
    ' {"type":"summary_text","text":"Two."}],"encrypted_content":"gAAA=="}'
)
CALL = (
    '{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"run",'
    '"arguments":"{\\"n\\": 1e2}"}'
)


def message(text: str, more: str = "", part: str = '"annotations":[]', id: str = "msg_1") -> str:
    """A message of one text."""
    content = f'{{"type":"output_text","text":{json.dumps(text)},"logprobs":[],{part}}}'
    return (
        f'{{"id":"{id}","type":"message","status":"completed","role":"assistant",{more}'
        f'"content":[{content}]}}'
    )


def test_reasoning_text_and_calls_keep_their_order() -> None:
    found = read(f"{REASONING},{message('I look.')},{CALL}, {REASONING},{CALL}")
    assert order_of(found) == ["[reasoning text]", "call run", "[reasoning]", "call run"]
    assert parts_of(found)[:2] == [
        BoundPart("reasoning", API, REASONING, "One.\n\nTwo."),
        TextPart("I look."),
    ]
    call = found.calls[0]
    assert (call.call_id, call.item, call.kind) == ("call_1", "fc_1", "json")
    assert call.arguments == '{"n": 1e2}'
    assert (found.response_id, found.model) == ("resp_1", "gpt-5.5-2026-08-01")
    assert (found.stop_reason, found.usage, found.paused) == ("completed", USAGE, False)


def test_reasoning_without_a_summary_shows_its_content() -> None:
    item = (
        '{"id":"rs_2","type":"reasoning","summary":[],'
        '"content":[{"type":"reasoning_text","text":"Hm."}]}'
    )
    assert parts_of(read(item)) == [BoundPart("reasoning", API, item, "Hm.")]


def test_phase_and_annotations_stand_behind_the_text() -> None:
    note = '[{"type":"url_citation","url":"https://x.example","title":"","start_index":0,"end_index":1}]'
    found = read(message("x", '"phase":"commentary",', f'"annotations":{note}'))
    assert parts_of(found) == [
        TextPart("x"),
        BoundPart("text.annotations", API, note),
        BoundPart("message.phase", API, '"commentary"', "commentary"),
    ]
    assert found.text == "x"


def test_a_refusal_is_kept_and_said() -> None:
    part = '{"type":"refusal","refusal":"I can\\u2019t."}'
    item = (
        '{"id":"msg_1","type":"message","status":"completed","role":"assistant",'
        f'"content":[{part}]}}'
    )
    found = read(item)
    assert parts_of(found) == [RawPart(API, part)]
    assert (found.refusal, found.text) == ("I can’t.", "")
    assert read("", "incomplete", "content_filter").refusal == "content_filter"


def test_a_message_of_unknown_content_is_kept_whole() -> None:
    item = '{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"dance","x":1}]}'
    assert parts_of(answered(API, response(item))) == [RawPart(API, item)]
    user = '{"type":"message","role":"user","content":[{"type":"output_text","text":"x"}]}'
    assert parts_of(answered(API, response(user))) == [RawPart(API, user)]


def test_calls_with_free_text_and_searches_by_the_client() -> None:
    custom = (
        '{"id":"ctc_1","type":"custom_tool_call","call_id":"call_2","name":"patch",'
        '"namespace":"edit","input":"*** \\"x\\"\\n"}'
    )
    search = (
        '{"id":"tsc_1","type":"tool_search_call","call_id":"call_3","execution":"client",'
        '"arguments":{"query": "sql"},"status":"completed"}'
    )
    found = read(f"{custom},{search}")
    patch, tools = found.calls
    assert (patch.kind, patch.arguments, patch.namespace) == ("text", '*** "x"\n', "edit")
    assert (tools.kind, tools.name, tools.arguments) == (
        "search",
        "tool_search",
        '{"query": "sql"}',
    )
    assert order_of(found) == ["call patch", "call tool_search"]
    server = search.replace('"client"', '"server"')
    assert parts_of(read(server)) == [RawPart(API, server)]


@pytest.mark.parametrize(
    ("item", "name", "arguments"),
    [
        (
            '{"id":"l","type":"local_shell_call","call_id":"c","status":"completed",'
            '"action":{"type":"exec","command":["ls"],"env":{}}}',
            "local_shell",
            '{"type":"exec","command":["ls"],"env":{}}',
        ),
        (
            '{"id":"s","type":"shell_call","call_id":"c","status":"completed",'
            '"action":{"commands":["ls"]},"environment":{"type":"local"}}',
            "shell",
            '{"commands":["ls"]}',
        ),
        (
            '{"id":"a","type":"apply_patch_call","call_id":"c","status":"completed",'
            '"operation":{"type":"delete_file","path":"x"}}',
            "apply_patch",
            '{"type":"delete_file","path":"x"}',
        ),
        (
            '{"id":"u","type":"computer_call","call_id":"c","status":"completed",'
            '"pending_safety_checks":[{"id":"p","code":"m","message":"!"}],'
            '"action":{"type":"screenshot"}}',
            "computer",
            '{"type":"screenshot"}',
        ),
    ],
)
def test_calls_of_their_own_type_that_the_client_runs(item: str, name: str, arguments: str) -> None:
    found = read(item)
    call = found.calls[0]
    assert (call.call_id, call.name, call.arguments, call.kind) == ("c", name, arguments, "json")
    kinds = [part.kind for part in parts_of(found) if isinstance(part, BoundPart)]
    assert kinds[0] == "call.type"
    assert ("call.pending_safety_checks" in kinds) == (name == "computer")


def test_what_the_provider_runs_itself_stays_raw() -> None:
    search = (
        '{"id":"ws_1","type":"web_search_call","status":"completed",'
        '"action":{"type":"search","query":"q","queries":["q"]}}'
    )
    approval = (
        '{"id":"mcpr_1","type":"mcp_approval_request","arguments":"{}","name":"n",'
        '"server_label":"s"}'
    )
    shell = (
        '{"id":"s","type":"shell_call","call_id":"c","status":"completed",'
        '"action":{"commands":["ls"]},'
        '"environment":{"type":"container_reference","container_id":"k"}}'
    )
    found = read(f"{search},{approval},{shell}")
    assert parts_of(found) == [RawPart(API, search), RawPart(API, approval), RawPart(API, shell)]


def test_a_call_whose_output_came_along_is_the_providers() -> None:
    output = '{"id":"o","type":"function_call_output","call_id":"call_1","output":"x"}'
    found = answered(API, response(f"{CALL},{output}"))
    assert parts_of(found) == [RawPart(API, CALL), RawPart(API, output)]


def test_a_compaction_item_is_bound() -> None:
    item = '{"id":"cmp_1","type":"compaction","encrypted_content":"gA=="}'
    assert parts_of(read(item)) == [BoundPart("compaction", API, item)]


def test_an_incomplete_reply_is_paused_and_its_open_call_is_no_call() -> None:
    open_call = CALL.replace('"completed"', '"incomplete"').replace("1e2}", "1")
    found = read(f"{message('x')},{open_call}", "incomplete", "max_output_tokens")
    assert order_of(found) == ["[text incomplete]"]
    assert parts_of(found)[1] == IncompletePart("run", '{"n": 1')
    assert (found.stop_reason, found.paused) == ("max_output_tokens", True)


def test_an_open_call_without_a_status_is_known_by_its_arguments() -> None:
    bare = CALL.replace('"status":"completed",', "")
    cut = bare.replace("1e2}", "1")
    assert order_of(read(f"{bare},{cut}", "incomplete")) == ["call run", "[incomplete]"]
    assert order_of(read(f"{cut},{bare}", "incomplete")) == ["call run", "call run"]
    assert order_of(read(cut)) == ["call run"]


def test_a_reply_in_the_background_is_none_yet() -> None:
    found = running(API, response("", "queued"))
    assert (found.handle, found.status) == ("resp_1", 200)
    assert running(API, response("", "in_progress")).handle == "resp_1"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", "provider_error"),
        ("rate_limit_exceeded", "rate_limit"),
        ("invalid_prompt", "refused_content"),
        ("vector_store_timeout", "timeout"),
        ("invalid_image_format", "invalid_request"),
    ],
)
def test_a_failed_response_is_a_refusal(code: str, kind: str) -> None:
    body = response("", "failed").replace(
        '"error":null', f'"error":{{"code":"{code}","message":"It failed."}}'
    )
    found = refused(API, 200, body)
    assert (found.kind, found.message, found.status) == (kind, "It failed.", 200)
    assert refused(API, 200, response("", "cancelled")).kind == "provider_error"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ('{"status":"completed"}', "output"),
        (response("7"), "output 0"),
        (response('{"type":"function_call","call_id":"c","arguments":"{}"}'), "name"),
        (response('{"type":"local_shell_call","call_id":"c"}'), "action"),
    ],
)
def test_a_body_of_another_shape_is_malformed(body: str, place: str) -> None:
    found = refused(API, 200, body)
    assert found.kind == "malformed"
    assert place in found.message

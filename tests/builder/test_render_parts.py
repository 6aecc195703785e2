"""Parts of messages: media, parts of one API, empty texts, tools, calls of other kinds."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from sawlog.builder.packet import Entry
from sawlog.builder.profiles import profile_for
from sawlog.providers.strict import check
from sawlog.store.errors import ConfigError
from sawlog.store.text import BlobMissing
from tests.builder.entries import (
    APIS,
    PNG,
    body,
    call,
    entry,
    noted,
    rendered,
    rendering,
    result,
    says,
    tool,
    user,
)

NAMED = "sha256:" + "0" * 64
NOT_SHOWN = "This model cannot be shown it here."


def medium(role: str, type: str = "image/png", text: str = NAMED, **more: object) -> Entry:
    """A medium in a message of that role, by default an image that is at hand."""
    data = PNG if text == NAMED else None
    return entry(f"{role}/media", text, **({"name": type, "data": data, "first": False} | more))


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        (
            "anthropic",
            '{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBOR',
        ),
        ("openai-chat", '{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBOR'),
        (
            "openai-responses",
            '{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,iVBOR',
        ),
        ("deepseek-chat", NOT_SHOWN),
    ],
)
def test_an_image_of_the_user(api: str, expected: str) -> None:
    request = rendered(api, [user("look"), medium("user")])
    check(api, request.body)
    assert expected.encode() in request.body
    assert bool(request.notes) == (expected == NOT_SHOWN)


@pytest.mark.parametrize("api", APIS)
def test_an_image_in_a_result(api: str) -> None:
    entries = [
        user("go"),
        call("c", first=True),
        result("c", "here"),
        medium("result", call_id="c"),
    ]
    request = rendered(api, entries)
    check(api, request.body)
    shown = api in ("anthropic", "openai-responses")
    assert (b"iVBOR" in request.body) == shown
    assert noted(request) == ([] if shown else [(3, "placeholder medium")])


@pytest.mark.parametrize(
    ("type", "text", "anthropic", "chat", "responses"),
    [
        ("image/*", "https://example.org/a", "url", "image_url", "image_url"),
        ("image/*", "http://example.org/a", "", "image_url", "image_url"),
        ("image/png", "data:image/png;base64,iVBORw0KGgo=", "base64", "image_url", "image_url"),
        ("image", "file:file_1", "file_id", "", "file_id"),
        ("application/pdf", "https://example.org/a", "url", "", "file_url"),
        ("application/pdf", "file:file_1", "file_id", "file_id", "file_id"),
        ("application/pdf", "data:application/pdf;base64,JVBE", "base64", "file_data", "file_data"),
        ("video/mp4", "https://example.org/a", "", "", ""),
        ("image/tiff", "data:image/tiff;base64,SUkq", "", "", ""),
    ],
)
def test_media_by_reference(
    type: str, text: str, anthropic: str, chat: str, responses: str
) -> None:
    shown = {"anthropic": anthropic, "openai-chat": chat, "openai-responses": responses}
    for api, member in shown.items():
        request = rendered(api, [user("look"), medium("user", type, text)])
        check(api, request.body)
        assert (f'"{member}"'.encode() in request.body) or not member
        assert noted(request) == ([] if member else [(1, "placeholder medium")])
        assert (NOT_SHOWN.encode() in request.body) == (not member)


@pytest.mark.parametrize("data", ["%%%", "iVBORw0KGgo", "iVBORw0KGgo==", "=", "iVBO Rw0K", "ü"])
def test_a_data_url_that_is_no_base64_is_not_sent(data: str) -> None:
    one = medium("user", text=f"data:image/png;base64,{data}")
    assert noted(rendered("anthropic", [user("look"), one])) == [(1, "placeholder not_base64")]


def test_an_image_goes_out_as_what_it_is() -> None:
    for type, expected in (("image/jpeg", "media_type"), ("image/png", "")):
        request = rendered("anthropic", [user("look"), medium("user", type)])
        check("anthropic", request.body)
        assert b'"media_type":"image/png"' in request.body
        assert noted(request) == ([(1, f"repaired {expected}")] if expected else [])


def test_an_empty_image_is_not_sent() -> None:
    request = rendered("anthropic", [user("look"), medium("user", data=b"")])
    assert noted(request) == [(1, "placeholder medium")]


def test_a_medium_whose_bytes_are_missing_is_never_passed_over() -> None:
    """Case 61; where its model is not shown it anyway, its bytes are not wanted."""
    one = medium("user", data=None)
    with pytest.raises(BlobMissing) as error:
        rendering("anthropic").add([user("look"), one])
    assert error.value.digest == "0" * 64
    rendered("deepseek-chat", [user("look"), one])


def test_a_failed_result_with_an_image_says_that_it_failed() -> None:
    """The API takes text alone in a result that is marked as an error."""
    entries = [
        user("go"),
        call("c", first=True),
        result("c", "timeout", status="error"),
        medium("result", call_id="c", status="error"),
    ]
    request = rendered("anthropic", entries)
    check("anthropic", request.body)
    assert b'"content":[{"type":"text","text":"<sawlog:status>error<' in request.body
    assert b"is_error" not in request.body
    assert noted(request) == [(2, "repaired error_with_media")]


@pytest.mark.parametrize("status", ["error", "unknown", "not_started", "denied", "interrupted"])
def test_all_but_ok_is_an_error(status: str) -> None:
    entries = [user("go"), call("c", first=True), result("c", "hm", status=status)]
    assert b'"content":"hm","is_error":true}' in rendered("anthropic", entries).body
    entries[-1] = result("c", "hm")
    assert b"is_error" not in rendered("anthropic", entries).body


def test_an_erased_result_answers_the_next_call_in_order() -> None:
    entries = [
        user("go"),
        call("c1", first=True),
        call("c2"),
        entry("result", "[erased]", call_id=""),
        result("c2", "two"),
    ]
    for api in APIS:
        request = rendered(api, entries)
        check(api, request.body)
        assert not request.notes


# --- empty texts and ends ------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " \n", "\u2003\x1c\u3000"])
def test_anthropic_gets_no_blank_text(text: str) -> None:
    entries = [
        entry("system", text, section="system"),
        user(text),
        says(text),
        call("c"),
        result("c", text),
        says("a", first=True),
        says(text, first=False),
        user("b"),
    ]
    request = rendered("anthropic", entries)
    check("anthropic", request.body)
    assert b'"system"' not in request.body
    assert request.body.count(b"(empty)") == 2
    assert [at for at, why in noted(request) if why == "left_out empty"] == [0, 1, 2, 4, 6]


@pytest.mark.parametrize("api", APIS)
def test_a_reply_of_nothing_gets_a_text(api: str) -> None:
    raw = entry("assistant/raw", '{"type":"x"}', api="another")
    request = rendered(api, [user("go"), raw, user("more")])
    check(api, request.body)
    assert b"(empty)" in request.body
    assert noted(request) == [(1, "left_out other_provider"), (1, "placeholder empty")]


def test_anthropic_begins_and_ends_with_the_user() -> None:
    request = rendered("anthropic", [says("hello"), says("again", first=True)])
    check("anthropic", request.body)
    messages = body(request)["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant", "assistant", "user"]
    assert noted(request) == [(0, "added opening"), (1, "added closing")]
    # The closing text is of this request alone.
    grown = rendered("anthropic", [says("hello"), says("again", first=True), user("go")])
    assert noted(grown) == [(0, "added opening")]
    assert b"Please go on" not in grown.body


def test_a_paused_reply_goes_back_as_it_is() -> None:
    use = '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"q":"x"}}'
    entries = [
        user("go"),
        says("I search."),
        entry("assistant/raw", use, api="anthropic", first=False),
    ]
    request = rendered("anthropic", entries)
    check("anthropic", request.body)
    assert request.body.endswith(use.encode() + b"]}]}")
    assert not request.notes


def test_deepseek_gets_a_reply_with_calls_whole() -> None:
    """A reply of calls alone behind another reply would look like one that was split."""
    entries = [user("go"), says("so"), call("c", first=True, step=2), result("c")]
    request = rendered("deepseek-chat", entries)
    check("deepseek-chat", request.body)
    assert noted(request) == [(2, "placeholder split_turn")]


def test_chat_joins_the_texts_of_a_reply() -> None:
    parts = [says("a"), says("b", first=False), call("c"), says("d", first=False)]
    for api in ("openai-chat", "deepseek-chat"):
        request = rendered(api, [user("go"), *parts, result("c")])
        check(api, request.body)
        assert b'"content":"ab\\n\\nd"' in request.body


def test_user_texts_are_a_string_or_parts() -> None:
    parts = [user("a"), entry("user", "b", first=False)]
    assert (
        b'[{"type":"text","text":"a"},{"type":"text","text":"b"}]'
        in rendered("openai-chat", parts).body
    )
    assert b'"content":"a\\n\\nb"' in rendered("deepseek-chat", parts).body
    assert b'"content":"a"' in rendered("openai-chat", parts[:1]).body


# --- parts of one API ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "role", "source", "note"),
    [
        ("anthropic", "user", '{"type":"document","source":{}}', ""),
        ("anthropic", "user", '{"type":"tool_use"}', "left_out no_place"),
        ("anthropic", "assistant", '{"type":"mcp_tool_use","id":"m_1"}', ""),
        ("anthropic", "assistant", '{"type":"web_search_tool_result","tool_use_id":"m_9"}',
         "left_out partner_absent"),
        ("anthropic", "assistant", '{"type":"dream"}', "left_out no_place"),
        ("anthropic", "assistant", '{"type":"mcp_tool_use"', "left_out not_json"),
        ("anthropic", "assistant", '{"type":"mcp_tool_use","id":"\\ud800"}', "left_out not_json"),
        ("openai-chat", "assistant", '{"type":"refusal","refusal":"no"}', ""),
        ("openai-chat", "assistant", '{"type":"audio"}', "left_out no_place"),
        ("openai-chat", "user", '{"type":"input_audio","input_audio":{}}', ""),
        ("openai-responses", "assistant", '{"type":"web_search_call","status":"completed"}', ""),
        ("openai-responses", "assistant", '{"type":"ghost_snapshot"}', "left_out no_place"),
        ("openai-responses", "assistant", '{"type":"function_call"}', "left_out no_place"),
        ("deepseek-chat", "user", '{"type":"text","text":"x"}', "left_out no_place"),
    ],
)  # fmt: skip
def test_parts_of_an_api_go_back_as_received(api: str, role: str, source: str, note: str) -> None:
    raw = entry(f"{role}/raw", source, api=api, first=False)
    first = user("so") if role == "user" else says("so")
    request = rendered(api, [user("go"), first, raw, user("more")])
    check(api, request.body)
    assert (source.encode() in request.body) == (not note)
    assert noted(request) == ([(2, note)] if note else [])


@pytest.mark.parametrize("api", APIS)
def test_a_part_in_a_result_is_shown_as_text_elsewhere(api: str) -> None:
    source = '{"type":"tool_reference","tool_name":"run"}'
    raw = entry("result/raw", source, api="anthropic", call_id="c")
    request = rendered(api, [user("go"), call("c", first=True), raw])
    check(api, request.body)
    if api == "anthropic":
        assert b'"content":[' + source.encode() + b"]" in request.body
    else:
        assert json.dumps(source).encode() in request.body
        assert noted(request) == [(2, "as_text raw_part")]


# --- tools and calls of other kinds --------------------------------------------------------------


def test_a_tool_in_the_form_of_each_api() -> None:
    one = tool("run", description="Runs", parameters={"type": "object", "x": 1}, strict=True)
    shapes: dict[str, Mapping[str, object]] = {
        "anthropic": {"name": "run", "description": "Runs"}
        | {"input_schema": {"type": "object", "x": 1}},
        "openai-responses": {"type": "function", "name": "run", "description": "Runs"}
        | {"parameters": {"type": "object", "x": 1}, "strict": True},
    }
    function: dict[str, object] = {"name": "run", "description": "Runs"}
    function |= {"parameters": {"type": "object", "x": 1}, "strict": True}
    shapes["openai-chat"] = shapes["deepseek-chat"] = {"type": "function", "function": function}
    for api, shape in shapes.items():
        assert body(rendered(api, [one, user("go")]))["tools"] == [shape]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "array"}, {"type": "object", "properties": {}}),
        ("none", {"type": "object", "properties": {}}),
        ({"anyOf": [{"required": ["a"]}]}, {"type": "object", "anyOf": [{"required": ["a"]}]}),
    ],
)
def test_the_input_of_a_tool_is_an_object(schema: object, expected: object) -> None:
    for api in APIS:
        request = rendered(api, [tool("run", parameters=schema), user("go")])
        check(api, request.body)
        assert json.dumps(expected).replace(" ", "") in request.body.decode().replace(" ", "")
        assert noted(request) == [(0, "repaired schema")]


def test_tools_that_a_provider_runs_go_to_it_alone() -> None:
    source = '{"type":"web_search_20250305","name":"web_search"}'
    one = entry("tool", source, name="web_search", api="anthropic")
    for api in APIS:
        request = rendered(api, [one, user("go")])
        check(api, request.body)
        assert (source.encode() in request.body) == (api == "anthropic")
        assert noted(request) == ([] if api == "anthropic" else [(0, "left_out other_provider")])


def test_a_tool_is_offered_once() -> None:
    request = rendered("anthropic", [tool("run"), tool("run", cache=1), user("go")])
    check("anthropic", request.body)
    assert noted(request) == [(1, "left_out tool_member"), (1, "left_out duplicate_tool")]


def test_a_tool_without_a_source_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'run' is no JSON object"):
        rendered("anthropic", [entry("tool", "run()", name="run")])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("custom", [True, False])
def test_free_form_calls_go_out_as_such_or_in_an_object(api: str, custom: bool) -> None:
    profile = replace(profile_for(api, "")[0], name="mine", custom=custom)
    grammar = {"type": "text"}
    entries = [
        entry("tool", json.dumps({"type": "custom", "name": "patch", "format": grammar})),
        user("go"),
        call("c", "patch", "*** Begin", call_kind="text", first=True),
        result("c"),
    ]
    if custom and api in ("anthropic", "deepseek-chat"):
        with pytest.raises(ConfigError, match="has no free-form calls"):
            rendered(api, entries, profile=profile)
        return
    request = rendered(api, entries, profile=profile)
    check(api, request.body)
    native = custom
    assert (b'"type":"custom' in request.body) == native
    assert noted(request) == (
        [] if native else [(0, "wrapped free_form"), (2, "wrapped free_form")]
    )
    if native:
        assert b'"input":"*** Begin"' in request.body
        assert b'"format":{"type": "text"}' in request.body
    elif api == "anthropic":
        assert b'"input":{"raw":"*** Begin"}' in request.body
        assert b'"properties":{"raw":{"type":"string"}},"required":["raw"]' in request.body


def test_a_namespace_is_a_member_or_part_of_the_name() -> None:
    entries = [user("go"), call("c", "read", namespace="mcp__fs", first=True), result("c")]
    for api in APIS:
        request = rendered(api, entries)
        check(api, request.body)
        if api == "openai-responses":
            assert b'"name":"read","namespace":"mcp__fs"' in request.body
        else:
            assert b'"name":"mcp__fs__read"' in request.body


def test_a_tool_search_is_an_ordinary_call() -> None:
    entries = [
        user("go"),
        call("c", "tool_search", '{"query":"x"}', call_kind="search", first=True),
        result("c", "[]"),
    ]
    for api in APIS:
        request = rendered(api, entries)
        check(api, request.body)
        assert b"tool_search_call" not in request.body

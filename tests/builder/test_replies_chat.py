"""Replies of Chat Completions: OpenAI's, DeepSeek's and of those who follow them."""

from __future__ import annotations

import json

import pytest
from openai.types.chat import ChatCompletion

from sawlog.builder.replies import Answered
from sawlog.store.content import BoundPart, IncompletePart, RawPart, TextPart
from tests.builder.reading import answered, assert_exact, order_of, parts_of, refused

OPENAI, DEEPSEEK = "openai-chat", "deepseek-chat"
USAGE = '{"prompt_tokens":9, "completion_tokens":12,"total_tokens":21}'


def completion(message: str, stop: str = "stop") -> str:
    """A body around the fields of a message."""
    body = (
        '{"id":"chatcmpl-1","object":"chat.completion","created":1764000000,"model":"gpt-5.5",'
        f'"choices":[{{"index":0,"message":{{"role":"assistant",{message}}},"logprobs":null,'
        f'"finish_reason":"{stop}"}}],\n"usage":{USAGE},"system_fingerprint":"fp_1"}}'
    )
    return body


def official(message: str, stop: str = "stop") -> str:
    """Such a body, which the official client takes for a completion, strictly."""
    body = completion(message, stop)
    ChatCompletion.model_validate(json.loads(body), strict=True)
    return body


def read(message: str, stop: str = "stop", api: str = OPENAI) -> Answered:
    """The reply, its sources checked to be exact."""
    body = completion(message, stop)
    found = answered(api, body)
    assert_exact(found, body)
    return found


def function(arguments: str, more: str = "") -> str:
    """A call, its arguments as text."""
    text = json.dumps(arguments)
    return (
        f'{{"id":"call_1","type":"function",{more}"function":{{"name":"run","arguments":{text}}}}}'
    )


def test_text_and_calls_keep_their_order_and_their_exact_arguments() -> None:
    arguments = '{ "cmd":"ls \\"a\\"",\n "n":-0.0 }'
    calls = f"{function(arguments)},{function('{}')}"
    body = official(f'"content":"Let me see.","refusal":null,"tool_calls":[{calls}]', "tool_calls")
    found = answered(OPENAI, body, {"X-Request-ID": "req_9", "openai-organization": "acme"})
    assert_exact(found, body)
    assert order_of(found) == ["[text]", "call run", "call run"]
    assert found.calls[0].arguments == arguments
    assert (found.calls[0].call_id, found.calls[0].kind) == ("call_1", "json")
    assert (found.request_id, found.account) == ("req_9", "acme")
    assert (found.response_id, found.model) == ("chatcmpl-1", "gpt-5.5")
    assert (found.stop_reason, found.usage) == ("tool_calls", USAGE)
    assert found.text == "Let me see."


@pytest.mark.parametrize("content", ["null", '""'])
def test_no_content_is_no_part(content: str) -> None:
    found = read(f'"content":{content},"tool_calls":[{function("{}")}]', "tool_calls")
    assert order_of(found) == ["call run"]
    assert read(f'"content":{content}').parts_and_calls == ()


def test_a_custom_tool_gets_free_text() -> None:
    call = '{"id":"call_2","type":"custom","custom":{"name":"patch","input":"*** Begin\\n"}}'
    body = official(f'"content":null,"refusal":null,"tool_calls":[{call}]', "tool_calls")
    found = answered(OPENAI, body)
    assert (found.calls[0].kind, found.calls[0].arguments) == ("text", "*** Begin\n")
    cut = read(f'"content":null,"tool_calls":[{call}]', "length")
    assert parts_of(cut) == [IncompletePart("patch", "*** Begin\n")]


@pytest.mark.parametrize(
    "arguments", ['{"path":"a.p', '{"path":"a.py"', "", '{"a":[1,2', '{"a":"\\']
)
def test_a_last_call_whose_arguments_do_not_end_is_no_call(arguments: str) -> None:
    first = function('{"path":"whole"')
    found = read(f'"content":"hm","tool_calls":[{first},{function(arguments)}]', "length")
    assert order_of(found) == ["[text]", "call run", "[incomplete]"]
    assert parts_of(found)[1] == IncompletePart("run", arguments)


@pytest.mark.parametrize("arguments", ["{}", '{"a":"}"}', "{'a':1}", '{"a":1}}', "null"])
def test_arguments_that_end_stay_a_call_also_when_they_are_no_json(arguments: str) -> None:
    found = read(f'"content":null,"tool_calls":[{function(arguments)}]', "length")
    assert found.calls[0].arguments == arguments


@pytest.mark.parametrize("arguments", ['{"path":"a.p', "", "run it"])
def test_a_call_of_a_reply_that_ended_is_a_call_whatever_it_says(arguments: str) -> None:
    found = read(f'"content":null,"tool_calls":[{function(arguments)}]', "tool_calls")
    assert found.calls[0].arguments == arguments


def test_arguments_given_as_an_object_or_not_at_all() -> None:
    """Servers that follow the API send what it does not know."""
    as_object = '{"id":"c","function":{"name":"run","arguments":{"a": 1.0}}}'
    as_null = '{"id":"d","function":{"name":"run","arguments":null}}'
    found = read(f'"content":null,"tool_calls":[{as_object},{as_null}]', "tool_calls")
    assert [call.arguments for call in found.calls] == ['{"a": 1.0}', ""]


@pytest.mark.parametrize("api", [OPENAI, DEEPSEEK])
@pytest.mark.parametrize(("source", "text"), [('"Caf\\u00e9."', "Café."), ('""', "")])
def test_reasoning_content_is_the_exact_string(api: str, source: str, text: str) -> None:
    message = f'"content":"","reasoning_content":{source},"tool_calls":[{function("{}")}]'
    found = read(message, "tool_calls", api)
    assert order_of(found) == ["[reasoning_content]", "call run"]
    assert parts_of(found) == [BoundPart("reasoning_content", api, source, text)]
    assert found.text == ""


def test_no_reasoning_content_is_no_part() -> None:
    assert read('"content":"x","reasoning_content":null', api=DEEPSEEK).text == "x"
    assert order_of(read('"content":"x","reasoning_content":null')) == ["[text]"]


def test_other_fields_of_a_message_stand_behind_it() -> None:
    details = '[{"type":"reasoning.encrypted","data":"gA=="}]'
    audio = '{"id":"audio_1","data":"UklGRg==","expires_at":9,"transcript":"Hi."}'
    found = read(f'"content":"x","reasoning":"hm","reasoning_details":{details},"audio":{audio}')
    assert parts_of(found) == [
        TextPart("x"),
        BoundPart("message.reasoning", OPENAI, '"hm"', "hm"),
        BoundPart("message.reasoning_details", OPENAI, details),
        BoundPart("message.audio", OPENAI, audio, "Hi."),
    ]
    unset = '"content":"x","audio":null,"prefix":false,"images":[],"function_call":null'
    assert order_of(read(f'{unset},"annotations":[{{"type":"url_citation"}}]')) == ["[text]"]


def test_a_thought_signature_stands_behind_its_call() -> None:
    extra = '{"google":{"thought_signature":"CsQ="}}'
    call = function("{}", f'"extra_content":{extra},')
    found = read(f'"content":null,"tool_calls":[{call},{function("{}")}]', "tool_calls")
    assert order_of(found) == ["call run", "[call.extra_content]", "call run"]
    assert parts_of(found) == [BoundPart("call.extra_content", OPENAI, extra)]


def test_a_call_of_an_odd_type_keeps_the_type() -> None:
    call = function("{}").replace('"type":"function"', '"type":"builtin_function"')
    found = read(f'"content":null,"tool_calls":[{call}]', "tool_calls")
    assert order_of(found) == ["call run", "[call.type]"]


def test_a_refusal_is_kept_and_said() -> None:
    body = official('"content":null,"refusal":"I can\\u2019t."')
    found = answered(OPENAI, body)
    assert parts_of(found) == [RawPart(OPENAI, '{"type":"refusal","refusal":"I can\\u2019t."}')]
    assert (found.refusal, found.text) == ("I can’t.", "")
    assert read('"content":"half"', "content_filter").refusal == "content_filter"


def test_content_may_be_a_list() -> None:
    thinking = '{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}'
    refusal = '{"type":"refusal","refusal":"no"}'
    texts = '{"type":"text","text":"a"},{"type":"text","text":"b","x":[1]}'
    found = read(f'"content":[{thinking},{texts},{refusal}]')
    assert parts_of(found) == [
        RawPart(OPENAI, thinking),
        TextPart("a"),
        TextPart("b"),
        BoundPart("text.x", OPENAI, "[1]"),
        RawPart(OPENAI, refusal),
    ]
    assert (found.text, found.refusal) == ("ab", "no")


def test_of_several_choices_the_first_is_the_reply() -> None:
    body = (
        '{"choices":[{"message":{"content":"a"},"finish_reason":"stop"},'
        '{"message":{"content":"b"},"finish_reason":"stop"}]}'
    )
    assert answered(OPENAI, body).text == "a"


def test_deepseek_sends_blank_lines_while_it_works() -> None:
    assert answered(DEEPSEEK, "\n\n\n" + completion('"content":"x"')).text == "x"


def test_half_an_answer_is_a_refusal() -> None:
    body = completion('"content":"The fix is to"', "insufficient_system_resource")
    assert refused(DEEPSEEK, 200, body).kind == "overload"
    gateway = '{"choices":[{"message":{"content":"x"},"error":{"code":502,"message":"gone"}}]}'
    found = refused(OPENAI, 200, gateway)
    assert (found.kind, found.status, found.message) == ("provider_error", 200, "gone")
    assert refused(OPENAI, 200, completion('"content":"x"', "error")).kind == "provider_error"


@pytest.mark.parametrize(
    "body",
    ['{"choices":[]}', '{"choices":[{"index":0}]}', '{"choices":{}}', '{"output":[]}', "{}"],
)
def test_a_body_of_another_shape_is_malformed(body: str) -> None:
    found = refused(OPENAI, 200, body)
    assert (found.kind, found.body) == ("malformed", body)


def test_a_call_without_a_name_is_named() -> None:
    body = completion('"content":null,"tool_calls":[{"id":"c","type":"function"}]')
    found = refused(OPENAI, 200, body)
    assert found.kind == "malformed"
    assert "call 0" in found.message

"""Chat Completions, OpenAI's and DeepSeek's: each refusal and a legal request beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sawlog.providers.strict import Refusal, check
from tests.doors.provoke import Case, Clients, always_ok, provoke

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "Fix the test."}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)

REPLIED: Json = {"refusal": None, "annotations": []}  # in every reply, so it comes back


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with always_ok() as all_three:
        yield all_three


def call(
    id: object = "c1", name: object = "read", arguments: object = "{}", **more: object
) -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}} | more


def asks(*calls: Json, **more: object) -> Json:
    message: Json = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    return message | more


def result(id: str = "c1", content: object = "ok") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": content}


def chat(*messages: object, **more: object) -> Json:
    return {"model": "gpt-6", "messages": [USER, *messages]} | more


def says(text: str) -> Json:
    return {"role": "assistant", "content": text}


def image(url: str) -> Json:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


def tools(name: str) -> list[Json]:
    return [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}]


UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: "
)
NOT_JSON = r"We could not parse the JSON body of your request\. .*"
OPENAI = [
    Case(
        "a call without a result at the end",
        chat(asks(call())),
        UNANSWERED + "c1",
        chat(asks(call()), result()),
        "messages.[2].role",
    ),
    Case(
        "one of two parallel calls without a result",
        chat(asks(call("a"), call("b")), result("a"), USER),
        UNANSWERED + "b",
        chat(asks(call("a"), call("b")), result("b"), result("a"), USER),
        "messages.[3].role",
    ),
    Case(
        "a message between call and result",
        chat(asks(call()), USER, result()),
        UNANSWERED + "c1",
        chat(asks(call()), result(), USER),
        "messages.[2].role",
    ),
    Case(
        "parallel calls in two messages",
        chat(asks(call("a")), asks(call("b")), result("a"), result("b")),
        UNANSWERED + "a",
        chat(asks(call("a")), result("a"), asks(call("b")), result("b")),
        "messages.[2].role",
    ),
    Case(
        "a result without a call",
        chat(result()),
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
        r"with 'tool_calls'\.",
        chat(asks(call()), result()),
        "messages.[1].role",
    ),
    Case(
        "a result whose call is further back",
        chat(asks(call()), result(), USER, result()),
        r"Invalid parameter: messages with role 'tool' must .*",
        chat(asks(call()), result(), USER, asks(call()), result()),
        "messages.[4].role",
    ),
    Case(
        "a result of another call",
        chat(asks(call()), result("c2"), result()),
        "Invalid parameter: 'tool_call_id' of 'c2' not found in 'tool_calls' of previous message.",
        chat(asks(call(), call("c2")), result("c2"), result()),
        "messages.[2].tool_call_id",
    ),
    Case(
        "a second result",
        chat(asks(call()), result(), result()),
        r"Invalid parameter: Duplicate value for 'tool_call_id' of 'c1', in messages\[2\] and "
        r"messages\[3\]\.",
        chat(asks(call()), result(), says("read")),
        "messages.[3].tool_call_id",
    ),
    Case(
        "one id for two calls of a message",
        chat(asks(call(), call()), result()),
        r"Invalid parameter: Duplicate value for 'id' of 'c1' in messages\[1\]\.tool_calls\.",
        chat(asks(call()), result(), asks(call()), result()),
        "messages[1].tool_calls[1].id",
    ),
    Case(
        "an id above 40 characters",
        chat(asks(call("i" * 41)), result("i" * 41)),
        r"Invalid 'messages\[1\]\.tool_calls\[0\]\.id': string too long\. Expected a string with "
        r"maximum length 40, but got a string with length 41 instead\.",
        chat(asks(call("i" * 40)), result("i" * 40)),
        "messages[1].tool_calls[0].id",
        "string_above_max_length",
    ),
    Case(
        "arguments that are no string",
        chat(asks(call(arguments={"path": "a"})), result()),
        r"Invalid type for 'messages\[1\]\.tool_calls\[0\]\.function\.arguments': expected a "
        r"string, but got an object instead\.",
        chat(asks(call(arguments="{not json")), result()),
        "messages[1].tool_calls[0].function.arguments",
        "invalid_type",
    ),
    Case(
        "a called name with a dot",
        chat(asks(call(name="fs.read")), result()),
        r"Invalid 'messages\[1\]\.tool_calls\[0\]\.function\.name': string does not match pattern"
        r"\. Expected a string that matches the pattern '\^\[a-zA-Z0-9_-\]\+\$'\.",
        chat(asks(call(name="fs_read-2")), result()),
        "messages[1].tool_calls[0].function.name",
        "invalid_value",
    ),
    Case(
        "a tool's name above 64 characters",
        chat(tools=tools("n" * 65)),
        r"Invalid 'tools\[0\]\.function\.name': string too long\. .*",
        chat(tools=tools("n" * 64)),
        "tools[0].function.name",
        "string_above_max_length",
    ),
    Case(
        "no calls in the list of calls",
        chat(asks(content="hm")),
        r"Invalid 'messages\[1\]\.tool_calls': empty array\. .*",
        chat(says("hm")),
        "messages[1].tool_calls",
        "empty_array",
    ),
    Case(
        "a field that calls do not have",
        chat(asks(call(index=0)), result()),
        r"Unknown parameter: 'messages\[1\]\.tool_calls\[0\]\.index'\.",
        chat(asks(call()), result()),
        "messages[1].tool_calls[0].index",
        "unknown_parameter",
    ),
    Case(
        "thinking of another provider",
        chat(says("hm") | {"reasoning_content": "why"}),
        r"Unknown parameter: 'messages\[1\]\.reasoning_content'\.",
        chat(says("hm") | REPLIED),
        "messages[1].reasoning_content",
        "unknown_parameter",
    ),
    Case(
        "no messages",
        {"model": "gpt-6", "messages": []},
        r"Invalid 'messages': empty array\. .*",
        chat(),
        "messages",
        "empty_array",
    ),
    Case(
        "messages missing",
        {"model": "gpt-6"},
        r"Missing required parameter: 'messages'\.",
        chat(),
        "messages",
        "missing_required_parameter",
    ),
    Case("no model", {"messages": [USER]}, "you must provide a model parameter", chat()),
    Case(
        "an unknown role",
        chat({"role": "harness", "content": "x"}),
        "Invalid value: 'harness'. Supported values are: 'system', 'assistant', 'user', "
        "'function', 'tool', and 'developer'.",
        chat({"role": "developer", "content": "x"}),
        "messages[1].role",
        "invalid_value",
    ),
    Case(
        "a system message for a model that has none",
        chat({"role": "system", "content": "x"}, model="o1-mini"),
        r"Unsupported value: 'messages\[1\]\.role' does not support 'system' with this model\.",
        chat({"role": "system", "content": "x"}, model="o3"),
        "messages[1].role",
        "unsupported_value",
    ),
    Case(
        "no content and no calls",
        chat(says("x") | {"content": None}),
        r"Invalid value for 'content': expected a string, got null\.",
        chat(says("")),
        "messages.[1].content",
    ),
    Case(
        "a part of another API",
        chat({"role": "user", "content": [{"type": "input_text", "text": "x"}]}),
        "Invalid value: 'input_text'. Supported values are: 'text', 'image_url', 'input_audio', "
        "and 'file'.",
        chat({"role": "user", "content": [{"type": "text", "text": "x"}]}),
        "messages[1].content[0].type",
        "invalid_value",
    ),
    Case(
        "an image by path",
        chat(image("file:///a.png")),
        r"Invalid 'messages\[1\]\.content\[0\]\.image_url\.url'\. Expected a valid URL, but got a "
        r"value with an invalid format\.",
        chat(image("https://example.org/a.png")),
        "messages[1].content[0].image_url.url",
        "invalid_value",
    ),
    Case(
        "an image of an unknown type",
        chat(image(f"data:image/tiff;base64,{PIXEL}")),
        r"Invalid 'messages.*\. Expected a base64-encoded data URL .*unsupported MIME type "
        r"'image/tiff'\.",
        chat(image(f"data:image/png;base64,{PIXEL}")),
        "messages[1].content[0].image_url.url",
        "invalid_value",
    ),
    Case(
        "an image in a tool message",
        chat(asks(call()), result(content=image("https://example.org/a.png")["content"])),
        r"Invalid value: 'image_url'\. Supported values are: 'text'\.",
        chat(asks(call()), result(content=[{"type": "text", "text": "x"}])),
        "messages[2].content[0].type",
        "invalid_value",
    ),
    Case("no JSON", b'{"model": "gpt-6", ', NOT_JSON, chat()),
    Case("NaN", b'{"model":"m","messages":[],"top_p":NaN}', NOT_JSON, chat(top_p=0.5)),
    Case(
        "a lone surrogate",
        b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
        NOT_JSON,
        b'{"model":"m","messages":[{"role":"user","content":"\\ud83d\\ude00 \\\\ud83d"}]}',
    ),
    Case("bytes that are no UTF-8", b'{"model":"\xff"}', NOT_JSON, chat(model="ü")),
    Case("nested too deeply", b"[" * 100_000, NOT_JSON, chat()),
]

SERDE = "Failed to deserialize the JSON body into the target type: "
INSUFFICIENT = (
    r"An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    r"'tool_call_id'\. \(insufficient tool messages following tool_calls message\)"
)
ORPHAN = "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"


def thinks(*calls: Json, **more: object) -> Json:
    return asks(*calls, reasoning_content="why") | more


DEEPSEEK = [
    Case(
        "a call without a result",
        chat(thinks(call())),
        INSUFFICIENT,
        chat(thinks(call()), result()),
    ),
    Case(
        "text between call and result",
        chat(thinks(call()), says("now"), result()),
        INSUFFICIENT,
        chat(thinks(call(), content="now"), result()),
    ),
    Case(
        "text between parallel calls",
        chat(thinks(call("a")), says("and"), thinks(call("b")), result("a"), result("b")),
        INSUFFICIENT,
        chat(thinks(call("a"), call("b"), content="and"), result("a"), result("b")),
    ),
    Case(
        "text before the calls in a message of its own",
        chat(says("I read it."), thinks(call()), result()),
        ORPHAN,
        chat(thinks(call(), content="I read it."), result()),
    ),
    Case("a result without a call", chat(result()), ORPHAN, chat(thinks(call()), result())),
    Case(
        "a second result",
        chat(thinks(call()), result(), result()),
        "Duplicate value for 'tool_call_id' of 'c1' in message",
        chat(thinks(call()), result()),
    ),
    Case(
        "calls without their reasoning",
        chat(asks(call()), result()),
        r"The `reasoning_content` in the thinking mode must be passed back to the API\.",
        chat(thinks(call()) | {"reasoning_content": ""}, result()),
    ),
    Case(
        "calls of an earlier turn without their reasoning",
        chat(asks(call()), result(), says("done"), USER),
        r"The `reasoning_content` in the thinking mode .*",
        chat(asks(call()), result(), says("done"), USER, thinking={"type": "disabled"}),
    ),
    Case(
        "a developer message",
        chat({"role": "developer", "content": "x"}),
        SERDE + r"messages\[1\]\.role: unknown variant `developer`, expected one of `system`, "
        "`user`, `assistant`, `tool`, `latest_reminder`",
        chat({"role": "system", "content": "x"}),
    ),
    Case(
        "an image",
        chat(image("https://example.org/a.png")),
        SERDE + r"messages\[1\]: unknown variant `image_url`, expected `text`",
        chat({"role": "user", "content": [{"type": "text", "text": "x"}]}),
    ),
    Case(
        "arguments that are no string",
        chat(thinks(call(arguments={})), result()),
        SERDE + r"messages\[1\]\.tool_calls\[0\]\.function\.arguments: invalid type: map, "
        "expected a string",
        chat(thinks(call(arguments="no json")), result()),
    ),
    Case(
        "a tool's name with a space",
        chat(tools=tools("read file")),
        r"Invalid 'tools\[0\]\.function\.name': string does not match pattern\. .*",
        chat(tools=tools("read_file")),
    ),
    Case("no messages", {"model": "m", "messages": []}, "Empty input messages", chat()),
    Case("no model", {"messages": [USER]}, SERDE + "missing field `model`", chat()),
    Case(
        "a high surrogate with nothing behind it",
        b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
        "Failed to parse the request body as JSON: unexpected end of hex escape at line 1 column "
        "52",
        b'{"model":"m","messages":[{"role":"user","content":"\\ud83d\\ude00"}]}',
    ),
    Case(
        "a high surrogate with another one behind it",
        b'{"model":"m","messages":[{"role":"user","content":"\\ud83d\\ud83d"}]}',
        "Failed to parse the request body as JSON: lone leading surrogate in hex escape .*",
        b'{"model":"m","messages":[{"role":"user","content":"\\\\ud83d\\\\ud83d"}]}',
    ),
]


@pytest.mark.parametrize("case", OPENAI, ids=lambda case: case.name)
def test_openai_refuses(case: Case, clients: Clients) -> None:
    provoke(clients, "openai-chat", case)


@pytest.mark.parametrize("case", DEEPSEEK, ids=lambda case: case.name)
def test_deepseek_refuses(case: Case, clients: Clients) -> None:
    provoke(clients, "deepseek-chat", case)


def test_an_unknown_api_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="unknown API 'gemini'; one of anthropic, "):
        check("gemini", b"{}")


def test_a_refusal_reads_as_one_line() -> None:
    with pytest.raises(Refusal) as caught:
        check("openai-chat", b'{"model": "m"}')
    assert str(caught.value) == (
        "400 invalid_request_error: Missing required parameter: 'messages'. (param messages)"
    )

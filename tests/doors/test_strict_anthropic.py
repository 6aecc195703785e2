"""The Messages API: each refusal and a legal request beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sawlog.providers.strict import Refusal, check
from tests.doors.provoke import Case, Clients, always_ok, as_bytes, provoke

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "Fix the test."}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
MARK: Json = {"cache_control": {"type": "ephemeral"}}


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with always_ok() as all_three:
        yield all_three


def text(value: str = "ok", **more: object) -> Json:
    return {"type": "text", "text": value} | more


def use(id: str = "c1", name: str = "read", input: object = None, **more: object) -> Json:
    block: Json = {"type": "tool_use", "id": id, "name": name, "input": input or {}}
    return block | more


def result(id: str = "c1", content: object = "ok", **more: object) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content} | more


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def model(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def system(value: str) -> Json:
    return {"role": "system", "content": value}


def ask(*messages: object, **more: object) -> Json:
    return {"model": "claude-opus-5-5", "max_tokens": 100, "messages": [USER, *messages]} | more


def image(**source: str) -> Json:
    return user({"type": "image", "source": source})


def tool(name: str = "read", **more: object) -> Json:
    return {"name": name, "input_schema": {"type": "object"}} | more


SEARCH: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}

UNANSWERED = (
    r"messages\.1: `tool_use` ids were found without `tool_result` blocks immediately after: {}\. "
    r"Each `tool_use` block must have a corresponding `tool_result` block in the next message\."
)
ORPHAN = (
    r"messages\.{}: unexpected `tool_use_id` found in `tool_result` blocks: {}\. Each "
    r"`tool_result` block must have a corresponding `tool_use` block in the previous message\."
)
PLACE = r"messages\.1\.content\.0\."
CASES = [
    Case(
        "a call without a result",
        ask(model(use()), USER),
        UNANSWERED.format("c1"),
        ask(model(use()), user(result())),
    ),
    Case(
        "a call at the end",
        ask(model(use())),
        UNANSWERED.format("c1"),
        ask(model(use()), user(result()), USER),
    ),
    Case(
        "one of two parallel calls without a result",
        ask(model(use("a"), use("b")), user(result("b"))),
        UNANSWERED.format("a"),
        ask(model(use("a"), text(), use("b")), user(result("b"), result("a"), text())),
    ),
    Case(
        "text before the result",
        ask(model(use()), user(text(), result())),
        UNANSWERED.format("c1"),
        ask(model(use()), user(result(), text())),
    ),
    Case(
        "text before the result in a message of its own",
        ask(model(use()), USER, user(result())),
        UNANSWERED.format("c1"),
        ask(model(use("a"), use("b")), user(result("a")), user(result("b")), USER),
    ),
    Case(
        "another assistant message before the result",
        ask(model(use()), model(text()), user(result())),
        UNANSWERED.format("c1"),
        ask(model(text()), model(use()), user(result())),
    ),
    Case(
        "a result without a call",
        ask(user(result())),
        ORPHAN.format(r"1\.content\.0", "c1"),
        ask(model(use()), user(result())),
    ),
    Case(
        "a result whose call is further back",
        ask(model(use()), user(result()), model(text()), user(result())),
        ORPHAN.format(r"4\.content\.0", "c1"),
        ask(model(use()), user(result()), model(use("c2")), user(result("c2"))),
    ),
    Case(
        "a second result",
        ask(model(use()), user(result(), result())),
        r"messages\.2\.content\.1: each tool_use must have a single result\. Found multiple "
        r"`tool_result` blocks with id: c1",
        ask(model(use()), user(result(content=[text("a"), text("b")]))),
    ),
    Case(
        "one id for two calls of a request",
        ask(model(use()), user(result()), model(use()), user(result())),
        r"messages\.3\.content\.0: `tool_use` ids must be unique",
        ask(model(use()), user(result()), model(use("c2")), user(result("c2"))),
    ),
    Case(
        "a provider-run call answered by the client",
        ask(model(SEARCH, text()), user(result("srvtoolu_1"))),
        ORPHAN.format(r"2\.content\.0", "srvtoolu_1"),
        ask(model(SEARCH, FOUND, text()), USER),
    ),
    Case(
        "a provider's result without its call",
        ask(model(FOUND, text()), USER),
        r"messages\.1\.content\.0: unexpected `tool_use_id` found in `web_search_tool_result` "
        r"blocks: srvtoolu_1\. Each `web_search_tool_result` block must have a corresponding "
        r"`server_tool_use` block before it\.",
        ask(model(SEARCH), model(FOUND, text()), USER),
    ),
    Case(
        "an assistant message at the end",
        ask(model(text("The cause is"))),
        r"This model does not support assistant message prefill\. The conversation must end with "
        r"a user message\.",
        ask(model(text("searching"), SEARCH)),  # a paused reply is continued so
    ),
    Case(
        "a call's id with a pipe",
        ask(model(use("call_1|fc_1")), user(result("call_1|fc_1"))),
        PLACE + r"tool_use\.id: String should match pattern '\^\[a-zA-Z0-9_-\]\+\$'",
        ask(model(use("call_1-fc_1")), user(result("call_1-fc_1"))),
    ),
    Case(
        "input that is no object",
        ask(model(use(input="{}")), user(result())),
        PLACE + r"tool_use\.input: Input should be a valid dictionary",
        ask(model(use(input={"raw": "{}"})), user(result())),
    ),
    Case(
        "a called name with a dot",
        ask(model(use(name="fs.read")), user(result())),
        PLACE + r"tool_use\.name: String should match pattern '\^\[a-zA-Z0-9_-\]\{1,128\}\$'",
        ask(model(use(name="n" * 128)), user(result())),
    ),
    Case(
        "a tool's name above 128 characters",
        ask(tools=[tool("n" * 129)]),
        r"tools\.0\.custom\.name: String should match pattern '\^\[a-zA-Z0-9_-\]\{1,128\}\$'",
        ask(tools=[tool("n" * 128)]),
    ),
    Case(
        "two tools of one name",
        ask(tools=[tool(), tool()]),
        r"tools: Tool names must be unique\.",
        ask(tools=[tool(), tool("write"), {"type": "web_search_20250305", "name": "web_search"}]),
    ),
    Case(
        "a tool without a schema",
        ask(tools=[{"name": "read"}]),
        r"tools\.0\.custom\.input_schema: Field required",
        ask(tools=[tool(description="Reads a file.")]),
    ),
    Case(
        "an empty text block",
        ask(model(text(""), use()), user(result())),
        "messages: text content blocks must be non-empty",
        ask(model(use()), user(result(content=""))),
    ),
    Case(
        "an empty text block in a result",
        ask(model(use()), user(result(content=[text("")]))),
        "messages: text content blocks must be non-empty",
        ask(model(use()), user({"type": "tool_result", "tool_use_id": "c1"})),
    ),
    Case(
        "a text of white space",
        ask(user(text(" \n"))),
        "messages: text content blocks must contain non-whitespace text",
        ask(user(text(" x\n"))),
    ),
    Case(
        "an empty block of system text",
        ask(system=[text("")]),
        "system: text content blocks must be non-empty",
        ask(system=[text("You fix bugs.", **MARK)]),
    ),
    Case(
        "an empty message",
        ask({"role": "assistant", "content": ""}, USER),
        r"messages\.1: all messages must have non-empty content except for the optional final "
        "assistant message",
        ask({"role": "assistant", "content": "x"}, USER),
    ),
    Case(
        "no messages",
        {"model": "m", "max_tokens": 1, "messages": []},
        "messages: at least one message is required",
        ask(),
    ),
    Case(
        "an assistant message first",
        {"model": "m", "max_tokens": 1, "messages": [model(text()), USER]},
        'messages: first message must use the "user" role',
        {
            "model": "m",
            "max_tokens": 1,
            "messages": [model({"type": "compaction", "content": "Earlier: x."}), USER],
        },
    ),
    Case(
        "no max_tokens",
        {"model": "m", "messages": [USER]},
        "max_tokens: Field required",
        {"model": "m", "max_tokens": 1, "messages": [USER]},
    ),
    Case("max_tokens of 0", ask(max_tokens=0), "max_tokens: must be greater .*", ask(max_tokens=1)),
    Case(
        "max_tokens below the budget",
        ask(thinking={"type": "enabled", "budget_tokens": 100}),
        r"`max_tokens` must be greater than `thinking\.budget_tokens`\. .*",
        ask(thinking={"type": "enabled", "budget_tokens": 99}),
    ),
    Case(
        "an unknown role",
        ask({"role": "tool", "content": "x"}),
        r"messages\.1\.role: Input should be 'user' or 'assistant'",
        ask(USER),
    ),
    Case(
        "a system message for a model that has none",
        ask(system("Be brief."), model="claude-sonnet-4-5-20250929"),
        "role 'system' is not supported on this model",
        ask(system("Be brief.")),
    ),
    Case(
        "a system message behind an assistant message",
        ask(model(text()), system("Be brief."), USER),
        r"messages\.2: a system message must follow a user message",
        ask(system("Be brief."), model(text()), USER),
    ),
    Case(
        "a system message before a user message",
        ask(system("Be brief."), USER),
        r"messages\.1: a system message must be the last message or be followed by an assistant .*",
        ask(USER, system("Be brief.")),
    ),
    Case(
        "a system message between call and result",
        ask(model(use()), system("Be brief."), user(result())),
        r"messages\.2: a system message must follow a user message",
        ask(model(use()), user(result()), system("Be brief.")),
    ),
    Case(
        "a call in a user message",
        ask(user(use())),
        r"messages\.1: `tool_use` blocks can only be in `assistant` messages",
        ask(model(use()), user(result())),
    ),
    Case(
        "a result in an assistant message",
        ask(model(use()), model(result())),
        r"messages\.2: `tool_result` blocks can only be in `user` messages",
        ask(model(use()), user(result())),
    ),
    Case(
        "a block of another API",
        ask(user({"type": "input_text", "text": "x"})),
        r"messages\.1\.content\.0: Input tag 'input_text' found using 'type' does not match .*",
        ask(user(text())),
    ),
    Case(
        "a field that messages do not have",
        ask(USER | {"name": "x"}),
        r"messages\.1\.name: Extra inputs are not permitted",
        ask(USER),
    ),
    Case(
        "a field that blocks do not have",
        ask(model(text(annotations=[])), USER),
        PLACE + r"text\.annotations: Extra inputs are not permitted",
        ask(model(text(citations=None)), USER),
    ),
    Case(
        "five cache marks",
        ask(user(*[text(**MARK)] * 3), system=[text(**MARK)], tools=[tool(**MARK)]),
        r"A maximum of 4 blocks with cache_control may be provided\. Found 5\.",
        ask(user(*[text(**MARK)] * 2), system=[text(**MARK)], tools=[tool(**MARK)]),
    ),
    Case(
        "an image over http",
        ask(image(type="url", url="http://example.org/a.png")),
        PLACE + r"image\.source\.url\.url: Only HTTPS URLs are supported",
        ask(image(type="url", url="https://example.org/a.png")),
    ),
    Case(
        "an image by path",
        ask(image(type="path", path="a.png")),
        PLACE + r"image\.source: Input tag 'path' found using 'type' does not match .*",
        ask(image(type="file", file_id="file_1")),
    ),
    Case(
        "an image of an unknown type",
        ask(image(type="base64", media_type="image/tiff", data=PIXEL)),
        PLACE + r"image\.source\.base64\.media_type: Input should be 'image/jpeg', .*",
        ask(image(type="base64", media_type="image/png", data=PIXEL)),
    ),
    Case(
        "an image that is of another type than it says",
        ask(image(type="base64", media_type="image/jpeg", data=PIXEL)),
        PLACE + r"image\.source\.base64\.data: Image does not match the provided media type .*",
        ask(image(type="base64", media_type="image/png", data=PIXEL)),
    ),
    Case(
        "a lone surrogate",
        b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"\\ud83d"}]}',
        r"The request body is not valid JSON: no low surrogate in string: line 1 column 67 "
        r"\(char 66\)",
        b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"\\ud83d\\ude00"}]}',
    ),
    Case(
        "a low surrogate alone",
        b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"\\ude00"}]}',
        r"The request body is not valid JSON: invalid high surrogate in string: .*",
        b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"\\\\ude00"}]}',
    ),
    Case("no JSON", b"{", "The request body is not valid JSON: .*", ask()),
    Case("nested too deeply", b'{"a":' * 100_000, "The request body is not valid JSON: .*", ask()),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_anthropic_refuses(case: Case, clients: Clients) -> None:
    provoke(clients, "anthropic", case)


def test_the_version_header_is_required() -> None:
    with pytest.raises(Refusal, match="anthropic-version: header is required"):
        check("anthropic", as_bytes(ask()), {"content-type": "application/json"})
    check("anthropic", as_bytes(ask()), {"Anthropic-Version": "2023-06-01"})

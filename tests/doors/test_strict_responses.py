"""The Responses API: each refusal and a legal request beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sawlog.providers.strict import FAKE_KEY, Refusal, check
from sawlog.providers.strict.signing import Sealed, item_id, reasoning_id, seal
from tests.doors.provoke import Case, Clients, always_ok, as_bytes, provoke

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "Fix the test."}
RS = reasoning_id(FAKE_KEY, "one")
FC = item_id(FAKE_KEY, "fc", "two", RS)
MSG = item_id(FAKE_KEY, "msg", "three", RS)


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with always_ok() as all_three:
        yield all_three


def ask(*items: object, **more: object) -> Json:
    return {"model": "gpt-6", "input": [USER, *items]} | more


def call(call_id: str = "c1", name: str = "read", arguments: object = "{}", **more: object) -> Json:
    item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return item | more


def output(call_id: str = "c1", value: object = "ok", **more: object) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": value} | more


def patch(call_id: str = "c1") -> Json:
    return {"type": "custom_tool_call", "call_id": call_id, "name": "patch", "input": "*** x"}


def patched(call_id: str = "c1") -> Json:
    return {"type": "custom_tool_call_output", "call_id": call_id, "output": "ok"}


def says(text: str = "done", **more: object) -> Json:
    content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content} | more


def thought(*follower: str, id: str | None = RS, key: bytes = FAKE_KEY) -> Json:
    """A reasoning item that was put out before `follower` (type, id, call id)."""
    item: Json = {"type": "reasoning", "summary": []}
    if id is not None:
        item["id"] = id
    return item | {"encrypted_content": seal(key, Sealed(RS, *follower))}


BEFORE_CALL = ("function_call", FC, "c1")
BEFORE_TEXT = ("message", MSG, "")
UNFOLLOWED = f"Item '{RS}' of type 'reasoning' was provided without its required following item\\."
SEAL = str(thought(*BEFORE_CALL)["encrypted_content"])
TAMPERED = SEAL[:50] + ("A" if SEAL[50] != "A" else "B") + SEAL[51:]
CASES = [
    Case(
        "a call without its output",
        ask(call(), USER),
        r"No tool output found for function call c1\.",
        ask(call(), USER, output()),  # it need not follow at once
        "input",
    ),
    Case(
        "an output without its call",
        ask(output()),
        r"No tool call found for function call output with call_id c1\.",
        ask(call(), output()),
        "input",
    ),
    Case(
        "an output before its call",
        ask(output(), call()),
        r"No tool call found for function call output with call_id c1\.",
        ask(call(), output()),
        "input",
    ),
    Case(
        "a second output",
        ask(call(), output(), output()),
        "Duplicate function_call_output for call_id 'c1'. Each function_call must have exactly one "
        "matching function_call_output",
        ask(call(), call("c2"), output("c2"), output()),
        "input",
    ),
    Case(
        "one id for two calls",
        ask(call(), output(), call(), output()),
        "Duplicate 'call_id': c1",
        ask(call(), output(), call("c2"), output("c2")),
        "input",
    ),
    Case(
        "a custom call without its output",
        ask(patch()),
        r"No tool output found for custom tool call c1\.",
        ask(patch(), patched()),
        "input",
    ),
    Case(
        "a custom call with a function's output",
        ask(patch(), output()),
        r"No tool call found for function call output with call_id c1\.",
        ask(patch(), patched(), call("c2"), output("c2")),
        "input",
    ),
    Case(
        "a function call with a custom output",
        ask(call(), patched()),
        r"No tool call found for custom tool call output with call_id c1\.",
        ask(call(), output()),
        "input",
    ),
    Case(
        "a provider-run call answered by the client",
        ask({"type": "web_search_call", "id": "ws_1", "status": "completed"}, output("ws_1")),
        r"No tool call found for function call output with call_id ws_1\.",
        ask({"type": "web_search_call", "id": "ws_1", "status": "completed"}, says()),
        "input",
    ),
    Case(
        "an approval that nobody asked for",
        ask({"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True}),
        r"No approval request found with id m1\.",
        ask(
            {"type": "mcp_approval_request", "id": "m1", "name": "x", "arguments": "{}"},
            {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True},
        ),
        "input",
    ),
    Case(
        "reasoning at the end",
        ask(thought(*BEFORE_CALL)),
        UNFOLLOWED,
        ask(thought(*BEFORE_CALL), call(id=FC), output()),
        "input",
    ),
    Case(
        "reasoning whose item was dropped",
        ask(thought(*BEFORE_CALL), USER),
        UNFOLLOWED,
        ask(thought(*BEFORE_CALL), call(), output()),
        "input",
    ),
    Case(
        "reasoning with another text behind it",
        ask(thought(*BEFORE_TEXT), {"role": "assistant", "content": "42"}),
        UNFOLLOWED,
        ask(thought(*BEFORE_TEXT), says(id=MSG)),
        "input",
    ),
    Case(
        "reasoning with its item's id lost",
        ask(thought(*BEFORE_TEXT), says()),
        UNFOLLOWED,
        ask(thought(*BEFORE_TEXT, id=None), says()),  # the ids of both may be left out
        "input",
    ),
    Case(
        "reasoning before another call",
        ask(thought(*BEFORE_CALL), call("c2"), call(), output("c2"), output()),
        UNFOLLOWED,
        ask(thought(*BEFORE_CALL), call(), call("c2"), output("c2"), output()),
        "input",
    ),
    Case(
        "an item whose reasoning was dropped",
        ask(call(id=FC), output()),
        f"Item '{FC}' of type 'function_call' was provided without its required 'reasoning' item: "
        f"'{RS}'\\.",
        ask(call(), output()),
        "input",
    ),
    Case(
        "altered reasoning",
        ask(thought(*BEFORE_CALL) | {"encrypted_content": TAMPERED}, call(), output()),
        f"The encrypted content for item {RS} could not be verified\\. Reason: Encrypted content "
        r"could not be decrypted or parsed\.",
        ask(thought(*BEFORE_CALL), call(), output()),
        None,
        "invalid_encrypted_content",
    ),
    Case(
        "foreign reasoning",
        ask(thought(*BEFORE_CALL, id=None, key=b"another provider"), call(), output()),
        r"The encrypted content gAAA\.\.\..{4} could not be verified\. Reason: .*",
        ask(thought(*BEFORE_CALL, id=None), call(), output()),
        None,
        "invalid_encrypted_content",
    ),
    Case(
        "reasoning under another id",
        ask(thought(*BEFORE_CALL, id="rs_1"), call(), output()),
        r"The encrypted content for item rs_1 could not be verified\. Reason: Encrypted content "
        r"item_id did not match the target item id\.",
        ask(thought(*BEFORE_CALL), call(), output()),
        None,
        "invalid_encrypted_content",
    ),
    Case(
        "reasoning that the server does not keep",
        ask({"type": "reasoning", "id": RS, "summary": []}, call(), output()),
        f"Item with id '{RS}' not found\\. Items are not persisted .*",
        ask(thought(*BEFORE_CALL), call(), output()),
        "input",
        status=404,
    ),
    Case(
        "a reference to an item",
        ask({"type": "item_reference", "id": "msg_1"}),
        r"Item with id 'msg_1' not found\. .*",
        ask(says(id="msg_1")),
        "input",
        status=404,
    ),
    Case(
        "a previous response",
        ask(previous_response_id="resp_1"),
        r"Previous response with id 'resp_1' not found\.",
        ask(previous_response_id=None),
        "previous_response_id",
        "previous_response_not_found",
    ),
    Case(
        "a call id above 64 characters",
        ask(call("c" * 65), output("c" * 65)),
        r"Invalid 'input\[1\]\.call_id': string too long\. Expected a string with maximum length "
        r"64, but got a string with length 65 instead\.",
        ask(call("c" * 64), output("c" * 64)),
        "input[1].call_id",
        "string_above_max_length",
    ),
    Case(
        "a call id as the id of the item",
        ask(call(id="c1"), output()),
        r"Invalid 'input\[1\]\.id': 'c1'\. Expected an ID that begins with 'fc'\.",
        ask(call(id="fc_1"), output()),
        "input[1].id",
        "invalid_value",
    ),
    Case(
        "one item twice",
        ask(says(id="msg_1"), says(id="msg_1")),
        r"Duplicate item found with id msg_1\. Remove duplicate items from your input .*",
        ask(says(id="msg_1"), says(id="msg_2")),
        "input",
    ),
    Case(
        "arguments that are no string",
        ask(call(arguments={}), output()),
        r"Invalid type for 'input\[1\]\.arguments': expected a string, but got an object instead\.",
        ask(call(arguments="{not json"), output()),
        "input[1].arguments",
        "invalid_type",
    ),
    Case(
        "a called name with a dot",
        ask(call(name="fs.read"), output()),
        r"Invalid 'input\[1\]\.name': string does not match pattern\. .*",
        ask(call(name="fs-read_2"), output()),
        "input[1].name",
        "invalid_value",
    ),
    Case(
        "a tool's name with a space",
        ask(tools=[{"type": "function", "name": "read file"}]),
        r"Invalid 'tools\[0\]\.name': string does not match pattern\. .*",
        ask(tools=[{"type": "function", "name": "read_file"}, {"type": "web_search"}]),
        "tools[0].name",
        "invalid_value",
    ),
    Case(
        "input text of the assistant",
        ask({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}),
        r"Invalid value: 'input_text'\. Supported values are: 'output_text' and 'refusal'\.",
        ask(says("x")),
        "input[1].content[0]",
        "invalid_value",
    ),
    Case(
        "output text of the user",
        ask({"role": "user", "content": [{"type": "output_text", "text": "x"}]}),
        r"Invalid value: 'output_text'\. Supported values are: 'input_text', 'input_image', .*",
        ask({"role": "user", "content": [{"type": "input_text", "text": "x"}]}),
        "input[1].content[0]",
        "invalid_value",
    ),
    Case(
        "an unknown role",
        ask({"role": "tool", "content": "x"}),
        r"Invalid value: 'tool'\. Supported values are: 'assistant', 'system', 'developer', and .*",
        ask({"role": "developer", "content": "x"}),
        "input[1].role",
        "invalid_value",
    ),
    Case(
        "an item of another API",
        ask({"type": "tool_result", "content": "x"}),
        r"Invalid value: 'tool_result'\. Supported values are: 'additional_tools', .*",
        ask({"type": "message", "role": "user", "content": "x"}),
        "input[1].type",
        "invalid_value",
    ),
    Case(
        "a field that items do not have",
        ask(USER | {"metadata": "x"}),
        r"Unknown parameter: 'input\[1\]\.metadata'\.",
        ask(USER | {"status": "completed"}),
        "input[1].metadata",
        "unknown_parameter",
    ),
    Case(
        "an image by path in an output",
        ask(call(), output(value=[{"type": "input_image", "image_url": "/a.png"}])),
        r"Invalid 'input\[2\]\.output\[0\]\.image_url'\. Expected a valid URL, but got .*",
        ask(call(), output(value=[{"type": "input_image", "file_id": "file_1"}])),
        "input[2].output[0].image_url",
        "invalid_value",
    ),
    Case(
        "an image with neither URL nor file",
        ask({"role": "user", "content": [{"type": "input_image", "detail": "auto"}]}),
        r"Missing required parameter: 'input\[1\]\.content\[0\]\.image_url'\.",
        ask(
            {
                "role": "user",
                "content": [{"type": "input_image", "image_url": "https://example.org/a.png"}],
            }
        ),
        "input[1].content[0].image_url",
        "missing_required_parameter",
    ),
    Case(
        "no input",
        {"model": "gpt-6"},
        r"Missing required parameter: 'input'\.",
        {"model": "gpt-6", "input": "Hello."},
        "input",
        "missing_required_parameter",
    ),
    Case(
        "an empty input",
        {"model": "gpt-6", "input": []},
        r"Invalid 'input': empty array\. .*",
        ask(),
        "input",
        "empty_array",
    ),
    Case(
        "a lone surrogate",
        b'{"model":"m","input":"\\udc00"}',
        r"We could not parse the JSON body of your request\. .*",
        b'{"model":"m","input":"\\ud83d\\ude00"}',
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_openai_refuses(case: Case, clients: Clients) -> None:
    provoke(clients, "openai-responses", case)


def test_without_a_key_reasoning_is_judged_by_its_form() -> None:
    """As for a request that is meant for the real provider: any seal will do, no lost item does."""
    foreign = thought(*BEFORE_CALL, id="rs_other", key=b"the real provider")
    check("openai-responses", as_bytes(ask(foreign, call(), output())), key=None)
    check("openai-responses", as_bytes(ask(foreign, says(id="msg_1"))), key=None)
    for behind in (says(), USER):
        with pytest.raises(Refusal, match="without its required following item"):
            check("openai-responses", as_bytes(ask(foreign, behind)), key=None)

"""What the providers refuse of a request to compact, and of blocks that go back to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anthropic
import openai
import pytest

from sawlog.providers.fake import FakeProvider, Reply
from sawlog.providers.strict import FAKE_KEY, Refusal, check
from sawlog.providers.strict.signing import sign_compaction

USER: Any = {"role": "user", "content": "Hello!"}
SAYS: Any = {"role": "assistant", "content": "Hello! How can I help?"}
BETA = {"anthropic-version": "2023-06-01", "anthropic-beta": "files-x, compact-2026-09-04"}
ASKED = {"type": "summarize"}
TEXT = "Summary: the user said hello."


def block(text: str | None = TEXT, **more: object) -> dict[str, Any]:
    """A compaction block in a message of the assistant."""
    value: dict[str, Any] = {"type": "compaction", "content": text}
    if text is not None:
        value["signature"] = sign_compaction(FAKE_KEY, text)
    return {"role": "assistant", "content": [{**value, **more}]}


def refused(fields: dict[str, Any], headers: Mapping[str, str] | None = BETA) -> Refusal | None:
    """The refusal of a request to Anthropic, if it is one."""
    body = {"model": "claude-sonnet-4-6", "max_tokens": 100, "messages": [USER], **fields}
    try:
        check("anthropic", json.dumps(body).encode(), headers)
    except Refusal as refusal:
        assert refusal.status == 400
        return refusal
    return None


# --- Anthropic, on request ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"messages": [USER, SAYS]},
        {"tool_choice": {"type": "auto"}, "output_config": {"effort": "low"}},
        {"compaction": {"type": "summarize", "instructions": "shortly"}},
        {"messages": [block(), USER]},
    ],
)
def test_a_history_may_be_compacted_however_it_ends(fields: dict[str, Any]) -> None:
    assert refused({"compaction": ASKED, **fields}) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"compaction": True}, "compaction: Input should be a valid dictionary"),
        ({"compaction": {"type": "forget"}}, "compaction.type: Input should be 'summarize'"),
        ({"compaction": {**ASKED, "trigger": 1}}, "compaction.trigger: Extra inputs"),
        ({"context_management": {"edits": []}}, "cannot be combined with `context_management`"),
        ({"stop_sequences": ["x"]}, "stop_sequences: not permitted"),
        ({"stream": True}, "stream: not permitted"),
        ({"tool_choice": {"type": "any"}}, "tool_choice: a compaction request calls no tool"),
        ({"output_config": {"format": {}}}, "output_config.format: not permitted"),
        ({"messages": [block()]}, "nothing to summarize"),
    ],
)
def test_what_shapes_a_reply_is_refused_beside_it(fields: dict[str, Any], message: str) -> None:
    refusal = refused({"compaction": ASKED, **fields})
    assert refusal is not None and message in refusal.message


def test_an_unfinished_turn_is_not_compacted() -> None:
    call: Any = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}}
    messages: Any = [USER, {"role": "assistant", "content": [call]}]
    refusal = refused({"compaction": ASKED, "messages": messages})
    assert refusal is not None and refusal.code == "compaction_incomplete_turn"


def test_it_takes_a_header() -> None:
    refusal = refused({"compaction": ASKED}, {"anthropic-version": "2023-06-01"})
    assert refusal is not None and "compact-2026-09-04" in refusal.message
    assert refused({"compaction": ASKED}, None) is None, "headers that are not given are not read"


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([block(), USER], None),
        ([block(), USER, SAYS, USER], None),
        ([USER, block(), USER], "compaction_block_misplaced"),
        ([block(), USER, block("another"), USER], "compaction_block_ambiguous"),
        ([block(), USER, block(None), USER], None),
        ([block(content="other words"), USER], "compaction_content_mismatch"),
        ([block(signature="Zm9yZ2Vk"), USER], "compaction_signature_invalid"),
        ([block(signature=sign_compaction(b"other", TEXT)), USER], "compaction_signature_invalid"),
    ],
)
def test_a_signed_block_stands_first_alone_and_unchanged(messages: Any, code: str | None) -> None:
    refusal = refused({"messages": messages})
    assert (refusal.code if refusal else None) == code
    if refusal is not None:
        told = json.loads(refusal.body("anthropic"))["error"]
        assert told["details"] == {"error_code": code}


def test_a_signed_block_takes_the_header_on_each_request() -> None:
    refusal = refused({"messages": [block(), USER]}, {"anthropic-version": "2023-06-01"})
    assert refusal is not None and "anthropic-beta" in refusal.message


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"content": ""}, "at least 1 character"),
        ({"content": 3}, "valid string"),
        ({"summary": "x"}, "compaction.summary: Extra inputs"),
    ],
)
def test_a_block_has_its_form(wrong: dict[str, Any], message: str) -> None:
    value = {"type": "compaction", "content": TEXT, **wrong}
    refusal = refused({"messages": [{"role": "assistant", "content": [value]}, USER]})
    assert refusal is not None and message in refusal.message


# --- Anthropic, by a threshold --------------------------------------------------------------------


def test_a_threshold_has_a_least_and_takes_a_header() -> None:
    def edit(**more: object) -> dict[str, Any]:
        edits = [{"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112", **more}]
        return {"context_management": {"edits": edits}}

    header = {**BETA, "anthropic-beta": "compact-2026-01-12"}
    assert refused(edit(), header) is None
    assert refused(edit(trigger={"type": "input_tokens", "value": 50_000}), header) is None
    low = refused(edit(trigger={"type": "input_tokens", "value": 49_999}), header)
    assert low is not None and "greater than or equal to 50000" in low.message
    other = refused(edit(), BETA)
    assert other is not None and "compact-2026-01-12" in other.message


def test_a_block_of_a_threshold_has_no_signature_and_stands_anywhere() -> None:
    plain = {"role": "assistant", "content": [{"type": "compaction", "content": TEXT}]}
    headers = {"anthropic-version": "2023-06-01"}
    assert refused({"messages": [USER, plain, USER, plain, USER]}, headers) is None


# --- Responses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tools", "store", "include", "reasoning", "context_management"])
def test_the_path_to_compact_takes_no_parameter_of_a_reply(name: str) -> None:
    body = {"model": "gpt-5.5", "input": [USER], "instructions": "x", name: []}
    with pytest.raises(Refusal, match=f"Unknown parameter: '{name}'"):
        check("openai-responses", json.dumps(body).encode(), compacts=True)
    del body[name]
    check("openai-responses", json.dumps(body).encode(), compacts=True)


def test_the_history_to_compact_is_checked_like_any_other() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": "{}"}
    body = {"model": "gpt-5.5", "input": [USER, call]}
    with pytest.raises(Refusal, match="No tool output found for function call c1"):
        check("openai-responses", json.dumps(body).encode(), compacts=True)


def test_a_threshold_of_responses_is_a_compaction() -> None:
    body: dict[str, Any] = {"model": "gpt-5.5", "input": [USER]}
    body["context_management"] = [{"type": "compaction", "compact_threshold": 1000}]
    check("openai-responses", json.dumps(body).encode())
    body["context_management"] = [{"type": "summary"}]
    with pytest.raises(Refusal, match="Supported values are: 'compaction'"):
        check("openai-responses", json.dumps(body).encode())


# --- the official clients -------------------------------------------------------------------------


def test_the_official_client_of_openai_compacts_and_goes_on() -> None:
    with FakeProvider([Reply("unread"), Reply("10")]) as fake:
        base = fake.base_url("openai-responses")
        client = openai.OpenAI(api_key="any", base_url=base, max_retries=0)
        made = client.responses.compact(model="gpt-5.5", input=[USER, SAYS, USER])
        assert [item.type for item in made.output] == ["message", "message", "compaction"]
        item: Any = made.output[-1].to_dict()
        again = client.responses.create(model="gpt-5.5", input=[item, USER])
        assert again.output_text == "10"
        item["encrypted_content"] = str(item["encrypted_content"])[:-4] + "AAAA"
        with pytest.raises(openai.BadRequestError, match="could not be verified"):
            client.responses.create(model="gpt-5.5", input=[item, USER])
        client.close()


def test_the_official_client_of_anthropic_compacts_and_goes_on() -> None:
    with FakeProvider([Reply(TEXT), Reply("Hello.")]) as fake:
        client = anthropic.Anthropic(api_key="any", base_url=fake.url, max_retries=0)
        betas: list[Any] = ["compact-2026-09-04"]
        made = client.beta.messages.create(
            model="claude-sonnet-4-6", max_tokens=100, betas=betas,
            messages=[USER, SAYS], compaction={"type": "summarize"},
        )  # fmt: skip
        assert made.stop_reason == "compaction"
        [summary] = made.content
        assert summary.type == "compaction" and summary.content == TEXT
        messages: list[Any] = [{"role": "assistant", "content": [summary.to_dict()]}, USER]
        again = client.beta.messages.create(
            model="claude-sonnet-4-6", max_tokens=100, betas=betas, messages=messages
        )
        assert again.stop_reason == "end_turn"
        messages[0]["content"][0]["content"] = "other words"
        with pytest.raises(anthropic.BadRequestError, match="compaction_content_mismatch"):
            client.beta.messages.create(
                model="claude-sonnet-4-6", max_tokens=100, betas=betas, messages=messages
            )
        client.close()

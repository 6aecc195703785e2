"""What a reply must say to be a decision, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.gateway import Decision, Proposal
from sawlog.labs.chapter5.decision import KINDS, InvalidResponse, parsed
from sawlog.labs.chapter5.live import read_reply
from tests.labs.chapter5_data import data

ADAPTER: dict[str, Any] = data("probe-gateway-adapter.json")["adapter"]


def reply(vector: dict[str, Any]) -> bytes:
    """A reply of the provider around a vector's content."""
    if "content" not in vector:
        return json.dumps(vector).encode()
    known = {key: value for key, value in vector.items() if key != "content"}
    return json.dumps({"choices": [{"message": {"content": vector["content"]}}], **known}).encode()


@pytest.mark.parametrize("vector", ADAPTER["invalid_response_vectors"], ids=str)
def test_what_is_no_decision_is_an_invalid_response(vector: dict[str, Any]) -> None:
    with pytest.raises(InvalidResponse):
        read_reply(reply(vector))


def test_there_are_10_invalid_vectors() -> None:
    assert len(ADAPTER["invalid_response_vectors"]) == 10


def test_a_decision_comes_with_the_served_model_and_the_counts() -> None:
    vector = ADAPTER["ok_vector"]
    decision, model, usage = read_reply(reply(vector))
    assert decision == Decision("needs_context", "m")
    assert model == vector["model"]
    assert usage == (("completion_tokens", 24), ("prompt_tokens", 120), ("total_tokens", 144))


def test_only_whole_counts_are_usage() -> None:
    raw = reply(
        {
            "content": '{"kind":"answer"}',
            "usage": {"a": 1, "b": 1.5, "c": True, "d": {"e": 1}, "f": "1", "g": None},
        }
    )
    assert read_reply(raw) == (Decision("answer"), None, (("a", 1),))


@pytest.mark.parametrize("kind", KINDS)
def test_an_absent_message_is_empty(kind: str) -> None:
    tool = {"name": "x", "arguments": {"path": "a"}} if kind == "tool" else None
    expected = Proposal("x", {"path": "a"}) if kind == "tool" else None
    assert parsed(json.dumps({"kind": kind, "tool": tool})) == Decision(kind, "", expected)


@pytest.mark.parametrize(
    "content",
    [
        '{"kind":"answer","message":null}', '{"kind":["answer"]}', '{"kind":null}',
        '{"kind":"tool","tool":{"name":1,"arguments":{}}}', '{"kind":"tool","tool":[]}',
        '{"kind":"tool","tool":{"name":"x","arguments":[]}}', '{"kind":"answer","message":NaN}',
        '{"kind":"tool","tool":{"name":"x","arguments":{"a":1e999}}}',
        '{"kind":"tool","tool":{"name":"x","arguments":{"a":"\\ud800"}}}',
        "[" * 100_000, '{"kind":"answer"} and more', '{"kind":' + "9" * 5000 + "}",
    ],
    ids=lambda content: content[:40],
)  # fmt: skip
def test_a_decision_that_could_not_be_written_again_is_none(content: str) -> None:
    with pytest.raises(InvalidResponse):
        parsed(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(KINDS),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text() | st.sampled_from(["kind", "message", "tool", "name", "arguments"]), inner
        )
    ),
)


@given(JSON)
def test_any_json_is_a_decision_or_an_invalid_response(value: object) -> None:
    try:
        decision = parsed(json.dumps(value))
    except InvalidResponse:
        return
    assert decision.kind in KINDS
    assert (decision.tool is not None) == (decision.kind == "tool")


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_reply_or_an_invalid_response(raw: bytes) -> None:
    try:
        read_reply(raw)
    except InvalidResponse:
        return

"""What every reply owes: exact sources, and no exception, whatever arrives."""

from __future__ import annotations

import json
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.replies import Answered, RefusedReply, Running, parse
from sawlog.builder.replies.source import closes, elements, fields, is_empty, is_object
from sawlog.store.codec import sealed
from sawlog.store.content import BoundPart, RawPart
from sawlog.store.events.conversation import MessageAssistant, ToolRequested
from sawlog.store.jsonslices import string
from tests.builder.reading import answered, assert_exact, parts_of, plain

APIS = ("anthropic", "openai-chat", "openai-responses", "deepseek-chat")

# Text with what JSON finds hard: quotes, escapes, NUL, halves of characters.
TEXTS = st.text(st.characters() | st.sampled_from('"\\/\x00\x7f\ud800\udfff\ud83d\ude00 {}[]'))
NUMBERS = st.sampled_from(["0", "-0.0", "1e2", "1E-9", "1e999", "123456789012345678901234567890"])
SPACES = st.text(" \t\n\r", max_size=2)


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """JSON text of a value, with spaces and escapes wherever they may stand."""
    space = draw(SPACES)
    if isinstance(value, Source):
        return f"{space}{value.text}{space}"
    if isinstance(value, dict):
        pairs = cast(dict[str, Any], value).items()
        inner = [f"{draw(written(key))}:{draw(written(one))}" for key, one in pairs]
        return f"{space}{{{','.join(inner) or space}}}{space}"
    if isinstance(value, list):
        listed = cast(list[object], value)
        return f"{space}[{','.join(draw(written(one)) for one in listed) or space}]{space}"
    escaped = json.dumps(value, ensure_ascii=draw(st.booleans()) or _halves(value))
    return f"{space}{escaped}{space}"


class Source:
    """JSON text that stands in a body as it is."""

    def __init__(self, text: str) -> None:
        self.text = text


def _halves(value: object) -> bool:
    return isinstance(value, str) and any(0xD800 <= ord(char) <= 0xDFFF for char in value)


VALUES = st.recursive(
    st.none() | st.booleans() | TEXTS | NUMBERS.map(Source),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)


Fields = dict[str, Any]


def typed(type: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Fields]:
    """Objects of a type with these fields."""
    return st.fixed_dictionaries({"type": st.just(type), **fields})


def other(type: str) -> st.SearchStrategy[Fields]:
    """Objects of a type with any fields."""

    def with_type(fields: Fields) -> Fields:
        return {**fields, "type": type}

    return OBJECTS.map(with_type)


BLOCKS = (
    typed("text", text=TEXTS, citations=VALUES)
    | typed("thinking", thinking=TEXTS, signature=TEXTS)
    | typed("tool_use", id=TEXTS, name=TEXTS, input=OBJECTS, caller=VALUES)
    | other("server_tool_use")
)
PARTS = typed("output_text", text=TEXTS, annotations=VALUES)
ITEMS = (
    typed(
        "message",
        role=st.just("assistant"),
        content=st.lists(PARTS, max_size=2),
        phase=VALUES,
    )
    | typed("function_call", call_id=TEXTS, name=st.text(min_size=1), arguments=TEXTS)
    | other("reasoning")
    | other("web_search_call")
)
CALLED = st.fixed_dictionaries({"name": TEXTS, "arguments": TEXTS | OBJECTS})
MESSAGES = st.fixed_dictionaries(
    {
        "content": TEXTS | st.none(),
        "reasoning_content": TEXTS | st.none(),
        "tool_calls": st.lists(
            st.fixed_dictionaries({"id": TEXTS, "function": CALLED, "extra": VALUES}), max_size=3
        ),
        "other": VALUES,
    }
)


@st.composite
def replies(draw: st.DrawFn) -> tuple[str, str]:
    """An API, and the body of a reply of it."""
    api = draw(st.sampled_from(APIS))
    stop = draw(st.sampled_from(["stop", "length", "max_tokens", "tool_use", "incomplete"]))
    body: dict[str, Any] = {"id": draw(TEXTS), "model": draw(TEXTS), "usage": draw(OBJECTS)}
    if api == "anthropic":
        body |= {"content": draw(st.lists(BLOCKS, max_size=4)), "stop_reason": stop}
    elif api == "openai-responses":
        body |= {"output": draw(st.lists(ITEMS, max_size=4)), "status": stop}
    else:
        body["choices"] = [{"message": draw(MESSAGES), "finish_reason": stop}]
    return api, draw(written(body))


@given(replies())
def test_every_source_is_a_slice_of_the_body(reply: tuple[str, str]) -> None:
    """And nothing of it is lost: what is stored is what the sources say."""
    api, body = reply
    found = answered(api, body.encode())
    assert_exact(found, body)
    for part in parts_of(found):
        if isinstance(part, BoundPart | RawPart):
            assert json.loads(plain(part.source)) is not None
    for one in found.parts_and_calls:
        payload = one if isinstance(one, ToolRequested) else MessageAssistant(one)
        sealed(payload)  # every text can be stored


@given(replies(), st.data())
def test_a_body_cut_anywhere_is_malformed(reply: tuple[str, str], data: st.DataObject) -> None:
    api, body = reply
    whole = body.encode().rstrip()
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    found = parse(api, 200, {}, cut)
    assert isinstance(found, RefusedReply)
    assert found.kind == "malformed"


@given(st.sampled_from(APIS), st.integers(100, 599), st.binary())
def test_bytes_never_raise(api: str, status: int, body: bytes) -> None:
    found = parse(api, status, {}, body)
    assert found.body.encode("utf-8", "surrogateescape") == body


@st.composite
def odd_bodies(draw: st.DrawFn) -> str:
    """JSON objects with the words of the APIs, anything under them."""
    words = ["content", "choices", "output", "error", "status", "type", "message", "tool_calls"]
    words += ["function", "name", "input", "id", "stop_reason", "finish_reason", "code", "text"]
    values = [
        "text",
        "tool_use",
        "error",
        "message",
        "function_call",
        "length",
        "failed",
        "refusal",
    ]
    inner = st.recursive(
        st.none() | st.booleans() | st.sampled_from(values) | NUMBERS.map(Source),
        lambda deeper: (
            st.lists(deeper, max_size=3)
            | st.dictionaries(st.sampled_from(words), deeper, max_size=4)
        ),
        max_leaves=15,
    )
    return draw(written(draw(st.dictionaries(st.sampled_from(words), inner, max_size=6))))


@given(st.sampled_from(APIS), st.sampled_from([200, 400, 500]), odd_bodies())
def test_bodies_of_odd_shapes_never_raise(api: str, status: int, body: str) -> None:
    found = parse(api, status, {}, body.encode())
    assert isinstance(found, Answered | RefusedReply | Running)
    assert found.body == body


@given(st.data(), OBJECTS)
def test_fields_and_elements_are_exact(data: st.DataObject, value: dict[str, Any]) -> None:
    body = data.draw(written({"list": [value, 1], "object": value}))
    assert is_object(body)
    found = fields(body)
    listed = elements(found["list"])
    assert listed is not None
    for source in (found["object"], listed[0]):
        assert source in body
        assert source == source.strip()
        assert [json.dumps(key) for key in fields(source)] == [json.dumps(key) for key in value]
        assert is_empty(source) == (not value)
    assert string(found["list"]) is None


@given(st.data(), VALUES)
def test_whole_json_closes_and_a_cut_object_does_not(data: st.DataObject, value: Any) -> None:
    source = data.draw(written({"a": value})).strip()
    assert closes(source)
    assert not closes(source[: data.draw(st.integers(0, len(source) - 1))])


def test_a_large_body_is_read_at_once() -> None:
    """20 MB in one string, and 100,000 blocks."""
    body = json.dumps({"content": [{"type": "text", "text": "x" * 20_000_000}]})
    assert len(answered("anthropic", body).text) == 20_000_000
    many = json.dumps({"content": [{"type": "text", "text": "\ud800"}] * 100_000})
    assert len(parts_of(answered("anthropic", many))) == 100_000

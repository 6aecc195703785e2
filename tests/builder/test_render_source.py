"""JSON of others: what is spliced is JSON, what is not is told apart, alike on every Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sawlog.builder.profiles import PROFILES
from sawlog.builder.render.source import DEPTH, is_string, members, mended, string_value
from sawlog.builder.render.writing import Writing

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)  # fmt: skip


class NotJson(Exception):
    """Python's own extension of JSON."""


def strict(text: str) -> object:
    """What json.loads makes of a text, without Python's NaN and infinities."""

    def constant(name: str) -> object:
        raise NotJson(name)

    return json.loads(text, parse_constant=constant)


@given(st.dictionaries(st.text(max_size=4), values), st.booleans(), st.sampled_from((None, 1)))
def test_members_of_an_object(value: dict[str, Any], ascii: bool, indent: int | None) -> None:
    found = members(json.dumps(value, ensure_ascii=ascii, indent=indent))
    assert found is not None
    assert {name: json.loads(source) for name, source in found.items()} == value
    assert list(found) == list(value)


@given(st.text(alphabet='{}[],:"\\ \n\tu0019abtrue-.eE', max_size=14))
@example('{"a":01}')
@example('{"a":1.}')
@example('{"a":.5}')
@example('{"a":+1}')
@example('{"a":[1,]}')
@example('{"a":1,}')
@example('{,"a":1}')
@example('{"a":1}{}')
@example('{"a":"\t"}')
@example('{"a":"\\x"}')
@example('{"a":"\\u00g0"}')
@example('{"a":NaN}')
@example('{"a":-Infinity}')
@example("{'a':1}")
@example('{"a" 1}')
@example('{"a":{]}')
@example('{"a":1e5,"b":-0.0E+1}')
@example('\ufeff{"a":1}')
@example('{"a":1\u00a0}')
@example("[1]")
@example('{"a":tru}')
@example("")
def test_an_object_is_what_the_standard_library_takes_for_one(text: str) -> None:
    try:
        value = strict(text)
    except (ValueError, NotJson):
        value = None
    assert (members(text) is not None) == isinstance(value, dict)
    assert is_string(text) == (isinstance(value, str) and text == text.strip())


def test_of_equal_names_the_last_counts() -> None:
    assert members('{"a":1,"\\u0061":2}') == {"a": "2"}


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_is_bounded(opening: str) -> None:
    closing = "]" if opening == "[" else "}"

    def nested(depth: int) -> str:
        return '{"a":' + opening * depth + "1" + closing * depth + "}"

    assert members(nested(DEPTH - 1)) is not None
    assert members(nested(DEPTH)) is None
    assert members(nested(100_000)) is None


@given(st.lists(st.sampled_from(["\\ud83d", "\\ude00", "\\\\", "\\n", "u", "\ud800", "a"])))
def test_halves_of_characters_are_mended(parts: list[str]) -> None:
    source = '"' + "".join(parts) + '"'
    after = mended(source)
    after.encode()
    value = json.loads(after)
    json.dumps(value, ensure_ascii=False).encode()
    # Read as one, a pair of escapes is a character; all other halves became U+FFFD.
    expected = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in json.loads(source))
    assert value == expected
    assert string_value(after) == expected
    if source.isascii() and not any(0xD800 <= ord(c) <= 0xDFFF for c in json.loads(source)):
        assert after is source


def test_texts_are_written_as_the_standard_library_writes_them() -> None:
    """So the bytes do not hang on the library that writes them."""
    write = Writing(PROFILES[0])
    for code in [*range(0xD800), *range(0xE000, 0x110000, 7), 0x10FFFF]:
        text = f"a{chr(code)}"
        if write.quoted(0, text) != json.dumps(text, ensure_ascii=False).encode():
            pytest.fail(f"U+{code:04X}")
    assert not write.notes
    assert write.quoted(3, "a\ud800b\udc00\ud83d\ude00") == '"a\ufffdb\ufffd\ufffd\ufffd"'.encode()
    assert write.notes == [(3, "repaired", "surrogate")]

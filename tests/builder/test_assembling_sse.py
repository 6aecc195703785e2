"""Server-sent events, however their bytes are cut and their lines are ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.replies.sse import Event, Events

TEXT = (
    "\ufeff: a comment\n"
    "retry: 3000\n"
    "event: first\n"
    "id: 7\n"
    'data: {"a":\n'
    "data:1}\n"
    "\n"
    "\n"
    "event: no data\n"
    "\n"
    "data\n"
    "data:  é\u2028\x85\x1c😀\n"
    "unknown: field\n"
    "\n"
    "data: left"
)
FOUND = [Event("first", '{"a":\n1}'), Event("", "\n é\u2028\x85\x1c😀"), Event("", "left")]


def read(pieces: list[bytes]) -> list[Event]:
    events = Events()
    return [*(one for piece in pieces for one in events.feed(piece)), *events.close()]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_stream_may_be_cut_at_any_byte(end: str) -> None:
    data = TEXT.replace("\n", end).encode()
    assert read([data]) == FOUND
    for at in range(len(data) + 1):
        assert read([data[:at], data[at:]]) == FOUND
    assert read([data[at : at + 1] for at in range(len(data))]) == FOUND


@given(st.lists(st.sampled_from(["a", "data:", "\r", "\n", "\r\n", "é"])), st.data())
def test_pieces_change_nothing(parts: list[str], data: st.DataObject) -> None:
    """Also with ends of lines mixed, where CR LF is one end and not two."""
    whole = "".join(parts).encode()
    at = data.draw(st.lists(st.integers(0, len(whole)), max_size=5).map(sorted))
    edges = [0, *at, len(whole)]
    pieces = [whole[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    assert read(pieces) == read([whole])
    spelled = "".join(parts).replace("\r\n", "\n").replace("\r", "\n").encode()
    assert read([spelled]) == read([whole])


def test_only_what_ended_is_given_before_the_close() -> None:
    events = Events()
    assert events.feed(b"data: a\n\ndata: b\n") == [Event("", "a")]
    assert events.close() == [Event("", "b")]
    assert events.close() == []


def test_bytes_that_are_no_utf8_are_kept() -> None:
    (event,) = Events().feed(b"data: \xff\xc3\n\n")
    assert event.data.encode("utf-8", "surrogateescape") == b"\xff\xc3"

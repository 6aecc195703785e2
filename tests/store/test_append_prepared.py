"""An event on its way into the log: the short way for most of them, and fresh ids and salts."""

from __future__ import annotations

import datetime
import os
import struct
import threading
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.store import codec
from sawlog.store.codec import prepare
from sawlog.store.content import MediaPart, TextPart
from sawlog.store.envelope import NewEvent, Prepared
from sawlog.store.errors import InvalidEvent
from sawlog.store.events import CORE
from sawlog.store.events.base import Payload, Record, Redacted
from sawlog.store.events.conversation import MessageUser, ToolFinished, ToolRequested
from sawlog.store.ids import new_id, new_salt
from sawlog.store.text import LIMIT, Blob, TextObject

DIGEST = "ab" * 32


def _repeated(letter: str, times: int) -> str:
    return letter * times


_texts = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(), max_size=20),  # halves of pairs, too
    st.builds(_repeated, st.sampled_from("a\u00e9\U0001f600\ud800\0"), st.integers(0, 5000)),
    st.just(TextObject(blob=DIGEST, size=5000, media="text/plain")),
    st.just(TextObject(wtf8="7aCA")),
    st.just('{"blob":"x"}'),
)
_parts = st.one_of(st.builds(TextPart, _texts), st.just(MediaPart("image/png", blob=DIGEST)))
_payloads = st.one_of(
    st.builds(MessageUser, st.lists(_parts, max_size=3).map(tuple)),
    st.builds(ToolRequested, _texts, _texts, _texts),
    st.builds(
        ToolFinished,
        call_id=_texts,
        parts=st.lists(_parts, max_size=2).map(tuple),
        redacted=st.one_of(st.none(), st.just(Redacted(2))),
        record=st.one_of(
            st.none(), st.builds(Record, st.just("f"), st.just(1), st.just("d"), _texts)
        ),
    ),
)


def prepared(payload: Any, **envelope: Any) -> Prepared:
    """The event of a payload, with an id and a salt of zeros."""
    new = NewEvent(payload=payload, source="user", **envelope)
    return prepare(new, CORE, 5, lambda: bytes(16), lambda: bytes(16))


def _never(*given: object) -> bool:
    """Nothing is plain."""
    return False


@given(_payloads)
def test_the_short_way_gives_what_the_long_one_gives(payload: Payload) -> None:
    short = prepared(payload)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_is_plain", _never)
        assert prepared(payload) == short


def test_short_texts_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: object) -> None:
        raise AssertionError("sealed")

    monkeypatch.setattr(codec, "_sealed", never)
    assert prepared(MessageUser((TextPart("h\u00e9llo"),))).cites == ()
    with pytest.raises(AssertionError, match="sealed"):
        prepared(MessageUser((TextPart("x" * (LIMIT + 1)),)))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        # All of these would encode as a JSON string, and read again as a text.
        (b"bytes", r"message.user.parts\[0\].text"),
        (datetime.date(2026, 1, 1), r"message.user.parts\[0\].text"),
        (uuid.UUID(int=5), r"message.user.parts\[0\].text"),
        (5, r"message.user.parts\[0\].text"),
        (None, "parts"),
        (["x"], r"message.user.parts\[0\].text"),
    ],
)
def test_what_is_no_text_is_named(value: Any, path: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        prepared(MessageUser((TextPart(value),)))
    assert caught.match(path)


def test_a_list_of_parts_is_stored_like_a_tuple() -> None:
    parts: Any = [TextPart("x")]
    assert prepared(MessageUser(parts)).payload == prepared(MessageUser((TextPart("x"),))).payload


def test_a_blob_that_no_payload_names_is_refused() -> None:
    blob = Blob(bytes(32), b"x", "text/plain")
    with pytest.raises(InvalidEvent, match="does not name"):
        prepared(MessageUser((TextPart("short"),)), blobs=(blob,))


# --- ids and salts


def test_ids_are_of_version_7_and_rise_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 0x0123_4567_89AB * 1_000_000 + 999_999)
    made = [uuid.UUID(bytes=new_id()) for _ in range(2000)]
    assert {(each.version, each.variant) for each in made} == {(7, uuid.RFC_4122)}
    assert {each.bytes[:6] for each in made} == {bytes.fromhex("0123456789ab")}
    # Each of the 74 random bits is set in about half of them.
    counts = [sum(each.int >> bit & 1 for each in made) for bit in range(80)]
    fixed = {bit for bit, count in enumerate(counts) if count in (0, len(made))}
    assert fixed == {62, 63, *range(76, 80)}
    assert all(800 < count < 1200 for bit, count in enumerate(counts) if bit not in fixed)


def test_no_two_threads_get_the_same() -> None:
    made: list[list[bytes]] = [[] for _ in range(4)]

    def make(into: list[bytes]) -> None:
        into += [new_salt() for _ in range(3000)]

    threads = [threading.Thread(target=make, args=(each,)) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({salt for each in made for salt in each}) == 12_000


def test_a_forked_child_goes_its_own_way() -> None:
    new_salt()  # some are at hand now
    there, here = os.pipe()
    child = os.fork()
    if not child:
        os.write(here, b"".join(new_salt() for _ in range(50)))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(there, 800)
    os.close(there)
    os.close(here)
    assert len(theirs) == 800
    ours = {new_salt() for _ in range(600)}
    assert not ours & {theirs[at : at + 16] for at in range(0, 800, 16)}


def test_headers_keep_to_their_bits() -> None:
    with pytest.raises((struct.error, OverflowError)):
        codec.header(bytes(16), 2**64, bytes(16), "t", 1, 0, 0, "s", 0, 0, 0)
    made = codec.header(b"s" * 16, 7, b"i" * 16, "ty", 1, 2, 3, "\u00e9", -5, 6, 8)
    parts = (
        b"sawlog/1", b"s" * 16, (7).to_bytes(8), b"i" * 16, (2).to_bytes(4), b"ty",
        (1).to_bytes(4), (2).to_bytes(4), (3).to_bytes(8), (2).to_bytes(4), b"\xc3\xa9",
        (-5).to_bytes(8, signed=True), (6).to_bytes(8), (8).to_bytes(8),
    )  # fmt: skip
    assert made == b"".join(parts)


def test_prepared_says_what_was_given() -> None:
    event = prepared(MessageUser((TextPart("x"),)), step=3, id=b"i" * 16, ignorable=True)
    assert msgspec.structs.asdict(event) == {
        "id": b"i" * 16,
        "type": "message.user",
        "version": 1,
        "flags": 1,
        "step": 3,
        "source": "user",
        "occurred_at": 5,
        "payload": b'{"parts":[{"t":"text","text":"x"}]}',
        "salt": bytes(16),
        "blobs": (),
        "cites": (),
        "step_given": True,
        "occurred_given": False,
        "open": False,
        "redacted": None,
    }

"""Texts come back as they were said, from both databases, and give the same digests in both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.store.content import TextPart
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import InvalidEvent
from sawlog.store.events import CORE
from sawlog.store.events.conversation import MessageUser, ToolRequested
from sawlog.store.exchange import export
from sawlog.store.jsontext import source_of
from sawlog.store.log import Log
from sawlog.store.text import LIMIT, TextObject, plain, raw_bytes, seal
from tests.store.make_golden import ODD_JSON, ODD_TEXTS
from tests.store.stores import counted, made

# Whole range of characters, surrogates included, and the lengths around the bound.
CHARACTERS = st.characters(exclude_categories=()) | st.sampled_from(
    "\0\ud800\udfff\u00e9\U0001f600"
)


def stretched(text: str, size: int, end: str) -> str:
    """A text of so many bytes and an end."""
    return text + "x" * max(0, size - len(raw_bytes(text))) + end


TEXTS = st.text(CHARACTERS, max_size=40) | st.builds(
    stretched,
    st.text(CHARACTERS, max_size=5),
    st.integers(LIMIT - 8, LIMIT + 8),
    st.text(CHARACTERS, max_size=3),
)

SESSIONS = count(1)


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str) -> Iterator[tuple[Log, Log]]:
    """A log on each database, with equal clocks, ids and salts."""
    with made(str(tmp_path / "store.db")) as sqlite, made(postgres_url) as postgresql:
        yield fresh(Log(sqlite)), fresh(Log(postgresql))


def fresh(log: Log) -> Log:
    """The log once more, with clock, ids and salts that count from the start."""
    times = count(1)
    return Log(
        log.database,
        clock=lambda: next(times),
        make_id=counted(1),
        make_salt=counted(1 << 64),
    )


def say(log: Log, session: bytes, texts: list[str]) -> SessionRow:
    """Append each text as a message and as the arguments of a call."""
    row = log.session(id=session, create=True)
    for text in texts:
        events = [
            NewEvent(payload=MessageUser((TextPart(text),)), source="user"),
            NewEvent(payload=ToolRequested("c", text, text), source="provider:x", step=1),
        ]
        log.append(row, events)
    return log.get(row)


def said(log: Log, row: SessionRow) -> list[str]:
    """The texts as they are read back, from each of the places where they stand."""
    found: list[str] = []
    for event in log.read(row):
        content = CORE.decode(event)
        values = [content.name, content.arguments] if isinstance(content, ToolRequested) else []
        if isinstance(content, MessageUser):
            [part] = content.parts
            assert isinstance(part, TextPart)
            values = [part.text]
        for value in values:
            blobs: dict[str, bytes] = {}
            if isinstance(value, TextObject) and value.blob:
                digest = bytes.fromhex(value.blob)
                blobs = {value.blob: log.blobs(row, [digest])[digest]}
            found.append(plain(value, blobs))
    return found


def test_odd_texts_give_the_same_in_both_databases(pair: tuple[Log, Log]) -> None:
    texts = [*ODD_TEXTS.values(), *ODD_JSON.values()]
    rows = [say(log, b"s" * 16, texts) for log in pair]
    assert rows[0].digest == rows[1].digest
    files = [b"".join(export(log, row)) for log, row in zip(pair, rows, strict=True)]
    assert files[0] == files[1]
    for log, row in zip(pair, rows, strict=True):
        assert said(log, row) == [text for text in texts for _ in range(3)]


@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
@settings(max_examples=60)
def test_any_text_gives_the_same_in_both_databases(
    pair_for_all: tuple[Log, Log], texts: list[str]
) -> None:
    session = hashlib.sha256(str(next(SESSIONS)).encode()).digest()[:16]
    logs = [fresh(log) for log in pair_for_all]
    rows = [say(log, session, texts) for log in logs]
    assert rows[0].digest == rows[1].digest
    for log, row in zip(logs, rows, strict=True):
        assert said(log, row) == [text for text in texts for _ in range(3)]


@pytest.fixture(scope="module")
def pair_for_all(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: object
) -> Iterator[tuple[Log, Log]]:
    """The same for tests with many examples."""
    from tests.postgres import PostgresServer

    assert isinstance(postgres_server, PostgresServer)
    path = str(tmp_path_factory.mktemp("texts") / "store.db")
    with postgres_server.store() as url, made(path) as sqlite, made(url) as postgresql:
        yield Log(sqlite), Log(postgresql)


@given(text=TEXTS)
@settings(max_examples=300)
def test_the_stored_form_follows_from_the_raw_bytes(text: str) -> None:
    """A string where one will do, WTF-8 where it is no Unicode, a blob above 4,096 bytes."""
    raw = raw_bytes(text)
    value, blob = seal(text)
    is_unicode = not any("\ud800" <= c <= "\udfff" for c in text)
    if len(raw) > LIMIT:
        assert isinstance(value, TextObject) and blob is not None
        assert (value.blob, value.size, value.wtf8) == (blob.digest.hex(), len(raw), "")
        assert value.media == ("text/plain" if is_unicode else "text/wtf-8")
        assert (blob.data, blob.digest) == (raw, hashlib.sha256(raw).digest())
    else:
        assert blob is None
        assert isinstance(value, str) == is_unicode
    assert seal(text) == (value, blob)
    assert plain(value, {blob.digest.hex(): blob.data} if blob else {}) == text
    # Through JSON and back it is still the same value.
    assert msgspec.json.decode(msgspec.json.encode(value), type=str | TextObject) == value


def test_json_of_others_keeps_its_source(pair: tuple[Log, Log]) -> None:
    """A value is made into text once, keys in the caller's order, numbers with their sign."""
    value = {"b": -0.0, "a": 10**40, "\u00e9": ["\0", "\ud800", True, None, 1e300]}
    source = source_of(value)
    number = "1" + "0" * 40
    assert source == (f'{{"b":-0.0,"a":{number},"\u00e9":["\\u0000","\ud800",true,null,1e+300]}}')
    rows = [say(log, b"j" * 16, [source]) for log in pair]
    assert rows[0].digest == rows[1].digest
    assert [said(log, row) for log, row in zip(pair, rows, strict=True)] == [[source] * 3] * 2


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, float("nan")]}, r"value\.a\[1\]"),
        ([float("inf")], r"value\[0\]"),
        ({"a": {1, 2}}, r"value\.a"),
        ({"a": {3: 4}}, r"value\.a"),
        (b"bytes", "value"),
    ],
)
def test_what_json_cannot_say_is_refused_with_its_path(value: object, path: str) -> None:
    with pytest.raises(InvalidEvent, match=f"^{path}: "):
        source_of(value)

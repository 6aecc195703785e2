"""Large contents in an object store, and in the database where that one fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import sawlog
from sawlog.store import errors
from sawlog.store.objects import FileObjects

LARGE = "a long text. " * 2000


@pytest.fixture
def log(store_url: str, tmp_path: Path) -> Iterator[sawlog.AgentLog]:
    with sawlog.open(store_url, objects=FileObjects(tmp_path / "objects")) as opened:
        yield opened


def said(log: sawlog.AgentLog) -> str:
    with log.session("task") as s:
        s.user(LARGE)
        body = s.step("openai-chat", model="m").body.decode()
    return body


def files(folder: Path) -> list[Path]:
    return [path for path in (folder / "objects").rglob("*") if path.is_file()]


def held(log: sawlog.AgentLog) -> list[tuple[int, int]]:
    """Codec and bytes in the database of each content."""
    with log.store.database.read() as tx:
        return [(row[0], row[1]) for row in tx.all("SELECT codec, length(data) FROM sawlog.blobs")]


def test_a_large_content_lies_in_the_object_store(log: sawlog.AgentLog, tmp_path: Path) -> None:
    body = said(log)
    assert LARGE in body
    (file,) = files(tmp_path)
    assert file.read_bytes() == LARGE.encode()
    assert file.parent.name == log.find("task").id.hex()
    assert [codec for codec, _ in held(log)] == [2]
    recorded = log.read("task")
    assert recorded.steps[1].packet.body.decode() == body
    assert recorded.verify().sound


def test_an_object_store_that_fails_leaves_the_content_to_the_database(
    log: sawlog.AgentLog, tmp_path: Path
) -> None:
    """Case 44: nothing is cut, nothing is lost."""
    (tmp_path / "objects").write_text("no folder", encoding="utf-8")
    assert LARGE in said(log)
    ((codec, size),) = held(log)
    assert codec == 1 and size > 0
    assert log.read("task").verify().sound


def test_an_object_that_is_gone_is_missing_and_refuses_the_packet(
    log: sawlog.AgentLog, tmp_path: Path
) -> None:
    """Case 61: a named refusal before anything is sent, and verify names the event."""
    with log.session("task") as s:
        s.user(LARGE)
    shutil.rmtree(tmp_path / "objects")
    with log.session("task") as s, pytest.raises(errors.Refused) as refused:
        s.step("openai-chat", model="m")
    assert refused.value.reason == "missing_blob"
    report = log.read("task").verify()
    assert report.bad_seq == 2 and "object store" in report.chain


def test_an_altered_object_is_damage(log: sawlog.AgentLog, tmp_path: Path) -> None:
    said(log)
    (file,) = files(tmp_path)
    file.write_bytes(LARGE.encode().replace(b"long", b"lost", 1))
    with pytest.raises(errors.Damaged):
        _ = log.read("task").steps[1].packet
    assert log.read("task").verify().bad_seq == 2


def test_without_the_object_store_the_rest_reads_and_the_content_is_named(
    log: sawlog.AgentLog, store_url: str
) -> None:
    said(log)
    with sawlog.open(store_url, read_only=True) as bare:
        assert len(list(bare.read("task").events())) == log.find("task").head
        report = bare.read("task").verify()
    assert report.bad_seq == 2 and "open the log with that store" in report.chain

"""Blobs of packs that are at hand: read without their rows, and only while their pack is there."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sawlog.store.database import open_database
from sawlog.store.log import Log
from sawlog.store.packing import pack
from tests.store.stores import REGISTRY, note, tables_read

TEXTS = [f"{number} " * 3_000 for number in range(8)]
DIGESTS = [hashlib.sha256(text.encode()).digest() for text in TEXTS]
WHOLE = dict(zip(DIGESTS, (text.encode() for text in TEXTS), strict=True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a session whose texts lie in one pack, and another session without any."""
    path = tmp_path / "packed.db"
    with open_database(path) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        log.append(session, [note(text) for text in [*TEXTS, "the end"]])
        log.append(log.session("other", create=True), [note("short")])
        pack(database, log.get(session))
    return path


def test_blobs_of_a_pack_at_hand_are_read_without_their_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tables_read(monkeypatch)
    with open_database(path, read_only=True) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s")
        assert log.blobs(session, DIGESTS) == WHOLE and "blobs" in seen
        seen.clear()
        assert log.blobs(session, DIGESTS) == WHOLE and "blobs" not in seen
        # They are one session's alone, whatever is at hand.
        assert log.blobs(log.session("other"), DIGESTS) == {}


def test_what_was_packed_again_or_is_gone_is_looked_for_anew(path: Path) -> None:
    with open_database(path, read_only=True) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s")
        assert log.blobs(session, DIGESTS) == WHOLE
        with open_database(path) as other:
            pack(other, session, again=True)
        assert log.blobs(session, DIGESTS) == WHOLE
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("DELETE FROM packs")
            raw.execute("DELETE FROM blobs WHERE digest = ?", (DIGESTS[0],))
            raw.commit()
        assert log.blobs(session, DIGESTS[:1]) == {}

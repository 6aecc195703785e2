"""A store of the first schema, as a release wrote it that packed rows with a dictionary."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import sawlog
from sawlog.store.blobs import TAUGHT
from sawlog.store.content import TextPart
from sawlog.store.database import SCHEMA, open_database
from sawlog.store.dictionaries import LABEL
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import Damaged
from sawlog.store.events.conversation import MessageUser
from sawlog.store.exchange import export
from sawlog.store.follow import follow
from sawlog.store.log import Log
from sawlog.store.packing import pack
from sawlog.store.salvage import salvage
from tests.store.damage import change, columns, flips, named
from tests.store.files import file_of
from tests.store.stores import ROOT

GOLDEN = ROOT / "fixtures" / "stores"
WANTED = json.loads((GOLDEN / "schema-1.json").read_text())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A copy of the store."""
    copy = tmp_path / "old.db"
    copy.write_bytes(gzip.decompress((GOLDEN / "schema-1.db.gz").read_bytes()))
    return copy


def exports(log: Log) -> dict[str, str]:
    """The digest of each session's export."""
    return {
        str(row.name): hashlib.sha256(b"".join(export(log, row))).hexdigest()
        for row in log.sessions()
    }


def golden() -> dict[str, str]:
    """What `exports` must give."""
    return {name: each["export"] for name, each in WANTED.items()}


def schema_of(path: Path) -> int:
    """The number of the store's schema."""
    with closing(sqlite3.connect(path)) as raw:
        number: int = raw.execute("PRAGMA user_version").fetchone()[0]
    return number


def test_it_is_read_as_it_is(path: Path) -> None:
    before = path.read_bytes()
    with open_database(path, read_only=True) as database:
        log = Log(database)
        assert exports(log) == golden() and named(log) == {}
        row = log.session("long")
        events = list(log.read(row))
        assert [place.event for place in log.stored(row)] == events
        assert log.by_event_id(row, events[150].id) == events[150]
        assert [e.event for e in follow(database) if e.session == row.id] == events
    assert path.read_bytes() == before and schema_of(path) == 1


def test_its_packets_come_out(path: Path) -> None:
    with sawlog.open(str(path), read_only=True) as log:
        for name, each in WANTED.items():
            read = log.read(name)
            bodies = [hashlib.sha256(step.packet.body).hexdigest() for step in read.steps]
            assert bodies == each["packets"]
            assert read.verify().sound


def test_it_goes_on_and_is_packed(path: Path) -> None:
    with sawlog.open(str(path)) as log:
        assert schema_of(path) == SCHEMA
        with log.session("long", window=20_000) as session:
            session.user("on")
            session.step("openai-chat", model="m")
        assert log.read("long").verify().sound and log.read("fork").verify().sound
    with open_database(path) as database:
        store = Log(database)
        row = store.session("long")
        file = file_of(store, row)
        pack(database, row)
        with database.read() as tx:
            assert tx.all("SELECT count(*) FROM sawlog.events WHERE sid = ?", (row.sid,)) == [(1,)]
        assert file_of(store, row) == file and exports(store)["fork"] == golden()["fork"]
        assert named(store) == {}


def test_a_dictionary_goes_with_the_last_row_that_needs_it(path: Path) -> None:
    with open_database(path) as database:
        log = Log(database)
        row = log.session("long")
        there = "SELECT count(*) FROM sawlog.blobs WHERE sid = ? AND digest = ?"
        needed = "SELECT count(*) FROM sawlog.events WHERE sid = ? AND codec = ?"
        for keep, left in ((40, 1), (1, 1)):
            pack(database, row, keep)
            with database.read() as tx:
                assert tx.all(there, (row.sid, LABEL)) == [(left,)]
        log.append(row, [NewEvent(payload=MessageUser((TextPart("on"),)), source="user")])
        pack(database, log.get(row))
        with database.read() as tx:
            assert tx.all(needed, (row.sid, TAUGHT)) == [(0,)]
            assert tx.all(there, (row.sid, LABEL)) == [(0,)]
        assert named(log) == {} and exports(log)["fork"] == golden()["fork"]


def test_whoever_had_it_open_is_told_of_the_schema(path: Path) -> None:
    """A handle of an older release moves a head by the fence that it saw."""
    with closing(sqlite3.connect(path)) as raw:
        before = raw.execute("SELECT fence FROM sessions ORDER BY sid").fetchall()
    with open_database(path) as database:
        log = Log(database)
        assert [(row.fence - 1,) for row in log.sessions()] == before
        assert named(log) == {} and exports(log) == golden()


@pytest.mark.parametrize("column", ["sid", "digest", "size", "codec", "key", "data"])
def test_a_bit_in_a_dictionary_is_named_and_never_read_as_text(
    path: Path, tmp_path: Path, column: str
) -> None:
    with closing(sqlite3.connect(path)) as raw:
        assert columns(raw, "blobs") == ["sid", "digest", "size", "codec", "key", "data"]
        rowid, value = raw.execute(
            f"SELECT rowid, {column} FROM blobs WHERE sid = 1 AND digest = ?", (LABEL,)
        ).fetchone()
        [(first,)] = raw.execute("SELECT min(seq) FROM events WHERE codec = ?", (TAUGHT,))
    copy = tmp_path / "copy.db"
    tried = 0
    for flip in list(flips(value, random.Random(column)))[::5]:
        shutil.copy(path, copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as raw:
            if not change(raw, "blobs", rowid, column, flip):
                continue
        tried += 1
        with open_database(copy, read_only=True) as database:
            log = Log(database)
            hurt = log.session("long")
            assert named(log)[hurt.id.hex()] == first, flip
            with pytest.raises(Damaged, match="dictionary") as caught:
                list(log.read(hurt))
            assert (caught.value.session, caught.value.seq) == (hurt.id.hex(), first)
            saved = salvage(log, hurt)
            assert saved.last_good == first - 1
            assert any("dictionary" in rest.what for rest in saved.rest)
        with open_database(copy) as database:  # what does not read is left as it is
            log = Log(database)
            with pytest.raises(Damaged, match="dictionary"):
                pack(database, log.session("long"))
            assert named(log)[hurt.id.hex()] == first
    assert tried


def test_a_dictionary_that_is_gone_is_missed_by_name(path: Path) -> None:
    with open_database(path) as database:
        log = Log(database)
        with database.write() as tx:
            assert tx.run("DELETE FROM sawlog.blobs WHERE digest = ?", (LABEL,)) == 1
        with pytest.raises(Damaged, match=r"event .*dictionary.*is missing"):
            list(log.read(log.session("long")))

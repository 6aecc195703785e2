"""One flipped bit anywhere is named by session and event, and hides no other session."""

from __future__ import annotations

import random

import pytest

from sawlog.store.database import open_database
from sawlog.store.directory import SessionRow
from sawlog.store.errors import Damaged, StoreError
from sawlog.store.log import Log
from sawlog.store.salvage import salvage
from tests.store.damage import FORKED_AT, HEAD, Copy, Template, change, columns, fill, flips, named
from tests.store.files import file_of
from tests.store.stores import made

EVENT_COLUMNS = (
    "pos sid seq id type version flags step source occurred_at recorded_at fence salt commitment "
    "digest cites codec key payload"
).split()


@pytest.mark.parametrize("column", EVENT_COLUMNS)
def test_a_bit_in_an_event_is_named(copy: Copy, template: Template, column: str) -> None:
    raw = copy.fresh()
    assert columns(raw, "events") == EVENT_COLUMNS
    hurt, child = template.ids["hurt"], template.ids["child"]
    tried = 0
    for seq in (1, 3, 4, 5, 6, 7, 8, HEAD):
        raw = copy.fresh()
        rowid, value = raw.execute(
            f"SELECT pos, {column} FROM events WHERE sid = 1 AND seq = ?", (seq,)
        ).fetchone()
        for flip in list(flips(value, random.Random(f"{column} {seq}")))[:: 1 + (seq > 5)]:
            raw = copy.fresh()
            if not change(raw, "events", rowid, column, flip):
                continue
            tried += 1
            raw.close()
            found = copy.named()
            assert template.ids["other"] not in found
            if column == "pos":
                # A place in the order of arrival: what keeps the order is no damage.
                assert found.get(hurt, seq) in (seq, seq + 1), flip
                assert found or copy.whole("hurt")
                continue
            wanted = {hurt: seq, child: seq} if seq <= FORKED_AT else {hurt: seq}
            assert found == wanted, (column, seq, flip)
            assert copy.whole("other")
    assert tried > 15


@pytest.mark.parametrize("column", ["sid", "digest", "size", "codec", "key", "data"])
def test_a_bit_in_a_blob_is_named(copy: Copy, template: Template, column: str) -> None:
    raw = copy.fresh()
    assert columns(raw, "blobs") == ["sid", "digest", "size", "codec", "key", "data"]
    rows = raw.execute(f"SELECT rowid, digest, {column} FROM blobs WHERE sid = 1").fetchall()
    assert len(rows) == 3
    for rowid, digest, value in rows:
        seq = template.blobs[digest]
        for flip in flips(value, random.Random(column)):
            raw = copy.fresh()
            if not change(raw, "blobs", rowid, column, flip):
                continue
            raw.close()
            found = copy.named()
            assert found.pop(template.ids["hurt"]) == seq, flip
            # The fork cites what stands in its first events, and once more in its own.
            assert found.pop(template.ids["child"], seq) in (seq, 6), flip
            assert not found and copy.whole("other")


DIRECTORY_COLUMNS = (
    "sid tenant id name source_id head digest fence owner expires_at created_at touched_at parent "
    "ancestors crc"
).split()


@pytest.mark.parametrize("column", DIRECTORY_COLUMNS)
def test_a_bit_in_the_directory_is_named(copy: Copy, template: Template, column: str) -> None:
    raw = copy.fresh()
    assert columns(raw, "sessions") == DIRECTORY_COLUMNS
    tried = 0
    for name in ("hurt", "child"):
        raw = copy.fresh()
        rowid, value = raw.execute(
            f"SELECT sid, {column} FROM sessions WHERE name = ?", (name,)
        ).fetchone()
        for flip in flips(value, random.Random(f"{column} {name}")):
            raw = copy.fresh()
            if not change(raw, "sessions", rowid, column, flip):
                continue
            tried += 1
            raw.close()
            found = copy.named()
            if column == "id":
                # It is named as it is found.
                assert len(found) in (1, 2, 3) and template.ids["other"] not in found
            else:
                assert template.ids[name] in found, (column, name, flip)
                assert set(found) <= {template.ids["hurt"], template.ids["child"]}
            assert copy.whole("other")
            if column not in ("sid", "tenant", "id"):
                self_saved(copy, template, name, column)
    assert tried > 3


def self_saved(copy: Copy, template: Template, name: str, column: str) -> None:
    """Damage in the directory costs no event, unless it is about which events there are."""
    session = bytes.fromhex(template.ids[name])
    with open_database(copy.path, read_only=True) as database:
        try:
            saved = salvage(Log(database), session)
        except Damaged:
            assert column in ("ancestors", "digest", "head")
            return
        if column != "ancestors":
            assert saved.last_good == (HEAD if name == "hurt" else 7), column
            assert [rest.seq for rest in saved.rest if not 0 < rest.seq <= saved.last_good]


@pytest.mark.parametrize(
    "column", ["sid", "fold", "layout", "seq", "chain", "digest", "codec", "key", "data"]
)
def test_a_bit_in_a_snapshot_is_passed_over(copy: Copy, template: Template, column: str) -> None:
    raw = copy.fresh()
    rowid, value = raw.execute(f"SELECT rowid, {column} FROM snapshots").fetchone()
    for flip in flips(value, random.Random(column)):
        raw = copy.fresh()
        assert change(raw, "snapshots", rowid, column, flip)
        raw.close()
        with open_database(copy.path, read_only=True) as database:
            log = Log(database)
            kept = log.snapshot_get(log.session("hurt"), fold=1, layout=1)
            assert kept is None or (column == "key" and kept == template.snapshot)
            assert named(log) == {}


# --- the same elsewhere


def test_bits_in_postgresql(postgres_url: str, template: Template) -> None:
    with made(postgres_url) as database:
        log = Log(database)
        fill(log)
        ids = {row.name: row.id.hex() for row in log.sessions()}
        sid = log.session("hurt").sid
        assert named(log) == {}
        for table, column, where, new, wanted in (
            ("events", "payload", "seq = 2", "set_bit(payload, 33, 1 - get_bit(payload, 33))", 2),
            ("events", "payload", "seq = 4", "set_bit(payload, 99, 1 - get_bit(payload, 99))", 4),
            ("events", "salt", "seq = 6", "set_bit(salt, 1, 1 - get_bit(salt, 1))", 6),
            ("events", "digest", "seq = 9", "set_bit(digest, 1, 1 - get_bit(digest, 1))", 9),
            ("events", "type", "seq = 12", "'message.uses'", 12),
            ("events", "cites", "seq = 7", "NULL", 7),
            ("events", "xid", "seq = 11", "'3'", 11),
            ("events", "recorded_at", "seq = 12", "recorded_at # 4096", 12),
            ("blobs", "data", "size = 6000", "set_bit(data, 77, 1 - get_bit(data, 77))", 3),
            ("blobs", "size", "size = 204", "205", 6),
            ("sessions", "head", "TRUE", "head - 1", 12),
            ("sessions", "digest", "TRUE", "set_bit(digest, 1, 1 - get_bit(digest, 1))", 0),
            ("sessions", "fence", "TRUE", "fence # 1024", 0),
            ("sessions", "name", "TRUE", "'hurd'", 0),
            ("sessions", "tenant", "TRUE", "'defauld'", 0),
            ("sessions", "touched_at", "TRUE", "touched_at # 1", 0),
        ):
            at = f"sid = {sid} AND {where}"
            with database.write() as tx:
                kept = tx.all(f"SELECT {column}::text FROM sawlog.{table} WHERE {at}")
                tx.run(f"UPDATE sawlog.{table} SET {column} = {new} WHERE {at}")
            found = named(log)
            assert found.get(ids["hurt"]) == wanted, (table, column, found)
            assert ids["other"] not in found
            kind = {"digest": "bytea", "payload": "bytea", "salt": "bytea", "cites": "bytea"}
            kind |= {"data": "bytea", "xid": "xid8", "type": "text", "name": "text"}
            cast = kind.get(column, "text" if column == "tenant" else "bigint")
            back = at.replace("size = 204", "size = 205")
            with database.write() as tx:
                tx.run(
                    f"UPDATE sawlog.{table} SET {column} = ?::text::{cast} WHERE {back}", kept[0]
                )
            assert named(log) == {}


def test_bits_in_the_file_never_pass_unseen(copy: Copy, template: Template) -> None:
    """Whatever a bit does to pages and indexes: a session reads as written, or it is named."""
    chance = random.Random(11)
    unharmed = refused = told = 0
    # Behind SQLite's own header, and not in the room that pages have left.
    places = [at for at in range(100, len(template.bytes)) if template.bytes[at]]
    for at in chance.sample(places, 500):
        raw = bytearray(template.bytes)
        raw[at] ^= 1 << chance.randrange(8)
        copy.path.write_bytes(raw)
        try:
            with open_database(copy.path, read_only=True) as database:
                log = Log(database)
                found = named(log)
                listed = {row.id.hex(): row for row in log.sessions()}
                harm = harmed(log, template, listed)
        except StoreError:
            refused += 1
            continue
        assert harm <= set(found), (at, harm, found)
        told += bool(found)
        unharmed += not found
    # What is refused whole is hit on its first page, where the tables are declared.
    assert unharmed and told > 200 and refused < 200, (unharmed, told, refused)


def harmed(log: Log, template: Template, listed: dict[str, SessionRow]) -> set[str]:
    """The sessions that do not come out as they were written."""
    harm: set[str] = set()
    for name, file in template.files.items():
        id = template.ids[name]
        try:
            if id not in listed or file_of(log, listed[id]) != file:
                harm.add(id)
        except StoreError:
            harm.add(id)
    return harm

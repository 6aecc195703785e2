"""One flipped bit anywhere is named by session and event, hides no other session, and costs only
what stands behind it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sawlog.recorded import Recorded
from sawlog.store.checked import directory_damage
from sawlog.store.content import MediaPart, TextPart
from sawlog.store.database import open_database
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import Damaged, NoSession, StoreError
from sawlog.store.events.conversation import MessageUser
from sawlog.store.exchange import load
from sawlog.store.log import Log
from sawlog.store.salvage import Rest, salvage
from sawlog.verifying import verify
from tests.store.files import content, file_of
from tests.store.make_golden import erase
from tests.store.stores import made

HEAD = 12
FORKED_AT = 5
PICTURE = content(b"\x89PNG" + bytes(range(200)))


def say(*texts: str | MediaPart, **fields: Any) -> NewEvent:
    """A message of the user's."""
    parts = tuple(TextPart(each) if isinstance(each, str) else each for each in texts)
    return NewEvent(payload=MessageUser(parts), source="user", **fields)


def fill(log: Log) -> None:
    """A session of each kind of row, a fork of it, and one that nothing is done to."""
    noise = random.Random(7)
    hurt = log.session("hurt", create=True, source_id="codex:0199")
    log.append(hurt, [say("one"), say("two")])
    log.append(hurt, [say(noise.randbytes(3000).hex())])  # a blob as it is
    log.append(hurt, [say(*[f"line {number} " * 20 for number in range(20)])])  # packed
    lease = log.leases.acquire(hurt.id, "driver", 60.0)
    log.append(hurt, [say("word " * 2000, step=3)], lease=lease)  # a packed blob
    picture = MediaPart("image/png", blob=PICTURE.digest.hex())
    log.append(
        hurt,
        [say("seen", picture, blobs=(_blob(),)), say("word " * 2000, "again")],
        lease=lease,
    )
    log.append(hurt, [say("to be erased")], lease=lease)
    erase(log, log.get(hurt))
    log.append(hurt, [say(str(number)) for number in range(9, HEAD + 1)], lease=lease)
    child = log.fork(hurt, FORKED_AT, name="child")
    log.append(child, [say("word " * 2000), say("of the child")])
    other = log.session("other", create=True)
    log.append(other, [say("untouched"), say("word " * 2000)])
    row = log.get(hurt)
    log.snapshot_put(
        row, 6, log.events(row, [6])[0].digest, fold=1, layout=1, data=noise.randbytes(200)
    )


def _blob() -> Any:
    from sawlog.store.text import Blob

    return Blob(PICTURE.digest, PICTURE.data, "image/png")


class Template:
    """A filled SQLite store, to be copied, and what is in it."""

    def __init__(self, folder: Path) -> None:
        path = folder / "template.db"
        with open_database(path) as database:
            log = Log(database)
            fill(log)
            self.files = {row.name: file_of(log, row) for row in log.sessions()}
            self.ids = {row.name: row.id.hex() for row in log.sessions()}
            self.blobs = {
                digest: event.seq
                for event in reversed(list(log.stored(log.session("hurt"))))
                for digest in event.cites
            }
            self.snapshot = log.snapshot_get(log.session("hurt"), fold=1, layout=1)
            assert self.snapshot is not None
        with closing(sqlite3.connect(path)) as raw:
            assert raw.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
        self.bytes = path.read_bytes()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The store of this module."""
    return Template(tmp_path_factory.mktemp("template"))


class Copy:
    """A copy of the store, to be damaged and looked at."""

    def __init__(self, path: Path, template: Template) -> None:
        self.path = path
        self.template = template
        self.raw = sqlite3.connect(":memory:")

    def fresh(self) -> sqlite3.Connection:
        """The store as it was, opened for writing; closes the one before."""
        self.raw.close()
        self.path.write_bytes(self.template.bytes)
        self.raw = sqlite3.connect(self.path, isolation_level=None)
        self.raw.execute("PRAGMA synchronous=OFF")
        return self.raw

    def named(self) -> dict[str, int]:
        """What verify names: session to seq, 0 for its row in the directory."""
        with open_database(self.path, read_only=True) as database:
            return named(Log(database))

    def whole(self, name: str) -> bool:
        """True when a session reads as it was written, byte for byte."""
        with open_database(self.path, read_only=True) as database:
            log = Log(database)
            [row] = log.find(name)
            return file_of(log, row) == self.template.files[name]


def named(log: Log) -> dict[str, int]:
    """What verify names in a store: session to seq, 0 for its row in the directory."""
    found = {error.session: error.seq for error in directory_damage(log)}
    for row in log.sessions():
        report = verify(Recorded(log, row))
        if not report.sound:
            assert report.chain != "ok"
            found[report.session] = report.bad_seq
    return found


@pytest.fixture
def copy(tmp_path: Path, template: Template) -> Iterator[Copy]:
    """A copy of the store."""
    copy = Copy(tmp_path / "copy.db", template)
    yield copy
    copy.raw.close()


# --- flips

Flip = tuple[str, object]


def flips(value: object, chance: random.Random) -> Iterator[Flip]:
    """Values that differ from one in a bit, as SQL and its parameter; of long ones a sample."""
    if isinstance(value, int):
        for bit in (*range(0, 63, 7), 62):
            yield "?", value ^ 1 << bit
        yield "?", -value - 1
        yield "CAST(? AS TEXT)", f"{value}x"
    elif isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        places = range(len(raw)) if len(raw) <= 32 else sorted(chance.sample(range(len(raw)), 24))
        same, opposite = ("TEXT", "BLOB") if isinstance(value, str) else ("BLOB", "TEXT")
        for at in places:
            changed = bytearray(raw)
            changed[at] ^= 1 << chance.randrange(8)
            yield f"CAST(? AS {same})", bytes(changed)
        yield f"CAST(? AS {opposite})", raw  # the one bit that says which of both it is
        yield f"CAST(? AS {same})", raw[:-1]
    else:
        yield "?", 1
        yield "?", "x"
        yield "?", b"x"


def columns(raw: sqlite3.Connection, table: str) -> list[str]:
    """The names of a table's columns."""
    return [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]


def change(raw: sqlite3.Connection, table: str, rowid: int, column: str, flip: Flip) -> bool:
    """Write a flipped value; False where the table's own rules forbid it."""
    try:
        raw.execute(f"UPDATE {table} SET {column} = {flip[0]} WHERE rowid = ?", (flip[1], rowid))
    except sqlite3.IntegrityError:
        return False
    return True


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
            if column == "expires_at" and isinstance(value, int) and flip[0] == "?":
                continue  # the end of a lease is no record: any number may be one
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


# --- what is saved


@pytest.mark.parametrize("seq", range(1, HEAD + 1))
def test_the_longest_good_prefix_is_saved(
    copy: Copy, template: Template, tmp_path: Path, seq: int
) -> None:
    raw = copy.fresh()
    raw.execute("UPDATE events SET step = step + 1 WHERE sid = 1 AND seq = ?", (seq,))
    raw.close()
    with (
        open_database(copy.path, read_only=True) as database,
        open_database(tmp_path / "new.db") as fresh,
    ):
        log, new = Log(database), Log(fresh)
        saved = salvage(log, log.session("hurt"))
        assert (saved.session, saved.name) == (template.ids["hurt"], "hurt")
        assert saved.last_good == seq - 1
        assert [rest.seq for rest in saved.rest] == list(range(seq, HEAD + 1))
        assert "digest" in saved.rest[0].what and not saved.rest[0].readable
        for rest in saved.rest[1:]:
            assert rest == Rest(rest.seq, f"it stands behind event {seq}, which is damaged", True)
        row = load(new, saved.good)
        assert (row.head, row.digest) == (seq - 1, saved.digest)
        whole = template.files["hurt"].splitlines(keepends=True)
        assert list(saved.good)[:-1] == whole[: len(list(saved.good)) - 1]
        assert list(saved.good) == list(saved.good)
        assert named(new) == {}


def test_nothing_is_wrong_with_a_sound_session(copy: Copy, template: Template) -> None:
    copy.fresh().close()
    with open_database(copy.path, read_only=True) as database:
        log = Log(database)
        for name, file in template.files.items():
            saved = salvage(log, log.session(name))
            assert saved.rest == () and b"".join(saved.good) == file
        with pytest.raises(NoSession):
            salvage(log, b"n" * 16)


def test_each_kind_of_damage_says_its_reason(copy: Copy, template: Template) -> None:
    """The digest, a missing row, a row that does not read, a blob; and a row that needs mending."""
    raw = copy.fresh()
    raw.executescript(
        "UPDATE events SET cites = NULL WHERE sid = 1 AND seq = 3;"
        "UPDATE events SET digest = zeroblob(32) WHERE sid = 1 AND seq = 4;"
        "DELETE FROM events WHERE sid = 1 AND seq IN (6, 7);"
        "UPDATE events SET payload = 'text' WHERE sid = 1 AND seq = 9;"
        "UPDATE events SET codec = 5 WHERE sid = 1 AND seq = 11;"
        "DELETE FROM events WHERE sid = 1 AND seq = 12;"
        "UPDATE blobs SET data = zeroblob(10) WHERE size > 6500"
    )
    raw.close()
    with open_database(copy.path, read_only=True) as database:
        log = Log(database)
        saved = salvage(log, log.session("hurt"))
        assert saved.last_good == 3
        told = {rest.seq: (rest.what, rest.readable) for rest in saved.rest}
    assert set(told) == {3, 4, 5, 6, 8, 9, 10, 11, 12}
    assert told[3] == ("the blobs listed beside it are not those that it names", True)
    assert "digest does not follow" in told[4][0]
    assert told[5] == ("it stands behind event 4, which is damaged", True)
    assert told[6] == ("the rows of events 6 to 7 are missing", False)
    assert told[9][0].endswith("its row does not hold what belongs there")
    assert "codec 5" in told[11][0]
    assert told[12] == ("its row is missing", False)
    assert not told[8][1] and not told[9][1] and not told[11][1]


def test_damage_of_a_fork_in_its_ancestors(copy: Copy, tmp_path: Path) -> None:
    raw = copy.fresh()
    raw.execute("UPDATE events SET type = 'message.usex' WHERE sid = 1 AND seq = 3")
    raw.close()
    with (
        open_database(copy.path, read_only=True) as database,
        open_database(tmp_path / "new.db") as fresh,
    ):
        log, new = Log(database), Log(fresh)
        saved = salvage(log, log.session("child"))
        assert saved.last_good == 2 and [rest.seq for rest in saved.rest] == [3, 4, 5, 6, 7]
        row = load(new, saved.good)
        assert (row.name, row.head) == ("child", 2)
        assert b"".join(saved.good) == file_of(new, row)
        assert named(new) == {}


def test_an_append_does_not_build_on_a_damaged_directory(copy: Copy) -> None:
    for column, value in (("fence", 9), ("owner", "x"), ("name", "hurd"), ("source_id", None)):
        raw = copy.fresh()
        raw.execute(f"UPDATE sessions SET {column} = ? WHERE sid = 1", (value,))
        raw.close()
        with open_database(copy.path) as database:
            log = Log(database)
            session = log.sessions()[0]
            with pytest.raises(Damaged, match="check number"):
                log.append(session, [say("more")])
            with pytest.raises(Damaged, match="check number"):
                log.leases.acquire(session.id, "me", 1.0)
            assert log.get(session).head == HEAD


def test_rows_behind_the_head_are_named(copy: Copy, template: Template) -> None:
    raw = copy.fresh()
    head, digest = raw.execute(
        "SELECT seq, digest FROM events WHERE sid = 1 AND seq = 10"
    ).fetchone()
    raw.execute("UPDATE sessions SET head = ?, digest = ? WHERE sid = 1", (head, digest))
    raw.close()
    assert copy.named() == {template.ids["hurt"]: 11}
    with open_database(copy.path, read_only=True) as database:
        log = Log(database)
        saved = salvage(log, log.session("hurt"))
        assert saved.last_good == HEAD and b"".join(saved.good) == template.files["hurt"]


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
    assert unharmed and told > 150 and refused < 100, (unharmed, told, refused)


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

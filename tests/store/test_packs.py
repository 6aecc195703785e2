"""Old events lie together in packs, and every way of reading gives what was written."""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.store import packing
from sawlog.store.checked import Check
from sawlog.store.codec import commit, header, link
from sawlog.store.database import open_database
from sawlog.store.errors import Conflict, Damaged
from sawlog.store.exchange import load
from sawlog.store.follow import follow
from sawlog.store.log import Log
from sawlog.store.pack import PROVED, RUN, Gathered, Pack
from sawlog.store.packing import pack
from sawlog.store.packs import ids_of, places
from sawlog.store.salvage import salvage
from tests.store.damage import change, columns, flips, named
from tests.store.files import file_of
from tests.store.make_golden import erase
from tests.store.stores import REGISTRY, counted, note
from tests.store.talk import said, talk, text
from tests.store.test_kill import Victim, sound
from tests.store.victims import LAST, pack_away

SMALL = {"DUE_EVENTS": 40, "KEPT": 8, "FULL_EVENTS": 64}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store is made."""
    return tmp_path / "packed.db"


@pytest.fixture
def log(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """A log whose sessions are soon packed."""
    for name, value in SMALL.items():
        monkeypatch.setattr(packing, name, value)
    with open_database(path) as database:
        yield Log(database, registry=REGISTRY)


def packed(log: Log, sid: int) -> list[tuple[int, int]]:
    """First and last event of each pack of a session."""
    with log.database.read() as tx:
        return [(place.first, place.last) for place in places(tx, sid, 0, 10**6)]


def rows(log: Log, sid: int) -> int:
    """How many events of a session have rows."""
    with log.database.read() as tx:
        found = tx.one("SELECT count(*) FROM sawlog.events WHERE sid = ?", (sid,))
    assert found is not None
    return int(found[0])


# --- the bytes of a pack

_numbers = st.integers(0, 2**63 - 1)
_times = st.one_of(st.just(-(2**63)), st.integers(-(2**62), 2**63 - 1))
_ids = st.binary(min_size=16, max_size=16)
_events = st.lists(
    st.tuples(
        _ids,
        st.sampled_from(["test.note", "message.user", "kind\u00e9"]),
        st.integers(0, 2**32 - 1),
        _numbers,
        st.sampled_from(["user", "tool:x"]),
        _times,
        _times,
        _numbers,
        st.one_of(st.none(), st.binary(max_size=200)),
        _numbers,
    ),
    min_size=1,
    max_size=3 * RUN,
)


@given(_events, st.integers(1, 2**40), st.dictionaries(_ids, st.binary(max_size=50), max_size=5))
def test_what_is_packed_comes_back(
    events: list[tuple[object, ...]], first: int, texts: dict[bytes, bytes]
) -> None:
    session, before = b"s" * 16, b"d" * 32
    gathered = Gathered(session, first, before)
    wanted: list[tuple[object, ...]] = []
    digest = before
    for seq, event in enumerate(events, first):
        id, type, version, step, source, occurred, recorded, fence, payload, arrived = event
        salt = bytes(id)[::-1] if payload is not None else None  # type: ignore[call-overload]
        proof = commit(salt, payload) if salt else b"e" * 32  # type: ignore[arg-type]
        head = header(session, seq, id, type, version, 1, step, source, occurred, recorded, fence)  # type: ignore[arg-type]
        digest = link(digest, head, proof)
        row = (
            seq, id, type, version, 1, step, source, occurred, recorded, fence,
            salt, proof, digest, None, PROVED, payload,
        )  # fmt: skip
        gathered.add(row, arrived)  # type: ignore[arg-type]
        wanted.append(row)
    for name, data in texts.items():
        gathered.add_text(name, data)
    data = gathered.packed(3)
    pack = Pack(data)
    joined = Gathered(session, first, before)
    joined.add_pack(pack)
    assert Pack(joined.packed(3)).rows(pack.first, pack.last) == wanted
    assert pack.digests(all=True) == [row[12] for row in wanted]
    assert pack.rows(pack.first, pack.last) == wanted
    assert pack.arrived == [event[-1] for event in events]
    assert dict(pack.blobs()) == texts and pack.ids == [event[0] for event in events]
    again = Pack(data)
    for at in (pack.last, pack.first, (pack.first + pack.last) // 2):
        assert again.rows(at, at) == [wanted[at - first]]
    with pytest.raises(Damaged, match="does not follow"):
        gathered.add(wanted[0], 0)


@given(st.lists(_ids, max_size=50))
def test_ids_that_rise_have_bounds_and_others_are_listed(ids: list[bytes]) -> None:
    rising = [id[:6] + bytes([0x70 | id[6] & 15, id[7], 0x80 | id[8] & 63]) + id[9:] for id in ids]
    loose = [id[:6] + bytes([0x50 | id[6] & 15]) + id[7:] for id in ids]
    found = ids_of([*loose, *rising])
    assert (found.low, found.high) == ((min(rising), max(rising)) if ids else (b"", b""))
    assert found.loose == b"".join(sorted(id[:8] for id in loose))


# --- a session


def test_a_session_is_packed_as_it_grows(log: Log, path: Path) -> None:
    session = talk(log, log.session("s", create=True), 500)
    there = packed(log, session.sid)
    assert there[0][0] == 1 and [first for first, _ in there[1:]] == [b + 1 for _, b in there[:-1]]
    assert all(64 <= last - first + 1 < 110 for first, last in there[:-1])
    left = rows(log, session.sid)
    assert 8 <= left < 48 and there[-1][1] + left == 500
    assert said(log, session, 500) and sound(log) and named(log) == {}
    with log.database.read() as tx:
        assert tx.one("SELECT count(*) FROM sawlog.blobs WHERE codec <> 5 AND size < 9000") < (6,)  # type: ignore[operator]


def test_a_pack_that_takes_enough_is_not_packed_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it read to find out."""
    monkeypatch.setattr(packing, "ENOUGH", 1)
    monkeypatch.setattr(packing, "_pack_of", None)
    session = talk(log, log.session("s", create=True), 300)
    there = packed(log, session.sid)
    assert len(there) > 6 and all(32 <= last - first + 1 < 64 for first, last in there)
    assert said(log, session, 300) and sound(log)


def test_every_way_of_reading_gives_what_was_written(log: Log, path: Path, tmp_path: Path) -> None:
    session = talk(log, log.session("s", create=True), 180)
    stranger = talk(log, log.session("stranger", create=True), 150, batch=7)
    session = talk(log, session, 250)
    with open_database(path, read_only=True) as database:
        for reading in (log, Log(database, registry=REGISTRY)):
            assert said(reading, session, 250) and said(reading, stranger, 150)
            events = list(reading.read(session))
            assert list(reading.read(session, after=60, upto=70)) == events[60:70]
            assert [place.event for place in reading.stored(session)] == events
            assert reading.events(session, [170, 3, 249]) == [events[169], events[2], events[248]]
            assert reading.by_event_id(session, events[5].id) == events[5]
            assert reading.by_event_id(session, b"\1" * 16) is None
            digests = [d for place in reading.stored(session) for d in place.cites]
            found = reading.blobs(session, digests)
            assert len(found) == 250 // 8 and found[digests[3]] == text(32).encode()
            assert sound(reading) and named(reading) == {}
    file = file_of(log, session)
    with open_database(tmp_path / "other.db") as database:
        other = Log(database, registry=REGISTRY)
        row = load(other, file.splitlines(keepends=True))
        assert packed(other, row.sid) and file_of(other, row) == file
        talk(other, row, 300)
        assert said(other, row, 300) and sound(other)
    saved = salvage(log, session)
    assert saved.last_good == 250 and not saved.rest and b"".join(saved.good) == file


def test_digests_do_not_know_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[bytes] = []
    for due in (40, 10**9):
        monkeypatch.setattr(packing, "DUE_EVENTS", due)
        monkeypatch.setattr(packing, "KEPT", 8)
        with open_database(tmp_path / f"{due}.db") as database:
            log = Log(
                database,
                registry=REGISTRY,
                clock=lambda: 1_700_000_000_000_000,
                make_id=counted(),
                make_salt=counted(),
            )
            session = talk(log, log.session("s", id=b"s" * 16, create=True), 200)
            assert bool(packed(log, session.sid)) == (due == 40)
            files.append(file_of(log, session))
    assert files[0] == files[1]


def test_followers_see_each_event_once_in_the_order_of_arrival(log: Log) -> None:
    sessions = [log.session(str(n), create=True) for n in range(3)]
    chance = random.Random(3)
    order: list[tuple[bytes, int]] = []
    for _ in range(400):
        session = chance.choice(sessions)
        order.append((session.id, log.append(session, [note("x" * chance.randrange(300))]).head))
    for limit in (1, 3, 50, 1000):
        seen = list(follow(log.database, limit=limit))
        assert [(f.session, f.event.seq) for f in seen] == order
    middle = seen[133].position
    assert [(f.session, f.event.seq) for f in follow(log.database, middle, limit=9)] == order[134:]
    mine = [f.event.seq for f in follow(log.database, tenant="default", limit=11)]
    assert len(mine) == 400 and not list(follow(log.database, tenant="nobody"))
    for session in sessions:
        pack(log.database, log.get(session))
    # Places go on rising though all but the newest rows are gone.
    log.append(sessions[0], [note("after")])
    assert [f.event.seq for f in follow(log.database, seen[-1].position)] == [
        log.get(sessions[0]).head
    ]
    assert len(list(follow(log.database))) == 401


def test_events_that_are_said_again_are_known(log: Log, path: Path) -> None:
    session = log.session("s", create=True)
    events = [note(text(seq), key=str(seq)) for seq in range(1, 151)]
    for event in events:
        log.append(session, [event])
    child = log.fork(session, 140)
    log.append(child, [note("on the child")])
    assert packed(log, session.sid)[0][0] == 1
    with open_database(path) as database:
        again = Log(database, registry=REGISTRY)
        for handle in (again, log):
            assert handle.append(session, events[20:25]).seqs == (21, 22, 23, 24, 25)
            assert handle.append(child, [events[31]]).seqs == (32,)
            with pytest.raises(Conflict, match="another content"):
                handle.append(session, [note("other", key="9")])
    assert log.append(session, events).new == 0
    made = log.events(session, [9])[0]
    assert log.append(session, [note(text(9), id=made.id)]).seqs == (9,)


def test_a_fork_reads_its_ancestors(log: Log, tmp_path: Path) -> None:
    parent = talk(log, log.session("parent", create=True), 150)
    child = talk(log, log.fork(parent, 90, name="child"), 250)
    grandchild = talk(log, log.fork(child, 240, name="grandchild"), 330)
    start = talk(log, log.fork(parent, 0, name="start"), 60)
    for session, head in ((child, 250), (grandchild, 330), (parent, 150), (start, 60)):
        assert said(log, session, head) and packed(log, session.sid)
        assert packed(log, session.sid)[0][0] == session.base + 1
    assert sound(log) and named(log) == {}
    file = file_of(log, grandchild)
    with open_database(tmp_path / "other.db") as database:
        other = Log(database, registry=REGISTRY)
        assert file_of(other, load(other, file.splitlines(keepends=True))) == file


def test_what_is_erased_stays_erased(log: Log) -> None:
    session = talk(log, log.session("s", create=True), 30)
    erase(log, session)
    session = talk(log, session, 100)
    assert packed(log, session.sid)[0] == (1, packed(log, session.sid)[0][1])
    gone = [event.seq for event in log.read(session) if event.payload is None]
    assert gone and sound(log)
    file = file_of(log, session)
    pack(log.database, session, again=True)
    assert file_of(log, session) == file
    assert [event.seq for event in log.read(session) if event.payload is None] == gone


def test_packing_again_makes_few_dense_packs_and_leaves_the_newest(log: Log) -> None:
    session = talk(log, log.session("s", create=True), 300)
    file = file_of(log, session)
    told: list[tuple[int, int]] = []

    def tell(done: int, all: int) -> None:
        told.append((done, all))

    pack(log.database, session, again=True, told=tell)
    assert rows(log, session.sid) == 1 and packed(log, session.sid)[-1][1] == 299
    assert told[-1] == (299, 300)
    assert file_of(log, session) == file and sound(log) and named(log) == {}
    before = packed(log, session.sid)
    pack(log.database, session)
    assert packed(log, session.sid) == before
    talk(log, session, 400)
    assert said(log, log.get(session), 400) and sound(log)


def test_a_large_blob_stays_alone(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "LARGEST", 10_000)
    session = log.session("s", create=True)
    for size in (9_000, 10_001, 50):
        log.append(session, [note("x" * size)])
    pack(log.database, log.get(session))
    with log.database.read() as tx:
        found = tx.all("SELECT size, codec FROM sawlog.blobs ORDER BY size")
    assert found == [(9_000, 5), (10_001, 1)] and sound(log)


def test_a_pack_is_made_of_bytes_too(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "DUE_EVENTS", 10**9)
    monkeypatch.setattr(packing, "DUE_BYTES", 100_000)
    session = log.session("s", create=True)
    for number in range(20):
        log.append(session, [note(f"{number}" * 9_000)])
    assert packed(log, session.sid) and said_sizes(log) == 20 and sound(log)


def said_sizes(log: Log) -> int:
    """The number of events that read."""
    return len(list(log.read(log.session("s"))))


# --- several at once


def test_threads_and_handles_write_and_read_one_session(log: Log, path: Path) -> None:
    session = log.session("s", create=True)
    wrong: list[object] = []
    done = threading.Event()
    with open_database(path) as database:
        handles = [log, Log(database, registry=REGISTRY)]

        def write(number: int) -> None:
            for each in range(80):
                handles[number % 2].append(session, [note(text(1000 * number + each))])

        def read(number: int) -> None:
            while not done.is_set():
                head = log.get(session).head
                got = [event.seq for event in handles[number % 2].read(session, upto=head)]
                if got != list(range(1, head + 1)):
                    wrong.append(got)

        writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        readers = [threading.Thread(target=read, args=(n,)) for n in range(2)]
        for thread in (*writers, *readers):
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        for thread in readers:
            thread.join()
        assert not wrong and log.get(session).head == 320
        assert packed(log, session.sid)
        for reading in handles:
            assert len(list(reading.read(session))) == 320 and sound(reading)


def test_of_two_who_pack_one_does(log: Log, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = talk(log, log.session("s", create=True), 30)
    finish = packing._Making.finish  # pyright: ignore[reportPrivateUsage]

    def beaten(making: packing._Making) -> None:  # pyright: ignore[reportPrivateUsage]
        monkeypatch.undo()
        with open_database(path) as database:
            pack(database, session, 3)
        finish(making)

    monkeypatch.setattr(packing._Making, "finish", beaten)  # pyright: ignore[reportPrivateUsage]
    pack(log.database, session, 5)
    assert packed(log, session.sid) == [(1, 27)] and said(log, session, 30) and sound(log)


def test_who_finds_a_pack_gone_leaves_the_rest_to_others(
    log: Log, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = talk(log, log.session("s", create=True), 60)
    real = packing._pack_of  # pyright: ignore[reportPrivateUsage]

    def beaten(*given: object) -> Pack:
        monkeypatch.setattr(packing, "_pack_of", real)
        with open_database(path) as database:
            pack(database, session, again=True)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(packing, "_pack_of", beaten)
    pack(log.database, session, again=True)
    assert packed(log, session.sid) == [(1, 59)] and said(log, session, 60) and sound(log)


@pytest.mark.parametrize("harm", ["source = 'x'", "version = -1", "flags = 1 << 40", "step = -1"])
def test_a_session_that_does_not_read_is_not_packed_and_goes_on(log: Log, harm: str) -> None:
    session = talk(log, log.session("s", create=True), 30)
    with log.database.write() as tx:
        tx.run(f"UPDATE sawlog.events SET {harm} WHERE seq = 7")
    with pytest.raises(Damaged, match="7 .*does not follow"):
        pack(log.database, session)
    session = talk(log, session, 90)
    assert not packed(log, session.sid) and named(log) == {session.id.hex(): 7}


# --- damage


@pytest.fixture
def stored(path: Path, log: Log) -> Path:
    """A file with two packed sessions and a fork."""
    hurt = talk(log, log.session("hurt", create=True), 130)
    talk(log, log.session("other", create=True), 130)
    talk(log, log.fork(hurt, 120, name="child"), 125)
    log.database.close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE").fetchone()
    return path


def test_events_that_are_packed_while_they_are_checked_are_sound(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index of ids is asked behind the rows, and knows nothing of what lies in packs."""
    session = log.session("s", create=True)
    with monkeypatch.context() as patch:
        patch.setattr(packing, "DUE_EVENTS", 10**6)
        log.append(session, [note(str(number)) for number in range(100)])
    ask = Check._by_id  # pyright: ignore[reportPrivateUsage]
    asked: list[int] = []

    def later(self: Check, *args: Any) -> dict[bytes, int]:
        if not asked:
            pack(log.database, log.get(session), 8)
        asked.append(len(packed(log, session.sid)))
        return ask(self, *args)

    monkeypatch.setattr(Check, "_by_id", later)
    assert [place.why for place in Check(log, session).places()] == [""] * 100
    assert asked[0] > 0 and len(asked) == 2


@pytest.mark.parametrize(
    "column",
    [
        *("pack", "sid", "first", "last", "digest", "first_pos", "last_pos"),
        *("low", "high", "loose", "codec", "key", "data"),
    ],
)
def test_a_bit_in_a_pack_is_named_and_never_read_as_content(
    stored: Path, tmp_path: Path, column: str
) -> None:
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(stored)) as raw:
        assert len(columns(raw, "packs")) == 13
        rowid, value, last = raw.execute(
            f"SELECT rowid, {column}, last FROM packs WHERE sid = 1 ORDER BY last DESC LIMIT 1"
        ).fetchone()
    with open_database(stored, read_only=True) as database:
        log = Log(database, registry=REGISTRY)
        whole = file_of(log, log.session("hurt"))
    tried = 0
    for flip in list(flips(value, random.Random(column)))[::3]:
        shutil.copy(stored, copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as raw:
            if not change(raw, "packs", rowid, column, flip):
                continue
        tried += 1
        with open_database(copy, read_only=True) as database:
            log = Log(database, registry=REGISTRY)
            ids = {row.name: row.id.hex() for row in log.sessions()}
            harmed = named(log)
            if column == "data" and not harmed:
                # A bit that pads zstd's streams stands for nothing: the same bytes come out.
                assert file_of(log, log.session("hurt")) == whole, flip
                continue
            assert set(harmed) == {ids["hurt"], ids["child"]}, flip
            assert 1 <= harmed[ids["hurt"]] <= last + 1, flip
            assert said(log, log.session("other"), 130)
            hurt = log.session("hurt")
            try:
                got = list(log.read(hurt))
            except Damaged as error:
                assert error.session in (ids["hurt"], "")
            else:
                assert [e.seq for e in got] == list(range(1, 131)) and said(log, hurt, 130)
            assert len(list(log.stored(hurt))) == 130
            saved = salvage(log, hurt)
            assert saved.last_good <= last and saved.rest
            file = b"".join(saved.good)
            assert whole.startswith(file[: file.rindex(b'{"head"')])
    assert tried


def test_a_pack_that_is_gone_is_missed(stored: Path) -> None:
    with closing(sqlite3.connect(stored)) as raw:
        first, last = raw.execute(
            "SELECT first, last FROM packs WHERE sid = 1 ORDER BY last"
        ).fetchone()
        raw.execute("DELETE FROM packs WHERE sid = 1 AND first = ?", (first,))
        raw.commit()
    with open_database(stored, read_only=True) as database:
        log = Log(database, registry=REGISTRY)
        hurt = log.session("hurt")
        with pytest.raises(Damaged, match="row is missing"):
            list(log.read(hurt))
        assert (
            salvage(log, hurt).rest[0].what == f"the rows of events {first} to {last} are missing"
        )


def test_an_unknown_packing_asks_for_a_newer_sawlog(log: Log) -> None:
    session = talk(log, log.session("s", create=True), 60)
    with log.database.write() as tx:
        tx.run("UPDATE sawlog.packs SET codec = 9")
    with (
        open_database(log.database.url) as database,
        pytest.raises(Damaged, match="codec 9.*upgra"),
    ):
        list(Log(database, registry=REGISTRY).read(session))


# --- kill -9


def test_a_packing_killed_at_any_statement_and_any_time(path: Path, tmp_path: Path) -> None:
    """The rows are there, or the pack; what reads is the same."""
    with open_database(path) as database:
        log = Log(database, registry=REGISTRY)
        file = file_of(log, talk(log, log.session("s", create=True), 200))
    whole = tmp_path / "whole.db"
    shutil.copy(path, whole)
    [statements] = Victim(pack_away, str(whole), LAST).end()
    chance = random.Random(5)
    outcomes: set[int] = set()
    times = [0.0] * statements + [chance.random() * 0.1 for _ in range(10)] + [1.0]
    for number, pause in enumerate(times, 1):
        copy = tmp_path / f"{number}.db"
        shutil.copy(path, copy)
        victim = Victim(pack_away, str(copy), LAST if pause else number)
        if pause:
            time.sleep(pause)
            victim.kill()
        else:
            assert victim.end() == [] and victim.died == -9
        with open_database(copy) as database:
            log = Log(database, registry=REGISTRY)
            row = log.session("s")
            assert file_of(log, row) == file and sound(log) and named(log) == {}
            outcomes.add(rows(log, row.sid))
            pack(database, row)
            assert rows(log, row.sid) == 1 and file_of(log, row) == file
    assert outcomes == {200, 1}

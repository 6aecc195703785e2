"""Small rows are packed with a dictionary of their session's own, and read as they were written."""

from __future__ import annotations

import base64
import random
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from sawlog.store import blobs, dictionaries
from sawlog.store.blobs import TAUGHT
from sawlog.store.database import open_database
from sawlog.store.dictionaries import FIRST, LABEL, Teacher
from sawlog.store.dictionary import MOST_KEPT, NAME, SIZE, Dictionary, Kept, trained
from sawlog.store.errors import Conflict, Damaged
from sawlog.store.exchange import load
from sawlog.store.follow import follow
from sawlog.store.log import Log
from sawlog.store.salvage import salvage
from tests.store.damage import change, columns, flips, named
from tests.store.files import file_of
from tests.store.make_golden import erase
from tests.store.stores import REGISTRY, made, note
from tests.store.talk import codecs, dictionary_rows, payloads, said, talk, teach, text
from tests.store.test_kill import Victim, sound

LAST = 0xFFFF

FOREIGN = Dictionary(
    base64.b85decode(
        "H>5D^V8$~i6A<VM9RL6T0Kkenr6f~I2?{49Qv(110DvmVrw0H41ONa401_JoJ_7&%LNEY500#>I00000006K6OaK4?"
        "vIN8e00000lo9v?00000000000000000031000C4000O8001B{Fd%PcAarPDAaHPbAYpD~Aah}PAa`hCbRcPSAZczO"
        "X>=ledm?mYcyuB<B6D<Qa3C==Hz03jAarPDaCsnMZe$>HVR;~TXkm09X>%ZHZXjuNB7J)zbY*ySB03^-bY*ZLF)}kC"
        "Z)PBLXk{@lHXv_iAarPDAaHD9ZaN@xWnp9>bZBKDW@&6?AainKFKusRb!=r{F)na<AYpD~F)%V9Z)PBLXk{R9Y+-IX"
        "AaZ44WFT~CWgup0Y-J#Ga$_%TZ)A0BWnVWgaCsnMZe$=hF(7YdAarPDAaHD9ZaN@xWnp9>bZBKDW@&6?AainKFKusR"
        "b!=r{I4*E`AYpD~AT~K5Z)PBLXk{R9Y+-IXAaZ44WFT~CWgup0Y-J#Ga$_%TZ)A0BWnVHbaCsnMZe$=eG9YheAarPD"
        "AaHD9ZaN@xWnp9>bZBKDW@&6?AainKFKusRb!=r{FfMR;AYpD~ATu=}Z)PBLXk{R9Y+-IXAaZ44WFT~CWgup0Y-J#G"
        "a$_%TZ)A0B"
    )
)
"""A dictionary that the other of the two zstd packages made, and what it packed."""
FOREIGN_ROW = bytes.fromhex(
    "80a6386aae89f7822054bd000030393030655f3505fc917f00cf6f3c6f1667df68fe2c0e"
)
FOREIGN_RAW = (
    b'{"text":"step 900 of the plan: read the file src/module_5.py and say what is in it"}'
)

# --- packing


def test_what_is_packed_comes_back_and_nothing_else_does() -> None:
    samples = [text(seq).encode() for seq in range(1, 100)]
    ours = trained(samples)
    assert ours is not None and SIZE // 2 < len(ours.data) <= SIZE
    noise = random.Random(5).randbytes(5000)
    for data in (b"", b"x", text(900).encode(), text(901).encode(), noise, b"z" * blobs.LONG):
        packed = ours.pack(data)
        assert packed[:NAME] == ours.name
        assert Dictionary(ours.data).unpack(packed, len(data)) == data
        if not data:
            continue
        with pytest.raises(Damaged, match="unpack"):
            ours.unpack(packed, len(data) - 1)
        for bad in (packed[:-1], packed + b"x", packed[:NAME], packed[:NAME] + b"no frame"):
            with pytest.raises(Damaged, match="unpack"):
                ours.unpack(bad, 1 << 20)
    other = trained([sample[::-1] for sample in samples])
    assert other is not None
    with pytest.raises(Damaged, match=f"{other.name.hex()}.*{ours.name.hex()}"):
        ours.unpack(other.pack(b"x" * 100), 100)


def test_a_dictionary_of_the_other_package_is_read_and_packed_with() -> None:
    assert FOREIGN.unpack(FOREIGN_ROW, 1000) == FOREIGN_RAW
    assert FOREIGN.unpack(FOREIGN.pack(FOREIGN_RAW), 1000) == FOREIGN_RAW
    assert len(FOREIGN.pack(FOREIGN_RAW)) <= len(FOREIGN_ROW) + 2


def test_too_little_teaches_nothing() -> None:
    assert trained([]) is None
    assert trained([b"short"] * 100) is None
    assert trained([b"x" * 9000]) is None


def test_threads_share_a_dictionary() -> None:
    ours = trained([text(seq).encode() for seq in range(1, 100)])
    assert ours is not None
    wrong: list[int] = []

    def work(first: int) -> None:
        for number in range(first, first + 300):
            data = text(number).encode()
            if ours.unpack(ours.pack(data), len(data)) != data:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n * 1000,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_few_dictionaries_are_kept_at_hand() -> None:
    kept = Kept()
    for sid in range(MOST_KEPT + 5):
        kept.put(sid, FOREIGN)
        assert kept.get(sid) is FOREIGN
    assert [sid for sid in range(MOST_KEPT + 5) if kept.get(sid) is None] == [0, 1, 2, 3, 4]


# --- a session


def test_a_session_of_small_events_takes_half_the_room(log: Log) -> None:
    session = talk(log, log.session("s", create=True), 500)
    small = [seq for seq in range(1, 501) if seq % 8]
    with log.database.read() as tx:
        found = tx.all(
            "SELECT seq, codec, length(payload) FROM sawlog.events WHERE sid = ? ORDER BY seq",
            (session.sid,),
        )
    raw = sum(len(payload) for payload in payloads(500))
    assert sum(found[seq - 1][2] for seq in small) + SIZE < raw * 0.55
    later = [found[seq - 1] for seq in small if seq > FIRST]
    assert all(codec == TAUGHT for _, codec, _ in later)
    assert sum(size for *_, size in later) < 0.4 * sum(map(len, payloads(500, FIRST + 1)))
    # What was written before stays as it is.
    assert TAUGHT not in [codec for _, codec, _ in found[:FIRST]]
    [(sid, data)] = dictionary_rows(log)
    assert sid == session.sid and b'"tool' in data  # as it is
    with log.database.read() as tx:
        contents = tx.all(
            "SELECT digest FROM sawlog.blobs WHERE codec = ? AND size <= ?", (TAUGHT, blobs.LONG)
        )
    assert len(contents) == len([seq for seq in range(FIRST + 1, 501) if seq % 8 == 0])


def test_every_way_of_reading_gives_what_was_written(log: Log, store_url: str, other: Log) -> None:
    session = talk(log, log.session("s", create=True), 180)
    stranger = talk(log, log.session("stranger", create=True), 150, batch=7)
    assert len(dictionary_rows(log)) == 2
    with open_database(store_url, read_only=True) as database:
        for reading in (log, Log(database, registry=REGISTRY)):
            assert said(reading, session, 180) and said(reading, stranger, 150)
            events = list(reading.read(session))
            assert [place.event for place in reading.stored(session)] == events
            assert reading.events(session, [170, 3, 168]) == [events[169], events[2], events[167]]
            assert reading.by_event_id(session, events[150].id) == events[150]
            digests = [d for place in reading.stored(session) for d in place.cites]
            found = reading.blobs(session, digests)
            assert len(found) == 180 // 8
            assert found[digests[-1]] == text(176).encode()
            seen = [each.event for each in follow(reading.database, limit=50)]
            assert sorted(e.digest for e in seen) == sorted(
                [e.digest for e in events] + [e.digest for e in reading.read(stranger)]
            )
            assert sound(reading) and named(reading) == {}
    file = file_of(log, session)
    row = load(other, file.splitlines(keepends=True))
    assert file_of(other, row) == file
    talk(other, row, 200)
    assert said(other, row, 200) and sound(other)
    saved = salvage(log, session)
    assert saved.last_good == 180 and not saved.rest and b"".join(saved.good) == file


def test_digests_do_not_know_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same events, packed with a dictionary and without, give the same file."""
    files: list[bytes] = []
    for first in (FIRST, 10**9):
        monkeypatch.setattr(dictionaries, "FIRST", first)
        with open_database(tmp_path / f"{first}.db") as database:
            log = Log(
                database,
                registry=REGISTRY,
                clock=lambda: 1_700_000_000_000_000,
                make_id=iter([n.to_bytes(16, "big") for n in range(1, 400)]).__next__,
                make_salt=iter([n.to_bytes(16, "big") for n in range(1, 400)]).__next__,
            )
            session = talk(log, log.session("s", id=b"s" * 16, create=True), 200)
            assert (TAUGHT in codecs(log, session)) == (first == FIRST)
            files.append(file_of(log, session))
    assert files[0] == files[1]


def test_a_session_from_before_is_taught_as_it_goes_on(
    log: Log, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dictionaries, "FIRST", 10**9)
    session = talk(log, log.session("s", create=True), 250)
    assert TAUGHT not in codecs(log, session)
    monkeypatch.undo()
    with open_database(store_url) as database:
        later = Log(database, registry=REGISTRY)
        talk(later, session, 260)
        found = codecs(later, session)
        assert TAUGHT not in found[:251] and found[251:].count(TAUGHT) >= 8
        assert said(later, session, 260) and said(log, session, 260)


def test_a_large_batch_and_an_import_are_taught_by_themselves(log: Log, other: Log) -> None:
    session = log.session("s", create=True)
    events = [note(text(seq)) for seq in range(1, 301)]
    assert log.append(session, events).head == 300
    assert codecs(log, session) == [TAUGHT] * 300
    assert log.append(session, [note(text(301))]).head == 301  # goes on with the same
    assert codecs(log, session)[300] == TAUGHT and len(dictionary_rows(log)) == 1
    child = talk(log, log.fork(session, 200), 320)
    file = file_of(log, child)
    row = load(other, file.splitlines(keepends=True))
    assert codecs(other, row) == [TAUGHT] * 120  # its parent's are few
    assert [sid for sid, _ in dictionary_rows(other)] == [row.sid]
    assert file_of(other, row) == file and sound(other) and sound(log)
    talk(other, row, 330)
    assert said(other, row, 330) and len(dictionary_rows(other)) == 1


def test_a_batch_that_is_refused_teaches_nothing(log: Log) -> None:
    session = talk(log, log.session("s", create=True), 3)
    secret = [note(f"never stored {text(seq)}") for seq in range(300)]
    with pytest.raises(Conflict):
        log.append(session, secret, expected_seq=2)
    talk(log, session, 150)
    [(_, data)] = dictionary_rows(log)
    assert b"never stored" not in data and said(log, session, 150)


def test_tiny_contents_wait_until_there_is_enough(log: Log) -> None:
    session = log.session("s", create=True)
    for number in range(FIRST + 5):
        log.append(session, [note(str(number))])
    assert not dictionary_rows(log)
    talk(log, session, 3 * FIRST)
    assert len(dictionary_rows(log)) == 1 and sound(log)


def test_events_that_are_said_again_are_known(log: Log, store_url: str) -> None:
    session = log.session("s", create=True)
    events = [note(text(seq), key=str(seq)) for seq in range(1, 151)]
    for event in events:
        log.append(session, [event])
    child = log.fork(session, 140)
    with open_database(store_url) as database:
        again = Log(database, registry=REGISTRY)
        assert again.append(session, events[120:125]).seqs == (121, 122, 123, 124, 125)
        assert again.append(child, [events[131]]).seqs == (132,)
    assert log.append(session, events).new == 0


def test_a_fork_reads_its_ancestors_and_is_taught_by_its_own(log: Log, other: Log) -> None:
    parent = talk(log, log.session("parent", create=True), 150)
    child = talk(log, log.fork(parent, 130, name="child"), 250)
    grandchild = talk(log, log.fork(child, 240, name="grandchild"), 260)
    assert said(log, child, 250) and said(log, grandchild, 260) and said(log, parent, 150)
    rows = dictionary_rows(log)
    assert [sid for sid, _ in rows] == [parent.sid, child.sid]
    assert rows[0][1] != rows[1][1]
    assert TAUGHT not in codecs(log, grandchild)
    assert TAUGHT not in codecs(log, child)[:FIRST] and TAUGHT in codecs(log, child)[FIRST:]
    assert sound(log) and named(log) == {}
    file = file_of(log, grandchild)
    assert file_of(other, load(other, file.splitlines(keepends=True))) == file


# --- several at once


def test_of_two_that_are_ready_at_once_one_wins(log: Log, store_url: str) -> None:
    session = talk(log, log.session("s", create=True), FIRST - 1)
    with open_database(store_url) as database:
        other = Log(database, registry=REGISTRY)
        talk(other, session, FIRST)
        talk(log, session, FIRST + 1)  # knows of none, and is not the first to be ready
        assert not dictionary_rows(log)
        talk(other, session, FIRST + 2)  # stores its own behind an event that it did not see
        [(_, winner)] = dictionary_rows(log)
        talk(log, session, FIRST + 3)  # brings another one, and finds that
        assert list(dictionary_rows(log)) == [(session.sid, winner)]
        talk(other, session, FIRST + 4)
        assert codecs(log, session)[FIRST + 1 :] == [TAUGHT] * 3
        for reading in (log, other):
            assert said(reading, session, FIRST + 4) and sound(reading)


def test_threads_and_handles_write_into_one_session(log: Log, store_url: str) -> None:
    session = log.session("s", create=True)
    with open_database(store_url) as database:
        handles = [log, Log(database, registry=REGISTRY)]

        def work(number: int) -> None:
            for each in range(60):
                handles[number % 2].append(session, [note(text(1000 * number + each))])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for reading in handles:
            got = [REGISTRY.decode(event) for event in reading.read(session)]
            assert len(got) == 240 and sound(reading)
    assert len(dictionary_rows(log)) == 1
    assert codecs(log, session).count(TAUGHT) > 80


# --- what is erased


def test_what_was_erased_meanwhile_does_not_come_in(log: Log, store_url: str) -> None:
    session = talk(log, log.session("s", create=True), FIRST)
    taught = Teacher(log.database).ready(session, b"")
    assert taught.is_new and taught.count == FIRST
    with log.database.write() as tx:
        assert Teacher(log.database).settled(tx, session, taught) == taught
    erase(log, session)
    with log.database.write() as tx:
        settled = Teacher(log.database).settled(tx, session, taught)
    assert settled.dictionary is None and not settled.name


def test_a_dictionary_is_forgotten_with_what_it_was_made_of(log: Log, store_url: str) -> None:
    session = talk(log, log.session("s", create=True), 400)
    stranger = talk(log, log.session("stranger", create=True), 120)
    file = file_of(log, session)
    with log.database.write() as tx:
        dictionaries.forget(tx, session.sid)
    assert [row[0] for row in dictionary_rows(log)] == [stranger.sid]
    assert TAUGHT not in codecs(log, session)
    with open_database(store_url, read_only=True) as database:
        for reading in (log, Log(database, registry=REGISTRY)):
            assert file_of(reading, session) == file and said(reading, stranger, 120)
    with open_database(store_url) as database:
        again = Log(database, registry=REGISTRY)  # to which it is a session that has none
        talk(again, session, 410)
        assert len(dictionary_rows(again)) == 2 and said(again, session, 410) and sound(again)


# --- damage


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A file with two taught sessions and a fork."""
    path = tmp_path / "stored.db"
    with open_database(path) as database:
        log = Log(database, registry=REGISTRY)
        hurt = talk(log, log.session("hurt", create=True), 130)
        talk(log, log.session("other", create=True), 130)
        talk(log, log.fork(hurt, 120, name="child"), 125)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE").fetchone()
    return path


@pytest.mark.parametrize("column", ["sid", "digest", "size", "codec", "key", "data"])
def test_a_bit_in_a_dictionary_is_named_and_never_read_as_text(
    stored: Path, tmp_path: Path, column: str
) -> None:
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(stored)) as raw:
        assert columns(raw, "blobs") == ["sid", "digest", "size", "codec", "key", "data"]
        rowid, value = raw.execute(
            f"SELECT rowid, {column} FROM blobs WHERE sid = 1 AND digest = ?", (LABEL,)
        ).fetchone()
    tried = 0
    for flip in list(flips(value, random.Random(column)))[::3]:
        shutil.copy(stored, copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as raw:
            if not change(raw, "blobs", rowid, column, flip):
                continue
        tried += 1
        with open_database(copy, read_only=True) as database:
            log = Log(database, registry=REGISTRY)
            ids = {row.name: row.id.hex() for row in log.sessions()}
            assert named(log) == {ids["hurt"]: FIRST + 1, ids["child"]: FIRST + 1}, flip
            assert said(log, log.session("other"), 130)
            hurt = log.session("hurt")
            with pytest.raises(Damaged, match="dictionary") as caught:
                list(log.read(hurt))
            assert (caught.value.session, caught.value.seq) == (ids["hurt"], FIRST + 1)
            places = list(log.stored(hurt))
            assert [place.event is None for place in places[:FIRST]] == [False] * FIRST
            assert all(place.event is None for place in places if place.seq in (FIRST + 1, 129))
            saved = salvage(log, hurt)
            assert saved.last_good == FIRST
            assert any("dictionary" in rest.what for rest in saved.rest)
        with open_database(copy) as database:  # and what comes now is written, and read
            log = Log(database, registry=REGISTRY)
            head = log.session("hurt").head
            for seq in range(head + 1, head + 4):
                log.append(log.session("hurt"), [note(text(seq))])
                assert log.events(log.session("hurt"), [seq])[0].payload == payloads(seq, seq)[0]
    assert tried
    assert said_whole(stored)


def said_whole(path: Path) -> bool:
    """True when the store is as it was written."""
    with open_database(path, read_only=True) as database:
        log = Log(database, registry=REGISTRY)
        return said(log, log.session("child"), 125) and sound(log)


def test_a_dictionary_that_is_gone_is_missed_by_name(log: Log, store_url: str) -> None:
    session = talk(log, log.session("s", create=True), 120)
    with log.database.write() as tx:
        assert tx.run("DELETE FROM sawlog.blobs WHERE digest = ?", (LABEL,)) == 1
    with open_database(store_url) as database:
        later = Log(database, registry=REGISTRY)
        with pytest.raises(Damaged, match=f"event {FIRST + 1} .*dictionary.*is missing"):
            list(later.read(session))
        with pytest.raises(Damaged, match=r"blob .*dictionary.*is missing"):
            later.blobs(session, [row.cites[0] for row in log.stored(session) if row.cites][-1:])
        assert named(later) == {session.id.hex(): FIRST + 1}


def test_an_unknown_packing_asks_for_a_newer_sawlog(log: Log) -> None:
    session = talk(log, log.session("s", create=True), 3)
    with log.database.write() as tx:
        tx.run("UPDATE sawlog.events SET codec = 9 WHERE sid = ?", (session.sid,))
    with pytest.raises(Damaged, match="codec 9.*upgrade"):
        list(log.read(session))


def test_a_blob_cannot_pass_for_the_dictionary(log: Log) -> None:
    """A content may be the same bytes as the dictionary: it is a row of its own."""
    session = talk(log, log.session("s", create=True), 120)
    [(_, data)] = dictionary_rows(log)
    inside = data.decode("latin-1")
    log.append(session, [note(inside)])
    [digest] = next(iter(log.stored(session, after=120))).cites
    assert log.blob(session, digest) == inside.encode()
    assert len(dictionary_rows(log)) == 1 and sound(log)


# --- kill -9


def test_an_append_killed_while_it_brings_the_dictionary(store_url: str) -> None:
    """It is there with the rows that need it, or neither is."""
    with made(store_url) as database:
        log = Log(database, registry=REGISTRY)
        ripe = talk(log, log.session("0", create=True), FIRST, batch=FIRST // 4)
        [statements] = Victim(teach, store_url, "0", LAST).end()
        assert TAUGHT in codecs(log, ripe)
        outcomes: set[tuple[int, bool]] = set()
        chance = random.Random(9)
        times = [0.0] * statements + [chance.random() * 0.08 for _ in range(6)]
        for number, pause in enumerate(times, 1):
            session = log.session(str(number), create=True)
            talk(log, session, FIRST, batch=FIRST // 4)
            victim = Victim(teach, store_url, str(number), LAST if pause else number)
            if pause:
                time.sleep(pause)
                victim.kill()
            else:
                assert victim.end() == [] and victim.died == -9
            there = session.sid in [row[0] for row in dictionary_rows(log)]
            assert (TAUGHT in codecs(log, session)) == there
            head = log.get(session).head
            outcomes.add((head - FIRST, there))
            assert said(log, session, head)
            [_] = Victim(teach, store_url, str(number), LAST).end()
            assert said(log, session, head + 2) and TAUGHT in codecs(log, session)
        assert sound(log)
        assert outcomes >= {(0, False), (1, False)} and (2, False) not in outcomes

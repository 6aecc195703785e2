"""Exports go into any store and come out the same; what is no whole export leaves nothing."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from sawlog.importing import files_of, import_session, read_file
from sawlog.store import exported
from sawlog.store.checked import directory_damage
from sawlog.store.database import Database, open_database
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import (
    Conflict,
    Damaged,
    InvalidEvent,
    Leased,
    NoSession,
    StoreError,
)
from sawlog.store.events.lifecycle import SessionCreated
from sawlog.store.exchange import export, lines_of, load
from sawlog.store.follow import follow
from sawlog.store.log import Log
from sawlog.store.objects import FileObjects
from tests.store import independent_payloads, independent_reader
from tests.store.files import (
    event,
    file_of,
    forged,
    grown,
    lines_in,
    sound,
)
from tests.store.stores import REGISTRY, ROOT, deed, made, note

S = b"s" * 16


class TestThereAndBack:
    def test_into_the_other_database_and_out_again(self, tmp_path: Path, postgres_url: str) -> None:
        with (
            made(str(tmp_path / "one.db")) as one,
            made(postgres_url) as two,
            made(str(tmp_path / "three.db")) as three,
        ):
            logs = [Log(each, registry=REGISTRY) for each in (one, two, three)]
            first = grown(logs[0], "session", 700)
            files = [file_of(logs[0], first)]
            for log in logs[1:]:
                row = load(log, lines_in(files[-1]))
                assert (row.head, row.digest, row.name) == (700, first.digest, "session")
                assert sound(log, row)
                files.append(file_of(log, row))
            assert files[0] == files[1] == files[2]
            assert list(logs[0].read(first)) == list(logs[2].read(first.id))

    def test_a_session_without_events_or_a_name(self, log: Log, other: Log) -> None:
        for row in (log.session(create=True), log.session("named", create=True)):
            file = file_of(log, row)
            assert load(other, lines_in(file)).name == row.name
            assert file_of(other, other.get(row.id)) == file

    def test_times_fences_steps_and_flags_stay(self, log: Log, other: Log) -> None:
        session = log.session("s", create=True)
        lease = log.leases.acquire(session.id, "driver", 30.0)
        log.append(session, [deed("x", occurred_at=-(2**63), step=2**63 - 1)], lease=lease)
        log.append(session, [note("y", ignorable=True, occurred_at=2**63 - 1)])
        row = load(other, export(log, session))
        assert list(other.read(row)) == list(log.read(session))
        assert row.fence == lease.token
        # The next lease there does not repeat a number that an event bears.
        assert other.leases.acquire(row.id, "driver", 30.0).token == lease.token + 1
        assert sound(other, other.get(row))

    def test_it_can_be_continued_where_it_came_in(self, log: Log, other: Log) -> None:
        session = grown(log, "s", 5)
        row = load(other, export(log, session))
        assert other.append(row, [deed("more", key="k")]).seqs == (6,)
        assert other.append(row, [deed("more", key="k")]).seqs == (6,)
        [first] = log.events(session, [1])
        assert other.by_event_id(row, first.id) == first
        assert sound(other, other.get(row))
        assert [each.event.seq for each in follow(other.database)] == [1, 2, 3, 4, 5, 6]

    def test_a_fork_brings_its_ancestors(self, log: Log, other: Log) -> None:
        root = log.session("root", create=True)
        log.append(root, [deed("1"), deed("2" * 5000), deed("3")])
        child = log.fork(root, 2, name="child")
        log.append(child, [deed("c"), deed("2" * 5000)])
        grandchild = log.fork(child, 4, name="grandchild")
        log.append(grandchild, [deed("2" * 5000)])
        start = log.fork(root, 0, name="start")
        log.append(start, [deed("s")])
        files = {row.name: file_of(log, log.get(row)) for row in (grandchild, child, start, root)}
        for file in files.values():
            load(other, lines_in(file))
            for row in other.sessions():
                assert sound(other, row), row.name
        for name, file in files.items():
            assert file_of(other, other.session(name)) == file
        assert [row.name for row in other.sessions()] == ["root", "child", "grandchild", "start"]

    def test_a_fork_alone_makes_ancestors_as_far_as_it_shows_them(
        self, log: Log, other: Log
    ) -> None:
        root = grown(log, "root", 8)
        child = log.fork(root, 5, name="child")
        log.append(child, [deed("c")])
        row = load(other, export(log, child))
        ancestor = other.get(root.id)
        assert (ancestor.name, ancestor.head) == (None, 5)
        assert other.lineage(row) == log.lineage(child)
        # The rest of the root comes later, and its name with it.
        again = load(other, export(log, root))
        assert (again.name, again.head, again.digest) == ("root", 8, root.digest)
        assert file_of(other, row) == file_of(log, log.get(child))

    def test_an_erased_event_stays_erased(self, log: Log, other: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("a"), deed("b"), deed("c")])
        events = list(log.read(session))
        with log.database.write() as tx:
            tx.run(
                "UPDATE sawlog.events SET salt = NULL, payload = NULL, codec = 0, commitment = ? "
                "WHERE seq = 2",
                (events[1].commitment,),
            )
        row = load(other, export(log, session))
        found = other.events(row, [2])[0]
        assert (found.salt, found.payload) == (None, None)
        assert found.commitment == events[1].commitment
        assert row.digest == log.get(session).digest and sound(other, row)
        # The file of before the erasure is the same session, and brings nothing back.
        with log.database.write() as tx:
            values = (events[1].salt, events[1].payload)
            tx.run(
                "UPDATE sawlog.events SET salt = ?, payload = ?, commitment = NULL WHERE seq = 2",
                values,
            )
        load(other, export(log, session))
        assert other.events(row, [2])[0].payload is None

    def test_the_directory_knows_an_import_by_its_source(self, log: Log, other: Log) -> None:
        session = log.session("s", create=True, source_id="codex:0199")
        created = SessionCreated(format="codex", source_id="0199")
        log.append(session, [NewEvent(payload=created, source="import:codex")])
        row = load(other, export(log, session))
        assert [found.id for found in other.by_source("codex:0199")] == [row.id]

    def test_other_tenants_do_not_see_it_and_may_have_it_too(self, log: Log) -> None:
        session = grown(log, "s", 3)
        theirs = Log(log.database, "theirs", registry=REGISTRY)
        file = file_of(log, session)
        with pytest.raises(NoSession):
            theirs.get(session.id)
        row = load(theirs, lines_in(file))
        assert row.sid != session.sid and file_of(theirs, row) == file

    def test_blobs_go_to_the_object_store_of_the_log_and_come_from_it(
        self, source: Log, database: Database, tmp_path: Path
    ) -> None:
        file = file_of(source, grown(source, "s", 40))
        log = Log(database, registry=REGISTRY, objects=FileObjects(tmp_path / "objects"))
        row = load(log, lines_in(file))
        assert len(list((tmp_path / "objects" / row.id.hex()).iterdir())) > 3
        assert file_of(log, row) == file and sound(log, row)
        with pytest.raises(Damaged, match="object store"):
            file_of(Log(database, registry=REGISTRY), row)

    def test_types_that_are_not_registered_pass_as_they_are(
        self, source: Log, tmp_path: Path
    ) -> None:
        log = source
        session = grown(log, "s", 40)
        with open_database(tmp_path / "bare.db") as database:
            bare = Log(database)
            row = load(bare, export(log, session))
            assert file_of(bare, row) == file_of(log, session)
            assert sound(bare, row)


class TestWhatIsThereAlready:
    def test_the_same_file_again_adds_nothing(self, log: Log, other: Log) -> None:
        file = file_of(log, grown(log, "s", 30))
        row = load(other, lines_in(file))
        with other.database.read() as tx:
            before = tx.all("SELECT * FROM sawlog.events"), tx.all("SELECT * FROM sawlog.sessions")
        assert load(other, lines_in(file)) == row
        assert load(log, lines_in(file)).head == 30
        with other.database.read() as tx:
            assert before == (
                tx.all("SELECT * FROM sawlog.events"),
                tx.all("SELECT * FROM sawlog.sessions"),
            )

    def test_a_longer_file_adds_only_the_news(self, log: Log, other: Log) -> None:
        session = grown(log, "s", 30)
        short = file_of(log, session)
        load(other, lines_in(short))
        longer = file_of(log, grown(log, "s", 400))
        row = load(other, lines_in(longer))
        assert row.head == 400 and file_of(other, row) == longer and sound(other, row)
        # And a shorter one adds nothing.
        assert load(other, lines_in(short)) == row

    def test_another_history_is_a_conflict_that_names_the_event(self, log: Log, other: Log) -> None:
        session = grown(log, "s", 10)
        row = load(other, export(log, session))
        log.append(session, [deed("one way")])
        other.append(row, [deed("another")])
        before = file_of(other, row)
        with pytest.raises(Conflict, match="another event 11"):
            load(other, export(log, session))
        log.append(session, [deed("and on")])
        with pytest.raises(Conflict, match="another event 11"):
            load(other, export(log, session))
        assert file_of(other, row) == before and sound(other, other.get(row))

    def test_another_ancestor_is_a_conflict(self, log: Log, other: Log) -> None:
        root = grown(log, "root", 4)
        load(other, export(log, root))
        other.append(root.id, [deed("another")])
        log.append(root, [deed("one way")])
        child = log.fork(root, 5, name="child")
        with pytest.raises(Conflict, match=root.id.hex()):
            load(other, export(log, child))
        assert [row.name for row in other.sessions()] == ["root"]

    def test_a_session_that_does_not_descend_from_it_is_a_conflict(self, other: Log) -> None:
        """The same id, once alone and once as a fork."""
        other.session("s", id=S, create=True)
        for events in ([event(1), event(2)], [event(1)], []):
            lines = forged(events, ancestors=[(b"a" * 16, min(1, len(events)))])
            with pytest.raises(Conflict, match=S.hex()):
                load(other, lines)
            assert len(other.sessions()) == 1

    def test_a_taken_name_is_a_conflict_and_another_may_be_given(
        self, log: Log, other: Log
    ) -> None:
        session = grown(log, "s", 3)
        other.session("s", create=True)
        with pytest.raises(Conflict, match="another name"):
            load(other, export(log, session))
        assert len(other.sessions()) == 1
        row = load(other, export(log, session), name="t")
        assert row.name == "t" and sound(other, row)
        assert load(other, export(log, session)) == row  # a name here is no affair of the file's
        with pytest.raises(Conflict, match="'t'"):
            load(other, export(log, session), name="u")
        with pytest.raises(InvalidEvent):
            load(other, export(log, session), name="")

    def test_a_live_lease_keeps_news_out(self, store_url: str, other: Log) -> None:
        with made(store_url) as database:
            log = Log(database, registry=REGISTRY)
            session = other.session("s", create=True)
            other.append(session, [deed("1")])
            row = load(log, export(other, session))
            lease = log.leases.acquire(row.id, "driver", 30.0)
            assert load(log, export(other, session)).head == 1  # nothing new, nothing to refuse
            other.append(session, [deed("2")])
            with pytest.raises(Leased, match="driver"):
                load(log, export(other, session))
            assert log.get(row).head == 1
            log.leases.release(lease)
            assert load(log, export(other, session)).head == 2

    def test_an_expired_lease_is_taken_over(self, tmp_path: Path, source: Log) -> None:
        log = source
        time = [1_000_000]
        with open_database(tmp_path / "clock.db") as database:
            there = Log(database, registry=REGISTRY, clock=lambda: time[0])
            session = grown(log, "s", 3)
            row = load(there, export(log, session))
            lease = there.leases.acquire(row.id, "driver", 1.0)
            time[0] += 2_000_000
            row = load(there, export(log, grown(log, "s", 6)))
            assert (row.owner, row.fence) == (None, lease.token + 1) and sound(there, row)
            with pytest.raises(StoreError):
                there.append(row, [deed("late")], lease=lease)

    def test_two_at_once_make_one_session(self, store_url: str, other: Log) -> None:
        root = grown(other, "root", 60)
        child = other.fork(root, 50, name="child")
        other.append(child, [deed(str(number)) for number in range(100)])
        file = lines_in(file_of(other, other.get(child)))
        with made(store_url) as database:
            log = Log(database, registry=REGISTRY)
            got: list[SessionRow] = []
            threads = [
                threading.Thread(target=lambda: got.append(load(log, file))) for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len({(row.sid, row.head) for row in got}) == 1 and len(got) == 4
            assert len(log.sessions()) == 2 and sound(log, got[0])

    def test_appends_beside_a_growing_import_keep_their_order(
        self, store_url: str, other: Log
    ) -> None:
        """A follower sees each session in seq order, whoever wrote which part of it."""
        root = grown(other, "root", 20)
        child = other.fork(root, 20, name="child")
        grown(other, "child", 40)
        with made(store_url) as database:
            log = Log(database, registry=REGISTRY)
            load(log, export(other, child))
            stop = threading.Event()

            def write() -> None:
                while not stop.is_set():
                    log.append(beside, [deed("beside")])

            beside = log.session("beside", create=True)
            writer = threading.Thread(target=write)
            writer.start()
            try:
                for size in range(45, 80, 5):
                    load(log, export(other, grown(other, "child", size)))
            finally:
                stop.set()
                writer.join()
            seqs: dict[bytes, int] = {child.id: 20}
            for each in follow(database):
                assert each.event.seq == seqs.get(each.session, 0) + 1
                seqs[each.session] = each.event.seq
            assert seqs[child.id] == 75 and seqs[root.id] == 20


class TestExport:
    def test_a_missing_session_is_told_at_once(self, log: Log) -> None:
        with pytest.raises(NoSession):
            export(log, b"n" * 16)

    def test_a_session_that_grows_meanwhile_is_exported_as_it_was(self, log: Log) -> None:
        session = grown(log, "s", 600)
        before = file_of(log, session)
        lines = export(log, session)
        start = [next(lines) for _ in range(5)]
        log.append(session, [deed("later") for _ in range(600)])
        assert b"".join([*start, *lines]) == before

    def test_what_is_damaged_is_not_passed_off_as_whole(self, log: Log) -> None:
        session = grown(log, "s", 30)
        with log.database.write() as tx:
            tx.run("UPDATE sawlog.events SET source = 'other' WHERE seq = 20")
        lines: list[bytes] = []
        with pytest.raises(Damaged, match="event 20") as caught:
            lines.extend(export(log, session))
        assert (caught.value.session, caught.value.seq) == (session.id.hex(), 20)
        assert not any(line.startswith(exported.END) for line in lines)

    def test_exporting_writes_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        with open_database(path) as database:
            grown(Log(database, registry=REGISTRY), "s", 20)
        before = path.read_bytes()
        with open_database(path, read_only=True) as database:
            log = Log(database, registry=REGISTRY)
            assert len(list(export(log, log.session("s")))) > 20
        assert path.read_bytes() == before
        with suppress(FileNotFoundError):
            assert path.with_name("store.db-wal").stat().st_size == 0

    def test_lines_are_those_of_the_format(self, log: Log) -> None:
        """Key order and spelling, against an independent statement of them."""
        session = log.session("a \u00e9", id=S, create=True)
        log.append(session, [deed("x" * 5000, occurred_at=-5)])
        first, blob, one, last = export(log, session)
        assert first == (
            b'{"sawlog":1,"session":"%b","name":"a \xc3\xa9","ancestors":[]}\n' % S.hex().encode()
        )
        assert list(json.loads(blob)) == ["blob", "data"]
        assert " ".join(json.loads(one)) == (
            "seq id type version flags step source occurred_at recorded_at fence salt commitment "
            "digest payload"
        )
        [stored] = log.read(session)
        assert one.endswith(b',"payload":' + (stored.payload or b"") + b"}\n")
        assert last == msgspec.json.encode({"head": 1, "digest": stored.digest.hex()}) + b"\n"


CORPUS = ROOT.parent / "shared" / "corpus"


@pytest.mark.parametrize("format", ["codex", "claude-code", "openai-chat"])
def test_real_transcripts_read_without_sawlog_and_come_in_the_same(
    format: str, tmp_path: Path, source: Log, other: Log
) -> None:
    if not CORPUS.is_dir():
        pytest.skip("the folder of real transcripts is not beside this checkout")
    path = tmp_path / "session.jsonl"
    for file in files_of(CORPUS / format, format):
        for session in read_file(file, format):
            import_session(source, session)
    assert source.sessions()
    for row in source.sessions():
        path.write_bytes(file_of(source, row))
        assert independent_reader.read(str(path)) == (row.id.hex(), row.head, row.digest.hex())
        assert independent_payloads.check(str(path)) == row.head
        with path.open("rb") as lines:
            there = load(other, lines_of(lines))
        assert there.source_id == row.source_id
        assert file_of(other, there) == path.read_bytes()
    assert not directory_damage(other)


def test_a_session_that_grows_while_it_is_checked_is_sound(log: Log, database: Database) -> None:
    session = log.session("s", create=True)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            log.append(session, [deed("x" * 100), note("y" * 5000)])
            lease = log.leases.acquire(session.id, "driver", 30.0)
            log.leases.release(lease)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reader = Log(database, registry=REGISTRY)
        for _ in range(30):
            assert sound(reader, reader.get(session))
            lines = list(export(reader, session))
            assert lines[-1].startswith(exported.END)
    finally:
        stop.set()
        writer.join()
    assert sound(log, log.get(session))

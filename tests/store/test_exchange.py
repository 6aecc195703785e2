"""Exports go into any store and come out the same; what is no whole export leaves nothing."""

from __future__ import annotations

import io
import json
import os
import random
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from sawlog.store import exported
from sawlog.store.checked import Check, directory_damage
from sawlog.store.database import Database, open_database
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import (
    Conflict,
    Damaged,
    FormatError,
    InvalidEvent,
    Leased,
    NoSession,
    StoreError,
    TooLarge,
    UnknownFormat,
)
from sawlog.store.events.lifecycle import SessionCreated
from sawlog.store.exchange import export, is_export, lines_of, load
from sawlog.store.follow import follow
from sawlog.store.log import Log
from sawlog.store.objects import FileObjects
from tests.store.files import citing, content, event, file_of, forged, grown, lines_in
from tests.store.stores import REGISTRY, deed, made, note

S = b"s" * 16


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Log]:
    """A second, empty store."""
    with open_database(tmp_path / "other.db") as database:
        yield Log(database, registry=REGISTRY)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Log]:
    """A store to export from, where its kind makes no difference."""
    with open_database(tmp_path / "source.db") as database:
        yield Log(database, registry=REGISTRY)


def sound(log: Log, session: SessionRow) -> bool:
    """True when nothing is wrong with a session or the directory."""
    check = Check(log, session)
    whys = [place.why for place in check.places()]
    return not any(whys) and not check.directory() and not directory_damage(log)


def is_empty(log: Log) -> bool:
    """True when no table holds a row of anybody's."""
    with log.database.read() as tx:
        counts = [
            tx.all(f"SELECT count(*) FROM sawlog.{table}")[0][0]
            for table in ("sessions", "events", "blobs", "snapshots")
        ]
    return not any(counts)


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


def _compact(value: object, **options: bool) -> bytes:
    return json.dumps(value, separators=(",", ":"), **options).encode() + b"\n"  # type: ignore[arg-type]


REFORMATTED: dict[str, Callable[[bytes], bytes]] = {
    "spaces": lambda line: json.dumps(json.loads(line)).encode() + b"\n",
    "line ends": lambda line: line[:-1] + b"\r\n",
    "sorted keys": lambda line: _compact(json.loads(line), sort_keys=True),
    "ASCII": lambda line: _compact(json.loads(line)) if b"text" in line else line,
    "capitals": lambda line: line.replace(b"a", b"A", 1),
    "a byte order mark": lambda line: b"\xef\xbb\xbf" + line,
    "an indent": lambda line: b" " + line,
}


class TestAlteredFiles:
    """Whatever was done to a file, one clear error, and nothing of it in the store."""

    @pytest.fixture
    def file(self, source: Log) -> bytes:
        """An export with a blob, an erased event, a fork."""
        log = source
        root = log.session("root", create=True)
        log.append(root, [deed("1"), deed("erased"), deed("x" * 5000), note("\ud800\0")])
        [gone] = log.events(root, [2])
        with log.database.write() as tx:
            tx.run(
                "UPDATE sawlog.events SET salt = NULL, payload = NULL, commitment = ? "
                "WHERE seq = 2",
                (gone.commitment,),
            )
        child = log.fork(root, 3, name="child")
        log.append(child, [deed("y" * 4500), deed("x" * 5000), note("\u00e9")])
        return file_of(log, log.get(child))

    def refused(self, other: Log, lines: list[bytes]) -> str:
        """The error's words."""
        with pytest.raises((Damaged, FormatError)) as caught:
            load(other, lines)
        assert is_empty(other)
        return str(caught.value)

    def test_any_byte(self, file: bytes, other: Log) -> None:
        places = random.Random(1).sample(range(len(file)), 700)
        # The name is the one thing that no digest covers.
        name = range(file.index(b'"child"') + 1, file.index(b'"child"') + 6)
        for at in [*places, *range(0, 40), *range(len(file) - 100, len(file) - 1)]:
            if at in name:
                continue
            altered = bytearray(file)
            altered[at] ^= 1 << random.Random(at).randrange(8)
            words = self.refused(other, lines_in(bytes(altered)))
            assert "line" in words or "export" in words

    def test_lines_missing_doubled_or_exchanged(self, file: bytes, other: Log) -> None:
        lines = lines_in(file)
        for at in range(len(lines)):
            self.refused(other, [*lines[:at], *lines[at + 1 :]])
            self.refused(other, [*lines[:at], lines[at], *lines[at:]])
            if at + 1 < len(lines):
                self.refused(other, [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
            self.refused(other, [*lines[:at], b"\n", *lines[at:]])
        self.refused(other, [*lines, *lines])

    def test_cut_anywhere(self, file: bytes, other: Log) -> None:
        lines = lines_in(file)
        for at in range(len(lines)):
            words = self.refused(other, lines[:at])
            assert "cut" in words if at else "empty" in words
        for at in random.Random(2).sample(range(1, len(file) - 1), 200):
            self.refused(other, lines_in(file[:at]))
        # The newline behind the last line is no loss.
        assert load(other, file.splitlines()).name == "child"

    @pytest.mark.parametrize("what", REFORMATTED)
    def test_reformatted(self, file: bytes, other: Log, what: str) -> None:
        lines = lines_in(file)
        changed = 0
        for at, line in enumerate(lines):
            altered = REFORMATTED[what](line)
            if altered != line:
                changed += 1
                self.refused(other, [*lines[:at], altered, *lines[at + 1 :]])
        assert changed == len(lines) or what in ("ASCII", "sorted keys")
        assert changed

    def test_the_first_digest_that_fails_is_named(self, file: bytes, other: Log) -> None:
        lines = lines_in(file)
        at = next(at for at, line in enumerate(lines) if line.startswith(b'{"seq":4,'))
        lines[at] = lines[at].replace(b'"size":4500', b'"size":4501')
        with pytest.raises(Damaged, match=f"line {at + 1} .*commitment") as caught:
            load(other, lines)
        assert caught.value.seq == 4 and len(caught.value.session) == 32


class TestForgedFiles:
    """A chain that holds proves nothing about whoever made it."""

    PNG = content(b"\x89PNG")
    MESSAGE = "message.user"

    def test_what_is_right_comes_in(self, log: Log) -> None:
        lines = forged([event(1), self.PNG, event(2, self.MESSAGE, citing(self.PNG)), event(3)])
        row = load(log, lines)
        assert list(export(log, row)) == lines and sound(log, row)
        assert log.blob(row, self.PNG.digest) == b"\x89PNG"

    @pytest.mark.parametrize(
        "entries",
        [
            pytest.param([event(1), event(2, id=event(1).id)], id="an id twice"),
            pytest.param([event(1), event(3)], id="a gap"),
            pytest.param([event(2)], id="no start"),
            pytest.param([event(1, payload=b'{"text":7}')], id="a payload of another type"),
            pytest.param([event(1, payload=b'{"text":"\xff"}')], id="no UTF-8"),
            pytest.param([event(1, "x.y", payload=b'{"text":"\xff"}')], id="no UTF-8, unknown"),
            pytest.param([event(1, payload=b'{"text":"x"')], id="no JSON"),
            pytest.param([event(1, "x.y", payload=b"nul")], id="no JSON, unknown"),
            pytest.param([event(1, payload=b"null")], id="no payload and a salt"),
            pytest.param([event(1, salt=None)], id="a payload without a salt"),
            pytest.param([event(1, salt=b"short")], id="a short salt"),
            pytest.param([event(1, salt=b"")], id="an empty salt"),
            pytest.param([event(1, id=b"short")], id="a short id"),
            pytest.param([event(1, type="")], id="no type"),
            pytest.param([event(1, type="a\0b")], id="NUL in a type"),
            pytest.param([event(1, source="a\0b")], id="NUL in a source"),
            pytest.param([event(1, step=2**63)], id="a large step"),
            pytest.param([event(1, fence=2**64 - 1)], id="a large fence"),
            pytest.param([event(1, MESSAGE, citing(PNG))], id="a blob that is not there"),
            pytest.param([PNG, event(1)], id="a blob that nothing cites"),
            pytest.param([event(1), PNG], id="a blob at the end"),
            pytest.param([PNG, PNG, event(1, MESSAGE, citing(PNG))], id="a blob twice"),
            pytest.param([PNG, event(1, MESSAGE, citing(PNG)), PNG, event(2)], id="a blob again"),
            pytest.param(
                [exported.Content(PNG.digest, b"x"), event(1, MESSAGE, citing(PNG))],
                id="other bytes",
            ),
            pytest.param([event(1, MESSAGE, b"[" * 100_000)], id="deep nesting"),
        ],
    )
    def test_what_is_wrong_does_not(self, other: Log, entries: list[object]) -> None:
        with pytest.raises(Damaged):
            load(other, forged(entries))  # type: ignore[arg-type]
        assert is_empty(other)

    @pytest.mark.parametrize("field", ["version", "flags", "occurred_at", "recorded_at", "step"])
    def test_numbers_out_of_range_do_not_come_in(self, other: Log, field: str) -> None:
        line = forged([event(1)])
        for number in (b"-1", b"18446744073709551616", b"1.0", b'"1"', b"null", b"9" * 400):
            lines = list(line)
            name = f'"{field}":'.encode()
            before, _, after = lines[1].partition(name)
            lines[1] = before + name + number + after[after.index(b",") :]
            with pytest.raises(Damaged):
                load(other, lines)
        assert is_empty(other)

    def test_an_id_of_the_ancestors_is_used(self, other: Log) -> None:
        ancestors = [(b"a" * 16, 1)]
        with pytest.raises(Damaged, match="twice"):
            load(other, forged([event(1), event(2, id=event(1).id)], ancestors=ancestors))
        assert is_empty(other)

    @pytest.mark.parametrize(
        "ancestors",
        [
            [(b"a" * 16, 2), (b"b" * 16, 1)],
            [(b"a" * 16, 1), (b"a" * 16, 2)],
            [(S, 1)],
            [(b"short", 1)],
            [(b"a" * 16, -1)],
            [(b"a" * 16, 3)],
            [(b"a" * 16, 2**63)],
        ],
    )
    def test_ancestors_that_cannot_be(self, other: Log, ancestors: list[tuple[bytes, int]]) -> None:
        with pytest.raises(Damaged):
            load(other, forged([event(1), event(2)], ancestors=ancestors))
        assert is_empty(other)

    @pytest.mark.parametrize("name", ["", "a\0b", "x" * 1001])
    def test_names_that_cannot_be(self, other: Log, name: str) -> None:
        with pytest.raises(Damaged):
            load(other, forged([event(1)], name=name))
        assert is_empty(other)

    def test_a_blob_that_was_erased_here_is_not_counted_on(self, log: Log, other: Log) -> None:
        root = log.session("root", create=True)
        log.append(root, [deed("x" * 5000)])
        load(other, export(log, root))
        child = log.fork(root, 1, name="child")
        log.append(child, [deed("x" * 5000)])
        with other.database.write() as tx:
            tx.run("DELETE FROM sawlog.blobs")
        with pytest.raises(Conflict, match="blob"):
            load(other, export(log, child))
        assert len(other.sessions()) == 1


class TestBadInput:
    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(b"", id="empty"),
            pytest.param(b"\n", id="a blank line"),
            pytest.param(os.urandom(5000), id="random"),
            pytest.param(b"\0" * 5000, id="zeros"),
            pytest.param(b"PK\x03\x04" + bytes(range(256)) * 9, id="a zip"),
            pytest.param(b'{"type":"user"}\n' * 50, id="other JSON lines"),
            pytest.param(b'{"sawlog":2,"session":"x"}\n', id="another version"),
            pytest.param(b'{"sawlog":true}\n', id="no version"),
            pytest.param(b'{"sawlog":1', id="cut in its first record"),
            pytest.param(b'{"sawlog":' + b"[" * 100_000 + b"\n", id="100,000 brackets"),
            pytest.param(b"x" * (2 << 20), id="a long line"),
        ],
    )
    def test_what_is_no_export_is_told_so(self, other: Log, data: bytes) -> None:
        for lines in (lines_of(io.BytesIO(data)), lines_in(data)):
            with pytest.raises(UnknownFormat) as caught:
                load(other, lines)
            assert "\n" not in str(caught.value)
        assert is_empty(other)

    def test_a_first_line_that_says_too_little_is_damaged(self, other: Log) -> None:
        for line in (b'{"sawlog":1}\n', b'{"sawlog":1,"session":"","name":null,"ancestors":[]}\n'):
            with pytest.raises(Damaged):
                load(other, [line])

    def test_a_database_is_no_export(self, other: Log, tmp_path: Path) -> None:
        path = tmp_path / "some.db"
        open_database(path).close()
        with path.open("rb") as file, pytest.raises(UnknownFormat):
            load(other, lines_of(file))
        assert not is_export(path.read_bytes()) and is_export(forged([])[0])

    def test_a_million_lines_are_not_read_beyond_the_first(self, other: Log) -> None:
        numbers = iter(range(1_000_000))
        with pytest.raises(UnknownFormat):
            load(other, (b"{}\n" for _ in numbers))
        assert next(numbers) == 1

    @pytest.mark.parametrize("start", [b"", forged([])[0]], ids=["first", "second"])
    def test_a_line_of_a_gigabyte_is_not_read(self, other: Log, start: bytes) -> None:
        class Endless(io.RawIOBase):
            """A gigabyte of one letter behind a start."""

            def __init__(self) -> None:
                self.left = start + b'{"blob":"'
                self.given = 0

            def readable(self) -> bool:
                return True

            def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
                some = (self.left or b"a" * len(buffer))[: len(buffer)]
                self.left = self.left[len(some) :]
                buffer[: len(some)] = some
                self.given += len(some)
                return len(some) if self.given < 1 << 30 else 0

        raw = Endless()
        tracemalloc.start()
        try:
            with pytest.raises((TooLarge, UnknownFormat)):
                load(other, lines_of(io.BufferedReader(raw, 1 << 20), 32 << 20), longest=32 << 20)
            assert tracemalloc.get_traced_memory()[1] < 200 << 20
        finally:
            tracemalloc.stop()
        assert raw.given < 40 << 20 and is_empty(other)

    def test_bounds_can_be_raised(self, log: Log, other: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("x" * 50_000)])
        lines = list(export(log, session))
        with pytest.raises(TooLarge, match="raise the bound"):
            load(other, lines, longest=60_000)
        assert load(other, lines, longest=80_000).head == 1

    def test_memory_does_not_grow_with_the_file(self, tmp_path: Path) -> None:
        """Ten thousand events and thirty megabytes of blobs, in a fraction of their size."""
        with (
            open_database(tmp_path / "one.db") as one,
            open_database(tmp_path / "two.db") as two,
        ):
            logs = [Log(each, registry=REGISTRY) for each in (one, two)]
            session = logs[0].session("s", create=True)
            noise = random.Random(3)
            for _ in range(40):
                batch = [deed(str(noise.random()) * 20) for _ in range(250)]
                batch.append(deed(noise.randbytes(400_000).hex()))
                logs[0].append(session, batch)
            path = tmp_path / "s.jsonl"
            tracemalloc.start()
            try:
                with path.open("wb") as file:
                    file.writelines(export(logs[0], session))
                written = tracemalloc.get_traced_memory()[1]
                tracemalloc.reset_peak()
                with path.open("rb") as file:
                    row = load(logs[1], lines_of(file))
                read = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert row.head == 10_040 and path.stat().st_size > 40 << 20
            assert written < 20 << 20 and read < 20 << 20, (written, read)


class TestHalfWay:
    """An import that does not end leaves nothing behind."""

    def test_lines_that_break_off(self, source: Log, other: Log) -> None:
        def broken() -> Iterator[bytes]:
            yield from lines_in(file_of(source, grown(source, "s", 50)))[:40]
            raise OSError("the pipe broke")

        with pytest.raises(OSError, match="pipe"):
            load(other, broken())
        assert is_empty(other)

    def test_a_store_without_room(self, tmp_path: Path, source: Log) -> None:
        lines = lines_in(file_of(source, grown(source, "s", 1000)))
        with open_database(tmp_path / "small.db") as database:
            small = Log(database, registry=REGISTRY)
            with database.write() as tx:
                [(pages,)] = tx.all("PRAGMA page_count")
                tx.all(f"PRAGMA max_page_count = {pages + 20}")
            with pytest.raises(StoreError, match="no room"):
                load(small, lines)
            assert is_empty(small)
            with database.write() as tx:
                tx.all("PRAGMA max_page_count = 1000000")
            assert load(small, lines).head == 1000

    def test_a_store_that_was_closed(self, database: Database, other: Log) -> None:
        lines = lines_in(file_of(other, grown(other, "s", 5)))
        log = Log(database, registry=REGISTRY)
        database.close()
        with pytest.raises(StoreError, match="closed"):
            load(log, lines)


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

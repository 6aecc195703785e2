"""Append and read, on both databases: what is appended is there, whole, in order, once."""

from __future__ import annotations

import hashlib
import threading

import msgspec
import pytest

from sawlog.store.append import Tail
from sawlog.store.codec import commit, genesis, header, link
from sawlog.store.database import Database, open_database
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import UNKNOWN_TIME, NewEvent, StoredEvent
from sawlog.store.errors import Busy, Conflict, InvalidEvent, NoSession, NoStore
from sawlog.store.events.base import Redacted
from sawlog.store.log import CHUNK, Log
from tests.store.stores import REGISTRY, Note, counted, deed, made, note


def texts(log: Log, session: SessionRow) -> list[object]:
    """The texts of a session's events."""
    return [msgspec.json.decode(event.payload or b"{}").get("text") for event in log.read(session)]


def chain_holds(log: Log, session: SessionRow) -> bool:
    """True when every event follows from the one before."""
    row = log.get(session)
    line = log.lineage(row)
    digest, at = genesis(line[0][0]), 0
    for event in log.read(row):
        at += 1
        owner = next(id for id, last in line if event.seq <= last)
        assert event.seq == at
        head = header(
            owner,
            event.seq,
            event.id,
            event.type,
            event.version,
            event.flags,
            event.step,
            event.source,
            event.occurred_at,
            event.recorded_at,
            event.fence,
        )
        if event.salt is not None and event.payload is not None:
            assert event.commitment == commit(event.salt, event.payload)
        digest = link(digest, head, event.commitment)
        if digest != event.digest:
            return False
    return at == row.head and digest == row.digest


def test_an_append_returns_the_seqs_and_the_head(log: Log) -> None:
    session = log.session("s", create=True)
    first = log.append(session, [deed("a"), deed("b")])
    second = log.append(session, [deed("c")])
    assert (first.seqs, first.head, first.new) == ((1, 2), 2, 2)
    assert (second.seqs, second.head, second.new) == ((3,), 3, 1)
    row = log.get(session)
    assert (row.head, row.digest) == (3, second.digest)
    assert texts(log, session) == ["a", "b", "c"]
    assert chain_holds(log, session)


def test_an_event_is_read_as_it_was_given(log: Log) -> None:
    session = log.session("s", create=True)
    given = deed("x", id=bytes(range(16)), step=7, occurred_at=UNKNOWN_TIME, ignorable=True)
    log.append(session, [given])
    [event] = log.read(session)
    assert event.id == bytes(range(16))
    assert (event.seq, event.type, event.version, event.flags) == (1, "test.deed", 1, 1)
    assert (event.step, event.source, event.occurred_at) == (7, "harness", UNKNOWN_TIME)
    assert event.fence == 0 and event.recorded_at > 0
    assert event.payload == b'{"text":"x"}'
    assert event.salt is not None and len(event.salt) == 16


def test_clock_ids_and_salts_can_be_given_and_then_digests_are_equal(
    database: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    heads: list[bytes] = []
    with open_database(tmp_path_factory.mktemp("other") / "other.db") as other:
        for each in (database, other):
            log = Log(
                each,
                registry=REGISTRY,
                clock=lambda: 1_700_000_000_000_000,
                make_id=counted(),
                make_salt=counted(100),
            )
            session = log.session("s", id=b"s" * 16, create=True)
            log.append(session, [deed("a"), deed("é\0" + "x" * 5000)])
            heads.append(log.append(session, [deed("b")]).digest)
    assert heads[0] == heads[1]


def test_nothing_is_written_when_an_append_raises(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("a")])
    before = log.get(session)
    with pytest.raises(Conflict):
        log.append(session, [deed("b" * 5000)], expected_seq=0)
    with pytest.raises(InvalidEvent, match="source"):
        log.append(session, [deed("c"), NewEvent(payload=Note(), source="Not A Channel")])

    def fails(tail: Tail) -> list[NewEvent]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        log.append(session, [deed("d")], build=fails)
    assert log.get(session) == before
    assert texts(log, session) == ["a"]


def test_an_empty_batch_is_no_append(log: Log) -> None:
    session = log.session("s", create=True)
    assert log.append(session, []).seqs == ()
    assert log.get(session).head == 0


class TestExpectedSeq:
    def test_the_head_it_names_is_taken(self, log: Log) -> None:
        session = log.session("s", create=True)
        assert log.append(session, [deed()], expected_seq=0).seqs == (1,)
        assert log.append(session, [deed()], expected_seq=1).seqs == (2,)

    def test_another_head_is_a_conflict_that_names_both(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed(), deed()])
        for wrong in (0, 1, 3):
            with pytest.raises(Conflict) as caught:
                log.append(session, [deed()], expected_seq=wrong)
            assert (caught.value.expected, caught.value.actual) == (wrong, 2)

    def test_another_handle_is_noticed(self, store_url: str, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("mine")])
        with made(store_url) as other:
            Log(other, registry=REGISTRY).append(session, [deed("theirs")])
        with pytest.raises(Conflict):
            log.append(session, [deed("late")], expected_seq=1)
        assert log.append(session, [deed("later")]).seqs == (3,)
        assert texts(log, session) == ["mine", "theirs", "later"]
        assert chain_holds(log, session)


class TestRepeatedIds:
    def test_the_same_key_returns_its_first_seq(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("a"), deed("b", key="k")])
        log.append(session, [deed("c")])
        again = log.append(session, [deed("b", key="k")])
        assert (again.seqs, again.head, again.new) == ((2,), 3, 0)
        assert texts(log, session) == ["a", "b", "c"]

    def test_a_whole_batch_in_its_order_is_known(self, log: Log) -> None:
        session = log.session("s", create=True)
        batch = [deed("a", key="a"), deed("b", key="b")]
        assert log.append(session, batch).new == 2
        assert log.append(session, batch).seqs == (1, 2)
        other = log.append(session, [deed("c", key="c")])
        assert other.seqs == (3,)
        assert log.append(session, [deed("a", key="a"), deed("c", key="c")]).seqs == (1, 3)

    def test_a_mixture_or_another_order_is_a_conflict(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("a", key="a"), deed("b", key="b")])
        for batch in (
            [deed("a", key="a"), deed("n", key="n")],
            [deed("n", key="n"), deed("b", key="b")],
            [deed("b", key="b"), deed("a", key="a")],
        ):
            with pytest.raises(Conflict):
                log.append(session, batch)
        assert log.get(session).head == 2

    def test_another_content_under_the_same_id_is_a_conflict(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("a", key="a", step=3, occurred_at=5)])
        for other in (
            deed("b", key="a"),
            note("a", key="a"),
            NewEvent(payload=deed("a").payload, source="user", key="a"),
            deed("a", key="a", ignorable=True),
            deed("a", key="a", step=4),
            deed("a", key="a", occurred_at=6),
        ):
            with pytest.raises(Conflict, match="one event"):
                log.append(session, [other])
        assert log.append(session, [deed("a", key="a")]).seqs == (1,)
        assert log.append(session, [deed("a", key="a", step=3, occurred_at=5)]).seqs == (1,)

    def test_a_repeat_comes_before_lease_and_expected_seq(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("a", key="a")])
        log.leases.acquire(session.id, "someone", 60)
        assert log.append(session, [deed("a", key="a")], expected_seq=77).seqs == (1,)

    def test_two_of_one_id_in_a_batch_are_refused(self, log: Log) -> None:
        session = log.session("s", create=True)
        with pytest.raises(InvalidEvent, match="same id"):
            log.append(session, [deed("a", key="a"), deed("a", key="a")])

    def test_ids_are_free_in_another_session(self, log: Log) -> None:
        one, two = log.session("1", create=True), log.session("2", create=True)
        assert log.append(one, [deed("a", key="a")]).new == 1
        assert log.append(two, [deed("b", key="a")]).new == 1

    def test_redacted_under_another_rule_set_the_first_is_kept(self, log: Log) -> None:
        session = log.session("s", create=True)

        def redacted(text: str, number: int) -> NewEvent:
            payload = Note(text=text, redacted=Redacted(number=number))
            return NewEvent(payload=payload, source="user", key="k")

        log.append(session, [redacted("[one]", 1)])
        assert log.append(session, [redacted("[two]", 2)]).seqs == (1,)
        assert log.append(session, [note("plain", key="k")]).seqs == (1,)
        with pytest.raises(Conflict):
            log.append(session, [redacted("[other]", 1)])
        assert texts(log, session) == ["[one]"]


class TestBuild:
    def test_it_sees_the_head_and_the_batch_and_comes_behind_them(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("a")])
        seen: list[Tail] = []

        def build(tail: Tail) -> list[NewEvent]:
            seen.append(tail)
            stored = [*log.read(tail.session, upto=tail.session.head), *tail.pending]
            return [deed(f"after {len(stored)}")]

        done = log.append(session, [deed("b"), deed("c")], expected_seq=1, build=build)
        assert (done.seqs, done.new) == ((2, 3, 4), 3)
        assert texts(log, session) == ["a", "b", "c", "after 3"]
        assert tuple(log.read(session))[1:3] == seen[0].pending
        assert chain_holds(log, session)

    def test_it_can_come_alone(self, log: Log) -> None:
        session = log.session("s", create=True)
        assert log.append(session, build=lambda tail: [deed("built")]).seqs == (1,)
        assert log.append(session, build=lambda tail: []).seqs == ()


class TestDirectory:
    def test_a_session_is_made_once_and_found_by_name_id_and_prefix(self, log: Log) -> None:
        session = log.session("fix-refund", create=True, source_id="abc")
        assert log.session("fix-refund") == session
        assert log.session("fix-refund", create=True) == session
        assert log.session(id=session.id) == session
        assert log.find("fix-refund") == [session]
        assert log.find(session.id.hex()) == [session]
        assert log.find(session.id.hex()[:31]) == [session]
        assert log.by_source("abc") == [session]
        assert (session.head, session.digest) == (0, genesis(session.id))

    def test_a_prefix_finds_all_that_it_fits(self, log: Log) -> None:
        made = [
            log.session(id=bytes.fromhex(prefix).ljust(16, b"\1"), create=True)
            for prefix in ("ab10", "ab1f", "ab20")
        ]
        assert log.find("ab1") == made[:2]
        assert log.find("AB") == made
        assert log.find("ab2") == made[2:]
        for text in ("", "zz", "ac", "ab1" * 20):
            assert log.find(text) == []

    def test_missing_sessions_are_named(self, log: Log) -> None:
        with pytest.raises(NoSession, match="'nobody'"):
            log.session("nobody")
        with pytest.raises(NoSession):
            log.get(b"0" * 16)
        with pytest.raises(NoSession):
            log.append(b"0" * 16, [deed()])

    def test_names_and_ids_belong_to_one_session(self, log: Log) -> None:
        log.session("a", id=b"a" * 16, create=True)
        with pytest.raises(Conflict):
            log.session("b", id=b"a" * 16, create=True)
        with pytest.raises(Conflict):
            log.session("a", id=b"b" * 16, create=True)
        assert len(log.sessions()) == 1

    def test_sessions_without_a_name_are_many(self, log: Log) -> None:
        made = [log.session(create=True) for _ in range(3)]
        assert log.sessions() == made

    def test_a_name_that_no_database_holds_is_refused(self, log: Log) -> None:
        for name in ("", "a\0b", "\ud800", "x" * 1001):
            with pytest.raises(InvalidEvent):
                log.session(name, create=True)
        assert log.session("a'; DROP TABLE events; -- ✓", create=True).head == 0

    def test_another_tenant_sees_nothing(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("x" * 5000)])
        [event] = log.read(session)
        other = Log(log.database, "other", registry=REGISTRY)
        digest = hashlib.sha256(b"x" * 5000).digest()
        assert other.sessions() == [] and other.find(session.id.hex()) == []
        for call in (
            lambda: other.get(session),
            lambda: list(other.read(session)),
            lambda: list(other.stored(session)),
            lambda: other.append(session, [deed()]),
            lambda: other.blob(session, digest),
            lambda: other.by_event_id(session, event.id),
            lambda: other.events(session, [1]),
            lambda: other.fork(session, 1),
            lambda: other.leases.acquire(session.id, "o", 1),
            lambda: other.snapshot_get(session, fold=1, layout=1),
        ):
            with pytest.raises(NoSession, match=session.id.hex()):
                call()
        assert other.session("s", create=True).id != session.id
        assert other.session(id=session.id, create=True).id == session.id


class TestRead:
    def test_parts_of_a_session(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed(str(seq)) for seq in range(1, 11)])
        assert [event.seq for event in log.read(session, after=3, upto=6)] == [4, 5, 6]
        assert [event.seq for event in log.read(session, after=8)] == [9, 10]
        assert [event.seq for event in log.read(session, after=10)] == []
        assert [event.seq for event in log.read(session, upto=99)] == list(range(1, 11))
        assert [event.seq for event in log.events(session, [7, 2, 7])] == [7, 2, 7]
        with pytest.raises(IndexError):
            log.events(session, [11])

    def test_more_than_a_chunk_streams_and_ends_where_it_began(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed() for _ in range(CHUNK + 10)])
        reading = log.read(session)
        first = next(reading)
        log.append(session, [deed()])
        assert [first.seq, *(event.seq for event in reading)] == list(range(1, CHUNK + 11))

    def test_by_event_id(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("a"), deed("b", id=b"b" * 16)])
        found = log.by_event_id(session, b"b" * 16)
        assert found is not None and found.seq == 2
        assert log.by_event_id(session, b"c" * 16) is None

    def test_payloads_of_every_size_come_back(self, log: Log) -> None:
        session = log.session("s", create=True)
        sizes = [0, 1, 900, 1023, 1024, 1025, 4000, 4096]
        many = "".join(f"{number:x}" for number in range(2000))
        batch = [deed(("ab" * size)[:size]) for size in sizes]
        batch += [deed(many[:size]) for size in sizes]
        log.append(session, batch)
        assert texts(log, session) == [
            *(("ab" * size)[:size] or None for size in sizes),
            *(many[:size] or None for size in sizes),
        ]


class TestForks:
    def test_a_fork_reads_its_parents_events_and_goes_its_own_way(self, log: Log) -> None:
        parent = log.session("parent", create=True)
        log.append(parent, [deed("1"), deed("2"), deed("3")])
        child = log.fork(parent, 2, name="child")
        assert (child.head, child.base) == (2, 2)
        assert log.append(child, [deed("3'")]).seqs == (3,)
        log.append(parent, [deed("4")])
        assert texts(log, child) == ["1", "2", "3'"]
        assert texts(log, parent) == ["1", "2", "3", "4"]
        assert chain_holds(log, child) and chain_holds(log, parent)
        assert log.lineage(child) == [(parent.id, 2), (child.id, 3)]
        assert [event.seq for event in log.read(child, after=1, upto=2)] == [2]

    def test_a_fork_of_a_fork_keeps_a_flat_list(self, log: Log) -> None:
        a = log.session("a", create=True)
        log.append(a, [deed(f"a{seq}") for seq in range(1, 6)])
        b = log.fork(a, 3, name="b")
        log.append(b, [deed("b4"), deed("b5")])
        c = log.fork(b, 4, name="c")
        log.append(c, [deed("c5")])
        early = log.fork(c, 2, name="early")
        assert texts(log, c) == ["a1", "a2", "a3", "b4", "c5"]
        assert log.lineage(c) == [(a.id, 3), (b.id, 4), (c.id, 5)]
        assert log.lineage(early) == [(a.id, 2), (early.id, 2)]
        assert texts(log, early) == ["a1", "a2"]
        assert chain_holds(log, c)

    def test_ids_of_ancestors_count_as_used_up_to_the_fork(self, log: Log) -> None:
        parent = log.session("parent", create=True)
        log.append(parent, [deed("1", key="one"), deed("2", key="two")])
        child = log.fork(parent, 1)
        assert log.append(child, [deed("1", key="one")]).seqs == (1,)
        with pytest.raises(Conflict):
            log.append(child, [deed("other", key="one")])
        assert log.append(child, [deed("2", key="two")]).seqs == (2,)
        assert log.append(child, [deed("1", key="one"), deed("2", key="two")]).seqs == (1, 2)
        found = log.by_event_id(child, next(log.read(parent)).id)
        assert found is not None and found.seq == 1

    def test_blobs_of_ancestors_are_found(self, log: Log) -> None:
        parent = log.session("parent", create=True)
        log.append(parent, [deed("x" * 5000)])
        child = log.fork(parent, 1)
        digest = hashlib.sha256(b"x" * 5000).digest()
        assert log.blob(child, digest) == b"x" * 5000

    def test_a_fork_may_leave_at_the_start_and_not_beyond_the_end(self, log: Log) -> None:
        parent = log.session("parent", create=True)
        log.append(parent, [deed("1")])
        child = log.fork(parent, 0)
        assert (child.head, child.digest) == (0, genesis(parent.id))
        assert child.ancestors == ((parent.sid, 0),)
        assert child.parent == parent.sid
        for at in (-1, 2):
            with pytest.raises(InvalidEvent):
                log.fork(parent, at)
        with pytest.raises(Conflict):
            log.fork(parent, 1, name="parent")


class TestSnapshots:
    def test_the_newest_sound_one_at_or_before_a_place(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed() for _ in range(5)])
        chains = [event.digest for event in log.read(session)]
        for seq in (2, 4):
            data = f"state {seq}".encode() * 200
            log.snapshot_put(session, seq, chains[seq - 1], fold=1, layout=1, data=data)
        newest = log.snapshot_get(session, fold=1, layout=1)
        assert newest is not None and newest.seq == 4
        assert newest.data == b"state 4" * 200 and newest.chain == chains[3]
        assert newest.digest == hashlib.sha256(newest.data).digest()
        earlier = log.snapshot_get(session, fold=1, layout=1, upto=3)
        assert earlier is not None and earlier.seq == 2
        assert log.snapshot_get(session, fold=1, layout=1, upto=1) is None
        assert log.snapshot_get(session, fold=2, layout=1) is None
        assert log.snapshot_get(session, fold=1, layout=2) is None

    def test_one_that_fits_another_chain_or_its_own_digest_no_more_is_passed_over(
        self, log: Log
    ) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed() for _ in range(5)])
        chains = [event.digest for event in log.read(session)]
        log.snapshot_put(session, 2, chains[1], fold=1, layout=1, data=b"good")
        log.snapshot_put(session, 3, b"?" * 32, fold=1, layout=1, data=b"another chain's")
        log.snapshot_put(session, 4, chains[3], fold=1, layout=1, data=b"flipped")
        with log.database.write() as tx:
            tx.run("UPDATE sawlog.snapshots SET data = ? WHERE seq = 4", (b"flopped",))
        found = log.snapshot_get(session, fold=1, layout=1)
        assert found is not None and found.data == b"good"

    def test_put_replaces_and_drop_deletes(self, log: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed() for _ in range(5)])
        chains = [event.digest for event in log.read(session)]
        log.snapshot_put(session, 2, chains[1], fold=1, layout=1, data=b"one")
        log.snapshot_put(session, 2, chains[1], fold=1, layout=1, data=b"two")
        log.snapshot_put(session, 4, chains[3], fold=1, layout=1, data=b"three")
        assert log.snapshot_drop(session, after=2) == 1
        found = log.snapshot_get(session, fold=1, layout=1)
        assert found is not None and found.data == b"two"
        assert log.snapshot_drop(session) == 1
        assert log.snapshot_get(session, fold=1, layout=1) is None

    def test_a_fork_uses_its_parents_up_to_where_it_left(self, log: Log) -> None:
        parent = log.session("p", create=True)
        log.append(parent, [deed() for _ in range(5)])
        chains = [event.digest for event in log.read(parent)]
        for seq in (2, 4):
            log.snapshot_put(parent, seq, chains[seq - 1], fold=1, layout=1, data=b"%d" % seq)
        child = log.fork(parent, 3)
        found = log.snapshot_get(child, fold=1, layout=1)
        assert found is not None and found.data == b"2"
        with pytest.raises(ValueError):
            log.snapshot_put(child, 3, chains[2], fold=1, layout=1, data=b"")


class TestThreads:
    def test_many_threads_append_through_one_handle(self, log: Log) -> None:
        session = log.session("s", create=True)
        seqs: list[int] = []

        def work(number: int) -> None:
            for each in range(20):
                seqs.extend(log.append(session, [deed(f"{number}.{each}")]).seqs)
                list(log.read(session, after=log.get(session).head - 2))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seqs) == list(range(1, 161))
        assert chain_holds(log, session)

    def test_a_writer_that_waits_too_long_is_told_and_can_go_on(self, store_url: str) -> None:
        with made(store_url, wait=0.2) as one, made(store_url, wait=0.2) as two:
            log, other = Log(one, registry=REGISTRY), Log(two, registry=REGISTRY)
            session = log.session("s", create=True)
            log.append(session, [deed()])

            def build(tail: Tail) -> list[NewEvent]:
                with pytest.raises(Busy):
                    other.append(session, [deed("too early")])
                return [deed("first")]

            log.append(session, build=build)
            other.append(session, [deed("then")])
            assert texts(log, session) == [None, "first", "then"]


def test_a_closed_store_says_so(store_url: str) -> None:
    database = made(store_url)
    log = Log(database, registry=REGISTRY)
    log.session("s", create=True)
    database.close()
    database.close()
    with pytest.raises(Exception, match="was closed"):
        log.sessions()


@pytest.mark.parametrize(
    "url",
    ["", ":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:", "mysql://x/y", "a\0b",
     "sqlite://relative.db", "sqlite:///x.db?timeout=3", "http://example.org/x.db"],
)  # fmt: skip
def test_what_can_hold_no_store_is_refused(url: str) -> None:
    with pytest.raises(NoStore):
        open_database(url)


def test_events_are_values(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("a")])
    [event] = log.read(session)
    assert isinstance(event, StoredEvent)
    assert event == next(log.read(session))

"""Append, on both databases: in order, once, the whole batch or nothing of it."""

from __future__ import annotations

import threading

import pytest

from sawlog.store.append import Tail
from sawlog.store.database import Database, open_database
from sawlog.store.envelope import UNKNOWN_TIME, NewEvent
from sawlog.store.errors import Busy, Conflict, InvalidEvent
from sawlog.store.events.base import Redacted
from sawlog.store.log import Log
from tests.store.logs import chain_holds, texts
from tests.store.stores import REGISTRY, Note, counted, deed, made, note


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


@pytest.mark.parametrize("time", [2**63, -(2**63) - 1])
def test_a_time_that_no_header_holds_is_named(log: Log, time: int) -> None:
    session = log.session("s", create=True)
    with pytest.raises(InvalidEvent, match="microseconds") as caught:
        log.append(session, [note(occurred_at=time)])
    assert caught.value.path == "occurred_at" and log.get(session).head == 0
    log.append(session, [note(occurred_at=2**63 - 1), note(occurred_at=-(2**63))])
    assert [event.occurred_at for event in log.read(session)] == [2**63 - 1, -(2**63)]

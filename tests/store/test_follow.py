"""Following a store: each event once, each session in order, the same order for everyone."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterable

import pytest

from sawlog.store.append import Tail
from sawlog.store.database import Database
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import WrongPosition
from sawlog.store.follow import Followed, Position, batch, follow
from sawlog.store.log import Log
from tests.store.stores import REGISTRY, deed, finished, made, python

WRITERS = 8


def places(events: Iterable[Followed]) -> list[tuple[bytes, int]]:
    """Whose event and which, of each."""
    return [(each.session, each.event.seq) for each in events]


def test_events_come_in_the_order_of_their_arrival(log: Log) -> None:
    one, two = log.session("1", create=True), log.session("2", create=True)
    log.append(one, [deed("a"), deed("b")])
    log.append(two, [deed("c")])
    log.append(one, [deed("d")])
    followed = list(follow(log.database))
    assert places(followed) == [(one.id, 1), (one.id, 2), (two.id, 1), (one.id, 3)]
    assert [each.event for each in followed[:2]] == list(log.read(one))[:2]
    assert {each.tenant for each in followed} == {"default"}


def test_a_position_goes_on_right_behind_its_event(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed(str(number)) for number in range(10)])
    everything = list(follow(log.database))
    for at, each in enumerate(everything):
        position = Position.parse(str(each.position))
        assert position == each.position
        rest = list(follow(log.database, position, limit=3))
        assert rest == everything[at + 1 :]
    log.append(session, [deed("new")])
    [new] = follow(log.database, everything[-1].position)
    assert new.event.seq == 11


def test_a_batch_is_limited_and_its_position_goes_on(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed(str(number)) for number in range(5)])
    some = batch(log.database, limit=3)
    assert [each.event.seq for each in some.events] == [1, 2, 3]
    rest = batch(log.database, some.position, limit=3)
    assert [each.event.seq for each in rest.events] == [4, 5]
    assert batch(log.database, rest.position).events == ()


def test_a_tenant_is_followed_alone(log: Log) -> None:
    other = Log(log.database, "other", registry=REGISTRY)
    mine, theirs = log.session("s", create=True), other.session("s", create=True)
    for number in range(3):
        log.append(mine, [deed(f"mine {number}")])
        other.append(theirs, [deed(f"theirs {number}")])
    assert places(follow(log.database, tenant="other")) == [(theirs.id, seq) for seq in (1, 2, 3)]
    assert len(list(follow(log.database))) == 6
    nobody = batch(log.database, tenant="nobody")
    assert nobody.events == ()
    # What was passed over need not be passed over again.
    other.append(theirs, [deed("last")])
    assert places(follow(log.database, nobody.position)) == [(theirs.id, 4)]


def test_a_position_of_another_epoch_is_refused(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("a"), deed("b")])
    position = batch(log.database).position
    assert list(follow(log.database, position)) == []
    log.database.renew_epoch()
    with pytest.raises(WrongPosition, match="restored"):
        list(follow(log.database, position))
    log.append(session, [deed("c")])
    assert [each.event.seq for each in follow(log.database)] == [1, 2, 3]
    for text in ("", "nonsense", "abcd.1", f"{'0' * 32}.x", f"{'0' * 32}.1.2.3.4"):
        with pytest.raises(WrongPosition):
            Position.parse(text)


def test_waiting_for_more_until_told_to_stop(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("a")])
    stop = threading.Event()
    seen: list[int] = []
    arrived = threading.Event()

    def watch() -> None:
        for each in follow(log.database, wait=0.01, stop=stop):
            seen.append(each.event.seq)
            if len(seen) == 3:
                arrived.set()

    thread = threading.Thread(target=watch)
    thread.start()
    log.append(session, [deed("b")])
    log.append(session, [deed("c")])
    assert arrived.wait(20)
    stop.set()
    thread.join(20)
    assert seen == [1, 2, 3] and not thread.is_alive()


def test_an_open_writer_delays_and_makes_nothing_be_skipped(store_url: str) -> None:
    with made(store_url) as one, made(store_url) as two:
        log, other = Log(one, registry=REGISTRY), Log(two, registry=REGISTRY)
        early, late = log.session("early", create=True), log.session("late", create=True)
        seen: list[list[tuple[bytes, int]]] = []

        def build(tail: Tail) -> list[NewEvent]:
            if one.dialect == "postgresql":  # SQLite has one writer at a time
                other.append(late, [deed("began later, ended first")])
            seen.append(places(follow(two)))
            return [deed("began first")]

        # The transaction has its number before `build` is called: the lease's row is written.
        with one.write() as tx:
            tx.run("UPDATE sawlog.sessions SET touched_at = touched_at")
        log.append(early, build=build)
        if one.dialect == "sqlite":
            other.append(late, [deed("later")])
        everything = places(follow(two))
        assert sorted(everything) == sorted([(early.id, 1), (late.id, 1)])
        assert everything[: len(seen[0])] == seen[0]


def test_a_follower_reads_while_eight_processes_write(store_url: str) -> None:
    with made(store_url) as database:
        linger = 0.02 if database.dialect == "postgresql" else 0.0
        code = (
            "import sys; from tests.store.workers import write; "
            "write(sys.argv[1], int(sys.argv[2]), 60, float(sys.argv[3]))"
        )
        processes = [python(code, store_url, str(n), str(linger)) for n in range(WRITERS)]
        live: list[Followed] = []
        position: Position | None = None
        while any(process.poll() is None for process in processes):
            some = batch(database, position, limit=50)
            live += some.events
            position = some.position
        finished(processes)
        live += follow(database, position)
        check(database, live)


def test_a_follower_keeps_up_with_eight_writing_processes(store_url: str) -> None:
    """Of all that was appended, less than a batch is left to read when the writers end."""
    each, limit = 300, 500
    with made(store_url) as database:
        calls = "import sys; from tests.store import workers; workers."
        follower = python(
            f"{calls}follow_along(sys.argv[1], {limit})", store_url, stdin=subprocess.PIPE
        )
        assert follower.stdin is not None and follower.stdout is not None
        assert follower.stdout.readline() == "ready\n"
        writers = [
            python(
                f"{calls}append(sys.argv[1], int(sys.argv[2]), {each})",
                store_url,
                str(number),
                stdin=subprocess.PIPE,
            )
            for number in range(WRITERS)
        ]
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        finished(writers)
        follower.stdin.write(f"{WRITERS * each}\n")
        follower.stdin.flush()
        [printed] = finished([follower])
        then, *seen = printed.split()
        assert WRITERS * each - int(then) <= limit
        assert seen == [f"{one.session.hex()}.{one.event.seq}" for one in follow(database)]
        for session in Log(database, registry=REGISTRY).sessions():
            mine = [place for place in seen if place.startswith(session.id.hex())]
            assert mine == [f"{session.id.hex()}.{seq}" for seq in range(1, each + 1)]


def check(database: Database, live: list[Followed]) -> None:
    """Each event once, each session in order, and a later reading gives the same order."""
    log = Log(database, registry=REGISTRY)
    sessions = log.sessions()
    assert len(sessions) == WRITERS + 1
    assert len(live) == sum(session.head for session in sessions) > WRITERS * 60
    for session in sessions:
        mine = [each.event for each in live if each.session == session.id]
        assert mine == list(log.read(session))
    assert list(follow(database, limit=7)) == live

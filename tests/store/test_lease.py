"""Leases on both databases: one driver, fenced by a number; the clock lets others take over."""

from __future__ import annotations

import time

import pytest

from sawlog.store.database import Database
from sawlog.store.errors import Conflict, Fenced, Leased, StoreError
from sawlog.store.lease import Lease, Renewer
from sawlog.store.log import Log
from tests.store.stores import REGISTRY, RENEWED, deed, expire, made, note, while_renewed


def test_a_lease_is_held_by_one_and_names_its_owner(log: Log) -> None:
    session = log.session("s", create=True)
    lease = log.leases.acquire(session.id, "one", 60)
    assert (lease.owner, lease.token) == ("one", 1)
    for owner in ("two", "one"):
        with pytest.raises(Leased, match="driven by one") as caught:
            log.leases.acquire(session.id, owner, 60)
        assert caught.value.owner == "one"
        assert caught.value.expires_at == lease.expires_at
    row = log.get(session)
    assert (row.owner, row.expires_at, row.fence) == ("one", lease.expires_at, 1)


def test_the_holder_appends_and_others_are_refused_with_its_name(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("before")])
    lease = log.leases.acquire(session.id, "one", 60)
    log.append(session, [deed("mine")], lease=lease)
    with pytest.raises(Leased) as caught:
        log.append(session, [deed("theirs")])
    assert caught.value.owner == "one"
    with pytest.raises(Leased):
        log.append(session, [note("open"), deed("and not")])
    assert [event.fence for event in log.read(session)] == [0, 1]


def test_open_types_need_no_lease_and_carry_no_fence(log: Log) -> None:
    session = log.session("s", create=True)
    lease = log.leases.acquire(session.id, "one", 60)
    log.append(session, [note("from anyone")])
    log.append(session, [deed("mine"), note("mine, too")], lease=lease)
    assert [event.fence for event in log.read(session)] == [0, 1, 1]
    assert log.get(session).owner == "one"


def test_what_is_built_within_an_append_is_not_taken_for_open(log: Log) -> None:
    session = log.session("s", create=True)
    log.leases.acquire(session.id, "one", 60)
    with pytest.raises(Leased):
        log.append(session, [note()], build=lambda tail: [deed()])


def test_after_a_take_over_the_old_token_is_refused(log: Log) -> None:
    session = log.session("s", create=True)
    old = log.leases.acquire(session.id, "one", 60)
    log.append(session, [deed("a")], lease=old)
    expire(log, session.id)
    new = log.leases.acquire(session.id, "two", 60)
    assert new.token == old.token + 1
    with pytest.raises(Fenced, match="taken over by two") as caught:
        log.append(session, [deed("b")], lease=old)
    assert caught.value.owner == "two"
    with pytest.raises(Fenced):
        log.leases.renew(old, 60)
    assert log.leases.release(old) is False
    log.append(session, [deed("c")], lease=new)
    assert [event.fence for event in log.read(session)] == [1, 2]


def test_an_expired_lease_that_nobody_took_still_writes_and_renews(log: Log) -> None:
    session = log.session("s", create=True)
    lease = log.leases.acquire(session.id, "one", 60)
    expire(log, session.id)
    log.append(session, [deed("late, but mine")], lease=lease)
    renewed = log.leases.renew(lease, 60)
    assert renewed.token == lease.token
    assert log.get(session).expires_at == renewed.expires_at
    with pytest.raises(Leased):
        log.leases.acquire(session.id, "two", 60)


def test_an_append_without_a_lease_takes_over_an_expired_one(store_url: str, log: Log) -> None:
    session = log.session("s", create=True)
    lease = log.leases.acquire(session.id, "one", 60)
    log.append(session, [deed("a")], lease=lease)
    expire(log, session.id)
    log.append(session, [note("open: takes nothing over")])
    assert log.get(session).owner == "one"
    log.append(session, [deed("b")])
    row = log.get(session)
    assert (row.owner, row.expires_at, row.fence) == (None, None, lease.token + 1)
    with pytest.raises(Fenced):
        log.append(session, [deed("c")], lease=lease)
    log.append(session, [deed("d")])
    assert [event.fence for event in log.read(session)] == [1, 0, 0, 0]


def test_a_released_lease_is_over(log: Log) -> None:
    session = log.session("s", create=True)
    lease = log.leases.acquire(session.id, "one", 60)
    assert log.leases.release(lease) is True
    assert log.leases.release(lease) is False
    with pytest.raises(Fenced, match="ended"):
        log.append(session, [deed()], lease=lease)
    log.append(session, [deed()])
    assert log.leases.acquire(session.id, "two", 60).token > lease.token


def test_a_lease_is_good_for_its_own_session(log: Log) -> None:
    one, two = log.session("1", create=True), log.session("2", create=True)
    lease = log.leases.acquire(one.id, "one", 60)
    log.leases.acquire(two.id, "one", 60)
    log.append(one, [deed()], lease=lease)
    with pytest.raises(Fenced):
        log.append(two, [deed()], lease=lease)


def test_another_handle_learns_of_a_lease_at_its_next_append(store_url: str, log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("a")])
    with made(store_url) as database:
        other = Log(database, registry=REGISTRY)
        other.append(session, [deed("b")])
        lease = log.leases.acquire(session.id, "one", 60)
        with pytest.raises(Leased):
            other.append(session, [deed("c")])
        other.append(session, [note("d")])
        log.append(session, [deed("e")], lease=lease)
        log.leases.release(lease)
        other.append(session, [deed("f")])
    assert [event.seq for event in log.read(session)] == [1, 2, 3, 4, 5]


def test_the_order_is_ids_then_lease_then_expected_seq(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("a", key="a")])
    log.leases.acquire(session.id, "one", 60)
    assert log.append(session, [deed("a", key="a")], expected_seq=9).seqs == (1,)
    with pytest.raises(Leased):
        log.append(session, [deed("b")], expected_seq=9)
    with pytest.raises(Conflict):
        log.append(session, [note("b")], expected_seq=9)


class TestRenewer:
    def test_it_keeps_a_lease_alive_while_work_goes_on(self, database: Database) -> None:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        lease = log.leases.acquire(session.id, "one", RENEWED)
        with Renewer(log.leases, lease, RENEWED) as renewer:
            for _ in while_renewed(log, session.id, 4):
                with pytest.raises(Leased):
                    log.leases.acquire(session.id, "two", 60)
                log.append(session, [deed()], lease=renewer.lease)
            renewer.check()
        assert renewer.lease.expires_at > lease.expires_at + RENEWED * 1_000_000
        expire(log, session.id)  # nobody renews it now
        assert log.leases.acquire(session.id, "two", 60).owner == "two"

    def test_it_stops_and_says_when_the_lease_was_taken_over(self, log: Log) -> None:
        session = log.session("s", create=True)
        lease = log.leases.acquire(session.id, "one", 0.3)
        with Renewer(log.leases, lease, 0.3) as renewer:
            expire(log, session.id)
            # The renewer may have renewed in between; try until the other one gets it.
            deadline = time.monotonic() + 20
            while True:
                try:
                    log.leases.acquire(session.id, "two", 60)
                    break
                except Leased:
                    assert time.monotonic() < deadline
                    expire(log, session.id)
            while renewer.lost is None and time.monotonic() < deadline:
                time.sleep(0.02)
            with pytest.raises(Fenced, match="taken over by two"):
                renewer.check()

    def test_it_goes_on_after_trouble_and_tells_of_it(self) -> None:
        asked: list[Lease] = []

        class Shaky:
            def renew(self, lease: Lease, ttl: float) -> Lease:
                asked.append(lease)
                if len(asked) == 1:
                    raise ConnectionAway("gone for a moment")
                return lease

        lease = Lease(b"s" * 16, "one", 1, 0)
        with Renewer(Shaky(), lease, 0.15) as renewer:
            deadline = time.monotonic() + 20
            while len(asked) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
        renewer.check()
        assert len(asked) >= 3 and renewer.trouble is None


class ConnectionAway(StoreError):
    """Stands for a database that cannot be reached for a while."""

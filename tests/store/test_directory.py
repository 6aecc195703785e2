"""The directory, on both databases: sessions by name, id and prefix, each tenant's its own."""

from __future__ import annotations

import hashlib
import zlib

import msgspec
import pytest

from sawlog.store.checked import directory_damage
from sawlog.store.codec import genesis
from sawlog.store.errors import Conflict, InvalidEvent, NoSession
from sawlog.store.log import Log
from tests.store.stores import REGISTRY, deed


def test_a_session_is_made_once_and_found_by_name_id_and_prefix(log: Log) -> None:
    session = log.session("fix-refund", create=True, source_id="abc")
    assert log.session("fix-refund") == session
    assert log.session("fix-refund", create=True) == session
    assert log.session(id=session.id) == session
    assert log.find("fix-refund") == [session]
    assert log.find(session.id.hex()) == [session]
    assert log.find(session.id.hex()[:31]) == [session]
    assert log.by_source("abc") == [session]
    assert (session.head, session.digest) == (0, genesis(session.id))


def test_a_prefix_finds_all_that_it_fits(log: Log) -> None:
    made = [
        log.session(id=bytes.fromhex(prefix).ljust(16, b"\1"), create=True)
        for prefix in ("ab10", "ab1f", "ab20")
    ]
    assert log.find("ab1") == made[:2]
    assert log.find("AB") == made
    assert log.find("ab2") == made[2:]
    for text in ("", "zz", "ac", "ab1" * 20):
        assert log.find(text) == []


def test_missing_sessions_are_named(log: Log) -> None:
    with pytest.raises(NoSession, match="'nobody'"):
        log.session("nobody")
    with pytest.raises(NoSession):
        log.get(b"0" * 16)
    with pytest.raises(NoSession):
        log.append(b"0" * 16, [deed()])


def test_names_and_ids_belong_to_one_session(log: Log) -> None:
    log.session("a", id=b"a" * 16, create=True)
    with pytest.raises(Conflict):
        log.session("b", id=b"a" * 16, create=True)
    with pytest.raises(Conflict):
        log.session("a", id=b"b" * 16, create=True)
    assert len(log.sessions()) == 1


def test_sessions_without_a_name_are_many(log: Log) -> None:
    made = [log.session(create=True) for _ in range(3)]
    assert log.sessions() == made


def test_a_name_that_no_database_holds_is_refused(log: Log) -> None:
    for name in ("", "a\0b", "\ud800", "x" * 1001):
        with pytest.raises(InvalidEvent):
            log.session(name, create=True)
    assert log.session("a'; DROP TABLE events; -- ✓", create=True).head == 0


def test_another_tenant_sees_nothing(log: Log) -> None:
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


def test_a_row_whose_check_number_leaves_the_leases_end_out_still_fits(log: Log) -> None:
    """As the first releases wrote it; from its next lease on the end is part of it."""
    row = log.session("old", create=True)
    log.append(row, [deed("before")])
    named = (log.tenant, row.id, row.name, row.source_id, row.fence, row.owner)
    first = zlib.crc32(msgspec.msgpack.encode((*named, row.created_at, row.parent, None)))
    with log.database.write() as tx:
        assert tx.run("UPDATE sawlog.sessions SET crc = ? WHERE sid = ?", (first, row.sid)) == 1
    assert not directory_damage(log)
    log.append(row, [deed("and after")])
    lease = log.leases.acquire(row.id, "one", 60)
    assert not directory_damage(log)
    with log.database.write() as tx:
        later = (lease.expires_at + 1, row.sid)
        assert tx.run("UPDATE sawlog.sessions SET expires_at = ? WHERE sid = ?", later) == 1
    assert directory_damage(log)

"""Snapshots: the newest sound one is given, and any may go."""

from __future__ import annotations

import hashlib

import pytest

from sawlog.store.log import Log
from tests.store.stores import deed


def test_the_newest_sound_one_at_or_before_a_place(log: Log) -> None:
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


def test_one_that_fits_another_chain_or_its_own_digest_no_more_is_passed_over(log: Log) -> None:
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


def test_put_replaces_and_drop_deletes(log: Log) -> None:
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


def test_a_fork_uses_its_parents_up_to_where_it_left(log: Log) -> None:
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

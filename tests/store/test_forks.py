"""Forks: a parent's events by reference, and a way of its own."""

from __future__ import annotations

import hashlib

import pytest

from sawlog.store.codec import genesis
from sawlog.store.errors import Conflict, InvalidEvent
from sawlog.store.log import Log
from tests.store.logs import chain_holds, texts
from tests.store.stores import deed


def test_a_fork_reads_its_parents_events_and_goes_its_own_way(log: Log) -> None:
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


def test_a_fork_of_a_fork_keeps_a_flat_list(log: Log) -> None:
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


def test_ids_of_ancestors_count_as_used_up_to_the_fork(log: Log) -> None:
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


def test_blobs_of_ancestors_are_found(log: Log) -> None:
    parent = log.session("parent", create=True)
    log.append(parent, [deed("x" * 5000)])
    child = log.fork(parent, 1)
    digest = hashlib.sha256(b"x" * 5000).digest()
    assert log.blob(child, digest) == b"x" * 5000


def test_a_fork_may_leave_at_the_start_and_not_beyond_the_end(log: Log) -> None:
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

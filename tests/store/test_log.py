"""Read, on both databases: what was appended is there, whole, in any part."""

from __future__ import annotations

import pytest

from sawlog.store.envelope import StoredEvent
from sawlog.store.log import CHUNK, Log
from tests.store.logs import texts
from tests.store.stores import deed


def test_parts_of_a_session(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed(str(seq)) for seq in range(1, 11)])
    assert [event.seq for event in log.read(session, after=3, upto=6)] == [4, 5, 6]
    assert [event.seq for event in log.read(session, after=8)] == [9, 10]
    assert [event.seq for event in log.read(session, after=10)] == []
    assert [event.seq for event in log.read(session, upto=99)] == list(range(1, 11))
    assert [event.seq for event in log.events(session, [7, 2, 7])] == [7, 2, 7]
    with pytest.raises(IndexError):
        log.events(session, [11])


def test_more_than_a_chunk_streams_and_ends_where_it_began(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed() for _ in range(CHUNK + 10)])
    reading = log.read(session)
    first = next(reading)
    log.append(session, [deed()])
    assert [first.seq, *(event.seq for event in reading)] == list(range(1, CHUNK + 11))


def test_by_event_id(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("a"), deed("b", id=b"b" * 16)])
    found = log.by_event_id(session, b"b" * 16)
    assert found is not None and found.seq == 2
    assert log.by_event_id(session, b"c" * 16) is None


def test_payloads_of_every_size_come_back(log: Log) -> None:
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


def test_events_are_values(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("a")])
    [event] = log.read(session)
    assert isinstance(event, StoredEvent)
    assert event == next(log.read(session))

"""Large contents: beside their events, once in their session, checked at each reading."""

from __future__ import annotations

import hashlib

import pytest

from sawlog.store import blobs
from sawlog.store.database import Database, Row
from sawlog.store.envelope import Blob, NewEvent
from sawlog.store.errors import Damaged, InvalidEvent
from sawlog.store.log import Log
from sawlog.store.text import LIMIT, TextObject
from tests.store.stores import Note, deed

DENSE = bytes(hashlib.sha256(b"%d" % number).digest()[0] for number in range(9000))


def digest(data: bytes) -> bytes:
    """The name of a content."""
    return hashlib.sha256(data).digest()


def rows_of(database: Database, columns: str = "sid, digest, size, codec, data") -> list[Row]:
    """The rows of the blobs table."""
    with database.read() as tx:
        return tx.all(f"SELECT {columns} FROM sawlog.blobs ORDER BY sid, digest")


def test_a_text_above_the_limit_is_a_blob_of_its_session(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("x" * LIMIT), deed("y" * (LIMIT + 1))])
    assert rows_of(log.database, "digest, size") == [(digest(b"y" * (LIMIT + 1)), LIMIT + 1)]
    first, second = log.read(session)
    assert first.payload == b'{"text":"%s"}' % (b"x" * LIMIT)
    assert (
        second.payload is not None and digest(b"y" * (LIMIT + 1)).hex().encode() in second.payload
    )
    assert log.blob(session, digest(b"y" * (LIMIT + 1))) == b"y" * (LIMIT + 1)


def test_blobs_are_listed_beside_the_events_that_cite_them(log: Log) -> None:
    session = log.session("s", create=True)
    big = "z" * 5000
    log.append(session, [deed("small"), deed(big), deed(big)])
    name = digest(big.encode())
    assert [row.cites for row in log.stored(session)] == [(), (name,), (name,)]
    assert [row.event for row in log.stored(session)] == list(log.read(session))


def test_the_same_content_is_stored_once_in_a_session_and_again_in_another(log: Log) -> None:
    one, two = log.session("1", create=True), log.session("2", create=True)
    for _ in range(3):
        log.append(one, [deed("x" * 5000), deed("x" * 5000)])
    assert len(rows_of(log.database)) == 1
    log.append(two, [deed("x" * 5000)])
    assert len({row[0] for row in rows_of(log.database)}) == 2


def test_what_compresses_is_packed_and_what_does_not_is_kept(log: Log) -> None:
    session = log.session("s", create=True)
    media = Note(text=TextObject(blob=digest(DENSE).hex(), size=len(DENSE), media="image/png"))
    log.append(session, [deed("x" * 50_000)])
    log.append(
        session,
        [NewEvent(payload=media, source="user", blobs=(Blob(digest(DENSE), DENSE, "image/png"),))],
    )
    found = {row[1]: row for row in rows_of(log.database)}
    packed, kept = found[digest(b"x" * 50_000)], found[digest(DENSE)]
    assert packed[2] == 50_000 and packed[3] == blobs.ZSTD and len(packed[4]) < 100
    assert kept[2:4] == (len(DENSE), blobs.PLAIN) and bytes(kept[4]) == DENSE
    assert log.blobs(session, [digest(DENSE), digest(b"x" * 50_000), b"?" * 32]) == {
        digest(DENSE): DENSE,
        digest(b"x" * 50_000): b"x" * 50_000,
    }
    assert log.blob(session, b"?" * 32) is None


def test_an_event_may_cite_what_its_session_holds_and_nothing_else(log: Log) -> None:
    one, two = log.session("1", create=True), log.session("2", create=True)
    big = b"x" * 5000
    cites = NewEvent(
        payload=Note(text=TextObject(blob=digest(big).hex(), size=len(big), media="text/plain")),
        source="user",
    )
    with pytest.raises(InvalidEvent, match=digest(big).hex()):
        log.append(one, [cites])
    log.append(one, [deed(big.decode())])
    assert log.append(one, [cites]).seqs == (2,)
    with pytest.raises(InvalidEvent, match="neither with the event nor in its session"):
        log.append(two, [cites])
    assert log.get(two).head == 0


def test_a_content_that_was_erased_meanwhile_is_written_again(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("x" * 5000)])
    with log.database.write() as tx:
        tx.run("DELETE FROM sawlog.blobs")
    log.append(session, [deed("x" * 5000)])
    assert log.blob(session, digest(b"x" * 5000)) == b"x" * 5000


@pytest.mark.parametrize("data", [b"x" * 5000, DENSE])
def test_every_reading_checks_the_digest(log: Log, data: bytes) -> None:
    session = log.session("s", create=True)
    media = Note(text=TextObject(blob=digest(data).hex(), size=len(data), media="x/y"))
    blob = Blob(digest(data), data, "x/y")
    log.append(session, [NewEvent(payload=media, source="user", blobs=(blob,))])
    [row] = rows_of(log.database)
    stored = bytes(row[4])
    for at in {0, len(stored) // 2, len(stored) - 1}:
        flipped = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        with log.database.write() as tx:
            tx.run("UPDATE sawlog.blobs SET data = ?", (flipped,))
        with pytest.raises(Damaged, match=digest(data).hex()) as caught:
            log.blob(session, digest(data))
        assert caught.value.session == session.id.hex()


def test_packing_is_undone_exactly_and_nothing_else_is_unpacked() -> None:
    for data in (b"", b"x", b"x" * 1023, b"x" * 1024, DENSE, DENSE * 3, b"\0" * 1_000_000):
        codec, packed = blobs.pack(data)
        assert blobs.unpack(codec, packed, len(data)) == data
        assert len(packed) <= len(data)
    codec, packed = blobs.pack(b"x" * 5000)
    assert codec == blobs.ZSTD
    for bad in (packed[:-1], packed + b"x", b"", b"no frame at all"):
        with pytest.raises(Damaged):
            blobs.unpack(codec, bad, 5000)
    with pytest.raises(Damaged):
        blobs.unpack(codec, packed, 4999)
    with pytest.raises(Damaged, match="codec 77"):
        blobs.unpack(77, packed)

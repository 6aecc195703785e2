"""Events as content alone: the same as with their proof, wherever they lie, and no digest made."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.store import pack, packing, packs
from sawlog.store.codec import link
from sawlog.store.content import TextPart
from sawlog.store.database import Transaction, open_database
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import NewEvent, Unproved
from sawlog.store.errors import Damaged
from sawlog.store.events.conversation import MessageUser
from sawlog.store.log import Log
from sawlog.store.pack import Pack
from sawlog.work.window import Window
from tests.store.make_golden import erase
from tests.store.stores import REGISTRY
from tests.store.talk import talk

SMALL = {"DUE_EVENTS": 40, "KEPT": 8, "FULL_EVENTS": 64}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """A log whose sessions are soon packed."""
    for name, value in SMALL.items():
        monkeypatch.setattr(packing, name, value)
    with open_database(tmp_path / "packed.db") as database:
        yield Log(database, registry=REGISTRY)


@pytest.fixture
def session(log: Log) -> SessionRow:
    """A session of 300 events: most in packs, some in rows, one erased."""
    session = log.session("s", create=True)
    for head in range(15, 301, 15):
        session = talk(log, session, head - 1)
        said = MessageUser((TextPart(f"number {head}"),))
        log.append(session, [NewEvent(payload=said, source="user")])
        if head == 195:
            erase(log, log.get(session))
    session = log.get(session)
    with log.database.read() as tx:
        assert len(packs.places(tx, session.sid, 1, 300)) > 3
    return log.get(session)


def proved(log: Log, session: SessionRow) -> list[Unproved]:
    """All of a session as it is read with its proof."""
    return [Unproved.of(place.event, place.cites) for place in log.stored(session) if place.event]


def test_content_is_what_reading_with_the_proof_gives(log: Log, session: SessionRow) -> None:
    fork = log.fork(session, 150, name="fork")
    talk(log, fork, 230)
    chance = random.Random(7)
    for one, count in ((session, 300), (log.get(fork), 230)):
        whole = proved(log, one)
        assert len(whole) == count and log.contents(one) == whole
        assert any(each.cites for each in whole)
        assert one is not session or whole[194].payload is None
        kinds = {(each.type, each.version) for each in whole}
        assert len(kinds) == 2
        for _ in range(20):
            after, upto = sorted(chance.sample(range(count + 1), 2))
            assert log.contents(one, after, upto) == whole[after:upto]
            kind = chance.choice(sorted(kinds))

            def wanted(type: str, version: int, kind: tuple[str, int] = kind) -> bool:
                return (type, version) == kind

            found = log.contents(one, after, upto, wanted)
            assert found == [e for e in whole[after:upto] if (e.type, e.version) == kind]
            for size in (3, 150):  # rows first, or packs
                seqs = chance.sample(range(1, count + 1), size)
                some = sorted(log.contents_of(one, seqs), key=lambda each: each.seq)
                assert some == [whole[seq - 1] for seq in sorted(seqs)]


def test_no_digest_is_made_for_it(
    log: Log, session: SessionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bytes] = []

    def counted(previous: bytes, head: bytes, commitment: bytes) -> bytes:
        made.append(head)
        return link(previous, head, commitment)

    monkeypatch.setattr(pack, "link", counted)
    with open_database(log.database.url, read_only=True) as database:
        other = Log(database, registry=REGISTRY)
        assert len(other.contents(session)) == 300 and made == []
        assert len(list(other.read(session))) == 300 and len(made) > 200


def test_what_is_missing_is_named(log: Log, session: SessionRow) -> None:
    with log.database.write() as tx:
        gone = packs.places(tx, session.sid, 1, 300)[1]
        tx.run("DELETE FROM sawlog.packs WHERE pack = ?", (gone.number,))
        tx.run("DELETE FROM sawlog.events WHERE sid = ? AND seq = 299", (session.sid,))
    for after, upto, seq in ((0, 300, gone.first), (gone.last, 300, 299), (gone.first, 300, 0)):
        with pytest.raises(Damaged, match="row is missing") as raised:
            log.contents(session, after, upto)
        assert raised.value.seq == (seq or gone.first + 1)
    seqs = [gone.first - 1, gone.first, 299, 300]
    assert sorted(each.seq for each in log.contents_of(session, seqs)) == [gone.first - 1, 300]
    window = Window(log, session)
    assert window.event(300).seq == 300
    with pytest.raises(Damaged, match="row is missing"):
        window.event(gone.first)
    with pytest.raises(IndexError):
        window.event(301)


def test_a_long_history_opens_each_pack_once(
    log: Log, session: SessionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sawlog.builder.state import Ref
    from sawlog.work import window as windows

    opened: list[int] = []
    read = packs.read

    def counted(tx: Transaction, number: int, whole: bool = False) -> Pack:
        opened.append(number)
        return read(tx, number, whole)

    monkeypatch.setattr(packs, "read", counted)
    monkeypatch.setattr(packs, "MOST_KEPT", 3)
    monkeypatch.setattr(windows, "_AT_ONCE", 100)
    with open_database(log.database.url, read_only=True) as database:
        other = Log(database, registry=REGISTRY)
        window = Window(other, session)
        window.prefetch([Ref("history", seq, 1) for seq in range(1, 301)])
        assert len(set(opened)) > 3 and len(opened) == len(set(opened))
        before = len(opened)
        cited = [each.cites[:32].hex() for each in other.contents(session) if each.cites]
        opened[before:] = []
        assert cited and all(window.blob(digest) for digest in cited)
        assert len(opened) == before

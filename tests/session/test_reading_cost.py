"""What it costs to open a session, to go on in it and to replay one step, counted in statements."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

import sawlog
from sawlog.builder.projector import FOLD, fold
from sawlog.builder.snapshot import CODEC
from sawlog.builder.state import State
from sawlog.store.content import TextPart
from sawlog.store.errors import Damaged
from sawlog.store.events.base import Payload
from sawlog.store.events.registry import event
from sawlog.store.events.steps import PacketBuilt
from sawlog.store.events.world import ObservationRecorded
from sawlog.work.session import Session
from tests.session.agents import next_step, sound, talker
from tests.store.stores import tables_read

WINDOW = 3_000
API = "openai-chat"

FEW = 24
"""Statements, whatever the length of the session."""


@event("test.unheard", 1)
class Unheard(Payload, frozen=True):
    """A type of a later release."""

    text: str = ""


def talk(s: Session, steps: int) -> None:
    """Steps that are long and short: every seventh has many observations in it."""
    for _ in range(steps):
        s.user(f"question {s.state.step} " + "x" * 200)
        if s.state.step % 7 == 3:
            note = ObservationRecorded((TextPart("seen " + "y" * 20),))
            s.record([s.new(note, "harness") for _ in range(40)])
        next_step(s, API).send(talker(f"answer {s.state.step} " + "z" * 300))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that queries read, one for each query, as they come."""
    return tables_read(monkeypatch)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a session of 40 steps and one of 160, which its policy cut many times."""
    path = str(tmp_path_factory.mktemp("cost") / "talk.db")
    with sawlog.open(path) as log:
        for name, steps in (("short", 40), ("long", 160)):
            with log.session(name, window=WINDOW) as s:
                talk(s, steps)
    return path


def test_every_packet_comes_out_and_is_found_by_few_statements(url: str, reads: list[str]) -> None:
    for name, steps in (("short", 40), ("long", 160)):
        with sawlog.open(url, read_only=True) as log:
            packets = {
                one.step: one.id
                for one in log.read(name).as_stored()
                if isinstance(one.content, PacketBuilt)
            }
            assert len(packets) == steps
            for number, id in packets.items():
                session = log.read(name)
                reads.clear()
                assert session.steps[number].verify()
                found = session.packet_event(number)
                assert found is not None and found.id == id
                assert len(reads) <= FEW
            assert log.read(name).packet_event(0) is None
            assert log.read(name).packet_event(steps + 1) is None


def test_a_reading_is_let_go_of_with_its_last_user(url: str) -> None:
    """No ring of references keeps what it holds until the collector comes by."""
    gc.disable()
    try:
        with sawlog.open(url, read_only=True) as log:
            session = log.read("long")
            assert session.steps[150].verify()
            assert session.binding(150) is not None
            left = weakref.ref(session), weakref.ref(session.window)
            del session
            assert left[0]() is None and left[1]() is None
    finally:
        gc.enable()


def test_the_entries_of_each_packet_are_those_that_the_fold_has(url: str) -> None:
    with sawlog.open(url, read_only=True) as log:
        session, state = log.read("long"), State()
        for one in session.events():
            state = fold(state, one)
            if isinstance(one.content, PacketBuilt):
                assert session.expanded(one.content) == state.sent[:]


def test_going_on_reads_nothing_back(url: str, tmp_path: Path, reads: list[str]) -> None:
    """Neither a snapshot nor a cut lets the next step read what the session had at hand."""
    path = str(tmp_path / "on.db")
    with sawlog.open(path) as log, log.session("task", window=WINDOW) as s:
        talk(s, 10)
        reads.clear()
        cuts = 0
        before = s.state
        for _ in range(80):
            talk(s, 1)
            cuts += s.state.sent[0] != before.sent[0] or len(s.state.sent) < len(before.sent)
            before = s.state
        row = log.find("task")
        assert cuts > 2
        found = log.store.snapshot_get(row, fold=FOLD, layout=CODEC)
        assert found is not None and found.seq > 256
        assert reads.count("events") < 8
        sound(log, "task")


def test_whoever_leaves_a_long_session_leaves_a_snapshot(tmp_path: Path) -> None:
    with sawlog.open(str(tmp_path / "left.db")) as log:
        with log.session("task", window=WINDOW) as s:
            talk(s, 3)
        row = log.find("task")
        assert log.store.snapshot_get(row, fold=FOLD, layout=CODEC) is None
        with log.session("task", window=WINDOW) as s:
            talk(s, 12)
        row = log.find("task")
        found = log.store.snapshot_get(row, fold=FOLD, layout=CODEC)
        assert found is not None and found.seq == row.head
        sound(log, "task")


def test_no_snapshot_is_left_where_a_release_that_knows_more_reads_on(tmp_path: Path) -> None:
    path = str(tmp_path / "newer.db")
    with sawlog.open(path, types=[Unheard]) as newer:
        with newer.session("task", window=WINDOW) as s:
            talk(s, 12)
            s.append(Unheard("what only a later release knows"))
        newer.store.snapshot_drop(newer.find("task"))
    with sawlog.open(path) as older, older.session("task", window=WINDOW) as s:
        assert s.state.blocked
    with sawlog.open(path, types=[Unheard]) as newer, newer.session("task", window=WINDOW) as s:
        assert not s.state.blocked
        talk(s, 1)
        sound(newer, "task")


def test_damage_beside_a_packet_does_not_hide_it(tmp_path: Path) -> None:
    path = str(tmp_path / "hurt.db")
    with sawlog.open(path) as log, log.session("task", window=WINDOW) as s:
        talk(s, 20)
    with sawlog.open(path) as log:
        session = log.read("task")
        wanted = session.steps[12].packet
        shown = sorted({ref.seq for ref in wanted.refs if ref.seq})
        beside = next(one for one in session.as_stored(shown[0]) if one.type == "attempt.answered")
        hit = shown[len(shown) // 2]
        for seq in (beside.seq, hit):
            with log.store.database.write() as tx:
                tx.run("UPDATE sawlog.events SET salt = NULL WHERE seq = ?", (seq,))
            if seq == beside.seq:
                assert log.read("task").steps[12].verify()
        with pytest.raises(Damaged, match=f"event {hit} "):
            log.read("task").steps[12].verify()

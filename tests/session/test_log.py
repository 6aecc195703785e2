"""An open log: whose sessions they are, how they are found, what is left behind to resume from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.projector import FOLD
from sawlog.builder.snapshot import CODEC
from sawlog.store.errors import (
    ConfigError,
    InvalidEvent,
    NoSession,
    NoStep,
    NoStore,
    StoreError,
    StoreFull,
)
from sawlog.store.events.lifecycle import ForeignRecord
from tests.session.agents import next_step, one, opened, sound, talker, types


def long(log: AgentLog, events: int) -> bytes:
    """A session of so many events; gives the body of its last packet."""
    with log.session("task") as s:
        s.user("go")
        while s.state.seq < events:
            next_step(s, "openai-chat").send(talker(f"at {s.state.seq}"))
            s.user("more")
        return next_step(s, "openai-chat").body


# --- sessions -------------------------------------------------------------------------------------


def test_sessions_are_found_by_name_id_prefix_and_as_the_newest(log: AgentLog) -> None:
    with pytest.raises(NoSession, match="no session yet"):
        log.find("-")
    ids: list[str] = []
    for name in ("one", "two"):
        with log.session(name) as s:
            s.user("go")
            assert s.name == name
            ids.append(s.id)
    assert [row.name for row in log.sessions()] == ["one", "two"]
    assert log.find("one").id.hex() == ids[0]
    assert log.find(ids[1]).name == log.find("-").name == "two"
    shared = next(n for n in range(32) if ids[0][n] != ids[1][n])
    assert log.find(ids[0][: shared + 1]).name == "one"
    with pytest.raises(NoSession, match="begins the ids of 2 sessions"):
        log.find(ids[0][:shared])
    with pytest.raises(NoSession, match="no session is named 'three'"):
        log.find("three")


def test_tenants_do_not_see_each_other(any_log: AgentLog) -> None:
    """Foreign and missing give the same answer, and a name is free in each."""
    url = str(any_log.store.database.url)
    with any_log.session("task") as s:
        s.user("mine")
        mine = s.id
    with sawlog.open(url, tenant="other") as other:
        assert other.sessions() == []
        for text in ("task", mine, mine[:8]):
            with pytest.raises(NoSession) as foreign:
                other.find(text)
            with pytest.raises(NoSession) as missing:
                other.find(text[::-1])
            assert str(foreign.value) == str(missing.value).replace(text[::-1], text)
        with other.session("task") as s:
            s.user("theirs")
            assert s.id != mine
        assert types(other.read("task")) == ["session.created", "message.user"]
    assert b"theirs" not in b"".join(
        e.payload or b"" for e in any_log.store.read(any_log.find("task"))
    )


def test_reading_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NoStore):
        sawlog.open(str(tmp_path / "none.db"), read_only=True)
    assert not list(tmp_path.iterdir())
    url = str(tmp_path / "agent.db")
    with opened(url) as log, log.session("task") as s:
        s.user("go")
        next_step(s, "openai-chat")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with sawlog.open(url, read_only=True) as log:
        recorded = log.session("task", read_only=True)
        assert recorded.steps[1].packet.body and recorded.verify().sound
        with pytest.raises(NoSession):
            log.session("other", read_only=True)
        with pytest.raises(StoreError), log.session("task"):
            pass
    for name in ("agent.db", "agent.db-wal"):
        path = tmp_path / name
        assert (path.read_bytes() if path.exists() else b"") == before.get(name, b"")


def test_a_step_that_is_not_there_is_named(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        with pytest.raises(NoStep, match="no step 1; its last one is 0"):
            _ = log.read("task").steps[1].packet
        next_step(s, "openai-chat")
    recorded = log.read("task")
    assert len(recorded.steps) == 1 and recorded.steps[1].outcome == "open"
    for number in (0, 2, -1):
        with pytest.raises(NoStep):
            _ = recorded.steps[number].packet


def test_a_closed_log_says_so_and_closes_twice(tmp_path: Path) -> None:
    log = opened(str(tmp_path / "a.db"))
    with log.session("task") as s:
        s.user("go")
    log.close()
    log.close()
    with pytest.raises(StoreError, match="was closed"):
        log.sessions()


@pytest.mark.parametrize(
    ("name", "error"), [("", InvalidEvent), ("x" * 2000, InvalidEvent), ("a\nb", None)]
)
def test_names_of_sessions(log: AgentLog, name: str, error: type[Exception] | None) -> None:
    if error is None:
        with log.session(name) as s:
            s.user("go")
        assert log.find(name).name == name
        return
    with pytest.raises(error):
        log.session(name)
    assert log.sessions() == []


# --- snapshots ------------------------------------------------------------------------------------


def test_a_long_session_is_resumed_from_a_snapshot_with_the_same_packet(any_log: AgentLog) -> None:
    log = any_log
    body = long(log, 900)
    row = log.find("task")
    found = log.store.snapshot_get(row, fold=FOLD, layout=CODEC)
    assert found is not None and row.head - found.seq < 450
    with log.session("task") as s:
        s.user("the same question")
        warm = next_step(s, "openai-chat").body
    assert log.store.snapshot_drop(row) >= 2
    with log.session("task") as s:
        cold = next_step(s, "openai-chat").body
    assert warm == cold and warm.startswith(body[: body.rindex(b"]")])
    sound(log, "task")


def test_a_snapshot_that_does_not_fit_is_passed_over(log: AgentLog) -> None:
    long(log, 500)
    with log.store.database.write() as tx:
        assert tx.run("UPDATE sawlog.snapshots SET data = ?", (b"not a state",)) > 0
    with log.session("task") as s:
        s.user("go on")
        next_step(s, "openai-chat").send(talker())
    sound(log, "task")


def test_a_snapshot_that_cannot_be_written_does_not_fail_the_append(log: AgentLog) -> None:
    """It is derived: what was appended stands, and a later append tries again."""
    real = log.store.snapshot_put
    tried: list[int] = []

    def full(*args: Any, **options: Any) -> None:
        tried.append(args[1])
        raise StoreFull("no room on the medium")

    log.store.snapshot_put = full  # type: ignore[method-assign]
    long(log, 450)
    assert tried
    row = log.find("task")
    assert log.store.snapshot_get(row, fold=FOLD, layout=CODEC) is None
    log.store.snapshot_put = real  # type: ignore[method-assign]
    with log.session("task") as s:
        s.user("go on")
        next_step(s, "openai-chat").send(talker())
    assert log.store.snapshot_get(row, fold=FOLD, layout=CODEC) is not None
    sound(log, "task")


# --- case 56 --------------------------------------------------------------------------------------


def test_case_56_a_full_disk_stops_the_step_before_anything_leaves(log: AgentLog) -> None:
    left: list[bytes] = []

    def client(body: bytes) -> bytes:
        left.append(body)
        return talker()(body)

    with log.session("task") as s:
        call = one(s)
        head = log.find("task").head
        with log.store.database.write() as tx:
            [[pages]] = tx.all("PRAGMA page_count")
            tx.all(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFull):
            for _ in range(200):  # pages that are there already take some first
                s.user("".join(chr(33 + n % 90) for n in range(0, 30000, 7)))
        full = log.find("task").head
        with pytest.raises(StoreFull), s.tool(call, effect="idempotent") as run:
            for _ in range(200):
                s.append(ForeignRecord("x" * 4000), source="hook:x")
            run.result("never")
        with log.store.database.write() as tx:
            tx.all("PRAGMA max_page_count = 100000")
        assert full >= head and left == []
        step = next_step(s, "openai-chat")
        assert step.send(client).text == "ok"
    assert len(left) == 1
    sound(log, "task")


# --- what means nothing ---------------------------------------------------------------------------


def test_options_that_mean_nothing_are_refused(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        with pytest.raises(ConfigError):
            s.step("", model="m")
        with pytest.raises(InvalidEvent, match="parameters.temperature"):
            s.step("openai-chat", model="m", temperature=float("nan"))
    assert types(log.read("task")) == ["session.created", "message.user"]


def test_no_run_of_system_texts_spans_what_was_said_between_them(tmp_path: Path) -> None:
    """A cut, then so many packets that a manifest is written in full again."""
    with opened(str(tmp_path / "agent.db")) as log:
        with log.session("task", window=400) as s:
            s.system("one")
            s.user("between")
            s.system("one and two")
            for n in range(80):
                s.user(f"message {n} " + "x" * 150)
                next_step(s, "openai-chat").send(talker())
        recorded = sound(log, "task")
        assert all(step.verify() for step in recorded.steps)

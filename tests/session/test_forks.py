"""Forks: another session over the same events, its packets the parent's, its way its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.branching import attended
from sawlog.importing import import_path
from sawlog.store.errors import ConfigError, Conflict, InvalidEvent, NoSession, NoStep
from sawlog.store.events.lifecycle import SessionForked
from sawlog.store.exchange import export, load
from sawlog.work.session import Session
from tests.session.agents import next_step, sound, talker, types
from tests.session.branches import asking, own_rows, packets, same_state, stepped, worked
from tests.session.foreign_files import each_file


def shown(s: Session) -> list[str]:
    """What the next packet says, as texts; results by status and text."""
    step = next_step(s, "openai-chat")
    return [entry.text for entry in step.packet.entries if entry.role != "tool"]


# --- line 8: fork at every seq --------------------------------------------------------------------


def test_a_fork_at_every_seq_of_500_events_copies_no_row_and_shows_what_the_parent_showed(
    log: AgentLog,
) -> None:
    with log.session("task", window=4_000) as s:
        while s.state.seq < 500:
            worked(s, 6, f"part {s.state.seq} " + "x" * 200)
    parent = log.read("task")
    bodies = packets(parent)
    before = export_of(log, "task")
    built = {event.step: event.seq for event in parent.events() if event.type == "packet.built"}
    head = parent.row.head
    assert head >= 500 and len(bodies) > 40
    for at in range(head + 1):
        fork = log.fork("task", at=at, name=f"at {at}")
        row = log.find(fork.id)
        assert (row.head, row.base, own_rows(log, row)) == (at + 1, at, 1)
        child = log.read(fork.id)
        steps = [step for step, seq in built.items() if seq <= at]
        assert child.last_step() == max((e.step for e in parent.as_stored(0, at)), default=0)
        for step in steps if at % 100 == 0 else steps[-1:] if at % 3 == 0 else ():
            packet = child.steps[step].packet
            assert (packet.semantic, packet.request.digest, packet.body) == bodies[step]
        if at % 50 == 7:
            with fork as c:
                same_state(log, c)
                c.user("another way")
                assert next_step(c, "openai-chat").number == child.last_step() + 1
            sound(log, fork.id)
    assert export_of(log, "task") == before, "the parent is not touched"


def export_of(log: AgentLog, name: str) -> bytes:
    """A session's export."""
    return b"".join(export(log.store, log.find(name)))


# --- what a fork is -------------------------------------------------------------------------------


def test_case_58_a_fork_at_a_step_has_its_packet_and_a_reply_of_its_own(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task") as s:
        worked(s, 3)
        s.inject("for the parent alone", id="i1")
        with log.fork("task", step=2, name="second try") as c:
            assert (c.name, c.state.inbox, c.state.open_step) == ("second try", (), 0)
            assert log.read("second try").steps[2].packet.body == s_body(log, 2)
            again = next_step(c, "openai-chat")
            assert again.number == 3 and again.body == s_body(log, 2), "the same is asked again"
            again.send(talker("otherwise"))
            same_state(log, c)
        s.user("on")  # driven meanwhile, under its own lease
        assert len(s.state.inbox) == 1
    assert types(log.read("second try"))[-4:-1] == types(sound(log, "second try"))[-4:-1]
    [forked] = [e.content for e in log.read("second try").events() if e.type == "session.forked"]
    assert isinstance(forked, SessionForked) and forked.parent == log.read("task").id
    sound(log, "task")


def s_body(log: AgentLog, step: int) -> bytes:
    body: bytes = log.read("task").steps[step].packet.body
    return body


def test_what_is_open_at_the_parent_shows_forked(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 1)
        first, second = stepped(s, "asks", "read_file", "run_tests")
        with s.tool(first) as run:
            with log.fork("task", name="inside") as c:
                texts = shown(c)
                assert sum("this session was forked off" in text for text in texts) == 2
                assert not c.open_calls(), "they are the parent's to run"
            run.result("the parent's")
        with s.tool(second) as run:
            run.result("too")
        assert not any("forked off" in text for text in shown(s))
    late = log.read("inside")
    assert late.verify().sound and "the parent's" not in str(packets(late))


def test_a_fork_of_a_fork_and_of_the_start(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 2)
    with log.fork("task", step=2) as c:
        assert c.name == f"task~{log.find(c.id).base}"
        worked(c, 2, "c")
    with log.fork(c.name, at=log.find(c.id).base) as early:  # where the first one leaves
        worked(early, 1, "e")
    with log.fork("task", step=2) as twin:
        assert twin.name == f"{c.name}.2"
    with log.fork("task", at=0, name="empty") as empty:
        assert empty.state.seq == 1
        empty.user("afresh")
        next_step(empty, "openai-chat")
    for name in (c.name, early.name, twin.name, "empty", "task"):
        sound(log, name)


def test_a_fork_whose_first_event_is_missing_begins_with_it(log: AgentLog) -> None:
    """A process may end between the row and the event."""
    with log.session("task") as s:
        worked(s, 1)
        stepped(s, "asks", "read_file")
    row = log.store.fork(log.find("task"), log.find("task").head, name="cut short")
    assert row.head == row.base
    for _ in range(2):
        with log.session("cut short") as c:
            assert [one.denied for one in c.state.waiting] == ["forked"]
    assert types(log.read("cut short")).count("session.forked") == 1
    sound(log, "cut short")


def test_places_and_names_that_there_are_not(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 1)
    for at in (-1, 10_000):
        with pytest.raises(InvalidEvent, match="is no event of the session"):
            log.fork("task", at=at)
    with pytest.raises(InvalidEvent, match="either a step or an event"):
        log.fork("task", at=1, step=1)
    with pytest.raises(NoStep, match="its last one is 1"):
        log.fork("task", step=2)
    with pytest.raises(NoSession):
        log.fork("nobody", step=1)
    with pytest.raises(Conflict):
        log.fork("task", step=1, name="task")
    assert len(log.sessions()) == 1, "what was refused left nothing"


def test_an_async_fork(log: AgentLog) -> None:
    async def main() -> None:
        async with log.asession("task") as s:
            await s.user("one")
            await s.step("openai-chat", model="m")
        async with log.afork("task", step=1, name="other") as c:
            await c.user("two")
            step = await c.step("openai-chat", model="m")
            assert step.number == 2
            assert (await c.rewind(step=1)).to == log.find("other").base

    asyncio.run(main())
    sound(log, "other")


def test_a_fork_exported_and_imported_gives_the_same_packets(log: AgentLog, tmp_path: Path) -> None:
    with log.session("task") as s:
        worked(s, 3)
    with log.fork("task", step=2, name="other") as c:
        worked(c, 2, "c")
        c.rewind(step=2)
        worked(c, 1, "d")
    with sawlog.open(str(tmp_path / "again.db")) as again:
        row = load(again.store, export_of(log, "other").splitlines(keepends=True))
        assert packets(again.read(row.id.hex())) == packets(log.read("other"))
        assert again.read(row.id.hex()).verify().sound


# --- children that inherit ------------------------------------------------------------------------


def test_a_child_that_inherits_begins_with_its_parents_bytes(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task") as s:
        worked(s, 2)
        before = next_step(s, "openai-chat")
        [call, other] = before.send(asking("delegates", "read_file", "run_tests")).tool_calls
        with s.tool(call) as run:
            with s.child("look", "Find the cause.", inherit=True) as child:
                step = next_step(child, "openai-chat")
                assert step.body.startswith(before.body[:-2])
                texts = [entry.text for entry in step.packet.entries]
                assert texts[-1] == "Find the cause."
                assert sum("forked off" in text for text in texts) == 2
                step.send(talker("found"))
                child.hand_over("The clock.")
                assert child.handed_over and not child.open_calls()
            run.result("see the hand-over")
        with s.child("look", "Find the cause.", inherit=True) as child:
            assert child.handed_over, "the same child goes on"
        with s.tool(other) as run:
            run.result("done")
        assert "The clock." in str(shown(s))
    row, parent = log.find("task/look"), log.find("task")
    assert row.parent == parent.sid and own_rows(log, row) == row.head - row.base
    sound(log, "task/look")
    sound(log, "task")


def test_a_child_begun_one_way_is_not_continued_the_other(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 1)
        with s.child("plain", "A."), s.child("heir", "B.", inherit=True):
            pass
        with pytest.raises(ConfigError, match="inherits nothing of this session"):
            s.child("plain", "A.", inherit=True)
        with pytest.raises(ConfigError, match="is a fork of this session"):
            s.child("heir", "B.")


def test_an_heir_of_a_child_has_a_task_of_its_own(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 1)
        with s.child("a", "Task A.") as a, a.child("b", "Task B.", inherit=True) as b:
            texts = shown(b)
        assert texts[-2:] == ["Task A.", "Task B."]
    sound(log, "task/a/b")


def test_the_helper_gives_states_to_rewinds_alone(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 2)
    events = list(log.read("task").as_stored())
    assert list(attended(events, lambda _: pytest.fail("nothing is rewound"), None)) == events


# --- imports --------------------------------------------------------------------------------------


@each_file
def test_an_import_is_forked_and_rewound_at_any_of_its_steps(file: Path, log: AgentLog) -> None:
    """What the file shows of a step is the last thing that stands; its reply is another's."""
    one = import_path(log, file)[0]
    recorded = log.read(one.session)
    steps = [step for step in (1, one.steps // 2, one.steps) if step]
    for step in dict.fromkeys(steps):
        at = recorded.place(step)
        with log.fork(one.session, step=step, name=f"at {step}") as c:
            assert log.find(c.id).base == at
            c.user("another way")
            assert next_step(c, "openai-chat").number == log.read(c.id).last_step()
            same_state(log, c)
        sound(log, f"at {step}")
        with log.fork(one.session, name=f"whole {step}") as c:
            try:
                back = c.rewind(step=step)
            except InvalidEvent as error:  # the file rewinds past it itself
                assert "left: fork the session" in str(error)
                continue
            assert back.to == at and all(one.seq <= at for one in c.state.news)
            c.user("another way")
            next_step(c, "openai-chat")
            same_state(log, c)
        sound(log, f"whole {step}")

"""Rewinds: the history taken back to any place of its branch, in a world that stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.recorded import Recorded
from sawlog.store.content import TextPart
from sawlog.store.errors import InvalidEvent, NoStep, NotEntered, StepEnded, ToolError
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.work.call import Call
from sawlog.work.session import Session
from tests.session.agents import TOOLS, next_step, sound, talker, types
from tests.session.branches import packets, same_state, stepped, worked


def texts(s: Session) -> list[str]:
    """What the next packet says, in order; the step is answered."""
    step = next_step(s, "openai-chat")
    step.send(talker("ok"))
    return [entry.text for entry in step.packet.entries if entry.section == "history"]


# --- where to -------------------------------------------------------------------------------------


def test_a_rewind_to_a_step_decides_it_anew_from_the_same_packet(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task") as s:
        worked(s, 4)
        before = packets(log.read("task"))
        back = s.rewind(step=2, reason="a dead end")
        assert s.state.seq == back.seq and s.state.sent_at == back.to
        again = next_step(s, "openai-chat")
        assert again.number == 5, "numbers are not used twice"
        assert again.body == before[2][2], "nothing was said since: the same is asked again"
        again.send(talker("otherwise"))
        s.user("and now?")
        assert texts(s)[-2:] == ["otherwise", "and now?"]
        same_state(log, s)
    recorded = sound(log, "task")
    assert {n: packets(recorded)[n] for n in before} == before, "what was sent is not touched"
    [event] = [e.content for e in recorded.events() if isinstance(e.content, HistoryRewound)]
    assert (event.to, event.reason) == (back.to, "a dead end")


def test_a_rewind_to_an_event_leaves_what_came_up_to_it(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("one")
        first = s.state.seq
        s.user("two")
        assert texts(s) == ["one", "two"]
        s.user("three")
        s.rewind(to=first)
        s.user("four")
        assert texts(s) == ["one", "four"]
        s.rewind(to=0)
        s.user("five")
        assert texts(s) == ["five"]
        same_state(log, s)
    sound(log, "task")


def test_places_that_are_no_place_to_go_back_to(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 3)
        head = s.state.seq
        for to, says in (
            (-1, "is no event of the session, which ends at"),
            (head + 1, "is no event of the session, which ends at"),
            (head, "is the newest one"),
        ):
            with pytest.raises(InvalidEvent, match=says):
                s.rewind(to=to)
        with pytest.raises(InvalidEvent, match="either a step or an event"):
            s.rewind(to=1, step=1)
        with pytest.raises(InvalidEvent, match="either a step or an event"):
            s.rewind()
        with pytest.raises(NoStep):
            s.rewind(step=9)
        left = s.rewind(step=1)
        for to in (left.to + 1, head):
            with pytest.raises(InvalidEvent, match=f"the rewind of event {left.seq} left"):
                s.rewind(to=to)
        with pytest.raises(InvalidEvent, match="left: fork the session at it"):
            s.rewind(step=3)
        assert s.state.seq == left.seq, "what was refused left nothing"
        with log.fork("task", step=3) as fork:  # as the error says
            worked(fork, 1)
    with pytest.raises(NotEntered):
        log.session("task").rewind(step=1)
    sound(log, "task")


def test_a_step_under_way_is_given_up_with_its_history(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 2)
        s.user("go on")
        step = next_step(s, "openai-chat")
        s.rewind(step=1)
        assert not s.state.open_step
        with pytest.raises(StepEnded):
            step.answer(talker()(b""))
        assert types(log.read("task"))[-2:] == ["step.abandoned", "history.rewound"]
        s.user("otherwise")
        assert texts(s)[-1] == "otherwise"
    assert sound(log, "task").steps[3].outcome == "abandoned"


def test_a_rewind_reaches_behind_snapshots_and_block_cuts(log: AgentLog) -> None:
    with log.session("task", window=3_000) as s:
        for part in range(12):
            worked(s, 5, f"part {part} " + "x" * 150)
        assert s.state.seq > 500
        assert any("block_cut" in one.causes for one in log.read("task").stability().steps)
        first = packets(log.read("task"))[3]
        s.rewind(step=3)
        assert next_step(s, "openai-chat").body == first[2]
        same_state(log, s)
    with log.session("task", window=3_000) as s:  # opened anew, from a snapshot or none
        worked(s, 3, "anew")
        same_state(log, s)
    found = sound(log, "task").stability()
    assert [one.causes for one in found.steps if "rewound" in one.causes] == [("rewound",)]


# --- what it does not undo ------------------------------------------------------------------------


def test_a_rewind_says_which_calls_ran_and_which_files_changed(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task") as s:
        s.tools(TOOLS)
        s.user("go")
        s.file_changed("same.py", version="aa" * 32)
        s.file_changed("other.py", version="aa" * 32)
        early = stepped(s, "early", "run_tests")[0]
        calls = stepped(s, "later", "read_file", "run_tests", "breaks", "run_tests", "run_tests")
        with s.tool(calls[0], effect="read_only") as run:
            run.result("looked")
        with s.tool(calls[1], effect="idempotent") as run:
            run.result("set")
        with s.tool(calls[2]) as run:
            run.result(run.call.run())
        hangs = s.tool(calls[3])
        hangs.start()
        with s.tool(early) as run:
            run.result("late")
        for path, version in (("same.py", "bb"), ("same.py", "aa"), ("other.py", "bb")):
            s.file_changed(path, version=version * 32)
        s.file_changed("new.py", version="cc" * 32)
        s.file_changed("gone.py", state="absent")
        back = s.rewind(step=2)
        told = [(one.call, one.name, one.status) for one in back.calls]
        assert told == [
            (calls[1].event_id, "run_tests", "ok"),
            (calls[2].event_id, "breaks", "error"),
            (calls[3].event_id, "run_tests", "unknown"),
            (early.event_id, "run_tests", "ok"),
        ]
        assert back.files == ("other.py", "new.py", "gone.py")
        files = dict(s.state.files.items())
        assert files["other.py"].version == "bb" * 32, "the world is not taken back"
        [event] = [e.content for e in log.read("task").events() if e.type == "history.rewound"]
        assert isinstance(event, HistoryRewound)
        assert (event.calls, event.files) == (back.calls, back.files)
    sound(log, "task")


def test_a_call_before_whose_result_is_taken_back_is_open_with_an_unknown_outcome(
    log: AgentLog,
) -> None:
    with log.session("task") as s:
        [call] = stepped_call(s)
        place = s.state.seq
        with s.tool(call) as run:
            run.result("12 passed")
        worked(s, 2)
        back = s.rewind(to=place)
        assert (back.calls[0].call, back.calls[0].status) == (call.event_id, "ok")
        [waiting] = s.state.waiting
        assert waiting.started and not waiting.gone
        shown = texts(s)
        assert "12 passed" not in str(shown) and "its outcome is unknown" in shown[-1]
        assert s.open_calls()[0].event_id == call.event_id
    sound(log, "task")


def stepped_call(s: Session) -> Sequence[Call]:
    s.tools(TOOLS)
    s.user("go")
    return stepped(s, "asks", "run_tests")


def test_the_result_of_a_call_that_still_ran_is_kept_aside(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 1)
        [call] = stepped(s, "asks", "run_tests")
        with s.tool(call) as run:
            s.rewind(step=1)
            run.result("done after all")
        s.user("otherwise")
        assert "done after all" not in str(texts(s))
        with pytest.raises(ToolError):
            s.tool(call).start()
    kept = [e.content for e in sound(log, "task").events() if isinstance(e.content, ToolFinished)]
    assert TextPart("done after all") in kept[-1].parts


def test_a_call_that_a_packet_before_settled_gives_its_late_result_as_news(log: AgentLog) -> None:
    with log.session("task") as s:
        [call] = stepped_call(s)
        hangs = s.tool(call)
        hangs.start()
        s.user("do not wait")
        next_step(s, "openai-chat").send(talker("I do not"))
        worked(s, 1)
        s.rewind(step=2)
        hangs.result("late")
        hangs.finish()
        shown = texts(s)
        assert sum("late" in text for text in shown) == 1 and "run_tests" in shown[-1]
        same_state(log, s)
    sound(log, "task")


# --- items and what waits -------------------------------------------------------------------------


def test_an_item_that_was_withdrawn_meanwhile_is_not_valid_again(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        s.offer("The limit is 40.", channel="retrieval", source_id="doc 1", locator="d:1")
        assert "The limit is 40." in str(texts(s))
        back = s.state.sent_at
        s.user("more")
        s.withdraw("retrieval", "doc 1", reason="wrong")
        assert "its source took it back" in str(texts(s))
        s.user("still more")
        texts(s)
        s.rewind(to=back)
        s.user("again")
        shown = texts(s)
        assert "The limit is 40." in shown[1], "it stands where it was sent"
        assert "its source took it back" in shown[-1]
        same_state(log, s)
    sound(log, "task")


def test_messages_that_wait_still_wait(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 2)
        s.inject("listen", id="i1")
        s.rewind(step=1)
        s.user("otherwise")
        assert "listen" in texts(s)


# --- reading what was rewound ---------------------------------------------------------------------


def rewound(log: AgentLog) -> Recorded:
    """A session of two branches."""
    with log.session("task") as s:
        worked(s, 3, "left")
        s.rewind(step=1)
        s.user("the other way")
        worked(s, 2, "taken")
    return sound(log, "task")


def test_why_names_the_rewind(log: AgentLog) -> None:
    rewound(log)
    recorded = log.read("task")  # nobody has folded its branches yet
    [found] = recorded.steps[5].why("result of run_tests left1")
    assert (found.candidate, found.present, found.reason) == (True, False, "rewound")
    assert (found.seen_first, found.seen_until, found.out_at) == (3, 3, 4)
    [kept] = recorded.steps[5].why("do left")
    assert (kept.present, kept.seen_first, kept.seen_until, kept.out_at) == (True, 1, 5, 0)
    [there] = recorded.steps[3].why("result of run_tests left1")
    assert there.present
    assert recorded.steps[5].trace() is not None


def test_what_if_builds_both_branches_again(log: AgentLog) -> None:
    recorded = rewound(log)
    same = recorded.what_if()
    assert (same.steps, same.refused, same.differing) == (5, 0, ())
    other = recorded.what_if(budget=220, reserve=10)
    assert other.steps == 5 and other.differing
    assert recorded.what_if(api="anthropic", model="m").refused == 0


def test_a_step_that_other_rules_refuse_is_a_place_all_the_same(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("x" * 4000)
        texts(s)
        s.user("on")
        texts(s)
        s.rewind(step=1)
        s.user("short")
        texts(s)
    found = sound(log, "task").what_if(budget=300, reserve=10)
    assert (found.steps, found.refused) == (3, 1), "the next one cuts what did not fit"


def test_damage_in_what_was_abandoned_is_named(any_log: AgentLog) -> None:
    """A reader that needs the state there finds the damage; the chain says where it is."""
    rewound(any_log)
    row = any_log.find("task")
    with any_log.store.database.write() as tx:
        tx.run("UPDATE sawlog.events SET payload = ? WHERE sid = ? AND seq = ?",
               (b"{}", row.sid, 5))  # fmt: skip
    report = any_log.read("task").verify()
    assert not report.sound and report.bad_seq == 5


def test_a_session_of_many_rewinds_is_read_in_one_go(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 1)
        for at in range(40):
            s.user(f"try {at}")
            texts(s)
            s.rewind(step=1 if at % 3 else at + 2)
        same_state(log, s)
    assert sound(log, "task").last_step() == 41


def test_rewinds_of_other_tasks_wait_for_each_other(log: AgentLog) -> None:
    async def main() -> None:
        async with log.asession("task") as s:
            await s.user("one")
            step = await s.step("openai-chat", model="m")
            step.sync.answer(talker()(b""))
            for text in ("two", "three"):
                await s.user(text)
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(s.rewind(step=1))
                    group.create_task(s.user("more"))

    asyncio.run(main())
    sound(log, "task")

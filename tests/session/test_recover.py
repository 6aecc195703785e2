"""The plan of recovery: what an earlier driver left open, read from the log and ended once."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from msgspec.structs import asdict, replace

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call, FakeProvider, HttpError
from sawlog.store.errors import (
    AttemptFailed,
    ConfigError,
    Fenced,
    Leased,
    NotEntered,
    Refused,
    StalePlan,
)
from sawlog.store.events.base import Payload
from sawlog.store.events.compaction import CompactionCompleted, CompactionStarted
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.store.events.registry import event
from sawlog.work.dials import Dialled
from sawlog.work.plan import CutStep, Plan, ResumeFrom
from tests.session.agents import (
    asked,
    client_of,
    next_step,
    one,
    opened,
    sound,
    talker,
    types,
)
from tests.session.test_killed import killed


def plain(plan: Plan) -> dict[str, Any]:
    """A plan as values: two that say the same are equal, whoever made them."""

    def bare(value: Any) -> Any:
        if isinstance(value, tuple):
            return [bare(each) for each in cast("tuple[object, ...]", value)]
        if isinstance(value, sawlog.Call):
            return value.event_id, value.name, value.arguments
        if hasattr(value, "__struct_fields__"):
            return {name: bare(each) for name, each in asdict(value).items()}
        return value

    return {name: bare(each) for name, each in asdict(plan).items() if name != "applies"}


def left_alone(log: AgentLog) -> Plan:
    """The plan once the lease of a killed process, which nobody renews, has ended."""
    while (plan := log.read("task").recover()).driven_by:
        assert plan.ends == ()
        time.sleep(0.02)
    return plan


# Kill point -> how the step stands, the words for the calls, what applying appends.
KILLED: dict[str, tuple[str, list[str], tuple[str, ...]]] = {
    "message": ("", [], ()),
    "packet": ("built", [], ("step.abandoned",)),
    "sent": ("sent", [], ("attempt.lost", "step.abandoned")),
    "reply": ("", ["run", "run"], ()),
    "start": ("", ["ask", "run"], ()),
    "result": ("", ["run"], ()),
}


@pytest.mark.parametrize("at", KILLED)
def test_a_killed_run_is_told_and_ended_once(store_url: str, at: str) -> None:
    stands, words, ends = KILLED[at]
    killed(store_url, "openai-chat", at)
    with opened(store_url) as log:
        head = log.find("task").head
        read = left_alone(log)
        with log.session("task") as s:
            plan = s.recover()
            assert plain(plan) == plain(read) and log.find("task").head == head
            assert (plan.cut_step.stands if plan.cut_step else "") == stands
            assert [one.do for one in plan.next] == words
            assert len(plan.lost) == (at == "sent") and plan.ends == ends
            written = plan.apply()
            assert [one.type for one in written] == list(ends)
            assert plan.apply() == written  # twice is once
            assert types(s, log)[head:] == list(ends)
            again = s.recover()
            assert (again.cut_step, again.lost, again.ends) == (None, (), ())
            assert again.next == plan.next and again.apply() == ()
            assert next_step(s, "openai-chat").send(talker()).text == "ok"
        sound(log, "task")


def test_how_a_cut_step_stands(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        step = next_step(s, "openai-chat")
    assert cut(log) == ("built", 0)
    with log.session("task") as s:
        step = next_step(s, "openai-chat")
        refusals = [HttpError(429), HttpError(503)]
        with FakeProvider(refusals) as fake, client_of("openai-chat", fake) as client:
            with pytest.raises(AttemptFailed):
                step.send(client, retries=1)
    assert cut(log) is None  # the last refusal ended it
    with log.session("task") as s:
        step = next_step(s, "openai-chat")
        with httpx.Client(base_url="http://127.0.0.1:1") as nobody:
            with pytest.raises(httpx.ConnectError):
                step.send(nobody)
    assert cut(log) == ("lost", 1)
    with log.session("task") as s:
        step = next_step(s, "openai-responses")
        with pytest.raises(AttemptFailed, match="in the background"):
            step.answer({"id": "resp_1", "status": "in_progress", "output": []})
    plan = log.read("task").recover()
    assert plan.cut_step is not None and plan.cut_step.stands == "running"
    [lost] = plan.lost
    assert (lost.number, lost.client, lost.handle) == (1, "caller", "resp_1")
    assert plan.sentence.endswith("while the provider worked on it. The next step asks again.")


def cut(log: AgentLog) -> tuple[str, int] | None:
    """How the cut step stands, and its attempts."""
    step = log.read("task").recover().cut_step
    return (step.stands, step.attempts) if step is not None else None


def test_what_a_live_lease_began_is_under_way_and_nobody_elses_to_end(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task", owner="the first") as s:
        run = s.tool(one(s, "run_tests", {}))
        run.start()
        step = next_step(s, "openai-chat")
        step.opened(Dialled("caller"))
        for plan in (s.recover(), log.session("task").recover(), log.read("task").recover()):
            assert plan.cut_step is not None and plan.cut_step.under_way
            assert plan.cut_step == CutStep(2, "sent", 1, 12, step.event_id, True)
            assert [lost.under_way for lost in plan.lost] == [True]
            assert [unknown.under_way for unknown in plan.unknown] == [True]
            assert [action.do for action in plan.next] == ["wait"] and plan.ends == ()
        assert plan.driven_by == "the first" and "the first drives the session" in plan.sentence
        assert s.recover().driven_by == "" and s.recover().apply() == ()
        with pytest.raises(Leased, match="driven by the first"), log.session("task"):
            pass
        run.result("fine")
        run.finish()
        step.answer(talker()(b""))
    assert log.read("task").recover().next == ()
    sound(log, "task")


def test_a_plan_is_refused_when_the_log_moved_on(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        next_step(s, "openai-chat")
    with log.session("task") as s:
        plan = s.recover()
        log.inject("task", "hello")
        head = log.find("task").head
        with pytest.raises(StalePlan, match=r"plan again, with s.recover\(\)") as stale:
            plan.apply()
        assert stale.value.expected == plan.seq
        assert log.find("task").head == head
        assert [one.type for one in s.recover().apply()] == ["step.abandoned"]
        empty = s.recover()
        s.user("more")
        with pytest.raises(StalePlan):
            empty.apply()
    sound(log, "task")


def test_a_plan_is_applied_where_it_was_made_and_under_the_lease(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        next_step(s, "openai-chat")
    with pytest.raises(NotEntered, match="this plan was made by reading alone"):
        log.read("task").recover().apply()
    outside = log.session("task")
    plan = outside.recover()
    with pytest.raises(NotEntered, match="enter it first"):
        plan.apply()
    with log.session("other") as other, pytest.raises(ConfigError, match="of the session 'task'"):
        other.apply(plan)
    with log.session("task", ttl=0.05) as s:
        plan = s.recover()
        s._driver._renewer.stop()  # type: ignore[union-attr]  # as if the process had slept
        with log.session("task", wait=10) as other:
            head = log.find("task").head
            with pytest.raises(Fenced):
                plan.apply()
            assert log.find("task").head == head
            assert [one.type for one in other.recover().apply()] == ["step.abandoned"]
    sound(log, "task")


def test_reading_a_plan_writes_nothing(log: AgentLog, tmp_path: Path) -> None:
    killed(str(log.store.database.url), "openai-chat", "sent")
    files = [tmp_path / "agent.db", tmp_path / "agent.db-wal"]
    left_alone(log)
    with opened(str(tmp_path / "agent.db"), read_only=True) as reader:
        before = [hashlib.sha256(file.read_bytes()).digest() for file in files if file.exists()]
        for _ in range(20):
            assert reader.read("task").recover().ends[-1] == "step.abandoned"
        after = [hashlib.sha256(file.read_bytes()).digest() for file in files if file.exists()]
    assert before == after


# --- what waits -----------------------------------------------------------------------------------


def test_approvals_messages_and_files_are_named(log: AgentLog, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("a", "b", "c"):
        (root / name).write_text("one")
    with log.session("task") as s:
        calls = asked(s, *[Call("read_file", {"path": name}) for name in ("a", "b", "c")])
        for call, name in zip(calls, ("a", "b", "c"), strict=True):
            with s.tool(call) as run:
                run.result(run.read(name, root=root))
        next_step(s, "openai-chat").send(talker())
        waits = one(s, "run_tests", {})
        approval = s.ask(waits, "May I?")
        s.inject("when you have time")
        s.inject("now", wakes=True, target="next-turn")
        (root / "b").unlink()
        s.workspace(root)
    (root / "a").write_text("two")
    plan = log.read("task").recover(root)
    [awaited] = plan.waiting
    assert (awaited.approval, awaited.question) == (approval, "May I?")
    assert awaited.call.event_id == waits.event_id
    assert [(action.do, action.key) for action in plan.next] == [("wait", waits.event_id)]
    assert [(m.source, m.target, m.wakes) for m in plan.inbox] == [
        ("user", "next-step", False),
        ("user", "next-turn", True),
    ]
    files = [(file.path, file.state, file.by) for file in plan.changed_files]
    assert files == [("a", "present", "workspace"), ("b", "absent", "log")]
    assert plan.ends == ("file.changed",)
    with log.session("task") as s:
        assert [file.path for file in s.recover().changed_files] == ["b"]
        [written] = s.recover(root).apply()
        assert written.type == "file.changed"
        assert s.recover(root).ends == ()
        assert [file.by for file in s.recover().changed_files] == ["log", "log"]
        log.decide("task", approval, allow=True, by="somebody")
        assert [action.do for action in s.recover().next] == ["run"]
    with pytest.raises(ConfigError):
        log.read("task").recover(root / "nowhere")
    sound(log, "task")


def test_case_34_a_compaction_without_an_end_is_closed_as_failed(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task") as s:
        s.user("go")
        next_step(s, "openai-chat").send(talker("one"))
        s.append(CompactionStarted("manual"))
        assert s.recover().open_compaction is not None and s.recover().ends == ()
    with log.session("task") as s:
        plan = s.recover()
        assert plan.open_compaction is not None
        assert (plan.open_compaction.trigger, plan.open_compaction.under_way) == ("manual", False)
        assert plan.checkpoint is None and plan.ends == ("compaction.failed",)
        assert [one.type for one in plan.apply()] == ["compaction.failed"]
        assert s.recover().open_compaction is None
        s.user("and on")
        texts = [e.text for e in next_step(s, "openai-chat").packet.entries]
        assert texts == ["go", "one", "and on"]
    sound(log, "task")


def test_the_checkpoint_is_the_newest_that_no_rewind_took_back(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        for _ in range(2):
            s.append(CompactionStarted("auto", foreign=True), source="import:codex")
            s.append(CompactionCompleted(foreign=True), source="import:codex")
        at = log.find("task").head
        assert s.recover().checkpoint == ResumeFrom(at, foreign=True)
        s.append(HistoryRewound(at - 1))
        assert s.recover().checkpoint == ResumeFrom(at - 2, foreign=True)
        s.append(HistoryRewound(2))
        assert s.recover().checkpoint is None


def test_a_fork_has_none_of_its_parents_to_find_out(log: AgentLog) -> None:
    with log.session("task") as s:
        first, second = asked(s, *[Call("run_tests", {})] * 2)
        s.tool(first).start()
        s.ask(second)
    assert len(log.read("task").recover().next) == 2
    with log.fork("task", name="child") as child:
        plan = child.recover()
        assert (plan.next, plan.unknown, plan.waiting, plan.not_started) == ((), (), (), ())


@event("test.blocking", 1)
class Blocking(Payload, frozen=True):
    """A type that other programs do not know."""


def test_a_state_that_cannot_be_read_ends_nothing(tmp_path: Path) -> None:
    url = str(tmp_path / "agent.db")
    with opened(url, types=[Blocking]) as log, log.session("task") as s:
        s.user("go")
        next_step(s, "openai-chat")
        s.append(Blocking())
    with opened(url) as log, log.session("task") as s:
        plan = s.recover()
        assert "test.blocking" in plan.blocked and plan.ends == ()
        assert plan.sentence.startswith("Step 1 was cut") and "test.blocking" in plan.sentence
        with pytest.raises(Refused, match=r"test\.blocking") as refused:
            plan.apply()
        assert refused.value.reason == "blocked"


def test_nothing_open_is_nothing_to_do(log: AgentLog) -> None:
    with log.session("task") as s:
        plan = s.recover()
        assert plan.sentence == "Nothing was cut, and nothing waits for a step."
        s.user("go")
        assert s.recover().sentence == "Build the next step."
        next_step(s, "openai-chat").send(talker())
        assert s.recover().sentence == "Nothing was cut, and nothing waits for a step."
        plan = s.recover()
    assert replace(plan, applies=None) == log.read("task").recover()

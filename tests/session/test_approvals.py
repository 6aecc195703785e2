"""Approvals: a call waits for a decision that anybody may take; the first one counts."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call, Reply
from sawlog.store.errors import Conflict, NoSession, Refused, ToolError
from sawlog.store.events.conversation import ApprovalDecided, ApprovalRequested
from sawlog.work.session import Session
from tests.session.agents import (
    APIS,
    asked,
    finished,
    next_step,
    one,
    provided,
    python,
    run_tests,
    sound,
    types,
)

apis = pytest.mark.parametrize("api", APIS)


def results(step: Any) -> list[tuple[str, str]]:
    """Status and text of the results that a step's packet shows."""
    return [(e.status, e.text) for e in step.packet.entries if e.kind == "result"]


def test_case_12_a_call_that_waits_is_not_run_and_no_packet_is_built(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task") as s:
        approval = s.ask(one(s), "May I read it?")
    with log.session("task") as s:  # reopened: it still waits, and reopening appends nothing
        [call] = s.open_calls()
        head = log.find("task").head
        with pytest.raises(Refused) as refused:
            next_step(s, "openai-chat")
        assert refused.value.reason == "awaiting_approval"
        assert refused.value.needs == (approval,)
        assert log.find("task").head == head
        log.decide("task", approval, allow=True, by="somebody")
        with s.tool(call) as run:
            run.result("read")
        assert results(next_step(s, "openai-chat")) == [("ok", "read")]
    assert types(log.read("task"))[head - 1 : head + 4] == [
        "approval.requested",
        "approval.decided",
        "tool.started",
        "tool.finished",
        "packet.built",
    ]
    sound(log, "task")


@apis
def test_case_12_a_caller_may_build_in_spite_of_it(log: AgentLog, api: str) -> None:
    with provided(api, [Reply("I wait.")]) as (_, client), log.session("task") as s:
        approval = s.ask(one(s))
        step = next_step(s, api, allow_waiting=True)
        text = "This call is waiting for approval and has not been run."
        assert results(step) == [("awaiting_approval", text)]
        assert step.send(client).text == "I wait."
        # It was sent so; what is decided afterwards and its result are news.
        log.decide("task", approval, allow=True, by="somebody")
        [call] = s.open_calls()
        with s.tool(call) as run:
            run.result("read at last")
        later = next_step(s, api)
        assert results(later) == [("awaiting_approval", text)]
        assert later.packet.entries[-1].kind == "late"
        assert later.packet.entries[-1].text.endswith("has arrived:\nread at last")
    sound(log, "task")


@apis
def test_case_13_a_rejected_call_shows_that_it_was(log: AgentLog, api: str) -> None:
    with provided(api, [Reply("I see.")]) as (_, client), log.session("task") as s:
        approval = s.ask(one(s))
        log.decide("task", approval, allow=False, by="somebody", reason="not on a Friday")
        s.user("do something else")
        step = next_step(s, api)
        said = "This call was denied and was not run. Reason: not on a Friday"
        assert results(step) == [("denied", said)]
        assert step.packet.entries[-1].text == "do something else"
        assert step.send(client).text == "I see."
    sound(log, "task")


def test_the_first_decision_counts_and_the_second_is_told_so(log: AgentLog) -> None:
    with log.session("task") as s:
        approval = s.ask(one(s))
        log.decide("task", approval, allow=False, by="anna")
        log.decide("task", approval, allow=False, by="anna")
        for allow, by in ((True, "anna"), (False, "bert")):
            with pytest.raises(Conflict, match="is decided already"):
                log.decide("task", approval, allow=allow, by=by)
        assert results(next_step(s, "openai-chat"))[0][0] == "denied"
    assert types(log.read("task")).count("approval.decided") == 1


def test_what_nobody_asked_for_cannot_be_decided(log: AgentLog) -> None:
    with log.session("task") as s:
        one(s)
        with pytest.raises(ToolError, match="never asked for an approval 'x'"):
            log.decide("task", "x", allow=True, by="somebody")
        with pytest.raises(NoSession):
            log.decide("other", "x", allow=True, by="somebody")
    assert "approval.decided" not in types(log.read("task"))


def test_another_process_decides_while_the_session_is_driven(any_log: AgentLog) -> None:
    log = any_log
    code = """
import json, sys
import sawlog
url, decisions = sys.argv[1:]
with sawlog.open(url) as log:
    for approval, allow in json.loads(decisions):
        log.decide("task", approval, allow=allow, by="another process", reason="so")
"""
    with log.session("task") as s:
        calls = asked(s, *[Call("read_file", {"path": str(n)}) for n in range(3)])
        approvals = [s.ask(call) for call in calls]
        decisions = [*zip(approvals[:2], (True, False), strict=True)]
        finished(python(code, str(log.store.database.url), json.dumps(decisions)))
        with s.tool(calls[0]) as run:
            run.result("zero")
        with pytest.raises(Refused) as refused:
            next_step(s, "openai-chat")
        assert refused.value.needs == (approvals[2],)
        log.decide("task", approvals[2], allow=False, by="here")
        step = next_step(s, "openai-chat")
        assert [status for status, _ in results(step)] == ["ok", "denied", "denied"]
    recorded = sound(log, "task")
    events = list(recorded.events())
    assert [e.step for e in events if isinstance(e.content, ApprovalRequested)] == [1, 1, 1]
    decided = [e for e in events if isinstance(e.content, ApprovalDecided)]
    assert [(e.source, e.step) for e in decided] == [("user", 1)] * 3


def test_case_72_warm_and_cold_give_the_same_packet_after_a_decision(log: AgentLog) -> None:
    with log.session("task") as s:
        next_step_of = next_step
        call = one(s)
        approval = s.ask(call)
        with pytest.raises(Refused):
            next_step_of(s, "openai-chat")  # the warm builder has seen it waiting
        log.decide("task", approval, allow=True, by="somebody")
        with s.tool(call) as run:
            run.result("read")
        warm = next_step_of(s, "openai-chat")
    with log.session("task") as s:
        cold = next_step(s, "openai-chat")
    assert warm.body == cold.body
    sound(log, "task")


# --- one approval, one run ------------------------------------------------------------------------


def approved(s: Session, log: AgentLog, call: Any) -> None:
    """Ask for a call and allow it."""
    log.decide("task", s.ask(call), allow=True, by="somebody")


def test_a_call_that_runs_is_not_entered_again(log: AgentLog) -> None:
    """However many threads try: one acts, the others are told before anything runs."""
    acted: list[int] = []
    told: list[str] = []
    go = threading.Event()

    def enter(n: int) -> None:
        try:
            with s.tool(call) as run:
                acted.append(n)
                go.wait(30)
                run.result("done")
        except ToolError as error:
            told.append(str(error))
            if len(told) == 4:
                go.set()

    with log.session("task", approve="side_effects") as s:
        call = one(s, "run_tests", {})
        approved(s, log, call)
        threads = [threading.Thread(target=enter, args=(n,)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(acted) == 1
    assert len(told) == 4 and all("is running already" in text for text in told)
    assert types(log.read("task")).count("tool.started") == 1
    sound(log, "task")


def test_a_start_without_a_result_uses_its_approval_up(log: AgentLog) -> None:
    with log.session("task", approve="side_effects") as s:
        call = one(s, "run_tests", {})
        approved(s, log, call)
        with pytest.raises(ToolError, match="mine"), s.tool(call):
            raise ToolError("mine")  # it may have acted before
        with pytest.raises(ToolError, match="needs an approval first"), s.tool(call):
            raise AssertionError
    with log.session("task", approve="side_effects") as s:
        [call] = s.open_calls()
        with pytest.raises(ToolError, match="needs an approval first"), s.tool(call):
            raise AssertionError
        approved(s, log, call)
        with s.tool(call) as run:
            run.result("done")
    assert types(log.read("task")).count("tool.started") == 2
    sound(log, "task")


def test_a_run_that_left_no_result_may_be_entered_again(log: AgentLog) -> None:
    """Where no approvals are asked for, and where the tool may do it twice."""
    with log.session("task") as s:
        call = one(s)
        for _ in range(2):
            with pytest.raises(ToolError, match="mine"), s.tool(call):
                raise ToolError("mine")
        with s.tool(call) as run:
            run.result("done")
    with log.session("other", approve="side_effects") as s:
        call = one(s, "run_tests", {}, tools=[sawlog.tool(run_tests, effect="idempotent")])
        log.decide("other", s.ask(call), allow=True, by="somebody")
        with pytest.raises(ToolError, match="mine"), s.tool(call):
            raise ToolError("mine")
        with s.tool(call) as run:
            run.result("done")

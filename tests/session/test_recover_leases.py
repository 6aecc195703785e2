"""Leases where it matters: a tool that takes longer, an owner that slept, whose clock counts."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call
from sawlog.store.errors import Fenced, Leased
from sawlog.store.events.conversation import ToolStarted
from sawlog.store.log import now
from tests.forking import executed
from tests.session.agents import (
    asked,
    finished,
    next_step,
    opened,
    python,
    sound,
    stop,
    talker,
    told,
    types,
)
from tests.store.stores import RENEWED, while_renewed

HOUR = 3_600_000_000

# A call is being run, and an effect inside it is begun, when the process is stopped.
STOPPED = """
import sys
import sawlog
from tests.session.agents import one, next_step, talker

def late(name, act):
    try:
        act()
    except sawlog.errors.SawlogError as error:
        print(name, type(error).__name__, getattr(error, "owner", ""), flush=True)

with sawlog.open(sys.argv[1]) as log:
    try:
        with log.session("task", ttl=0.4, owner="the stopped one") as s:
            call = one(s, "run_tests", {})
            run = s.tool(call)
            run.start()
            effect = run.effect("mail")
            effect.start()
            plan = s.recover()
            print("ready", flush=True)
            sys.stdin.readline()
            late("settled", effect.finish)
            late("intended", run.effect("post").start)
            run.result("too late")
            late("finished", run.finish)
            late("step", lambda: next_step(s, "openai-chat"))
            late("said", lambda: s.user("too late"))
            late("resolved", lambda: s.resolve(call, "too late", by="the stopped one"))
            late("reconciled", lambda: s.reconcile(effect.key, "done", by="the stopped one"))
    except sawlog.errors.Fenced as error:
        print("left", type(error).__name__, error.owner, flush=True)
"""


def _woken(process: subprocess.Popen[str]) -> list[str]:
    os.kill(process.pid, signal.SIGCONT)
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return finished(process).splitlines()


def test_an_owner_that_slept_through_a_take_over_writes_nothing(store_url: str) -> None:
    """Neither the result of the call that it runs, nor of the effect in it, nor its own word."""
    with opened(store_url) as log:
        process = python(STOPPED, store_url)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        stop(process, log, "task")
        with log.session("task", wait=20, owner="the next one") as s:
            plan = s.recover()
            assert [action.do for action in plan.next] == ["ask", "ask"]
            assert [one.under_way for one in plan.unknown] == [False, False]
            assert plan.apply() == ()
            head = log.find("task").head
            printed = _woken(process)
            assert log.find("task").head == head
            fenced = ("settled", "intended", "finished", "step", "said")
            # It still believes that it runs the call, so that its own word would count.
            refused = ["resolved ToolError ", "reconciled ToolError "]
            assert printed == [*(f"{name} Fenced the next one" for name in fenced), *refused]
            assert [one.key for one in s.recover().unknown] == [one.key for one in plan.unknown]
            whole, part = plan.unknown
            s.reconcile(part.key, "done", by="the mail server")
            s.resolve(whole, "it was done", by="the next one")
            assert next_step(s, "openai-chat").send(talker()).text == "ok"
        assert told(log) == [("ok", "it was done")]
        sound(log, "task")


def test_a_lease_is_renewed_while_a_tool_takes_longer_than_it(store_url: str) -> None:
    code = """
import sys
import sawlog
from tests.session.agents import one
store, ttl = sys.argv[1], float(sys.argv[2])
with sawlog.open(store) as log, log.session("task", ttl=ttl, owner="the slow one") as s:
    call = one(s, "run_tests", {})
    with s.tool(call) as run:
        print("ready", flush=True)
        sys.stdin.readline()
        run.result("at last")
    print("done", flush=True)
    sys.stdin.readline()
"""
    with opened(store_url) as log:
        process = python(code, store_url, str(RENEWED))
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        session = log.find("task").id
        for _ in while_renewed(log.store, session, 4):
            with pytest.raises(Leased, match="driven by the slow one"):
                log.session("task", owner="another").acquire()
            [unknown] = log.read("task").recover().unknown
            assert unknown.under_way
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        # It waits now, and its lease is renewed all the same.
        for _ in while_renewed(log.store, session, 2):
            with pytest.raises(Leased):
                log.session("task").acquire()
        process.kill()
        process.communicate()
        with log.session("task", wait=20) as s:
            assert s.recover().next == ()
        assert told(log) == [("ok", "at last")]


def test_a_lease_that_expires_is_taken_over_and_one_given_back_at_once(any_log: AgentLog) -> None:
    log = any_log
    code = """
import os, signal, sys
import sawlog
from tests.session.agents import asked
from sawlog.providers.fake import Call
with sawlog.open(sys.argv[1]) as log, log.session("task", ttl=0.6, owner="the killed one") as s:
    first, second = asked(s, *[Call("run_tests", {})] * 2)
    s.tool(first).start()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert executed(code, str(log.store.database.url)) == -signal.SIGKILL
    early = log.read("task").recover()
    if early.driven_by:  # while its lease lives nobody can tell that it is dead
        assert early.driven_by == "the killed one"
        assert [action.do for action in early.next] == ["wait", "run"]
    with log.session("task", wait=20):
        pass  # it has expired
    with log.session("task", owner="the next one") as s:  # one that does not wait in what follows
        assert [action.do for action in s.recover().next] == ["ask", "run"]
        s.suspend()
        with log.session("task", owner="the third one") as third:
            assert [action.do for action in third.recover().next] == ["ask", "run"]
            with pytest.raises(Leased, match="driven by the third one"):
                s.acquire()
    fences = [
        event.fence
        for event in log.store.read(log.find("task"))
        if event.type == log.store.registry.declared(ToolStarted).name
    ]
    assert fences == [1] and log.find("task").fence > 3


@pytest.mark.parametrize("ahead", [HOUR, -HOUR], ids=["ahead", "behind"])
def test_the_clock_that_counts_is_the_databases(store_url: str, ahead: int) -> None:
    """On PostgreSQL writers are on many machines, whose clocks differ; a file is on one."""
    elsewhere = opened(store_url, clock=lambda: now() + ahead)
    with elsewhere, opened(store_url) as log:
        with log.session("task", owner="the first") as s:
            s.user("one")
            other = elsewhere.session("task", owner="elsewhere")
            if ahead < 0 or store_url.startswith("postgresql"):
                assert elsewhere.read("task").recover().driven_by == "the first"
                with pytest.raises(Leased, match="driven by the first"):
                    other.acquire()
                s.user("two")
            else:
                with other:
                    with pytest.raises(Fenced, match="taken over by elsewhere"):
                        s.user("two")
        if store_url.startswith("postgresql"):
            # A lease taken by who is an hour off lives as long as any, and no longer.
            with elsewhere.session("task", owner="elsewhere", ttl=RENEWED) as other:
                other._driver._renewer.stop()  # type: ignore[union-attr]  # as if it slept
                with pytest.raises(Leased):
                    log.session("task", owner="the first").acquire()
                with log.session("task", owner="the first", wait=20) as s:
                    assert s.recover().driven_by == ""
                    with pytest.raises(Fenced, match="taken over by the first"):
                        other.user("three")


def test_a_call_of_the_same_lease_that_was_left_is_unknown_and_not_under_way(log: AgentLog) -> None:
    """The handle knows best which calls it runs."""
    with log.session("task") as s:
        runs, was_left = asked(s, *[Call("run_tests", {})] * 2)
        with pytest.raises(sawlog.errors.ToolError, match="mine"), s.tool(was_left):
            raise sawlog.errors.ToolError("mine")
        s.tool(runs).start()
        plan = s.recover()
        assert [(one.event_id == runs.event_id, one.under_way) for one in plan.unknown] == [
            (False, False),
            (True, True),
        ]
        assert [action.do for action in plan.next] == ["wait", "ask"]
        with s.tool(was_left) as run:  # this handle knows what became of its own run
            run.result("done")
    assert types(log.read("task")).count("tool.started") == 3

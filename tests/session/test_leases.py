"""Who drives a session: one at a time, by lease; whoever lost it writes nothing more."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable

import pytest

from sawlog.agentlog import AgentLog
from sawlog.store.content import TextPart
from sawlog.store.errors import Damaged, Fenced, Leased, NotEntered
from sawlog.store.events.conversation import MessageUser
from sawlog.work.dials import Dialled
from tests.session.agents import (
    finished,
    next_step,
    one,
    opened,
    provided,
    python,
    sound,
    stop,
    talker,
    types,
)
from tests.store.stores import RENEWED, while_renewed


def said(log: AgentLog) -> list[str]:
    """The texts of the user messages."""
    return [
        str(part.text)
        for event in log.read("task").events()
        if isinstance(event.content, MessageUser)
        for part in event.content.parts
        if isinstance(part, TextPart)
    ]


def test_case_51_the_second_opener_is_told_who_drives(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task", owner="the first") as s:
        s.user("one")
        head = log.find("task").head
        second = log.session("task", owner="the second")
        attempts: list[Callable[[], None]] = [second.acquire, lambda: second.user("two")]
        for attempt in attempts:
            with pytest.raises(Leased, match="session task is driven by the first") as leased:
                attempt()
            assert leased.value.owner == "the first"
        assert log.find("task").head == head
        s.user("three")
    with second:
        second.user("four")
    assert said(log) == ["one", "three", "four"]


def test_the_owner_is_host_and_process_when_it_has_no_name(log: AgentLog) -> None:
    with log.session("task"), pytest.raises(Leased) as leased, log.session("task"):
        pass
    assert leased.value.owner.endswith(f":{os.getpid()}")


def test_waiting_for_a_lease_ends_when_it_is_given_back(any_log: AgentLog) -> None:
    log = any_log
    entered, leave = threading.Event(), threading.Event()

    def first() -> None:
        with log.session("task", owner="the first") as s:
            s.user("one")
            entered.set()
            leave.wait(20)

    thread = threading.Thread(target=first)
    thread.start()
    entered.wait(20)
    threading.Timer(0.3, leave.set).start()
    with log.session("task", wait=20) as s:
        assert leave.is_set()
        s.user("two")
    thread.join()
    assert said(log) == ["one", "two"]


def test_a_lease_is_renewed_while_the_session_is_open(log: AgentLog) -> None:
    with log.session("task", ttl=RENEWED) as s:
        s.user("one")
        for _ in while_renewed(log.store, log.find("task").id, 4):
            with pytest.raises(Leased), log.session("task"):
                pass
        s.user("two")


STOPPED = """
import sys
import sawlog
from tests.session.agents import next_step, talker
with sawlog.open(sys.argv[1]) as log:
    try:
        with log.session("task", ttl=0.5, owner="the stopped one") as s:
            s.user("one")
            step = next_step(s, "openai-chat")
            print("ready", flush=True)
            sys.stdin.readline()
            for late in (
                lambda: s.user("too late"),
                lambda: s.system("too late"),
                lambda: step.send(talker("too late")),
                lambda: next_step(s, "openai-chat"),
            ):
                try:
                    late()
                except sawlog.errors.Fenced as error:
                    print(f"{type(error).__name__} {error.owner}")
    except sawlog.errors.SawlogError as error:
        print("leaving", error)
"""


def test_case_52_a_stopped_owner_that_was_taken_over_writes_nothing(store_url: str) -> None:
    with opened(store_url) as log:
        process = python(STOPPED, store_url)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        stop(process, log, "task")
        with log.session("task", wait=20, owner="the next one") as s:
            s.user("two")
            assert next_step(s, "openai-chat").send(talker("mine")).text == "mine"
            s.user("three")
            head = log.find("task").head
            os.kill(process.pid, signal.SIGCONT)
            printed = _last_words(process)
            assert printed == ["Fenced the next one"] * 4
            assert log.find("task").head == head
            assert next_step(s, "openai-chat").send(talker("still mine")).text == "still mine"
        assert said(log) == ["one", "two", "three"]
        recorded = sound(log, "task")
        assert [step.outcome for step in recorded.steps] == ["abandoned", "completed", "completed"]
        fences = {event.fence for event in log.store.read(recorded.row)}
        assert len(fences) == 2


def _last_words(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return finished(process).splitlines()


def test_an_expired_lease_that_nobody_took_still_writes(log: AgentLog) -> None:
    """The clock only decides whether another may take over."""
    with log.session("task", ttl=0.05, owner="the slow one") as s:
        s._driver._renewer.stop()  # type: ignore[union-attr]  # as if the process had slept
        s.user("one")
        time.sleep(0.2)
        s.user("two")
        with log.session("task", owner="the quick one") as other:
            with pytest.raises(Fenced, match="taken over by the quick one"):
                s.user("three")
            other.user("four")
    assert said(log) == ["one", "two", "four"]


def test_a_session_given_back_is_continued_by_any_process(any_log: AgentLog) -> None:
    """With its calls open: whoever goes on finds them."""
    log = any_log
    with log.session("task") as s:
        call = one(s)
        with s.tool(call) as run:
            run.result("here")
        call = one(s)
    code = """
import sys
import sawlog
with sawlog.open(sys.argv[1]) as log, log.session("task") as s:
    [call] = s.open_calls()
    with s.tool(call) as run:
        run.result(f"there: {call.name} {call.arguments}")
"""
    finished(python(code, str(log.store.database.url)))
    with log.session("task") as s:
        assert s.open_calls() == []
        shown = [e.text for e in next_step(s, "openai-chat").packet.entries if e.kind == "result"]
    assert shown == ["here", 'there: read_file {"path":"a"}']
    sound(log, "task")


def test_a_session_that_does_not_open_keeps_no_lease(log: AgentLog) -> None:
    """A damaged session says so each time; nobody renews a lease on it for ever."""
    with log.session("task") as s:
        s.user("one")
        s.user("two")
    with log.store.database.write() as tx:
        tx.run("UPDATE sawlog.events SET payload = ? WHERE seq = 2", (b"{",))
    for _ in range(2):
        with pytest.raises(Damaged), log.session("task"):
            pass
    assert log.find("task").owner is None
    assert not [t for t in threading.enumerate() if t.name == "sawlog-lease"]


def test_other_sessions_are_none_of_its_business(log: AgentLog) -> None:
    with log.session("task") as s, log.session("other") as other:
        s.user("one")
        other.user("two")
        with provided("openai-chat", []) as _:
            assert types(other, log) == ["session.created", "message.user"]


def test_a_handle_that_was_not_entered_drives_nothing(log: AgentLog) -> None:
    """Two such handles would abandon each other's steps; what needs no driver is taken."""
    mend = r"enter it first: with log.session\('task'\) as s"
    first = log.session("task")
    first.user("one")
    with pytest.raises(NotEntered, match=mend):
        next_step(first, "openai-chat")
    assert types(first, log) == ["session.created", "message.user"]
    with log.session("task") as s:
        step = next_step(s, "openai-chat")
        with pytest.raises(NotEntered, match=mend):
            next_step(first, "openai-chat")
        step.send(talker())
        first.inject("waits")
    sound(log, "task")


def test_a_session_that_was_left_sends_and_runs_nothing_more(log: AgentLog) -> None:
    sent: list[bytes] = []

    def sends(body: bytes) -> bytes:
        sent.append(body)
        return b""

    with log.session("task") as s:
        call = one(s)
        s.user("more")
        step = next_step(s, "openai-chat")
    before = types(s, log)
    for drives in (
        lambda: step.send(sends),
        lambda: step.answer({}),
        lambda: s.tool(call).__enter__(),
        lambda: next_step(s, "openai-chat"),
    ):
        with pytest.raises(NotEntered, match="enter it first"):
            drives()
    assert sent == [] and types(s, log) == before
    with s:
        step.send(talker())
    sound(log, "task")


def test_what_came_back_is_kept_also_when_the_session_was_left_meanwhile(log: AgentLog) -> None:
    """It was paid for, and it happened: a reply and a result need no lease while nobody drives."""
    with log.session("task") as s:
        run = s.tool(one(s))
        run.start()
    run.result("done")
    run.finish()
    with s:
        step = next_step(s, "openai-chat")
        step.opened(Dialled("caller"))
    step.answer(talker()(b""))
    assert types(s, log)[-3:] == ["attempt.answered", "message.assistant", "step.completed"]
    sound(log, "task")

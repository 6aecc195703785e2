"""A process killed at every border of an attempt, however it sent: what recovery says and does."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import At, Call, FakeProvider, HttpError, Reply, Stall, Streamed
from sawlog.store.events.steps import AttemptLost, AttemptSent
from sawlog.work.plan import Plan
from tests.forking import CONTEXT
from tests.recorder.programs import Program
from tests.session import sending
from tests.session.agents import APIS, client_of, next_step, opened, sound, types
from tests.session.sending import BUILT, RECORDED, WAYS

REPLY = Reply("I look into it, slowly. " * 8, calls=[Call("read_file", {"path": "a.py"})])

# Border -> how the step stands then (empty: it has its end), requests that the provider got.
BORDERS = {
    "unsent": ("built", 0),
    "unleft": ("sent", 0),
    "received": ("sent", 1),
    "headers": ("sent", 1),
    "half": ("sent", 1),
    "refused": ("refused", 1),
    "unwritten": ("sent", 1),
    "written": ("", 1),
}


def meets(way: str, at: str) -> bool:
    """Whether a border is there: nobody is told of half a whole reply, and a stream that sawlog
    itself sends has one try."""
    if at == "half":
        return sending.streams(way)
    return at != "refused" or not (way in BUILT and sending.streams(way))


def killed(store: str, api: str, way: str, at: str) -> int:
    """Run the program until it is dead; gives how many requests the provider got."""

    def script(api: str, request: Any, number: int) -> Any:
        if at == "received":
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
        if at == "refused":
            return HttpError(429, headers={"retry-after-ms": "1"})
        if not sending.streams(way):
            return REPLY
        return Streamed(REPLY, [Stall(At(events=6), 30)] if at == "half" else [])

    with FakeProvider(script) as fake:
        child = CONTEXT.Process(target=sending.run, args=(store, api, fake.base_url(api), way, at))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
        return len(fake.requests)


def planned(plan: Plan, at: str) -> None:
    """What the plan says of the attempt."""
    stands, _ = BORDERS[at]
    if not stands:
        assert plan.cut_step is None and plan.lost == ()
        assert [one.do for one in plan.next] == ["run"]
        return
    assert plan.cut_step is not None
    assert (plan.cut_step.step, plan.cut_step.stands) == (1, stands)
    assert plan.cut_step.packet and plan.cut_step.since and not plan.cut_step.under_way
    assert plan.cut_step.attempts == (0 if stands == "built" else 1)
    lost = [(one.step, one.number, one.under_way) for one in plan.lost]
    assert lost == ([(1, 1, False)] if stands == "sent" else [])
    if plan.lost:
        [one] = plan.lost
        assert one.client in ("openai", "anthropic") and one.url.startswith("http://127.0.0.1")
        assert isinstance(one.since, int) and one.since > plan.cut_step.since


def recovered(log: AgentLog, at: str) -> None:
    """The plan, read and applied: nothing is sent, nothing is written twice."""
    head = log.find("task").head
    with log.session("task", wait=10):
        pass  # until the lease of the dead has ended, what it began is under way
    planned(log.read("task").recover(), at)
    assert log.find("task").head == head  # to look writes nothing
    ends = {"built": 1, "refused": 1, "sent": 2, "": 0}[BORDERS[at][0]]
    with log.session("task", wait=10) as s:
        plan = s.recover()
        planned(plan, at)
        assert len(plan.apply()) == ends and plan.apply() == plan.apply()
        assert s.recover().lost == () and s.recover().cut_step is None
    assert types(log.read("task"))[head:] == ["attempt.lost", "step.abandoned"][-ends or 2 :]


def goes_on(log: AgentLog, api: str) -> None:
    """The next step works, whoever built the last one."""
    with FakeProvider([Reply("Done.")]) as fake, client_of(api, fake) as client:
        with log.session("task", wait=10) as s:
            for call in s.recover().not_started:
                with s.tool(call) as run:
                    run.result("the text")
            s.user("go on")
            assert next_step(s, api).send(client).text == "Done."
        assert len(fake.requests) == 1


def settled(log: AgentLog) -> None:
    """Every attempt that was begun has its outcome, and every step its end."""
    found = types(log.read("task"))
    outcomes = sum(found.count(f"attempt.{one}") for one in ("answered", "refused", "lost"))
    assert found.count("attempt.sent") == outcomes
    assert all(step.outcome for step in sound(log, "task").steps)


@pytest.mark.parametrize(
    ("way", "at"), [(way, at) for way in WAYS for at in BORDERS if meets(way, at)]
)
def test_what_recovery_says_of_an_attempt_that_was_cut_and_does(
    log: AgentLog, way: str, at: str
) -> None:
    api = APIS[(WAYS.index(way) + list(BORDERS).index(at)) % len(APIS)]
    assert killed(str(log.store.database.url), api, way, at) == BORDERS[at][1]
    sound(log, "task")
    recovered(log, at)
    goes_on(log, api)
    settled(log)


@pytest.mark.parametrize("way", ["send", "astream", "record", "record-stream"])
@pytest.mark.parametrize("at", ["unleft", "unwritten"])
def test_on_a_server_it_is_the_same(postgres_url: str, way: str, at: str) -> None:
    with opened(postgres_url) as log:
        assert killed(postgres_url, "openai-chat", way, at) == BORDERS[at][1]
        recovered(log, at)
        goes_on(log, "openai-chat")
        settled(log)


@pytest.mark.parametrize("way", RECORDED)
@pytest.mark.parametrize("at", [at for at in BORDERS if at != "half"])
def test_a_recorded_program_that_is_started_again_goes_on_in_its_session(
    log: AgentLog, way: str, at: str
) -> None:
    """The same program asks the same again; what was cut before has its end, once."""
    api = APIS[list(BORDERS).index(at) % len(APIS)]
    killed(str(log.store.database.url), api, way, at)
    with FakeProvider([Reply("So it is."), Reply("Done.")]) as fake:
        with client_of(api, fake) as client, log.session("task", wait=10) as s:
            program = Program(api, sawlog.record(client, session=s))
            program.says("hello")
            program.take(program.ask())
            program.says("go on")
            program.take(program.ask())
        received = [request.body for request in fake.requests]
    assert len(received) == 2 and len(log.sessions()) == 1
    recorded = sound(log, "task")
    assert [step.packet.body for step in recorded.steps][-2:] == received
    told = [e for e in recorded.events() if e.type == "message.user"]
    assert len(told) == 2  # what it said before it died is not told twice
    settled(log)
    lost = [e.content for e in recorded.events() if isinstance(e.content, AttemptLost)]
    assert len(lost) == (BORDERS[at][0] == "sent")


def test_who_looks_from_beside_sees_that_a_recorded_request_is_under_way(log: AgentLog) -> None:
    """Only when its driver is gone is it over."""
    seen: list[Plan] = []

    def script(api: str, request: Any, number: int) -> Reply:
        seen.append(log.read("task").recover())
        return Reply("ok")

    with FakeProvider(script) as fake, client_of("anthropic", fake) as client:
        with log.session("task") as s:
            program = Program("anthropic", sawlog.record(client, session=s))
            program.says("hello")
            program.ask()
    [plan] = seen
    assert plan.cut_step is not None and plan.cut_step.under_way and plan.lost[0].under_way
    assert plan.ends == () and plan.driven_by
    assert [
        e.content.number for e in log.read("task").events() if isinstance(e.content, AttemptSent)
    ]

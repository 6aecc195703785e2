"""A process killed between any two durable writes of a step, and what the next one finds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.builder.packet import Entry
from sawlog.providers.fake import Drop, FakeProvider, Reply
from sawlog.providers.strict import check
from sawlog.store.errors import Leased, StoreError
from sawlog.store.events.steps import AttemptLost, PacketBuilt, StepAbandoned
from tests.forking import executed
from tests.session.agents import (
    APIS,
    client_of,
    next_step,
    one,
    opened,
    provided,
    python,
    sound,
    talker,
    types,
)

AGENT = """
import os, signal, sys
import httpx
import sawlog
from sawlog.providers.fake import FakeProvider
from tests.session.agents import TOOLS, Call, Reply, next_step

url, api, at = sys.argv[1:]

def reached(point):
    if point == at:
        os.kill(os.getpid(), signal.SIGKILL)

replies = [Reply("I look.", calls=[Call("read_file", {"path": "a"}, id="call_1"),
                                   Call("read_file", {"path": "b"}, id="call_2")])]
hooks = {"request": [lambda request: reached("sent")]}  # when a request is about to leave
with FakeProvider(replies) as fake, httpx.Client(base_url=fake.url, event_hooks=hooks) as client:
    with sawlog.open(url) as log, log.session("task", ttl=0.3) as s:
        s.tools(TOOLS)
        s.user("go")
        reached("message")
        step = next_step(s, api)
        reached("packet")
        reply = step.send(client)
        reached("reply")
        for call in reply.tool_calls:
            with s.tool(call) as run:
                reached("start")
                run.result(call.run())
            reached("result")
raise SystemExit("it was not killed")
"""

SECOND = "syn(not_started)"
# Kill point -> what the step's end is, what the next packet shows behind the message.
POINTS: dict[str, tuple[list[str], list[str]]] = {
    "message": ([], []),
    "packet": (["step.abandoned"], []),
    "sent": (["attempt.lost", "step.abandoned"], []),
    "reply": ([], ["I look.", "call_1", "call_2", SECOND, SECOND]),
    "start": ([], ["I look.", "call_1", "call_2", "syn(unknown)", SECOND]),
    "result": ([], ["I look.", "call_1", "call_2", "text of a", SECOND]),
}


def shown(entries: Any) -> list[str]:
    """The history of a packet, in short."""
    return [_told(entry) for entry in entries if entry.section == "history"]


def _told(entry: Entry) -> str:
    if entry.kind == "call":
        return entry.call_id
    if entry.kind == "result" and entry.trust == "trusted":
        return f"syn({entry.status})"
    return entry.text


def killed(url: str, api: str, at: str) -> None:
    """Run the agent until it kills itself."""
    opened(url).close()
    assert executed(AGENT, url, api, at) == -signal.SIGKILL


@pytest.mark.parametrize("at", POINTS)
def test_a_killed_agent_is_continued_with_a_valid_packet(store_url: str, at: str) -> None:
    ends, history = POINTS[at]
    killed(store_url, "anthropic", at)
    with opened(store_url) as log:
        before = sound(log, "task")
        head = before.row.head
        with log.session("task", wait=10) as s:
            assert log.find("task").head == head  # case 4: reopening appends nothing
            step = next_step(s, "anthropic")
            check("anthropic", step.body, step.headers)
            assert shown(step.packet.entries) == ["go", *history]
            added = types(log.read("task"))[head:]
            news = ["policy.set"] if at == "message" else []
            assert added == [*ends, *news, "packet.built"]
            with FakeProvider([Reply("done")]) as fake, client_of("anthropic", fake) as client:
                assert step.send(client).text == "done"
        recorded = sound(log, "task")
        gone = [e.content for e in recorded.events() if isinstance(e.content, StepAbandoned)]
        lost = [e.content for e in recorded.events() if isinstance(e.content, AttemptLost)]
        assert len(gone) == ("step.abandoned" in ends)
        assert lost == [AttemptLost(1, "no outcome was recorded")] * ("attempt.lost" in ends)
        packets = [e for e in recorded.events() if isinstance(e.content, PacketBuilt)]
        replaced = [e.content.replaces for e in packets if isinstance(e.content, PacketBuilt)]
        assert replaced[-1] == (packets[0].id if gone else "")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("at", ["sent", "start"])
def test_case_68_every_provider_takes_what_a_kill_left(log: AgentLog, api: str, at: str) -> None:
    """The tail of the log is the tip of its one branch; no durable event is off it."""
    killed(str(log.store.database.url), api, at)
    with log.session("task", wait=10) as s, provided(api, [Reply("done")]) as (fake, client):
        assert next_step(s, api).send(client).text == "done"
        assert len(fake.bodies(api)) == 1
    events = list(sound(log, "task").events())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_a_provider_that_kills_its_caller_was_asked_once(log: AgentLog) -> None:
    """The request arrived, the caller died: the log says that it left, and nobody knows more."""
    arrived: list[str] = []

    def kills(api: str, request: object, number: int) -> Drop | Reply:
        arrived.extend(types(log.read("task"))[-1:])
        os.kill(process.pid, signal.SIGKILL)
        return Drop()

    with FakeProvider(kills) as fake:
        code = """
import sys
import httpx
import sawlog
from tests.session.agents import next_step
with sawlog.open(sys.argv[1]) as log, log.session("task", ttl=0.3) as s:
    s.user("go")
    next_step(s, "openai-chat").send(httpx.Client(base_url=sys.argv[2]))
"""
        process = python(code, str(log.store.database.url), fake.url)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert len(fake.requests) == 1
    assert arrived == ["attempt.sent"]
    assert types(log.read("task"))[-1] == "attempt.sent"
    with log.session("task", wait=10) as s:
        assert next_step(s, "openai-chat").send(talker()).text == "ok"
    sound(log, "task")


def test_a_killed_owner_keeps_others_out_until_its_lease_ends(log: AgentLog) -> None:
    code = """
import sys, time
import sawlog
with sawlog.open(sys.argv[1]) as log, log.session("task", ttl=1.5, owner="the killed one") as s:
    s.user("go")
    print("ready", flush=True)
    time.sleep(60)
"""
    process = python(code, str(log.store.database.url))
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate()
    with pytest.raises(Leased, match="is driven by the killed one") as leased, log.session("task"):
        pass
    assert leased.value.owner == "the killed one"
    with log.session("task", wait=10) as s:
        s.user("and on")


# --- law 9 ----------------------------------------------------------------------------------------


def batches(log: AgentLog, work: Callable[[], None]) -> list[list[str]]:
    """The types of the events of each append that the work makes."""
    found: list[list[str]] = []
    append = log.store.append

    def counted(session: Any, events: Any = (), **options: Any) -> Any:
        done = append(session, events, **options)
        new = log.store.read(session, after=done.head - done.new, upto=done.head)
        found.append([event.type for event in new])
        return done

    log.store.append = counted  # type: ignore[method-assign]
    try:
        work()
    finally:
        log.store.append = append  # type: ignore[method-assign]
    return found


def test_a_step_commits_packet_sent_reply_and_start_and_result_of_each_call(log: AgentLog) -> None:
    with log.session("task") as s:
        with s.tool(one(s)) as run:
            run.result("so")

        def work() -> None:
            for call in (one(s), one(s)):
                with s.tool(call) as run:
                    run.result(call.run())

        found = batches(log, work)
    reply = ["attempt.answered", "tool.requested", "step.completed", "measure.recorded"]
    step = [["message.user"], ["packet.built"], ["attempt.sent"], reply]
    call = [["tool.started"], ["tool.finished"]]
    assert found == [*step, *step, *call, *call]


def test_each_of_them_is_a_transaction_of_its_own(postgres_url: str) -> None:
    """Counted by the database: events of one commit share its transaction id."""
    with opened(postgres_url) as log, log.session("task") as s:
        with s.tool(one(s)) as run:
            run.result("so")
        with log.store.database.read() as tx:
            rows = tx.all("SELECT seq, xid::text FROM sawlog.events ORDER BY seq")
        commits: list[list[str]] = []
        named = dict(zip(range(1, len(rows) + 1), types(s, log), strict=True))
        last = None
        for seq, xid in rows:
            if xid != last:
                commits.append([])
            commits[-1].append(named[seq])
            last = xid
    assert commits == [
        ["session.created", "tools.changed"],
        ["message.user"],
        ["policy.set", "packet.built"],
        ["attempt.sent"],
        ["attempt.answered", "tool.requested", "step.completed", "measure.recorded"],
        ["tool.started"],
        ["tool.finished"],
    ]


def test_an_append_that_fails_stops_the_step(log: AgentLog) -> None:
    """Nothing leaves when its packet or its sending could not be logged."""
    left: list[bytes] = []

    def client(body: bytes) -> bytes:
        left.append(body)
        return talker()(body)

    with pytest.raises(StoreError, match="was closed") as closed, log.session("task") as s:
        s.user("go")
        step = next_step(s, "openai-chat")
        log.store.database.close()
        with pytest.raises(StoreError, match="was closed"):
            next_step(s, "openai-chat")
        step.send(client)
    assert left == []
    assert "and the session's lease could not be given back" in closed.value.__notes__[0]

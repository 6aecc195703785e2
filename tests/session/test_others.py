"""Others append while a session builds its steps: nothing is lost, no packet misses anything."""

from __future__ import annotations

import inspect

import pytest

from sawlog.agentlog import AgentLog
from sawlog.store.content import TextPart
from sawlog.store.database import open_database
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import Busy
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.events.steps import PacketBuilt
from sawlog.store.log import Log, now
from tests.session.agents import (
    finished,
    next_step,
    one,
    opened,
    python,
    sound,
    talker,
)


def late(text: str, call: str = "") -> NewEvent:
    """A result that comes from outside, under no lease."""
    return NewEvent(
        payload=ToolFinished(call, name="watcher", parts=(TextPart(text),), external=not call),
        source="tool:watcher",
    )


OTHERS = """
import sys
import sawlog
from tests.session.test_others import late
url, who, count = sys.argv[1:]
with sawlog.open(url) as log:
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(int(count)):
        log.store.append(log.find("task"), [late(f"{who}.{n}")])
"""


def test_packets_are_built_over_all_that_others_append(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task") as s:
        s.user("go")
        processes = [python(OTHERS, str(log.store.database.url), who, "40") for who in "ab"]
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        steps = 0
        while any(process.poll() is None for process in processes) or steps < 5:
            s.user(f"and {steps}")
            next_step(s, "openai-chat").send(talker())
            steps += 1
        for process in processes:
            finished(process)
        s.user("the last word")
        last = next_step(s, "openai-chat")
    recorded = sound(log, "task")
    texts = [entry.text for entry in last.packet.entries]
    for who in "ab":
        mine = [text for text in texts if text.startswith(f"{who}.")]
        assert mine == [f"{who}.{n}" for n in range(40)]
    packets = [e for e in recorded.events() if isinstance(e.content, PacketBuilt)]
    assert len(packets) == steps + 1
    assert [step.packet.sees for step in recorded.steps] == [e.seq - 1 for e in packets]


class Meddler:
    """A clock that others use to append at the worst moment: while a packet is being built."""

    def __init__(self, url: str) -> None:
        self.database = open_database(url, wait=0.2)
        self.log = Log(self.database)
        self.plans: list[str] = []
        self.done: list[str] = []

    def __call__(self) -> int:
        if self.plans and _building():
            plan = self.plans.pop(0)
            try:
                self.log.append(self.log.session("task"), [late(plan)])
                self.done.append(plan)
            except Busy:
                self.done.append("busy")
        return now()


def _building() -> bool:
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "_packet":
            return True
        frame = frame.f_back
    return False


@pytest.mark.parametrize("conflicts", [1, 2, 3, 4])
def test_a_packet_is_built_again_and_at_last_while_nobody_else_can_append(
    store_url: str, conflicts: int
) -> None:
    opened(store_url).close()
    meddler = Meddler(store_url)
    with meddler.database, opened(store_url, clock=meddler) as log, log.session("task") as s:
        s.user("go")
        meddler.plans = [f"meddled {n}" for n in range(conflicts)]
        step = next_step(s, "openai-chat")
        kept = [f"meddled {n}" for n in range(min(conflicts, 3))]
        assert meddler.done == kept + ["busy"] * (conflicts - len(kept))
        assert [entry.text for entry in step.packet.entries] == ["go", *kept]
        assert step.send(talker()).text == "ok"
        s.user("more")
        assert next_step(s, "openai-chat").number == 2
    with opened(store_url) as log:
        sound(log, "task")


def test_a_late_result_from_outside_is_shown_once_as_news(any_log: AgentLog) -> None:
    """Case 7, live: the call was sent with a synthetic result, then the real one arrives."""
    log = any_log
    with log.session("task") as s:
        call = one(s)
        s.tool(call).start()
        step = next_step(s, "openai-chat")
        assert [e.status for e in step.packet.entries if e.kind == "result"] == ["unknown"]
        step.send(talker())
        log.store.append(log.find("task"), [late("at last", call.event_id)])
        s.user("go on")
        step = next_step(s, "openai-chat")
        told = [(e.kind, e.status) for e in step.packet.entries if e.section == "history"]
        assert told[1:] == [
            ("call", ""), ("result", "unknown"), ("assistant", ""), ("late", "ok"), ("user", ""),
        ]  # fmt: skip
        step.send(talker())
        log.store.append(log.find("task"), [late("again", call.event_id)])
        s.user("go on")
        again = next_step(s, "openai-chat")
        assert [e.kind for e in again.packet.entries].count("late") == 1
        dropped = [v.reason for v in again.packet.trace.verdicts if v.outcome == "dropped"]
        assert dropped == ["duplicate"]
    sound(log, "task")

"""A session of 100,000 events costs at its end what one of 1,000 costs (case 65)."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import NamedTuple

import pytest

import sawlog
from sawlog.builder.projector import fold_all
from sawlog.builder.snapshot import state_digest
from sawlog.builder.state import State
from sawlog.store.content import TextPart
from sawlog.store.envelope import NewEvent
from sawlog.store.events.conversation import MessageAssistant, ToolFinished, ToolRequested
from sawlog.store.events.steps import StepCompleted
from tests.timing import slowness

WINDOW = 20_000


class Took(NamedTuple):
    """Seconds of opening, of an append and of a build."""

    open: float
    append: float
    build: float


def grow(log: sawlog.AgentLog, name: str, events: int) -> None:
    """A session with that many events: steps with two calls, a packet now and then."""
    with log.session(name, window=WINDOW) as s:
        s.user("go")
        step = 1
        while s.state.seq < events:
            s.step("openai-chat", model="m").answer(_reply(step))
            batch: list[NewEvent] = []
            for n in range(200):
                batch.extend(_step(step + n + 1))
            for call in s.open_calls():
                with s.tool(call) as run:
                    run.result("done")
            s.record([s.new(e.payload, e.source, step=e.step) for e in batch])
            step = s.state.step


def _step(step: int) -> list[NewEvent]:
    source = "provider:openai-chat"
    ids = [f"call_{step}_{k}" for k in range(2)]
    text = (TextPart(f"step {step} " + "x" * 80),)
    payloads = [
        MessageAssistant(text),
        *(ToolRequested(id, "tool", '{"n":1}') for id in ids),
        StepCompleted(),
        *(ToolFinished(call_id=id, name="tool", parts=text) for id in ids),
    ]
    return [NewEvent(payload=payload, source=source, step=step) for payload in payloads]


def _reply(step: int) -> dict[str, object]:
    call = {
        "id": f"call_{step}",
        "type": "function",
        "function": {"name": "tool", "arguments": "{}"},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    reply = {"id": "r", "object": "chat.completion", "created": 0, "model": "m"}
    return {**reply, "choices": [choice]}


@pytest.mark.alone
def test_100_000_events_cost_at_the_end_what_1_000_cost(tmp_path: Path) -> None:
    """Opening, appending and building stay within half more; the state equals the cold fold."""
    sizes = {"small": 1_000, "large": 100_000}
    took: dict[str, list[Took]] = {name: [] for name in sizes}
    for name, size in sizes.items():
        with sawlog.open(str(tmp_path / f"{name}.db")) as log:
            grow(log, name, size)
    for n in range(9):  # by turns, so that a machine that slows down slows both
        for name, times in took.items():
            times.append(_timed(str(tmp_path / f"{name}.db"), name, n))
    with sawlog.open(str(tmp_path / "large.db")) as log:
        cold = fold_all(State(), log.read("large").events())
        with log.session("large", window=WINDOW) as s:
            assert state_digest(s.state) == state_digest(cold)
    for what in Took._fields:
        small, large = (
            statistics.median(getattr(one, what) for one in took[name]) for name in sizes
        )
        print(f"{what}: {1e3 * small:.2f} ms at 1,000 events, {1e3 * large:.2f} ms at 100,000")
        # Times of a busy machine scatter by milliseconds: what would grow with N is 100 times more.
        assert large <= 1.5 * small + 0.02 * slowness(), what


def _timed(url: str, name: str, n: int) -> Took:
    start = time.perf_counter()
    log = sawlog.open(url)
    session = log.session(name, window=WINDOW)
    session.acquire()
    opened = time.perf_counter() - start
    start = time.perf_counter()
    session.user(f"message {n}")
    appended = time.perf_counter() - start
    session.step("openai-chat", model="m")
    session.user("again")
    start = time.perf_counter()
    session.step("openai-chat", model="m")
    built = time.perf_counter() - start
    session.release()
    log.close()
    return Took(opened, appended, built)

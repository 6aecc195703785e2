"""How sawlog is driven through the workload, in whole steps as an agent does them.

A step is what an agent's loop does through the public face: what the user says, the packet, the
reply, each tool's start and result, each change of the world, each of them durable before the next.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

import sawlog
from benchmarks.events import API, observed
from benchmarks.workload import Part, Steps
from sawlog.store.append import Appended
from sawlog.work.session import Session

MODEL = "m"
SESSION = "bench"
WINDOW = 200_000
"""Units of the window, of about four bytes each: 800 KB, as real models have it."""
NO_WINDOW = 0
"""The model's own window, which an unknown model does not have."""

now = time.perf_counter


class Took(msgspec.Struct, frozen=True):
    """What one step took, in seconds, and its commits.

    `ready` is until the packet was there as chunks, with both digests; `logged` until it was also
    in the log; `whole` is the step with its reply and results.
    """

    ready: float
    logged: float
    whole: float
    commits: int


class Clocked:
    """Times the appends of a log, so that a packet's making can be told from its logging."""

    def __init__(self, log: sawlog.AgentLog) -> None:
        self.seconds = 0.0
        append: Callable[..., Appended] = log.store.append

        def clocked(*given: Any, **named: Any) -> Appended:
            began = now()
            try:
                return append(*given, **named)
            finally:
                self.seconds += now() - began

        # A clock in front of the method, on this one log.
        setattr(log.store, "append", clocked)  # noqa: B010


def reply_of(parts: Sequence[Part], sent: int) -> bytes:
    """The model's reply of a step; its usage counts a token for four of the `sent` bytes."""
    message: Part = {"role": "assistant", "content": ""}
    for part in parts:
        if part["kind"] == "assistant":
            message["content"] = part["text"]
        elif part["kind"] == "tool_call":
            function = {"name": part["name"], "arguments": part["args"]}
            call = {"id": part["call_id"], "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(call)
    ended = "tool_calls" if "tool_calls" in message else "stop"
    tokens = sent // 4
    reply = {
        "id": "r",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": ended}],
        "usage": {
            "prompt_tokens": tokens,
            "completion_tokens": 1,
            "total_tokens": tokens + 1,
        },
    }
    return json.dumps(reply).encode()


def whole_step(session: Session, parts: Sequence[Part], clock: Clocked) -> Took:
    """One recorded step; what the model would say is made before, and costs nothing here."""
    results = {part["call_id"]: part["text"] for part in parts if part["kind"] == "tool_result"}
    paused = 0.0
    commits = 3  # the packet, that it is sent, the reply
    began = now()
    for part in parts:
        if part["kind"] == "user":
            session.user(part["text"])
            commits += 1
    logging = clock.seconds
    asked = now()
    step = session.step(API, model=MODEL)
    logged = now()
    logging = clock.seconds - logging
    body = reply_of(parts, step.packet.request.size)
    paused += now() - logged
    reply = step.answer(body)
    for call in reply.tool_calls:
        with session.tool(call) as run:
            run.result(results[call.call_id])
        commits += 2  # its start, its result
    for part in parts:
        if part["kind"] == "state":
            session.append(observed(part))
            commits += 1
    whole = now() - began - paused
    return Took(logged - asked - logging, logged - asked, whole, commits)


def record(
    log: sawlog.AgentLog,
    steps: Steps,
    *,
    name: str = SESSION,
    window: int = WINDOW,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Took]:
    """Drive a new session through all these steps and leave it."""
    clock = Clocked(log)
    took: list[Took] = []
    with log.session(name, window=window) as session:
        for number, parts in enumerate(steps):
            took.append(whole_step(session, parts, clock))
            progress(number + 1)
    return took


def after(steps: Steps, more: int, done: int) -> Steps:
    """`more` further steps behind a session that has `done`, with call ids of their own."""
    made: Steps = []
    for number in range(done, done + more):
        step = [dict(part, step=number) for part in steps[number % len(steps)]]
        for part in step:
            if "call_id" in part:
                part["call_id"] = f"{part['call_id']}_{number}"
        made.append(step)
    return made

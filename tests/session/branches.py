"""Sessions with branches for tests: a model that answers at once, forks, rewinds, all checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from sawlog.agentlog import AgentLog
from sawlog.audit.recorded import Recorded
from sawlog.builder.projector import fold_all
from sawlog.builder.snapshot import decode, encode, state_digest
from sawlog.builder.state import State
from sawlog.store.directory import SessionRow
from sawlog.work.call import Call
from sawlog.work.session import Session
from tests.session.agents import TOOLS, next_step, sound


def asking(text: str, *names: str) -> Callable[[bytes], bytes]:
    """A callable provider of Chat Completions that says a text and asks for calls by these names.

    A call's id is its name and place in the text, so that replies with other texts have others.
    """
    calls = [
        {
            "id": f"{name}-{at}-{text}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(_arguments(name, text))},
        }
        for at, name in enumerate(names)
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    stop = "tool_calls" if calls else "stop"
    body = {
        "id": "r",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": stop}],
    }

    def answer(request: bytes) -> bytes:
        return json.dumps(body).encode()

    return answer


def _arguments(name: str, text: str) -> dict[str, Any]:
    return {"read_file": {"path": f"{text}.py"}, "breaks": {"why": text}}.get(name, {})


def stepped(s: Session, text: str, *names: str) -> Sequence[Call]:
    """A step whose reply says a text and asks for these calls; gives them."""
    return next_step(s, "openai-chat").send(asking(text, *names)).tool_calls


def worked(s: Session, steps: int, text: str = "w") -> None:
    """Steps of two calls each, all of which have results, after a message of the user."""
    s.tools(TOOLS)
    s.user(f"do {text}")
    for at in range(steps):
        for call in stepped(s, f"{text}{at}", "read_file", "run_tests"):
            with s.tool(call) as run:
                run.result(f"result of {call.name} {text}{at}")


def packets(recorded: Recorded) -> dict[int, tuple[str, str, bytes]]:
    """Both digests and the body of every packet, by step."""
    return {
        step.number: (step.packet.semantic, step.packet.request.digest, step.packet.body)
        for step in recorded.steps
    }


def own_rows(log: AgentLog, row: SessionRow) -> int:
    """How many events a session has in rows of its own."""
    with log.store.database.read() as tx:
        found = tx.one("SELECT count(*) FROM sawlog.events WHERE sid = ?", (row.sid,))
    assert found is not None
    return int(found[0])


def same_state(log: AgentLog, s: Session) -> None:
    """The state of a handle is that of a cold fold, and of one that goes on from any snapshot."""
    recorded = log.read(s.id)
    events = list(recorded.events())
    cold = fold_all(State(), events)
    assert state_digest(s.state) == state_digest(cold)
    for at in (len(events) // 3, len(events) * 2 // 3):
        early = decode(encode(fold_all(State(), events[:at])))
        assert state_digest(fold_all(early, events[at:])) == state_digest(cold), at


def every_branch_holds(log: AgentLog, known: dict[str, dict[int, bytes]]) -> None:
    """Every session is sound by all paths, and each packet that was sent comes out again."""
    for row in log.sessions():
        recorded = sound(log, row.id.hex())
        for number, body in known[row.id.hex()].items():
            step = recorded.steps[number]
            assert step.packet.body == body and step.verify()

"""A session written for the tests: an agent that refunds without asking, and why.

The rule that it breaks was in its first packets, and a block cut left it behind.
"""

from __future__ import annotations

from typing import Any

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from sawlog.work.session import Session

RULE = "Above 500 EUR ask a manager before you refund."
OLD_ORDER = "order 7: 900 EUR, paid"
NEW_ORDER = "order 7: 900 EUR, paid, disputed"
NAME = "refund-7"
STEPS = 6
WRONG = 6
"""The step whose decision was wrong."""
CALL = "toolu_refund"


def make(url: str) -> None:
    """Make a store with the session in it."""
    with open_log(url) as log:
        write(log)


def write(log: AgentLog) -> None:
    """Write the session."""
    with log.session(NAME, window=400) as s:
        s.system("You work for a shop.")
        s.tools([read_order, refund])
        s.user(RULE)
        ask(s, says("I keep to it."))
        s.user("What is with order 7?")
        ask(s, calls("toolu_read", "read_order", {"order": 7}), {"toolu_read": OLD_ORDER})
        ask(s, says("It is paid."))
        s.user("Weather report, for your information. " + "It rains in every town. " * 38)
        ask(s, calls("toolu_again", "read_order", {"order": 7}), {"toolu_again": NEW_ORDER})
        ask(s, says("It is disputed."))
        s.user("Refund it.")
        ask(s, calls(CALL, "refund", {"order": 7}), {CALL: "refunded 900 EUR"})


def read_order(order: int) -> str:
    """Look an order up."""
    return OLD_ORDER


def refund(order: int) -> str:
    """Refund an order."""
    return "refunded"


def ask(
    s: Session, answer: dict[str, Any], results: dict[str, str] | None = None, **sent: Any
) -> None:
    """One step: the packet, the reply, the results of its calls."""
    step = s.step("anthropic", model="claude-sonnet-4-5", max_tokens=100, **sent)
    reply = step.answer(answer)
    for call in reply.tool_calls:
        with s.tool(call) as run:
            run.result((results or {})[call.call_id])


def says(text: str) -> dict[str, Any]:
    """A reply that is text."""
    return _reply([{"type": "text", "text": text}], "end_turn")


def calls(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A reply that asks for a call."""
    return _reply([{"type": "tool_use", "id": id, "name": name, "input": arguments}], "tool_use")


def _reply(content: list[dict[str, Any]], stop: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"output_tokens": 1},  # no input: the window counts in units alone
    }

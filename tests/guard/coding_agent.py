"""The session of a coding agent: of one seed, and of as many steps as wanted.

Every block of steps has results of the same sizes in another order, so that two stretches of a
session bring as much news, and what they cost can be compared. Clock, ids and salts are counted up:
two runs make the same calls with the same bytes.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.work.session import Session

WINDOW = 60_000
"""Units of the packets, about four bytes each: some twenty steps, so that old ones leave."""

BLOCK = 20
"""Steps after which the sizes come again."""

SMALLEST, LARGEST = 200, 40_000
"""Bytes of a result. Between them each doubling holds as many."""

STATE_EVERY = 5

API = "openai-chat"
NAME = "task"

_WORDS = (
    "def return self path line node cache index value error test import class for while open read "
    "write parse build token list dict key none true false assert raise yield with lambda"
).split()


class Ask(NamedTuple):
    """One call of a step: its id, name, arguments as JSON, and the text of its result."""

    id: str
    name: str
    arguments: str
    result: str


class Turn(NamedTuple):
    """A step: what the user says, what the model answers and asks for, and perhaps a folder."""

    said: str
    answer: str
    asks: tuple[Ask, ...]
    cwd: str


def turns(steps: int, seed: int = 1) -> Iterator[Turn]:
    """The turns of a session; those of a longer one begin with those of a shorter one."""
    chance = random.Random(seed)
    calls = [1 + n % 2 for n in range(BLOCK)]
    number = sum(calls)
    span = LARGEST / SMALLEST
    sizes = [int(SMALLEST * span ** (n / (number - 1))) for n in range(number)]
    left = iter(sizes)
    for step in range(steps):
        if step % BLOCK == 0:
            chance.shuffle(calls)
            chance.shuffle(sizes)
            left = iter(sizes)
        asks = tuple(
            Ask(
                f"call_{step}_{n}",
                chance.choice(("read_file", "run_command")),
                json.dumps({"path": f"src/{_text(chance, 20)}.py", "why": _text(chance, 120)}),
                _text(chance, next(left)),
            )
            for n in range(calls[step % BLOCK])
        )
        cwd = f"/repo/part{step % 7}" if step % STATE_EVERY == 0 else ""
        yield Turn(_text(chance, 200), _text(chance, 300), asks, cwd)


def _text(chance: random.Random, size: int) -> str:
    words = chance.choices(_WORDS, k=size // 5 + 2)
    some = (word if n % 7 else f"{word}{chance.randrange(10_000)}" for n, word in enumerate(words))
    return " ".join(some)[:size].ljust(size, ".")


class Counted:
    """Clock, ids and salts that only count."""

    def __init__(self, first: int = 0) -> None:
        self._numbers = itertools.count(first)

    def clock(self) -> int:
        """A millisecond later each time, in microseconds."""
        return 1_800_000_000_000_000 + 1_000 * next(self._numbers)

    def id(self) -> bytes:
        """A UUIDv7 of a time that rises and no chance."""
        stamp = (1_800_000_000_000 + next(self._numbers)) << 80
        return (stamp | 0x7 << 76 | 0b10 << 62).to_bytes(16, "big")

    def salt(self) -> bytes:
        """Sixteen bytes."""
        return next(self._numbers).to_bytes(16, "big")


def opened(url: str, life: int = 0, *, read_only: bool = False) -> AgentLog:
    """The store of an agent; each `life` of one store brings ids of its own."""
    counted = Counted(life * 10_000_000)
    return sawlog.open(
        url,
        read_only=read_only,
        clock=counted.clock,
        make_id=counted.id,
        make_salt=counted.salt,
    )


def entered(log: AgentLog, name: str = NAME, window: int = WINDOW) -> Session:
    """The agent's session, to be entered; its lease needs no renewal while a test runs."""
    return log.session(name, window=window, owner="guard", ttl=86_400.0)


def play(session: Session, turn: Turn) -> None:
    """One step as an agent's loop makes it, each call through the public face."""
    session.user(turn.said)
    step = session.step(API, model="m")
    reply = step.answer(_reply(turn, step.packet.request.size))
    results = {ask.id: ask.result for ask in turn.asks}
    for call in reply.tool_calls:
        with session.tool(call) as run:
            run.result(results[call.call_id])
    if turn.cwd:
        session.environment(cwd=turn.cwd)


def _reply(turn: Turn, sent: int) -> bytes:
    calls: Sequence[object] = [
        {
            "id": ask.id,
            "type": "function",
            "function": {"name": ask.name, "arguments": ask.arguments},
        }
        for ask in turn.asks
    ]
    message = {"role": "assistant", "content": turn.answer, "tool_calls": calls}
    usage = {
        "prompt_tokens": sent // 4,
        "completion_tokens": 100,
        "total_tokens": sent // 4 + 100,
    }
    return json.dumps(
        {
            "id": "r",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": usage,
        }
    ).encode()

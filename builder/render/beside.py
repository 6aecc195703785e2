"""Results beside their calls, for APIs that take them nowhere else.

The pairing `codex` leaves a result where it arrived. What is added to a rendering at once holds the
result of every call in it, so moving results within one addition gives the same request as moving
them in the whole packet.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sawlog.builder.packet import Entry

Placed = tuple[int, Entry]
"""An entry and its place in the order added."""


def beside_calls(placed: list[Placed]) -> tuple[list[Placed], frozenset[int]]:
    """The entries with each result behind the reply that called, in call order; the places moved.

    A reply that a synthetic result had cut in two is one message again.
    """
    messages: list[list[Placed]] = []
    answers: dict[int, list[Placed]] = {}
    open_calls: list[tuple[str, int]] = []
    reply: list[Placed] = []
    step = 0
    for message in _messages(placed):
        first = message[0][1]
        if first.role == "result":
            step = first.step
            at = _call_of(first.call_id, open_calls)
            if at is None:
                messages.append(message)
            else:
                answers[open_calls.pop(at)[1]] = message
            continue
        if first.authority == "assistant":
            open_calls.extend((one.call_id, at) for at, one in message if one.kind == "call")
        if first.authority == "assistant" and step and first.step == step:
            reply.append((message[0][0], replace(first, first=False)))
            reply.extend(message[1:])
        else:
            reply = message
            messages.append(message)
        step = 0
    out: list[Placed] = []
    for message in messages:
        out.extend(message)
        for at, one in message:
            if one.kind == "call":
                out.extend(answers.get(at, ()))
    moved = {at for n, (at, one) in enumerate(out) if one.role == "result" and placed[n][0] != at}
    return out, frozenset(moved)


def any_apart(entries: Sequence[Entry]) -> bool:
    """True when a result stands apart from its reply, or within it: else all may stay."""
    near: list[str] = []
    far: set[str] = set()
    step = 0
    for entry in entries:
        kind = entry.kind
        if not entry.first and kind != "call":
            continue
        if kind == "result" or ("/" in kind and entry.role == "result"):
            step = entry.step
            if entry.call_id in near:
                near.remove(entry.call_id)
            elif entry.call_id in far:
                return True
            continue
        if entry.first:
            if entry.authority == "assistant" and step and entry.step == step:
                return True
            far.update(near)
            near = []
            step = 0
        if kind == "call":
            near.append(entry.call_id)
    return False


def _messages(placed: Sequence[Placed]) -> list[list[Placed]]:
    messages: list[list[Placed]] = []
    for at, entry in placed:
        if entry.first or not messages:
            messages.append([])
        messages[-1].append((at, entry))
    return messages


def _call_of(id: str, open_calls: Sequence[tuple[str, int]]) -> int | None:
    """The place among the open calls of the nearest one with this id."""
    for at in range(len(open_calls) - 1, -1, -1):
        if open_calls[at][0] == id:
            return at
    return None

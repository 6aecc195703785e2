"""What Chat Completions and the APIs that follow it have in common: calls, names, pairing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from sawlog.providers.strict.reading import JsonObject, as_list, as_object
from sawlog.providers.strict.refusal import Refusal

NAME_PATTERN = "^[a-zA-Z0-9_-]+$"
NAME_LENGTH = 64
_NAME = re.compile(r"[a-zA-Z0-9_-]+")


class Call(NamedTuple):
    """A call as an assistant message holds it: its place in `tool_calls` and its fields."""

    number: int
    id: object
    kind: object
    function: JsonObject


class Fault(NamedTuple):
    """A break of the pairing rule: `role` (a result with no message of calls before it), `id` (a
    result for none of those calls), `twice` (a second result; `other` is where the first stands) or
    `missing` (calls without a result; `at` is the message that came instead, `other` that of the
    calls, `ids` those left open). `at` and `other` are indexes of messages."""

    kind: str
    at: int
    other: int
    ids: tuple[str, ...]


def is_name(text: str) -> bool:
    """Whether a function may be called so, length aside."""
    return _NAME.fullmatch(text) is not None


def calls_of(message: JsonObject) -> list[Call]:
    """The calls of an assistant message, ill-formed ones with what they have."""
    calls: list[Call] = []
    for number, item in enumerate(as_list(message.get("tool_calls")) or []):
        call = as_object(item) or {}
        function = as_object(call.get(str(call.get("type")))) or {}
        calls.append(Call(number, call.get("id"), call.get("type"), function))
    return calls


def check_pairs(messages: list[JsonObject], refusal: Callable[[Fault], Refusal]) -> None:
    """Raises a refusal at the first fault: each call of a message is answered by one of the tool
    messages right behind it, in any order, and those answer nothing else."""
    open_calls: dict[str, int | None] = {}  # id: index of its result
    calls_at = -1

    def close(index: int) -> None:
        missing = tuple(id for id, result in open_calls.items() if result is None)
        if missing:
            raise refusal(Fault("missing", index, calls_at, missing))

    for index, message in enumerate(messages):
        if message["role"] != "tool":
            close(index)
            open_calls = {}
            if message["role"] == "assistant":
                open_calls = {str(call.id): None for call in calls_of(message)}
            calls_at = index
            continue
        id = str(message.get("tool_call_id"))
        if not open_calls:
            raise refusal(Fault("role", index, calls_at, (id,)))
        if id not in open_calls:
            raise refusal(Fault("id", index, calls_at, (id,)))
        first = open_calls[id]
        if first is not None:
            raise refusal(Fault("twice", index, first, (id,)))
        open_calls[id] = index
    close(len(messages))

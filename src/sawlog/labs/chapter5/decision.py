"""What a model decided, read from the text that it answered with (S0-56)."""

from __future__ import annotations

import json
from typing import Any, cast

from sawlog.builder.gateway import Decision, Proposal

KINDS = ("tool", "answer", "needs_context", "refuse")


class InvalidResponse(ValueError):
    """Raised for a reply that is no decision; it never leaves the lab, which records its status."""


def parsed(content: object) -> Decision:
    """The decision that a reply's text is: one JSON object with `kind`, `message` and `tool`.

    An absent message is empty. Only the kind `tool` has a tool, and it needs the name and an object
    of arguments. Raises InvalidResponse for all else, also for JSON that could not be written again
    (NaN, numbers without bounds, half characters).
    """
    if not isinstance(content, str):
        raise InvalidResponse("the reply has no text")
    try:
        value = json.loads(content, parse_constant=_no_constant)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidResponse("the reply is no JSON") from error
    if not isinstance(value, dict):
        raise InvalidResponse("the reply is no JSON object")
    members = cast("dict[str, Any]", value)
    kind, message = members.get("kind"), members.get("message", "")
    if kind not in KINDS or not isinstance(message, str):
        raise InvalidResponse("kind or message are not what they have to be")
    return Decision(kind, message, _tool(kind, members.get("tool")))


def _tool(kind: str, value: object) -> Proposal | None:
    if kind != "tool":
        if value is not None:
            raise InvalidResponse(f"a decision of kind {kind} has a tool")
        return None
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    name, arguments = members.get("name"), members.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise InvalidResponse("a tool needs its name and an object of arguments")
    return Proposal(name, cast("dict[str, Any]", arguments))


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")

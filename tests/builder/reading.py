"""What the tests of replies share: bodies as the official clients know them, and exact slices."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sawlog.builder.replies import Answered, RefusedReply, Running, parse
from sawlog.store.content import BoundPart, IncompletePart, Part, RawPart, TextPart
from sawlog.store.events.conversation import ToolRequested
from sawlog.store.text import Text


def answered(
    api: str, body: str | bytes, headers: Mapping[str, str] | None = None, status: int = 200
) -> Answered:
    """The reply that a body is; the test fails when it is none."""
    found = parse(api, status, headers or {}, _bytes(body))
    assert isinstance(found, Answered), found
    return found


def refused(
    api: str, status: int, body: str | bytes, headers: Mapping[str, str] | None = None
) -> RefusedReply:
    """The refusal that an answer is; the test fails when it is a reply."""
    found = parse(api, status, headers or {}, _bytes(body))
    assert isinstance(found, RefusedReply), found
    return found


def running(api: str, body: str | bytes) -> Running:
    """The answer that says that no reply is there yet."""
    found = parse(api, 200, {}, _bytes(body))
    assert isinstance(found, Running), found
    return found


def _bytes(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else body


def plain(text: Text) -> str:
    """A text of a reply, which is never sealed yet."""
    assert isinstance(text, str)
    return text


def parts_of(reply: Answered) -> list[Part]:
    """All parts, the runs joined."""
    return [
        part for one in reply.parts_and_calls if not isinstance(one, ToolRequested) for part in one
    ]


def order_of(reply: Answered) -> list[str]:
    """What the reply is made of, a word for each: runs in brackets, calls by name."""
    words: list[str] = []
    for one in reply.parts_and_calls:
        if isinstance(one, ToolRequested):
            words.append(f"call {one.name}")
        else:
            words.append(f"[{' '.join(map(_word, one))}]")
    return words


def _word(part: Part) -> str:
    match part:
        case TextPart():
            return "text"
        case BoundPart():
            return part.kind
        case RawPart():
            return "raw"
        case IncompletePart():
            return "incomplete"
        case _:
            raise AssertionError(f"a reply has no {part}")


def assert_exact(reply: Answered, body: str | bytes) -> None:
    """Every source is a slice of the body; every text is what a string token of the body says."""
    whole = body.decode() if isinstance(body, bytes) else body
    tokens = set(strings(json.loads(whole)))
    for one in reply.parts_and_calls:
        if isinstance(one, ToolRequested):
            arguments = plain(one.arguments)
            assert arguments in whole or arguments in tokens or not arguments
            continue
        for part in one:
            match part:
                case BoundPart() | RawPart():
                    assert plain(part.source) in whole
                case TextPart():
                    assert part.text in tokens
                case IncompletePart():
                    assert plain(part.text) in whole or part.text in tokens
                case _:
                    raise AssertionError(f"a reply has no {part}")
    assert reply.usage in whole
    assert reply.body == whole


def strings(value: Any) -> Sequence[str]:
    """All strings inside a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in cast(dict[str, Any], value).values() for text in strings(inner)]
    if isinstance(value, list):
        listed = cast(list[object], value)
        return [text for inner in listed for text in strings(inner)]
    return []

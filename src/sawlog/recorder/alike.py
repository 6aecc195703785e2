"""When two tellings of a message are the same: what a client changes on the way is left out.

A client reads a reply, keeps objects of it and writes them again: with other spacing, with fields
that are null, without what it has no use for. What counts is texts, calls, results and media.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import msgspec

from sawlog.builder.contents import Contents, text_of
from sawlog.store.content import IncompletePart, MediaPart, Part, RawPart, TextPart
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.jsonslices import SCANNER
from sawlog.store.text import Text, raw_bytes

_MOST = 50_000
"""Pairs of equal things up to which the longest common runs are looked for."""

Gist = bytes
"""The digest of what a part says, whoever spells it."""


class Atom(msgspec.Struct, frozen=True, gc=False):
    """One thing that a history says, and the event that holds it (hex id; empty: none yet).

    `system`: an instruction of the operator's, which many conversations have in common; `model`:
    the model said it.
    """

    gist: Gist
    event: str = ""
    system: bool = False
    model: bool = False


def atoms(payload: Payload, event: str = "", contents: Contents | None = None) -> list[Atom]:
    """What an event of that id says, in order."""
    system = isinstance(payload, MessageSystem)
    model = isinstance(payload, MessageAssistant | ToolRequested)
    return [Atom(gist, event, system, model) for gist in gists(payload, contents)]


def gists(payload: Payload, contents: Contents | None = None) -> list[Gist]:
    """What an event says, in order; nothing for thinking, which a client may leave out."""
    match payload:
        case MessageUser():
            return _parts("user", payload.parts, contents)
        case MessageSystem():
            return _parts(payload.role, payload.parts, contents)
        case MessageAssistant():
            return _parts("assistant", payload.parts, contents)
        case ToolRequested():
            arguments = _canonical(_text(payload.arguments, contents))
            return [_gist("call", _text(payload.call_id, contents), arguments)]
        case ToolFinished():
            said = _parts("", payload.parts, contents)
            return [_gist("result", _text(payload.call_id, contents), *map(bytes.hex, said))]
        case _:
            return []


def pairs(known: Sequence[Gist], told: Sequence[Gist]) -> dict[int, int]:
    """Which of the told repeats which of the known: index to index.

    What only changed its place is the same still: results of parallel calls come in any order.
    """
    same = 0
    while same < min(len(known), len(told)) and known[same] == told[same]:
        same += 1
    found = {at: at for at in range(same)}
    if same == len(known) or same == len(told):
        return found
    if _cost(known, told, same) <= _MOST:
        matcher = SequenceMatcher(None, known[same:], told[same:], autojunk=False)
        for block in matcher.get_matching_blocks():
            found.update((same + block.b + n, same + block.a + n) for n in range(block.size))
    else:
        # What is said over and over would be compared with itself for seconds: the common end
        # counts, and of the rest whatever is told again in whatever order.
        end = 1
        while end <= min(len(known), len(told)) - same and known[-end] == told[-end]:
            found[len(told) - end] = len(known) - end
            end += 1
    left: dict[Gist, list[int]] = {}
    used = set(found.values())
    for at in range(len(known) - 1, same - 1, -1):
        if at not in used:
            left.setdefault(known[at], []).append(at)
    for at in range(same, len(told)):
        if at not in found and left.get(told[at]):
            found[at] = left[told[at]].pop()
    return found


def _cost(known: Sequence[Gist], told: Sequence[Gist], start: int) -> int:
    """How many pairs of equal things there are behind a common beginning."""
    counts = Counter(known[at] for at in range(start, len(known)))
    return sum(counts[told[at]] for at in range(start, len(told)))


def _parts(role: str, parts: Sequence[Part], contents: Contents | None) -> list[Gist]:
    found: list[Gist] = []
    texts: list[str] = []

    def close() -> None:
        text = "".join(texts)
        texts.clear()
        if text:
            found.append(_gist("text", role, text))

    for part in parts:
        match part:
            case TextPart():
                # A client may join or part the texts of one message.
                texts.append(_text(part.text, contents))
            case MediaPart():
                close()
                found.append(_gist("media", role, part.blob, str(part.url), str(part.file)))
            case RawPart():
                close()
                source = _text(part.source, contents)
                found.append(_gist("raw", role, _canonical(source, bare=True)))
            case IncompletePart():
                close()
                found.append(_gist("incomplete", role, _text(part.text, contents)))
            case _:
                pass
    close()
    return found


def _text(text: Text, contents: Contents | None) -> str:
    if isinstance(text, str):
        return text
    if contents is None:
        raise TypeError("a stored text is read with its contents")
    return text_of(text, contents)


def _gist(*words: str) -> Gist:
    hasher = hashlib.sha256()
    for word in words:
        raw = raw_bytes(word)
        hasher.update(len(raw).to_bytes(4, "big") + raw)
    return hasher.digest()


def _canonical(source: str, *, bare: bool = False) -> str:
    """JSON without its spelling; `bare`: also without what a client adds or drops."""
    try:
        value = SCANNER.decode(source)
        return json.dumps(_bare(value) if bare else value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return source


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _bare(one)
            for key, one in value.items()  # pyright: ignore[reportUnknownVariableType]
            if one is not None and key not in ("cache_control", "status", "id")
        }
    if isinstance(value, list):
        return [_bare(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value

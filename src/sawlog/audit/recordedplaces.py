"""Which event holds what an entry of a recorded request says.

A request repeats what was said, and names none of it. Where the log holds the same text in the
same role, the entry is taken to be that event; of several alike the last entry is the newest one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sawlog.builder.contents import Contents, text_of
from sawlog.builder.packet import Entry
from sawlog.builder.requests.quoting import quotable
from sawlog.builder.state import Ref
from sawlog.store.event import Event
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.world import ToolsChanged
from sawlog.store.text import BlobMissing

FORM = "recorded"
"""How an entry of a recorded request is shown: as its bytes say."""

_Key = tuple[str, str, str]
"""Role, the call's id where it is of one, text; of a tool its name."""


def refs_of(entries: Sequence[Entry], events: Iterable[Event], contents: Contents) -> list[Ref]:
    """A ref for each entry; seq 0 where no event holds it. `events` are the shown ones before."""
    held = _held(events, contents)
    found: list[Ref] = []
    for entry in reversed(entries):
        seq, part = _taken(held, _key(entry))
        found.append(Ref(entry.section, seq, part, FORM))
    return found[::-1]


def _key(entry: Entry) -> _Key:
    if entry.section == "tools":
        return "tool", "", entry.name
    role = "system" if entry.role == "developer" else entry.role
    return role, entry.call_id, entry.text


def _taken(held: dict[_Key, list[tuple[int, int]]], key: _Key) -> tuple[int, int]:
    places = held.get(key) if key[2] else None
    if not places:
        return 0, 1
    # What is said once and repeated is the same event again.
    return places.pop() if len(places) > 1 else places[0]


def _held(events: Iterable[Event], contents: Contents) -> dict[_Key, list[tuple[int, int]]]:
    held: dict[_Key, list[tuple[int, int]]] = {}
    calls: dict[str, str] = {}
    for event in events:
        content = event.content
        if isinstance(content, ToolsChanged):
            for part, tool in enumerate(content.tools, 1):
                held[("tool", "", text_of(tool.name, contents))] = [(event.seq, part)]
            continue
        role, call = _role(event), ""
        if isinstance(content, ToolRequested):
            call = calls[event.id] = text_of(content.call_id, contents)
        elif isinstance(content, ToolFinished):
            call = calls.get(content.call, "")
        for part, text in quotable(content):
            try:
                said = text_of(text, contents)
            except BlobMissing:
                continue
            held.setdefault((role, call, said), []).append((event.seq, part))
    return held


def _role(event: Event) -> str:
    match event.content:
        case MessageAssistant():
            return "assistant"
        case MessageSystem():
            return "system"
        case ToolRequested():
            return "call"
        case ToolFinished():
            return "result"
        case _:
            return "user"

"""What a checkpoint cites, fetched again: `k2.5` is the fifth piece of evidence of checkpoint 2.

Found by the chain of checkpoints on the session's own branch, so that a name means the same in a
fork and after an import.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sawlog.builder.contents import Contents, text_of
from sawlog.builder.forms import show
from sawlog.builder.projector import entry_count
from sawlog.builder.state import Ref
from sawlog.store.errors import InvalidArguments
from sawlog.store.event import Event
from sawlog.store.events.base import Payload
from sawlog.store.events.compaction import Checkpoint, NoteRecorded
from sawlog.store.events.registry import Erased

NAME = re.compile("k([1-9][0-9]{0,5})[.]([1-9][0-9]{0,5})")

WHOLE = re.compile("k([1-9][0-9]{0,5})(?:@([1-9][0-9]{0,17}))?")
"""All that a checkpoint stands for, or one event of that; see `sawlog.work.searching`."""


def evidence_text(
    name: str, newest: int, contents: Contents, by_id: Callable[[str], Event | None]
) -> str:
    """The text of a piece of evidence, whole. `newest` is the seq of the newest checkpoint.

    Raises InvalidArguments when no checkpoint of this branch has it.
    """
    found = NAME.fullmatch(name.strip(" \t\r\n()[]"))
    if found is None:
        raise InvalidArguments(f"{name[:100]!r} names no evidence: it is like k2.5")
    number, place = int(found[1]), int(found[2])
    cites = checkpoint_of(number, newest, contents, by_id)
    checkpoint = cites.content if cites is not None else None
    if not isinstance(checkpoint, Checkpoint) or place > len(checkpoint.evidence):
        raise InvalidArguments(f"no checkpoint of this session has the evidence {found[0]}")
    event = by_id(checkpoint.evidence[place - 1])
    if event is None:
        raise InvalidArguments(f"the event of the evidence {found[0]} is not in this session")
    return shown_whole(event, contents)


def checkpoint_of(
    number: int, newest: int, contents: Contents, by_id: Callable[[str], Event | None]
) -> Event | None:
    """The checkpoint of that number, of those behind each other up to `newest`; None: no such."""
    event = contents.event(newest) if newest else None
    while event is not None and isinstance(event.content, Checkpoint):
        if event.content.number == number:
            return event
        event = by_id(event.content.previous) if event.content.previous else None
    return None


def shown_whole(event: Event, contents: Contents) -> str:
    """All that an event says, as packets show it in full. Raises BlobMissing."""
    content = event.content
    if isinstance(content, Erased):
        return "[This content was erased.]"
    if isinstance(content, NoteRecorded):
        return text_of(content.text, contents)
    if event.shown and isinstance(content, Payload):
        texts: list[str] = []
        for part in range(1, entry_count(event) + 1):
            entry = show(Ref("history", event.seq, part), contents, None)
            name = f"{entry.name}: " if entry.kind == "call" else ""
            texts.append(name + (entry.text if not entry.part else f"[{entry.kind}]"))
        return "\n".join(texts)
    return f"[{event.type}]"

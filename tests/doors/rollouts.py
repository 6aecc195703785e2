"""The hand-written Codex rollouts, and what tests ask of a session read from one."""

from __future__ import annotations

from sawlog.formats import codex
from sawlog.formats.base import ForeignEvent, ForeignSession
from sawlog.store.content import TextPart
from sawlog.store.events.compaction import (
    CompactionCompleted1,
)
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
)
from tests.doors.foreign import FIXTURES, check_session, events

FOLDER = FIXTURES / "codex"
FILES = sorted(FOLDER.glob("*.jsonl"))
API = "openai-responses"


def session(name: str) -> ForeignSession:
    """The session of one file, which holds what every session holds."""
    (only,) = codex.read(FOLDER / f"{name}.jsonl")
    check_session(only)
    return only


def by_position(only: ForeignSession, position: int) -> list[ForeignEvent]:
    """The events of one record."""
    return list(only.records[position].events)


def texts(event: ForeignEvent) -> list[str]:
    """The plain texts of a message or result."""
    payload = event.payload
    assert isinstance(payload, MessageUser | MessageSystem | MessageAssistant | ToolFinished)
    return [str(part.text) for part in payload.parts if isinstance(part, TextPart)]


def call_of(event: ForeignEvent) -> str:
    """The id of the call that a result names."""
    assert isinstance(event.payload, ToolFinished)
    return event.payload.call


def compactions(only: ForeignSession) -> list[list[ForeignEvent]]:
    """For each compaction the events that its history names."""
    known = {event.id.hex(): event for event in events(only)}
    return [
        [known[id] for id in event.payload.history]
        for event in events(only)
        if isinstance(event.payload, CompactionCompleted1)
    ]

"""The hand-written Claude Code transcripts, and what tests ask of a session read from one."""

from __future__ import annotations

import json
from pathlib import Path

import sawlog.fixtures
from sawlog.formats.base import ForeignEvent, ForeignSession
from sawlog.formats.claude_code import read
from sawlog.store.content import TextPart
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import MessageAssistant, MessageUser
from tests.doors.foreign import events

FOLDER = Path(next(iter(sawlog.fixtures.__path__))) / "foreign" / "claude-code"
SESSION = "5f0c1a52-8d1e-4b7a-9c3f-2a6d10e4b001"


def one(name: str) -> ForeignSession:
    """The session of one written file: the first, where there are more."""
    return read(FOLDER / f"{name}.jsonl")[0]


def at(session: ForeignSession, position: int) -> tuple[ForeignEvent, ...]:
    """The events of one record."""
    (found,) = (record for record in session.records if record.position == position)
    return found.events


def kinds(found: tuple[ForeignEvent, ...]) -> list[type[Payload]]:
    """What each event is."""
    return [type(event.payload) for event in found]


def texts(session: ForeignSession) -> list[str]:
    """The texts of a session's user and assistant messages, in order."""
    return [
        str(part.text)
        for event in events(session)
        if isinstance(event.payload, MessageUser | MessageAssistant)
        for part in event.payload.parts
        if isinstance(part, TextPart)
    ]


def says(session: ForeignSession, what: str) -> bool:
    """True when an anomaly says that."""
    return any(what in sentence for sentence in session.counts.anomalies)


def write(path: Path, *lines: object) -> Path:
    """Write a transcript of these records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def prompt(text: str, uuid: str = "u", **more: object) -> dict[str, object]:
    """The record of a prompt; `more` are other fields of it."""
    message = {"role": "user", "content": text}
    base = {"type": "user", "uuid": uuid, "parentUuid": None, "sessionId": SESSION}
    return {**base, "message": message, **more}

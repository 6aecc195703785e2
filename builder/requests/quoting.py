"""Which texts of an event a recorded body may quote, and under which number.

Frozen: recorded bodies rely on it. A part counts from 1; of a call it is the arguments.
"""

from __future__ import annotations

from sawlog.store.content import BoundPart, IncompletePart, Part, RawPart, TextPart
from sawlog.store.event import Event
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.text import Text


def quotable(payload: object) -> list[tuple[int, Text]]:
    """The texts of a payload, each with its part's number; empty for what holds none."""
    match payload:
        case ToolRequested():
            return [(1, payload.arguments)]
        case MessageUser() | MessageSystem() | MessageAssistant() | ToolFinished():
            return [
                (at, text)
                for at, part in enumerate(payload.parts, 1)
                if (text := _text(part)) is not None
            ]
        case _:
            return []


def quoted(event: Event, part: int) -> Text:
    """The text of an event under that number. Raises KeyError when it has none there."""
    if not isinstance(event.content, Payload):
        raise KeyError(part)
    return dict(quotable(event.content))[part]


def _text(part: Part) -> Text | None:
    match part:
        case TextPart() | IncompletePart():
            return part.text
        case BoundPart() | RawPart():
            return part.source
        case _:
            return None

"""A part of the workload as the event that it is. Loads no more of sawlog than the events."""

from __future__ import annotations

import json

from benchmarks.workload import Part
from sawlog.store.content import TextPart
from sawlog.store.envelope import NewEvent
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.world import ObservationRecorded

API = "openai-chat"
"""The API that the model of the workload speaks."""
_PROVIDER = f"provider:{API}"


def event_of(part: Part) -> NewEvent:
    """A part as the event that it is."""
    step = part["step"] + 1
    match part["kind"]:
        case "user":
            return NewEvent(payload=MessageUser(_text(part["text"])), source="user")
        case "assistant":
            said = MessageAssistant(_text(part["text"]))
            return NewEvent(payload=said, source=_PROVIDER, step=step)
        case "tool_call":
            asked = ToolRequested(part["call_id"], part["name"], part["args"])
            return NewEvent(payload=asked, source=_PROVIDER, step=step)
        case "tool_result":
            done = ToolFinished(
                call_id=part["call_id"], name=part["name"], parts=_text(part["text"])
            )
            return NewEvent(payload=done, source=f"tool:{part['name']}", step=step)
        case _:
            return NewEvent(payload=observed(part), source="harness")


def observed(part: Part) -> ObservationRecorded:
    """A change of the world."""
    return ObservationRecorded(_text(json.dumps(part["value"])))


def _text(text: str) -> tuple[TextPart, ...]:
    return (TextPart(text),)

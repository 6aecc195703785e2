"""Facts about the world that no call asked for, and what an observation saw of it."""

from __future__ import annotations

import msgspec

from sawlog.store.content import Part
from sawlog.store.events.base import Payload
from sawlog.store.events.registry import event
from sawlog.store.text import Text


class Saw(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was seen: a path, a range in it, the version (hex content digest), how long it holds."""

    path: Text
    range: str = ""
    version: str = ""
    holds: str = "until-file-change"


@event("observation.recorded", 1, shown=True)
class ObservationRecorded(Payload, frozen=True):
    """A fact that no call asked for: retrieval, a sensor, a hook."""

    parts: tuple[Part, ...]
    name: Text = ""
    saw: tuple[Saw, ...] = ()
    once: bool = False


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as the model is told of it.

    `source` is a JSON object with `name`, `description` (may be absent) and `parameters` (the JSON
    schema of its input); renderers put it into each API's form. `effect` is the tool's effect
    class: `read_only`, `idempotent` or `side_effect`.
    """

    name: Text
    source: Text
    effect: str = "side_effect"


@event("tools.changed", 1, shown=True)
class ToolsChanged(Payload, frozen=True):
    """The tools that the model is offered from here on, in order."""

    tools: tuple[Tool, ...]

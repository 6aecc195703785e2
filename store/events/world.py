"""Facts about the world that no call asked for, what an observation saw of it, what changed."""

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


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    """One section of the world state as it is now: its name and its value as JSON source.

    Names with a rendering of their own: `cwd`, `platform`, `permissions`, `model`, `tools`, `mode`,
    `instructions`, `time`, `terminal`; any other shows its value. `removed`: there is none now.
    `unknown`: what was shown of it before is no longer trusted, whatever it was.
    """

    name: str
    value: Text = ""
    removed: bool = False
    unknown: bool = False


@event("world.changed", 1)
class WorldChanged(Payload, frozen=True):
    """What these sections of the world state are from here on; others stay as they were."""

    sections: tuple[Section, ...]


@event("file.observed", 1)
class FileObserved(Payload, frozen=True):
    """A file as the harness saw it, or what the result of the event `of` saw of it.

    `state` is `present`, `absent` or `unreadable`; `version` the hex digest of its content, or
    another name of a version, such as a commit; `range` the part that was shown.
    """

    path: Text
    version: str = ""
    state: str = "present"
    range: str = ""
    holds: str = "until-file-change"
    of: str = ""


@event("file.changed", 1, open=True)
class FileChanged(Payload, frozen=True):
    """A file is no longer as it was last seen: its version and state now.

    `state` is `present`, `absent` or `unreadable` (which says nothing of its content).
    """

    path: Text
    version: str = ""
    state: str = "present"
    commit: Text = ""

"""What became of the calls of a log: which finished and how, and what they did to the world.

Read from events alone, as the fold pairs them: a result answers the request that it names, else the
nearest one before it with its call id that has none; the first result counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from sawlog.builder.effects import READ_ONLY
from sawlog.builder.jsonvalue import Value, value_of
from sawlog.builder.pathnames import paths_of
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.conversation import ToolFinished, ToolRequested, ToolStarted
from sawlog.store.text import Text

UNFINISHED = "unfinished"
UNPAIRED = "unpaired"


class Call(msgspec.Struct, frozen=True):
    """A request and its result; `effect` is empty when nobody declared it."""

    asked: Event
    result: Event
    effect: str = ""

    @property
    def request(self) -> ToolRequested:
        """What was asked for."""
        assert isinstance(self.asked.content, ToolRequested)
        return self.asked.content


class Calls:
    """The calls of some events, in seq order."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._asked: dict[EventId, Event] = {}
        self._open: dict[Text, list[EventId]] = {}
        self._effects: dict[EventId, str] = {}
        self._call_of: dict[EventId, EventId] = {}
        self._results: dict[EventId, Event] = {}
        self._aside: set[EventId] = set()
        for event in events:
            match event.content:
                case ToolRequested(call_id=call_id):
                    self._asked[event.id] = event
                    self._open.setdefault(call_id, []).append(event.id)
                case ToolStarted(call=call, call_id=call_id, effect=effect):
                    id = call or self._nearest(call_id)
                    # A try that may have acted is not forgotten for a later one.
                    if self._effects.get(id, READ_ONLY) == READ_ONLY:
                        self._effects[id] = effect
                case ToolFinished():
                    self._finished(event, event.content)
                case _:
                    pass

    def outcome(self, id: EventId) -> str:
        """What became of the call that a request or a result belongs to; empty for other events.

        The status of its result (`ok`, `error`, `interrupted`), `unfinished` for a request without
        one, `unpaired` for a result that answers nothing.
        """
        if id in self._aside:
            return UNPAIRED
        result = self._results.get(self._call_of.get(id, id))
        if result is not None and isinstance(result.content, ToolFinished):
            return result.content.status
        return UNFINISHED if id in self._asked else ""

    def result_of(self, call: EventId) -> Event | None:
        """The result of a request, None when there is none."""
        return self._results.get(call)

    def answered_by(self, result: EventId) -> Call | None:
        """The call that a result finished, None when its request is not among the events."""
        call = self._call_of.get(result, "")
        asked = self._asked.get(call)
        if asked is None:
            return None
        return Call(asked, self._results[call], self._effects.get(call, ""))

    def _finished(self, event: Event, content: ToolFinished) -> None:
        call = content.call or self._nearest(content.call_id)
        if not call or call in self._results:
            self._aside.add(event.id)
            return
        self._results[call] = event
        self._call_of[event.id] = call
        asked = self._asked.get(call)
        if asked is not None and isinstance(asked.content, ToolRequested):
            self._open[asked.content.call_id].remove(call)

    def _nearest(self, call_id: Text) -> EventId:
        waiting = self._open.get(call_id)
        return waiting[-1] if waiting else ""


# --- paths ----------------------------------------------------------------------------------------

_PATCHED = re.compile(r"\*\*\* (?:Add File|Update File|Delete File|Move to): ([^\n\r]+)")
_BEGIN_PATCH = "*** Begin Patch"


def paths_in(kind: str, arguments: str) -> list[str]:
    """The paths that a call's arguments name, each once: JSON read as `builder.pathnames` does.

    A patch (`*** Begin Patch`), as a free-form input or inside of JSON, names its files in its
    headers. What does not read as JSON names none.
    """
    found: dict[str, None] = {}
    if kind == "text":
        _patched(arguments, found)
        return list(found)
    try:
        value = value_of(arguments)
    except ValueError:
        return []
    members: Mapping[str, object] = value if isinstance(value, dict) else {"elements": value}
    found.update(dict.fromkeys(paths_of(members)))
    for text in _strings(value):
        _patched(text, found)
    return list(found)


def _patched(text: str, found: dict[str, None]) -> None:
    if _BEGIN_PATCH in text:
        found.update((path.strip(" \t"), None) for path in _PATCHED.findall(text))


def _strings(value: Value) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for inner in value:
                yield from _strings(inner)
        case dict():
            for inner in value.values():
                yield from _strings(inner)
        case _:
            pass

"""What a rewind does not undo: calls that ran meanwhile, and files that are others now.

A rewind takes history back, never what was done. Nothing in a packet depends on this: it is written
into the rewind's event, for whoever has to look after what still stands in the world.
"""

from __future__ import annotations

from collections.abc import Iterable

from sawlog.builder.contents import Contents
from sawlog.builder.effects import READ_ONLY
from sawlog.builder.state import State
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.conversation import ToolFinished, ToolRequested, ToolStarted
from sawlog.store.events.lifecycle import Ran
from sawlog.store.events.world import FileChanged
from sawlog.store.text import Text


def not_undone(
    then: State, now: State, events: Iterable[Event], contents: Contents
) -> tuple[tuple[Ran, ...], tuple[Text, ...]]:
    """Calls and paths that a rewind from `now` back to `then` leaves as they are.

    `events` are those between. A call counts that was started among them, or got its result there,
    unless it was declared to read only: a start that was not recorded, as in imports, says nothing
    of that. Of two results the first counts. A file that changed and changed back is not named.
    """
    runs = _Runs(then, contents)
    touched: dict[Text, None] = {}
    for event in events:
        runs.see(event)
        if isinstance(event.content, FileChanged) and event.content.state != "unreadable":
            touched[event.content.path] = None
    return runs.ran(), _others(then, now, touched)


class _Runs:
    """Calls as events name them: by the event of their request, else by their call id."""

    def __init__(self, then: State, contents: Contents) -> None:
        self._names: dict[EventId, Text] = {}
        self._newest: dict[Text, EventId] = {}
        self._harmless: set[EventId] = set()
        self._ran: dict[EventId, str] = {}
        for call in then.waiting:
            content = contents.event(call.seq).content
            if isinstance(content, ToolRequested):
                self._asked(call.id, content)
            started = contents.event(call.since).content if call.since else None
            if isinstance(started, ToolStarted) and started.effect == READ_ONLY:
                self._harmless.add(call.id)

    def see(self, event: Event) -> None:
        """Follow the log by one event."""
        match event.content:
            case ToolRequested():
                self._asked(event.id, event.content)
            case ToolStarted(call=call, call_id=call_id, effect=effect):
                id = call or self._newest.get(call_id, "")
                if effect == READ_ONLY:
                    self._harmless.add(id)
                else:
                    self._harmless.discard(id)
                    self._ran.setdefault(id, "unknown")
            case ToolFinished(call=call, call_id=call_id, status=status):
                id = call or self._newest.get(call_id, "")
                known = id in self._names and id not in self._harmless
                if self._ran.get(id, "unknown" if known else "") == "unknown":
                    self._ran[id] = status
            case _:
                pass

    def ran(self) -> tuple[Ran, ...]:
        """The calls that ran, in the order of their starts."""
        return tuple(
            Ran(id, self._names.get(id, ""), status) for id, status in self._ran.items() if id
        )

    def _asked(self, id: EventId, content: ToolRequested) -> None:
        self._names[id] = content.name
        self._newest[content.call_id] = id


def _others(then: State, now: State, touched: dict[Text, None]) -> tuple[Text, ...]:
    """The paths of files that are not as they were then, as far as the log knows."""
    before = dict(then.files.items())
    for path, file in dict(now.files.items()).items():
        old = before.get(path)
        if old is None or not old.seq:
            continue
        if (old.version, old.absent) == (file.version, file.absent):
            touched.pop(path, None)
        else:
            touched[path] = None
    return tuple(touched)

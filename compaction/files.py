"""Files in a checkpoint: which the work changed, which were read and are no longer shown.

A version is the log's newest word on a file; a file that was only looked at has not changed.
"""

from __future__ import annotations

import re

from sawlog.builder.facts import Sight
from sawlog.builder.freshness import UNTIL_CHANGE, is_outdated
from sawlog.builder.jsonvalue import quoted
from sawlog.compaction.bounds import FILES
from sawlog.compaction.calls import Call, paths_in
from sawlog.compaction.gone import Reading
from sawlog.compaction.wording import cut, whole
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import ChangedFile, SeenFile
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.events.world import FileChanged, FileObserved, ObservationRecorded, Saw
from sawlog.store.text import Text

REFS = 3
"""Events that a line cites at most: the newest."""

LONGEST_PATH = 1000

_VERSION = re.compile("[A-Za-z0-9._:+/=-]*")

_Known = dict[str, tuple[str, str]]


def changed_files(reading: Reading, done: list[Call]) -> tuple[ChangedFile, ...]:
    """The files that the work changed, the longest unchanged ones first.

    Those of the checkpoint before, paths in the arguments of `done` calls, files that changed or
    were seen to be another than before.
    """
    past = reading.past
    found: dict[str, list[EventId]] = {}
    known: _Known = {}
    if past.previous is not None:
        for old in past.previous.changed:
            path = reading.text(old.path)
            found[path] = list(old.refs)
            known[path] = (old.version, old.state)
        for seen in past.previous.files:
            known.setdefault(reading.text(seen.path), (seen.version, "present"))
    before = dict(known)
    by_result = {call.result.id: call for call in done}
    for event in reading.events:
        for path in _touched(reading, event, by_result, known):
            refs = found.pop(path, [])
            found[path] = [*(ref for ref in refs if ref != event.id), event.id][-REFS:]
    return tuple(
        _newest(reading, path, before.get(path, ("", "present")), refs)
        for path, refs in found.items()
    )


def _touched(reading: Reading, event: Event, done: dict[EventId, Call], known: _Known) -> list[str]:
    """The paths of which an event says that they changed. `known` learns what it saw of files."""
    content = event.content
    match content:
        case FileChanged():
            path = path_of(reading, content.path)
            if content.state == "unreadable":
                return []
            known[path] = (content.version, content.state)
            return [path]
        case FileObserved(of="") if content.state != "unreadable":
            path = path_of(reading, content.path)
            now = (content.version, content.state)
            then = known.get(path)
            known[path] = now
            return [path] if then is not None and _differ(then, now) else []
        case ToolFinished() | ObservationRecorded():
            for saw in content.saw:
                _learn(reading, saw, known)
            call = done.get(event.id)
            if call is None:
                return []
            asked = call.request
            named = paths_in(asked.kind, reading.text(asked.arguments))
            return [spelled(path) for path in named if path]
        case _:
            return []


def _differ(then: tuple[str, str], now: tuple[str, str]) -> bool:
    if then[1] != now[1]:
        return True
    return bool(then[0] and now[0]) and then[0] != now[0]


def _learn(reading: Reading, saw: Saw, known: _Known) -> None:
    if saw.version and saw.holds == UNTIL_CHANGE:
        known[path_of(reading, saw.path)] = (saw.version, "present")


def _newest(
    reading: Reading, path: str, before: tuple[str, str], refs: list[EventId]
) -> ChangedFile:
    """A changed file as the log knows it now; where it says nothing, as it was before."""
    file = reading.past.state.files.get(path)
    version, state = before
    if file is not None and file.seq:
        version, state = plain_version(file.version), "absent" if file.absent else "present"
    return ChangedFile(path, version, state, tuple(refs))


def read_files(reading: Reading) -> tuple[SeenFile, ...]:
    """The files whose text gives way or did before, newest first; none that is shown still."""
    past = reading.past
    sights = sorted(dict(past.state.sights.items()).items(), reverse=True)
    shown = {one.path for seq, some in sights if seq not in reading.seqs for one in some}
    found: dict[str, SeenFile] = {}
    for seq, some in sights:
        event = reading.event(seq) if seq in reading.seqs else None
        for one in some if event is not None else ():
            path = spelled(one.path)
            if one.path in shown or path in found or event is None:
                continue
            stale = is_outdated(past.state, (one,))
            found[path] = SeenFile(path, plain_version(one.version), event.id, stale)
    if past.previous is not None:
        changed = {
            path_of(reading, event.content.path)
            for event in past.events
            if isinstance(event.content, FileChanged)
        }
        for old in past.previous.files:
            path = reading.text(old.path)
            if path not in shown:
                found.setdefault(path, _older(reading, old, path, changed))
    return tuple(found.values())[:FILES]


def _older(reading: Reading, old: SeenFile, path: str, changed: set[str]) -> SeenFile:
    """A file of the checkpoint before, as fresh as it is now: one that changed back is right."""
    stale = old.stale or path in changed
    if old.version:
        stale = is_outdated(reading.past.state, (Sight(path, old.version, 0),))
    return SeenFile(path, old.version, old.ref, stale)


def path_of(reading: Reading, path: Text) -> str:
    """A path of an event as a checkpoint names it."""
    return spelled(reading.text(path))


def spelled(path: str) -> str:
    """A path without what no request can carry; one of more than 1,000 characters is cut."""
    return cut(whole(path), LONGEST_PATH)


def plain_version(version: str) -> str:
    """A version as it stands in a line: one that is no plain word is quoted."""
    return version if _VERSION.fullmatch(version) else quoted(version)

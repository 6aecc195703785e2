"""A session store of the Claude Agent SDK (extra `claude-agent-sdk`) that mirrors into the log.

    options = ClaudeAgentOptions(session_store=SawlogStore("agent.db"))

Each transcript is a session, `PROJECT/SESSION`, and each of its sub-agents one more. Entries come
out as they went in; in the log they are what `sawlog import` makes of the same transcript's file.
The store is what the SDK asks for and needs nothing of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, Required, TypedDict

from msgspec.structs import replace

from sawlog.adapters.place import Closing, Place, Store
from sawlog.builder.contents import text_of
from sawlog.builder.policy import AS_RECORDED
from sawlog.builder.profiles import profile_for
from sawlog.builder.projector import FOLD
from sawlog.builder.render import renderer_for
from sawlog.formats.base import ForeignEvent
from sawlog.formats.claude_notes import Notes
from sawlog.formats.claude_record import FORMAT
from sawlog.formats.claude_threads import Thread
from sawlog.formats.lines import Line
from sawlog.store.directory import SessionRow, source_name
from sawlog.store.envelope import UNKNOWN_TIME, Blob, NewEvent
from sawlog.store.errors import ConfigError, Conflict, NoSession, quoted
from sawlog.store.event import decoded
from sawlog.store.events.base import Payload
from sawlog.store.events.lifecycle import HistoryRewound1, SessionCreated
from sawlog.store.events.steps import PolicySet
from sawlog.store.ids import foreign_id
from sawlog.store.jsontext import source_of
from sawlog.store.log import Log
from sawlog.store.text import raw_bytes
from sawlog.work.window import Window

__all__ = ["SawlogStore"]

_API = "anthropic"
_HALVES = re.compile("[\ud800-\udfff]")
_SOURCE = f"adapter:{FORMAT}"
_OPENING = 2
"""Events in front of the first entry's: what the session is, and its policy."""


class Key(TypedDict):
    """Where a transcript belongs, as the SDK says it."""

    project_key: str
    session_id: str
    subpath: NotRequired[str]


class Entry(TypedDict, total=False):
    """One line of a transcript, as the SDK gives it; it may hold anything else beside these."""

    type: Required[str]
    uuid: str
    timestamp: str


class Listed(TypedDict):
    """A transcript of a project; `mtime` is in milliseconds since 1970."""

    session_id: str
    mtime: int


class _Mirror:
    """One transcript as it was read so far: its entries, and the reader that makes their events."""

    def __init__(self, key: Key) -> None:
        subpath = key.get("subpath", "")
        agent = subpath.rpartition("/")[2].removeprefix("agent-")
        self.parent = key["session_id"] if subpath else ""
        self.source_id = f"{self.parent}/{agent}" if subpath else key["session_id"]
        self.name = "/".join(filter(None, (key["project_key"], key["session_id"], subpath)))
        self.sources: list[str] = []
        self.uuids: set[str] = set()
        self.head = 0
        self._places: dict[bytes, int] = {}
        self._thread = Thread(self.source_id, "agent" if subpath else "main", Notes())

    def take(self, source: str) -> tuple[ForeignEvent, ...]:
        """Take in the next entry; gives its events."""
        at = len(self.sources)
        digest = hashlib.sha256(raw_bytes(source)).hexdigest()
        value: dict[str, Any] = json.loads(source)
        line = Line(position=at, number=at + 1, text=source, digest=digest, value=value)
        self.sources.append(source)
        if isinstance(value.get("uuid"), str):
            self.uuids.add(value["uuid"])
        return self._thread.add(line).events

    def read(self, log: Log, row: SessionRow) -> None:
        """Take in what the log holds by now."""
        window = Window(log, row)
        for stored in log.read(row, after=self.head):
            content = decoded(stored, log.registry).content
            self._places[stored.id] = self.head = stored.seq
            if stored.seq == 1 and getattr(content, "format", "") != FORMAT:
                raise ConfigError(f"the session {quoted(self.name)} is no transcript of Claude's")
            record = content.record if isinstance(content, Payload) else None
            if record is not None and record.position == len(self.sources):
                self.take(text_of(record.line, window))
            elif record is None and log.registry.shown(stored.type, stored.version):
                raise ConfigError(
                    f"event {stored.seq} of the session {quoted(self.name)} was said past the SDK, "
                    "which would not know of it: fork the session and go on there"
                )

    def news(self, sources: Sequence[str]) -> list[NewEvent]:
        """The events of the entries that are not known by their uuid."""
        batch = [] if self.head else _opening(self)
        begun = len(batch)
        for source in sources:
            uuid = json.loads(source).get("uuid")
            if isinstance(uuid, str) and uuid in self.uuids:
                continue
            for event in self.take(source):
                self._places[event.id] = self.head + len(batch) + 1
                batch.append(_new_event(event, self._places))
        return batch if len(batch) > begun else []


class SawlogStore(Closing):
    """Transcripts of the SDK in an open log, or in the one at a place.

    An entry whose uuid is known already is passed over, as the SDK wants it when it tries again.
    The store has no `delete`: nothing is deleted from a log.
    """

    def __init__(self, store: Store, *, tenant: str = "default") -> None:
        self._place = Place(store, tenant)
        self._mirrors: dict[str, _Mirror] = {}

    # --- the SDK's protocol -----------------------------------------------------------------------

    async def append(self, key: Key, entries: Sequence[Entry]) -> None:
        """Mirror a batch of entries: all of them are in the log when this returns, or none."""
        sources = [_source(entry, f"entries[{at}]") for at, entry in enumerate(entries)]
        await self._place.run(self._append, key, sources)

    async def load(self, key: Key) -> list[Entry] | None:
        """The entries of a transcript; None when there is none."""
        sources = await self._place.run(self._load, key)
        return [json.loads(source) for source in sources] or None

    async def list_sessions(self, project_key: str) -> list[Listed]:
        """The transcripts of a project, without those of sub-agents."""
        return await self._place.run(self._list, project_key)

    async def list_subkeys(self, key: Key) -> list[str]:
        """The subpaths of a transcript's sub-agents."""
        prefix = f"{key['project_key']}/{key['session_id']}/"
        return [name for name, _ in await self._place.run(self._below, prefix)]

    # --- life -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the log, if it was opened here."""
        self._place.close()

    # --- underneath: what blocks ------------------------------------------------------------------

    def _append(self, key: Key, sources: Sequence[str]) -> None:
        log = self._place.log.store
        while sources:
            mirror = self._mirror(key)
            source_id = source_name(FORMAT, mirror.source_id)
            row = log.session(mirror.name, create=True, source_id=source_id)
            try:
                mirror.read(log, row)
                batch = mirror.news(sources)
                if batch:
                    done = log.append(row, batch, expected_seq=mirror.head)
                    mirror.head = done.head
                return
            except Conflict:
                # Another process was quicker: what it wrote comes first.
                del self._mirrors[mirror.name]
            except BaseException:
                # What was taken in may not be in the log: it is read anew.
                del self._mirrors[mirror.name]
                raise

    def _mirror(self, key: Key) -> _Mirror:
        mirror = _Mirror(key)
        return self._mirrors.setdefault(mirror.name, mirror)

    def _load(self, key: Key) -> list[str]:
        log = self._place.log.store
        mirror = self._mirror(key)
        try:
            mirror.read(log, log.session(mirror.name))
        except NoSession:
            return []
        return list(mirror.sources)

    def _list(self, project_key: str) -> list[Listed]:
        below = self._below(f"{project_key}/")
        # What has a slash left is a sub-agent's.
        return [
            {"session_id": name, "mtime": self._written(row)}
            for name, row in below
            if "/" not in name
        ]

    def _below(self, prefix: str) -> list[tuple[str, SessionRow]]:
        """The sessions whose names begin so and that hold an entry, by the rest of their names."""
        return [
            (row.name.removeprefix(prefix), row)
            for row in self._place.log.sessions()
            if row.name and row.name.startswith(prefix) and row.head > _OPENING
        ]

    def _written(self, row: SessionRow) -> int:
        log = self._place.log.store
        [newest] = log.read(row, after=row.head - 1, upto=row.head)
        return newest.recorded_at // 1000


def _source(entry: Entry, path: str) -> str:
    """An entry as the SDK's own program writes it to a file: half of a pair is escaped."""
    return _HALVES.sub(lambda found: f"\\u{ord(found[0]):04x}", source_of(entry, path))


def _opening(mirror: _Mirror) -> list[NewEvent]:
    """The first two events, as an import of the transcript begins."""
    profile, _ = profile_for(_API, "")
    created = SessionCreated(
        name=mirror.name, format=FORMAT, source_id=mirror.source_id, parent=mirror.parent
    )
    policy = PolicySet(
        policy=AS_RECORDED, fold=FOLD, profile=profile.named, renderer=renderer_for(_API)
    )
    return [
        NewEvent(
            payload=payload,
            source=_SOURCE,
            id=foreign_id(mirror.source_id, "session", part),
            occurred_at=UNKNOWN_TIME,
        )
        for payload, part in ((created, "created"), (policy, "policy"))
    ]


def _new_event(event: ForeignEvent, places: Mapping[bytes, int]) -> NewEvent:
    payload = event.payload
    if event.rewind_to is not None and isinstance(payload, HistoryRewound1):
        # Behind the session's own first events, when the whole transcript is rewound.
        payload = replace(payload, to=places[event.rewind_to] if event.rewind_to else _OPENING)
    return NewEvent(
        payload=payload,
        source=_SOURCE,
        step=event.step,
        id=event.id,
        occurred_at=event.occurred_at,
        ignorable=event.ignorable,
        blobs=tuple(
            Blob(hashlib.sha256(data).digest(), data, media) for data, media in event.blobs
        ),
    )

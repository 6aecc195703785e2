"""The family of a session: its forks, the children it started, where its history was taken back.

Read from the directory and the sessions' own events, payloads of a few types alone.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sawlog.audit.recorded import Recorded
from sawlog.builder.contents import text_of
from sawlog.store.directory import SessionRow
from sawlog.store.event import Event, decoded
from sawlog.store.events.compaction import CompactionCompleted
from sawlog.store.events.lifecycle import HistoryRewound, SessionCreated
from sawlog.store.ids import keyed_id
from sawlog.store.lease import is_live
from sawlog.store.log import Log
from sawlog.store.text import BlobMissing

_MARKS = ("history.rewound", "compaction.completed")


class Mark(msgspec.Struct, frozen=True):
    """An event that changed what a session's history holds: `rewound` or `compacted`.

    `step` is the newest step before it; of a rewind `to` is where it went back to and `calls` and
    `files` count what it could not undo.
    """

    kind: str
    seq: int
    step: int
    to: int = 0
    reason: str = ""
    calls: int = 0
    files: int = 0


class Branch(msgspec.Struct, frozen=True):
    """A session of a family, and what left it.

    `kind` is `root`, `fork`, `child` (its own log) or `heir` (a child that is a fork, too). A fork
    shares its parent's events up to `at`, of which `shared` is the newest step. `owner` drives it
    now, if anybody does.
    """

    session: str
    name: str
    kind: str
    head: int
    step: int
    at: int = 0
    shared: int = 0
    owner: str = ""
    marks: tuple[Mark, ...] = ()
    branches: tuple[Branch, ...] = ()


def family(
    log: Log, row: SessionRow, progress: Callable[[int, int], None] = lambda done, all: None
) -> Branch:
    """The whole family that a session belongs to, from the session that it began with.

    `progress` is called with sessions done and in all. Raises NoSession, Damaged.
    """
    return _Family(log).tree(row, progress)


class _Family:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._rows = {row.sid: row for row in log.sessions()}
        self._parents: dict[int, int] = {}
        self._kinds: dict[int, str] = {}
        by_name = {row.id.hex(): row.sid for row in self._rows.values()}
        by_name |= {row.source_id: row.sid for row in self._rows.values() if row.source_id}
        for row in self._rows.values():
            if row.parent in self._rows:
                self._parents[row.sid] = row.parent
                self._kinds[row.sid] = "heir" if self._is_heir(row) else "fork"
            elif row.parent is None and (parent := by_name.get(self._started_by(row))):
                if parent != row.sid:
                    self._parents[row.sid] = parent
                    self._kinds[row.sid] = "child"

    def tree(self, row: SessionRow, progress: Callable[[int, int], None]) -> Branch:
        """The tree from the oldest ancestor of a session on."""
        top = row.sid
        seen = {top}
        while self._parents.get(top) not in (None, *seen):
            top = self._parents[top]
            seen.add(top)
        children: dict[int, list[int]] = {}
        for sid, parent in self._parents.items():
            children.setdefault(parent, []).append(sid)
        order = [top]
        for sid in order:  # it grows: each session's own come behind it
            order.extend(one for one in children.get(sid, ()) if one not in order)
        made: dict[int, Branch] = {}
        for done, sid in enumerate(reversed(order), 1):
            below = [made[one] for one in children.get(sid, ()) if one in made]
            made[sid] = self._branch(self._rows[sid], below)
            progress(done, len(order))
        return made[top]

    def _branch(self, row: SessionRow, below: list[Branch]) -> Branch:
        session = Recorded(self._log, row)
        marks: list[Mark] = []
        step = shared = Recorded(self._log, _upto(row)).last_step() if row.ancestors else 0
        for stored in self._log.read(row, after=row.base):
            step = max(step, stored.step)
            if stored.type in _MARKS:
                mark = _mark(decoded(stored, self._log.registry), step, session)
                if mark is not None:
                    marks.append(mark)
        return Branch(
            session=row.id.hex(),
            name=row.name or "",
            kind=self._kinds.get(row.sid, "root"),
            head=row.head,
            step=step,
            at=row.base,
            shared=shared,
            owner=(row.owner or "") if is_live(row, self._log.clock()) else "",
            marks=tuple(marks),
            branches=tuple(sorted(below, key=lambda one: one.at or row.head + 1)),
        )

    def _started_by(self, row: SessionRow) -> str:
        for stored in self._log.read(row, upto=1):
            content = self._log.registry.decode(stored)
            if isinstance(content, SessionCreated) and isinstance(content.parent, str):
                return content.parent
        return ""

    def _is_heir(self, row: SessionRow) -> bool:
        """True of a fork that was given a task by its parent."""
        key = keyed_id(f"child.task {row.id.hex()}")
        return self._log.by_event_id(row, key) is not None


def _upto(row: SessionRow) -> SessionRow:
    return msgspec.structs.replace(row, head=row.base)


def _mark(event: Event, step: int, session: Recorded) -> Mark | None:
    content = event.content
    if isinstance(content, HistoryRewound):
        try:
            reason = text_of(content.reason, session.window)
        except BlobMissing:
            reason = ""
        return Mark(
            "rewound", event.seq, step, content.to, reason, len(content.calls), len(content.files)
        )
    if isinstance(content, CompactionCompleted):
        return Mark("compacted", event.seq, step)
    return None

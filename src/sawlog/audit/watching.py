"""Changes of the workspace's files, told to a session by a process that does not drive it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sawlog.agentlog import AgentLog
from sawlog.audit.recorded import Recorded
from sawlog.audit.staleness import believed_files
from sawlog.builder.projector import fold_all
from sawlog.builder.state import State
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import OutsideRoot
from sawlog.store.events.world import FileChanged
from sawlog.workspace.comparing import changes, concerned


class Watcher:
    """Looks at the files that a session's packets show and appends what changed of them.

    `file.changed` is an open type: it needs no lease, so the session may be driven meanwhile.
    """

    def __init__(self, log: AgentLog, session: str, root: str | os.PathLike[str]) -> None:
        """Raises NoSession when there is none of that name."""
        self._log = log
        self._row = log.find(session)
        self._root = root
        self._state = State()
        self._unreadable: frozenset[str] = frozenset()
        self.outside: list[str] = []
        """Paths that lead out of the root and are not looked at."""

    @property
    def name(self) -> str:
        """The session's name, or its id."""
        return self._row.name or self._row.id.hex()

    def look(self, paths: Sequence[str] = ("",)) -> list[FileChanged]:
        """Append a change for each file at or below these paths that is not as the log has it.

        Paths are as `workspace.watch` gives them; `""` is the root itself, and so every file.
        What is recorded already, or is as it was read, appends nothing; that a file cannot be read
        is said once. Raises ConfigError when the root is no directory.
        """
        self._catch_up()
        believed = concerned(believed_files(self._state), paths, self._root)
        refused: list[OutsideRoot] = []
        found = changes(believed, self._root, refused=refused)
        self.outside = sorted({*self.outside, *(one.path for one in refused)})
        before = self._unreadable
        now = {str(one.path) for one in found if one.state == "unreadable"}
        self._unreadable = (before - set(believed)) | now
        news = [one for one in found if one.state != "unreadable" or str(one.path) not in before]
        if news:
            events = [NewEvent(payload=change, source="watch") for change in news]
            self._log.store.append(self._row, events)
        return news

    def _catch_up(self) -> None:
        """Fold what was appended since the last look."""
        row = self._log.find(self._row.id.hex())
        session = Recorded(self._log.store, row)
        self._state = fold_all(self._state, session.events(self._state.seq))

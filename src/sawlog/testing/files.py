"""Recordings in files, for a test: replayed, or recorded anew from what the test really asks.

A file is an export of a session. A test that holds several conversations has a file for each, the
first under the name that the test gives, the others beside it: x.jsonl, x.2.jsonl and so on.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from sawlog.recorder.context import Taking
from sawlog.recorder.conversations import Conversations
from sawlog.recorder.watching import ANSWERING, RECORDING
from sawlog.store.directory import SessionRow
from sawlog.store.errors import ConfigError
from sawlog.store.exchange import export
from sawlog.testing.answering import end
from sawlog.testing.playing import Player
from sawlog.testing.recordings import beside, exported, recording_of
from sawlog.testing.transport import Answering

_UPDATE = "run pytest with --sawlog-update"


class Replays:
    """The recordings that one test replays, or records when it is to `update` them.

    `folder` is where relative names are looked for. `told` are lines for whoever runs the tests.
    """

    def __init__(self, folder: Path, *, update: bool = False) -> None:
        self.told: list[str] = []
        self._folder = folder
        self._update = update
        self._begun: dict[Path, _Replayed | _Updated] = {}

    def __call__(self, file: str | os.PathLike[str], *, ignore: Collection[str] = ()) -> Replay:
        """Begin to replay a file; it ends with the block that this heads, or with the test.

        Raises ConfigError where it is not there, or begun already; what a recording raises.
        """
        __tracebackhide__ = True  # the message is for the test's author
        path = self._folder / file
        if path in self._begun:
            raise ConfigError(f"{path}: this test replays it already; give each replay its file")
        if self._update:
            begun: Replay = _Updated(path, self.told)
        else:
            if not path.is_file():
                raise ConfigError(
                    f"{path}: there is no such recording; {_UPDATE} once, with the real provider, "
                    "to record it"
                )
            begun = _Replayed(path, ignore)
        self._begun[path] = begun
        return begun

    def close(self, *, failed: bool) -> None:
        """End what is still replayed, all of it. Raises as the first of them does."""
        with ExitStack() as stack:
            for one in self._begun.values():
                stack.callback(one.end, failed=failed)


class _Replayed:
    """A file that answers. A context manager."""

    def __init__(self, path: Path, ignore: Collection[str]) -> None:
        mend = f"if that is meant, {_UPDATE} to record it anew"
        self._player = Player(recording_of(path), ignore=ignore, mend=mend)
        self._answering = Answering(self._player)
        self._over = False
        ANSWERING.begin(self._answering)

    def __enter__(self) -> _Replayed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        if error is not None:
            end(self._player, error)
        else:
            self._player.finish()

    def end(self, *, failed: bool) -> None:
        """End it with the test; what `failed` says it all already."""
        if self._over:
            return
        self._stop()
        if not failed:
            self._player.finish()

    def _stop(self) -> None:
        self._over = True
        ANSWERING.end(self._answering)
        self._player.close()


class _Updated:
    """A file that is recorded anew. A context manager."""

    def __init__(self, path: Path, told: list[str]) -> None:
        self._path = path
        self._told = told
        self._over = False
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sawlog-"))
            self._log = stack.enter_context(open_log(str(Path(folder) / "update.db")))
            session = stack.enter_context(self._log.session(path.stem))
            self._conversations = Conversations(session)
            self._taking = Taking(self._conversations.sent)
            RECORDING.begin(self._taking)
            self._leases = stack.pop_all()

    def __enter__(self) -> _Updated:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(failed=error is not None)

    def end(self, *, failed: bool) -> None:
        """End the recording and write it; of a test that `failed` the file stays as it was."""
        if self._over:
            return
        self._over = True
        with self._leases:
            RECORDING.end(self._taking)
            self._conversations.close()
            if failed:
                self._told.append(f"not recorded, for the test did not pass: {self._path}")
            else:
                self._written()

    def _written(self) -> None:
        rows = [row for row in self._log.sessions() if row.head]
        if not rows:
            raise ConfigError(
                f"{self._path}: the test asked no model while it was replayed, so there is nothing "
                "to record"
            )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for number, row in enumerate(rows, 1):
            path = beside(self._path, number)
            write(path, self._log, row)
            self._told.append(f"recorded: {path}")
        number = len(rows) + 1
        while (old := beside(self._path, number)).is_file() and exported(old):
            old.unlink()
            self._told.append(f"removed, for there is no such conversation now: {old}")
            number += 1


Replay = _Replayed | _Updated


def write(path: Path, log: AgentLog, session: SessionRow) -> None:
    """Write the export of a session, whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            for line in export(log.store, session):
                file.write(line)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

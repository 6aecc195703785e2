"""The library eventsourcing by its bare SQLite recorder; messages by the floor's projector."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.floors import decode, encode, messages
from benchmarks.workload import Part, Steps

PACKAGES = ("eventsourcing",)
_ID = uuid.UUID(int=1)


class Driver:
    """One sequence of stored events."""

    seeds_history = True

    async def open(self, folder: str) -> None:
        """Open the recorder; it makes its table once."""
        self._stored: Any = import_module("eventsourcing.persistence").StoredEvent
        sqlite: Any = import_module("eventsourcing.sqlite")
        self._datastore: Any = sqlite.SQLiteDatastore(str(Path(folder) / "store.db"))
        self._recorder: Any = sqlite.SQLiteApplicationRecorder(self._datastore)
        self._recorder.create_table()
        last: Any = self._recorder.select_events(_ID, desc=True, limit=1)
        self._version: int = last[0].originator_version if last else 0

    async def close(self) -> None:
        """Close it."""
        self._datastore.close()

    def units(self, step: Sequence[Part]) -> list[Part]:
        """A part is an event."""
        return list(step)

    async def append(self, unit: Part) -> None:
        """One event."""
        await self.batch([unit])

    async def batch(self, units: list[Part]) -> None:
        """The step's events in one insert."""
        self._recorder.insert_events([self._event(part) for part in units])

    async def seed(self, steps: Steps) -> None:
        """All events in one insert."""
        await self.batch([part for step in steps for part in step])

    async def load(self) -> list[Part]:
        """All events, as messages."""
        return messages([decode(one.state) for one in self._recorder.select_events(_ID)])

    async def rebuild(self) -> list[Part]:
        """The same: a recorder keeps nothing."""
        return await self.load()

    def _event(self, part: Part) -> Any:
        self._version += 1
        return self._stored(
            originator_id=_ID,
            originator_version=self._version,
            topic="part",
            state=encode(part),
        )

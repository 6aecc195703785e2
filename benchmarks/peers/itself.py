"""sawlog as a driver among the others. Alone of them it logs each packet that it builds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import sawlog
from benchmarks.driving import MODEL, SESSION, WINDOW, record
from benchmarks.events import API, event_of
from benchmarks.workload import Part, Steps
from sawlog.store.envelope import NewEvent

PACKAGES = ("sawlog",)


class Driver:
    """A session that is entered when its packets are asked for."""

    seeds_history = True

    async def open(self, folder: str) -> None:
        """Open the store."""
        self._log = sawlog.open(str(Path(folder) / "store.db"))
        self._row = self._log.store.session(SESSION, create=True)
        self._session: sawlog.Session | None = None

    async def close(self) -> None:
        """Leave the session and close the store."""
        if self._session is not None:
            self._session.release()
        self._log.close()

    def units(self, step: Sequence[Part]) -> list[NewEvent]:
        """A part is an event."""
        return [event_of(part) for part in step]

    async def append(self, unit: NewEvent) -> None:
        """One event."""
        self._log.store.append(self._row, (unit,))

    async def batch(self, units: list[NewEvent]) -> None:
        """The step's events in one append."""
        self._log.store.append(self._row, units)

    async def seed(self, steps: Steps) -> None:
        """Whole steps with their packets, as an agent records them."""
        record(self._log, steps)

    async def load(self) -> int:
        """The state ready, with the lease."""
        self._session = self._log.session(SESSION, window=WINDOW)
        self._session.acquire()
        return self._session.state.seq

    async def rebuild(self) -> object:
        """The next packet, built and in the log, durable."""
        if self._session is None:
            await self.load()
        assert self._session is not None
        self._session.user("go on")
        return self._session.step(API, model=MODEL)

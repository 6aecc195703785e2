"""The floor F as a driver: bare `sqlite3`, and the floor's own projector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.floors import SqliteFloor
from benchmarks.workload import Part, Steps

PACKAGES = ()


class Driver:
    """One table."""

    seeds_history = True

    async def open(self, folder: str) -> None:
        """Open the file."""
        self._floor = SqliteFloor(str(Path(folder) / "store.db"))

    async def close(self) -> None:
        """Close it."""
        self._floor.close()

    def units(self, step: Sequence[Part]) -> list[Part]:
        """A part is a row."""
        return list(step)

    async def append(self, unit: Part) -> None:
        """A row in a transaction."""
        self._floor.append(unit)

    async def batch(self, units: list[Part]) -> None:
        """Rows in a transaction."""
        self._floor.batch(units)

    async def seed(self, steps: Steps) -> None:
        """All rows in a transaction."""
        self._floor.batch(part for step in steps for part in step)

    async def load(self) -> list[Part]:
        """All rows, as messages."""
        return self._floor.messages()

    async def rebuild(self) -> list[Part]:
        """The same: nothing is kept."""
        return self._floor.messages()

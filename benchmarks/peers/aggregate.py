"""The library eventsourcing as its users have it: an application and an aggregate in memory."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.floors import messages
from benchmarks.workload import Part, Steps

PACKAGES = ("eventsourcing",)
_ID = uuid.UUID(int=2)


class Driver:
    """One aggregate whose events are parts; its warm messages are a walk through its list."""

    seeds_history = True

    async def open(self, folder: str) -> None:
        """Open the application; `load` or the first append gets the aggregate."""
        application: Any = import_module("eventsourcing.application")
        self._not_found: Any = application.AggregateNotFoundError
        self._app: Any = application.Application(
            env={
                "PERSISTENCE_MODULE": "eventsourcing.sqlite",
                "SQLITE_DBNAME": str(Path(folder) / "store.db"),
            }
        )
        self._aggregate: Any = None

    async def close(self) -> None:
        """Close it."""
        self._app.close()

    def units(self, step: Sequence[Part]) -> list[Part]:
        """A part is an event."""
        return list(step)

    async def append(self, unit: Part) -> None:
        """One event, saved."""
        await self.batch([unit])

    async def batch(self, units: list[Part]) -> None:
        """The step's events, saved at once."""
        aggregate = self._got()
        for part in units:
            aggregate.add(part)
        self._app.save(aggregate)

    async def seed(self, steps: Steps) -> None:
        """All events, saved at once."""
        await self.batch([part for step in steps for part in step])

    async def load(self) -> list[Part]:
        """The aggregate from all its events, as messages."""
        self._aggregate = self._app.repository.get(_ID)
        return messages(self._aggregate.parts)

    async def rebuild(self) -> list[Part]:
        """The messages of the aggregate that is in memory."""
        return messages(self._got().parts)

    def _got(self) -> Any:
        if self._aggregate is None:
            kind = _session()
            try:
                self._aggregate = self._app.repository.get(_ID)
            except self._not_found:
                self._aggregate = kind()
        return self._aggregate


def _session() -> Any:
    """The aggregate's class: made when the library is there, and found by name in this module."""
    name = "Session"
    if name not in globals():
        domain: Any = import_module("eventsourcing.domain")

        def added(self: Any, part: Part) -> None:
            self.parts.append(part)

        def begun(self: Any) -> None:
            self.parts = []

        added.__qualname__, begun.__qualname__ = f"{name}.add", f"{name}.__init__"
        body: dict[str, Any] = {
            "__module__": __name__,
            "__qualname__": name,
            "__annotations__": {},
            "__init__": begun,
            "create_id": staticmethod(lambda: _ID),
            "add": domain.event("Added")(added),
        }
        made = type(domain.Aggregate)(name, (domain.Aggregate,), body)
        globals()[name] = made
    return globals()[name]

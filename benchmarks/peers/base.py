"""What a driver of a library gives, and which drivers there are."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from benchmarks.workload import Part, Steps


class Peer(Protocol):
    """One session of a library in a folder. All may wait, for most of these libraries do.

    A `unit` is what the library's users write as one durable append: a part, or more of a step.
    """

    seeds_history: bool
    """False when what `seed` makes is smaller than what the same steps make one by one."""

    async def open(self, folder: str) -> None:
        """Open the session there; new or with what it holds."""
        ...

    async def close(self) -> None:
        """Close what was opened."""
        ...

    def units(self, step: Sequence[Part]) -> list[Any]:
        """The step as units."""
        ...

    async def append(self, unit: Any) -> None:
        """One unit, durable."""
        ...

    async def batch(self, units: list[Any]) -> None:
        """The units of a step as one append, where the library has such; else one by one."""
        ...

    async def seed(self, steps: Steps) -> None:
        """Fill a new session with these steps, as fast as the library allows."""
        ...

    async def load(self) -> object:
        """The session's messages, after `open`: what a resume needs before it can go on."""
        ...

    async def rebuild(self) -> object:
        """What the library does in front of each call of the model, in a warm process."""
        ...


class Known(Protocol):
    """A driver's module: the peer, and the packages that it needs."""

    Driver: type[Peer]
    PACKAGES: tuple[str, ...]


DRIVERS = {
    "floor": "benchmarks.peers.floor",
    "sawlog": "benchmarks.peers.itself",
    "openai-agents SQLiteSession": "benchmarks.peers.openai_agents",
    "eventsourcing recorder": "benchmarks.peers.recorder",
    "eventsourcing aggregate": "benchmarks.peers.aggregate",
    "langgraph": "benchmarks.peers.langgraph",
    "langgraph delta channel": "benchmarks.peers.langgraph_delta",
    "google-adk DatabaseSession": "benchmarks.peers.adk",
}
"""Name of a driver, and its module. The first is the floor that ratios are against."""


def driver(name: str) -> Known:
    """The driver's module; it imports its library only when the session is opened."""
    module: Any = import_module(DRIVERS[name])
    known: Known = module
    return known


def missing(name: str) -> list[str]:
    """The packages of that driver that are not installed."""
    from importlib.metadata import PackageNotFoundError, version

    found: list[str] = []
    for package in driver(name).PACKAGES:
        try:
            version(package)
        except PackageNotFoundError:
            found.append(package)
    return found

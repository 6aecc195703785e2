"""What a results file says of the machine: enough to compare, nothing personal, no path."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LIBRARIES = ("sawlog", "sqlalchemy", "msgspec", "psycopg", "zstandard")
_DISK = 15.0
"""Microseconds below which nothing can have reached a disk."""


def facts(folder: Path) -> dict[str, str | float]:
    """Cores, versions, and how long the disk below `folder` takes to hold a part, in µs."""
    found: dict[str, str | float] = {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0,
        "system": platform.system(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {"fdatasync_us": round(_fdatasync(folder) * 1e6, 1)}


def is_memory(found: dict[str, str | float]) -> bool:
    """True when these facts are of a folder that no disk is behind."""
    return float(found["fdatasync_us"]) < _DISK


def _fdatasync(folder: Path, times: int = 200) -> float:
    """The median seconds of an appended 2 KB and its way to the disk."""
    data = os.urandom(2200)
    took: list[float] = []
    with (folder / "fdatasync").open("ab", buffering=0) as file:
        for _ in range(times):
            began = time.perf_counter()
            file.write(data)
            # Not every system has the cheaper call.
            getattr(os, "fdatasync", os.fsync)(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took)

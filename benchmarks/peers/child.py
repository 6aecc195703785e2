"""Measures one driver in a process of its own and prints what it found as one line of JSON.

python -m benchmarks.peers.child NAME STEPS SECONDS
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from benchmarks.peers.base import Peer, driver
from benchmarks.workload import Steps, json_bytes, load

_TURNS = 5


class Found(msgspec.Struct, frozen=True):
    """Parts a second one by one; ms for a step's batch, for the messages, for a resume; bytes on
    disk to JSON, of so many steps. Of `steps` asked for `done` were appended in the time.
    """

    parts: float
    batch: float
    rebuild: float
    resume: float
    bytes: float
    bytes_of: int
    done: int
    steps: int


async def measure(name: str, steps: Steps, seconds: float) -> Found:
    """Append until the steps or the seconds are over; then read a session that holds all steps."""
    make = driver(name).Driver
    with tempfile.TemporaryDirectory() as folder:
        one, many, full = (str(Path(folder) / kind) for kind in ("one", "many", "full"))
        for kind in (one, many, full):
            os.mkdir(kind)
        took, done = await _appended(make(), one, steps, seconds, single=True)
        parts = sum(len(step) for step in steps[:done])
        batch, batches = await _appended(make(), many, steps, seconds / 2, single=False)

        peer = make()
        await peer.open(full)
        await peer.seed(steps)
        await peer.close()
        kept, of = (full, steps) if peer.seeds_history else (one, steps[:done])
        size = _bytes(kept) / json_bytes(of)

        resumed: list[float] = []
        for _ in range(_TURNS):
            peer = make()
            began = time.perf_counter()
            await peer.open(full)
            await peer.load()
            resumed.append(time.perf_counter() - began)
            await peer.close()
        peer = make()
        await peer.open(full)
        await peer.load()
        rebuilt = [await _timed(peer.rebuild) for _ in range(_TURNS)]
        await peer.close()
    return Found(
        parts=parts / took,
        batch=1e3 * batch / batches,
        rebuild=1e3 * sorted(rebuilt)[_TURNS // 2],
        resume=1e3 * sorted(resumed)[_TURNS // 2],
        bytes=size,
        bytes_of=len(of),
        done=done,
        steps=len(steps),
    )


async def _appended(
    peer: Peer, folder: str, steps: Steps, seconds: float, *, single: bool
) -> tuple[float, int]:
    """Seconds, and steps that were appended within about `seconds`."""
    await peer.open(folder)
    took, done = 0.0, 0
    for step in steps:
        units = peer.units(step)  # an agent has them anyway
        began = time.perf_counter()
        if single:
            for unit in units:
                await peer.append(unit)
        else:
            await peer.batch(units)
        took += time.perf_counter() - began
        done += 1
        if took > seconds:
            break
    await peer.close()
    return took, done


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def _bytes(folder: str) -> int:
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


def main() -> None:
    """Measure what the arguments name."""
    name, steps, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    found = asyncio.run(measure(name, load(steps), seconds))
    sys.stdout.write(f"{msgspec.json.encode(found).decode()}\n")
    sys.stdout.flush()
    os._exit(0)  # some of these libraries leave threads behind


if __name__ == "__main__":
    main()

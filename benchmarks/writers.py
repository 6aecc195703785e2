"""Rows 11 and 12 of the cost table: eight writer processes, eight sessions, one database.

    python benchmarks/writers.py WORKLOAD [--postgres URL]

Without a URL: one SQLite file against a bare `sqlite3` table. With one: PostgreSQL against bare
psycopg, one part per transaction by one writer and by eight. WORKLOAD as in `rows.py`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from rows import Part, encode, event_of, load

import sawlog

WRITERS = 8
Append = Callable[[Part], None]


def sqlite_floor(path: str, name: str) -> Append:
    """One bare INSERT per transaction, WAL, FULL."""
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE IF NOT EXISTS ev(sid TEXT, step INTEGER, body BLOB)")
    insert = "INSERT INTO ev VALUES(?, ?, ?)"
    return lambda part: void(db.execute(insert, (name, part["step"], encode(part))))


def postgres_floor(url: str, name: str) -> Append:
    """One bare INSERT per transaction."""
    import psycopg

    db = psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True)
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(7)")
        db.execute(
            "CREATE TABLE IF NOT EXISTS bare(sid text, seq bigint, step int, body bytea, "
            "PRIMARY KEY (sid, seq))"
        )
    seq = iter(range(10**9))
    insert = "INSERT INTO bare VALUES(%s, %s, %s, %b)"
    return lambda part: void(
        db.execute(insert, (name, next(seq), part["step"], encode(part)), prepare=True)
    )


def with_sawlog(target: str, name: str) -> Append:
    """One append per part, into a session of its own."""
    log = sawlog.open(target)
    row = log.store.session(name, create=True)
    return lambda part: void(log.store.append(row, (event_of(part, part["step"] + 1),)))


def void(_: object) -> None:
    """Nothing."""


def write(
    opened: Callable[[str, str], Append],
    target: str,
    name: str,
    parts: list[Part],
    start: Barrier,
    seconds: float,
    out: Any,
) -> None:
    """One writer: appends until the time is over, and says how many, and how long each took."""
    append = opened(target, name)
    took: list[float] = []
    start.wait()
    begun = last = time.perf_counter()
    at = 0
    while last - begun < seconds:
        append(parts[at % len(parts)])
        at += 1
        now = time.perf_counter()
        took.append(now - last)
        last = now
    out.put((len(took) / (last - begun), took))


def together(
    opened: Callable[[str, str], Append], target: str, parts: list[Part], writers: int
) -> tuple[float, float, float, float]:
    """Parts a second of all writers; slowest by fastest; the 99th percentile and the worst, ms."""
    context = multiprocessing.get_context("spawn")
    start, out = context.Barrier(writers), context.Queue()
    opened(target, "the schema")
    running = [
        context.Process(
            target=write, args=(opened, target, f"w{n}-{time.time_ns()}", parts, start, 4.0, out)
        )
        for n in range(writers)
    ]
    for one in running:
        one.start()
    found = [out.get() for _ in running]
    for one in running:
        one.join()
    rates = [rate for rate, _ in found]
    waits = sorted(wait for _, took in found for wait in took)
    p99 = waits[int(len(waits) * 0.99)]
    return sum(rates), min(rates) / max(rates), 1e3 * p99, 1e3 * waits[-1]


def compared(row: str, floor: Any, bare: str, target: str, parts: list[Part], n: int) -> None:
    """Floor and sawlog by turns, three times; prints the medians and the spread of the ratio."""
    runs = [
        (together(floor, bare, parts, n), together(with_sawlog, target, parts, n)) for _ in range(3)
    ]
    ratios = sorted(ours[0] / theirs[0] for theirs, ours in runs)
    theirs, ours = (statistics.median(run[side][0] for run in runs) for side in (0, 1))
    fair = min(run[1][1] for run in runs)
    p99, worst = (max(run[1][at] for run in runs) for at in (2, 3))
    print(
        f"{row} {n} writers: floor {theirs:,.0f}/s, sawlog {ours:,.0f}/s: {ratios[1]:.2f} "
        f"({ratios[0]:.2f}-{ratios[2]:.2f}); slowest/fastest {fair:.2f}, p99 {p99:.1f} ms, "
        f"worst {worst:.0f} ms"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--postgres")
    given = parser.parse_args()
    parts = [part for step in load(given.workload, 400) for part in step]
    if given.postgres:
        for n in (1, WRITERS):
            compared("12", postgres_floor, given.postgres, given.postgres, parts, n)
        return
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        compared("11", sqlite_floor, f"{folder}/bare.db", f"{folder}/sawlog.db", parts, WRITERS)


if __name__ == "__main__":
    main()

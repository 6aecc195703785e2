"""Rows 8 and 9: bytes on disk, with the manifests and digests of all packets, against JSON."""

from __future__ import annotations

from benchmarks.driving import record
from benchmarks.measuring import Run, say
from benchmarks.places import SqlitePlace, opened
from benchmarks.results import Line
from benchmarks.workload import BASE, REPEAT, json_bytes, load

_ROWS = (
    ("8", BASE, "bytes on disk to JSON", 0.50, 0.36),
    ("9", REPEAT, "the same, each result 20 times", 0.18, 0.10),
)


def measure(run: Run, place: SqlitePlace) -> list[Line]:
    """One round: the same bytes go in at each, and sizes vary by pages at most."""
    lines: list[Line] = []
    size = 20 if run.quick else 1000
    for row, variant, what, written, repacked in _ROWS:
        if not run.wants(row):
            continue
        steps = load(size, variant)
        whole = json_bytes(steps)
        tag = f"bytes-{variant}"
        name = place.name(tag)
        say(f"sqlite: bytes of {size:,} steps, {variant}")
        with opened(place, tag) as log:
            record(log, steps, name=name)
        kept = place.bytes_of(tag)
        with opened(place, tag) as log:
            log.repack(name, shrink=True)
        for after, size_then, target in (
            ("as written", kept, written),
            ("repacked", place.bytes_of(tag), repacked),
        ):
            lines.append(
                Line(
                    row=row,
                    what=f"{what}, {after}",
                    size=size,
                    values=[size_then / whole],
                    target=target,
                    ours=[size_then / 1e6],
                    floor=[whole / 1e6],
                    measure="MB",
                )
            )
    return lines

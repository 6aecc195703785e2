"""Measures other libraries beside sawlog and the bare floor, on the same workload.

Rounds are outermost: in each, every library runs once in a process of its own, so that a busy
machine slows all of them. Ratios are to the floor of the same round. A library that is not
installed is named and left out.

    python -m benchmarks.peers
    python -m benchmarks.peers --steps 200 --rounds 1 --only sawlog floor
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks import machine, results
from benchmarks.children import ROOT
from benchmarks.measuring import say
from benchmarks.peers.base import DRIVERS, driver, missing
from benchmarks.peers.child import Found
from benchmarks.results import Line, Results, ratio

_FLOOR = next(iter(DRIVERS))
_PATIENCE = 600.0

_ROWS: tuple[tuple[str, str, str, Callable[[Found], float]], ...] = (
    ("1", "append, one unit each", "parts/s", lambda found: found.parts),
    ("2", "a step in one batch", "ms", lambda found: found.batch),
    ("5", "messages for the next call", "ms", lambda found: found.rebuild),
    ("6", "resume", "ms", lambda found: found.resume),
    ("8", "bytes on disk to JSON", "x", lambda found: found.bytes),
)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and keep what was asked for."""
    given = _parser().parse_args(arguments)
    began = time.perf_counter()
    left_out: list[str] = []
    names: list[str] = []
    for name in given.only or DRIVERS:
        lacking = missing(name)
        if lacking:
            left_out.append(f"{name}: {', '.join(lacking)} not installed; `make bench-peers` does")
        else:
            names.append(name)
    if _FLOOR not in names:
        names.insert(0, _FLOOR)
    found: dict[str, list[Found]] = {name: [] for name in names}
    for turn in range(given.rounds):
        for name in list(found):
            say(f"round {turn + 1} of {given.rounds}: {name}")
            try:
                found[name].append(_measured(name, given.steps, given.seconds))
            except RuntimeError as trouble:
                left_out.append(f"{name}: {trouble}")
                del found[name]
    with tempfile.TemporaryDirectory() as folder:
        facts = machine.facts(Path(folder))
    for package in sorted({package for name in found for package in driver(name).PACKAGES}):
        facts[package] = version(package)
    results_found = Results(
        machine=facts,
        options={"steps": given.steps, "rounds": given.rounds, "seconds": given.seconds},
        lines=_lines(found),
        left_out=left_out,
        seconds=time.perf_counter() - began,
    )
    results.show(results_found)
    if given.json:
        results.write(results_found, given.json)
    return 0


def _measured(name: str, steps: int, seconds: float) -> Found:
    """What a child process found. Raises RuntimeError with its last words."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.peers.child", name, str(steps), str(seconds)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {_PATIENCE:.0f} s") from None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"failed: {(done.stderr.strip().splitlines() or ['no words'])[-1]}")
    return msgspec.json.decode(lines[-1], type=Found)


def _lines(found: dict[str, list[Found]]) -> list[Line]:
    lines: list[Line] = []
    for row, what, measure, pick in _ROWS:
        for name, rounds in found.items():
            ours = [pick(one) for one in rounds]
            note = ""
            if row == "1" and rounds[-1].done < rounds[-1].steps:
                note = f"{rounds[-1].done:,} steps in the time"
            title = f"{row} {what}"
            if measure == "x":
                size = rounds[-1].bytes_of
                line = Line(row=row, what=name, store=title, values=ours, size=size)
            else:
                floor = [pick(one) for one in found[_FLOOR]]
                line = ratio(
                    row, name, ours, floor, measure, store=title, size=rounds[0].steps, note=note
                )
            lines.append(line)
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--steps", type=int, default=1000, metavar="N", help="steps of the session (1000)")
    add("--rounds", type=int, default=3, metavar="N", help="rounds (3)")
    add(
        "--seconds",
        type=float,
        default=6.0,
        metavar="S",
        help="how long a library may append; a slower one gets less far (6)",
    )
    add("--only", nargs="+", choices=list(DRIVERS), metavar="NAME", help=f"of {', '.join(DRIVERS)}")
    add("--json", type=Path, metavar="FILE", help="keep what was found")
    return parser


if __name__ == "__main__":
    sys.exit(main())

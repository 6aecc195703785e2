"""Measures what sawlog costs against bare databases, and prints every row beside its target.

Floors and sawlog take turns, round by round, so that a busy machine slows both; what counts is
their ratio in the same round. Times and rates tell of this machine alone. What each row is, and why
it costs what it costs: docs/performance.md.

    python -m benchmarks                          SQLite, and PostgreSQL where a server starts
    python -m benchmarks --rows 1 2 11 --no-postgres
    python -m benchmarks --sizes 100 1000 --rounds 5 --json found.json
    python -m benchmarks --transcript session.jsonl --rows 14
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

from benchmarks import (
    appends,
    cold,
    following,
    long,
    machine,
    results,
    sessions,
    storage,
    transcripts,
    writing,
)
from benchmarks.children import ROOT
from benchmarks.measuring import ROWS, Run
from benchmarks.places import Place, SqlitePlace, postgres
from benchmarks.results import Line, Results

_ON_POSTGRES = ("1", "2", *sessions.MINE, "12", "follow")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and keep what was asked for."""
    given = _parser().parse_args(arguments)
    run = Run(
        rows=frozenset(given.rows),
        sizes=tuple(sorted(set(given.sizes or ((8, 20) if given.quick else (100, 1000, 5000))))),
        rounds=given.rounds or (1 if given.quick else 3),
        quick=given.quick,
    )
    began = time.perf_counter()
    lines: list[Line] = []
    left_out: list[str] = []
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sawlog-bench-", dir=given.folder) as name:
        folder = Path(name)
        facts = machine.facts(folder)
        if machine.is_memory(facts):
            left_out.append(
                f"what a disk costs, for {given.folder.name} lies in memory: commits cost nothing "
                "there, and ratios to them say little; give --folder on a disk"
            )
        lines += _on_sqlite(run, folder, given.transcript)
        if not given.no_postgres and run.wants(*_ON_POSTGRES):
            try:
                with postgres(given.postgres) as place:
                    lines += _on_postgres(run, place)
            except (ModuleNotFoundError, RuntimeError) as trouble:
                if given.postgres:
                    raise
                left_out.append(f"PostgreSQL, for no server could be started: {trouble}")
    if run.quick:
        # So small a session says nothing about them.
        lines = [replace(line, target=None) for line in lines]
    found = Results(
        machine=facts,
        options={
            "sizes": " ".join(map(str, run.sizes)),
            "rounds": run.rounds,
            "quick": int(run.quick),
        },
        lines=lines,
        left_out=left_out,
        seconds=time.perf_counter() - began,
    )
    results.show(found)
    if given.json:
        results.write(found, given.json)
    return 0


def _on_sqlite(run: Run, folder: Path, transcript: Path | None) -> list[Line]:
    place = SqlitePlace(folder)
    lines: list[Line] = []
    if run.wants("1", "2"):
        lines += appends.measure(run, place)
    if run.wants(*sessions.MINE):
        lines += sessions.measure(run, place)
    if run.wants("8", "9"):
        lines += storage.measure(run, place)
    if run.wants("11"):
        lines += writing.measure(run, place)
    if run.wants("follow"):
        lines += following.measure(run, place)
    if run.wants("13"):
        lines += cold.measure(run, place)
    if run.wants("14"):
        lines += transcripts.measure(run, folder, transcript)
    if run.wants("long"):
        lines += long.measure(run, place, folder)
    return lines


def _on_postgres(run: Run, place: Place) -> list[Line]:
    lines: list[Line] = []
    if run.wants("1", "2", "12"):
        lines += appends.measure(run, place)
    if run.wants(*sessions.MINE):
        lines += sessions.measure(run, place)
    if run.wants("12"):
        lines += writing.measure(run, place)
    if run.wants("follow"):
        lines += following.measure(run, place)
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--rows",
        nargs="+",
        choices=ROWS,
        default=list(ROWS),
        metavar="ROW",
        help="rows of the table, `follow` (a follower beside eight writers) and `long` (a session "
        "of 100,000 events); all of them by default",
    )
    add(
        "--sizes",
        nargs="+",
        type=_positive,
        metavar="N",
        help="steps of the sessions that rows 3 to 7, 10 and 13 work on (100 1000 5000)",
    )
    add("--rounds", type=_positive, metavar="N", help="rounds of each row (3)")
    add(
        "--postgres",
        default="",
        metavar="URL",
        help="an empty PostgreSQL database to use, as `sawlog.open` takes it; the sessions stay in "
        "it. Without it a private server is started and thrown away",
    )
    add("--no-postgres", action="store_true", help="leave PostgreSQL out")
    add("--transcript", type=Path, metavar="FILE", help="a real transcript for row 14")
    add(
        "--folder",
        type=Path,
        default=ROOT / "build",
        metavar="DIR",
        help="where the stores lie while they are measured: the disk that the figures are of (the "
        "checkout's build; a temporary folder is often memory)",
    )
    add("--json", type=Path, metavar="FILE", help="keep what was found, for the plots too")
    add("--quick", action="store_true", help="all of it in seconds, to see that it runs")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


if __name__ == "__main__":
    sys.exit(main())

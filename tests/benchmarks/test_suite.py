"""The suite runs for real, in small: each row gives its figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import instructions, results
from benchmarks.children import ROOT
from benchmarks.measuring import ROWS
from benchmarks.results import Results

TITLES = {"sqlite", "postgresql"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )


def quick(file: Path, *arguments: str) -> tuple[Results, str]:
    """What a quick run found and printed."""
    done = run(
        "benchmarks", "--quick", "--folder", str(file.parent), "--json", str(file), *arguments
    )
    assert done.returncode == 0, done.stderr
    # Progress goes beside the table.
    assert "round 1 of 1" in done.stderr and "round 1" not in done.stdout
    return results.read(file), done.stdout


def test_every_row_gives_a_figure_on_sqlite(tmp_path: Path) -> None:
    found, printed = quick(tmp_path / "found.json", "--no-postgres")
    rows = {line.row for line in found.lines}
    assert rows == set(ROWS) - {"12"}  # which is PostgreSQL's
    for line in found.lines:
        assert line.values and all(value >= 0 for value in line.values), line
        # What is no ratio of this machine's times to each other says what it is.
        assert line.unit == "x" or line.unit in ("ms", "s", "MB", "errors", "events"), line
        assert not line.floor or len(line.floor) == len(line.ours) == len(line.values), line
    for row in ("1", "2", "3", "5", "6", "7", "10", "11", "13", "14"):
        assert any(line.row == row and line.floor for line in found.lines), row
    none = {"errors": 0.0, "events": 0.0}
    assert all(line.value == none[line.unit] for line in found.lines if line.unit in none)
    by_size = {line.size for line in found.lines if line.row == "6" and line.size}
    assert by_size == {8, 20}
    assert str(tmp_path) not in (tmp_path / "found.json").read_text(encoding="utf-8")
    assert all(re.search(rf"^{row} ", printed, re.MULTILINE) for row in rows)
    assert not list(tmp_path.glob("sawlog-bench-*"))


def test_rows_of_postgresql_have_its_own_floor(tmp_path: Path, postgres_url: str) -> None:
    found, _ = quick(
        tmp_path / "found.json",
        *("--rows", "1", "6", "12", "--sizes", "8", "--postgres", postgres_url),
    )
    on_postgres = [line for line in found.lines if line.store == "postgresql"]
    assert {line.row for line in on_postgres} == {"6", "12"}
    assert {line.row for line in found.lines if line.store == "sqlite"} == {"1", "6"}
    for what in ("append, one part each, one writer", "2 writers, together"):
        assert any(line.what == what and line.values[0] > 0 for line in on_postgres)


def test_peers_are_measured_or_named(tmp_path: Path) -> None:
    """Those that are not installed are said to be; the floor is always among the measured."""
    file = tmp_path / "found.json"
    names = ["sawlog", "eventsourcing recorder", "openai-agents SQLiteSession"]
    small = ("--steps", "8", "--rounds", "1", "--seconds", "0.3")
    done = run("benchmarks.peers", *small, "--json", str(file), "--only", *names)
    assert done.returncode == 0, done.stderr
    found = results.read(file)
    measured = {line.what for line in found.lines}
    assert {"floor", "sawlog", "openai-agents SQLiteSession"} <= measured
    for name in names:
        said = [one for one in found.left_out if one.startswith(f"{name}: ")]
        assert (name in measured) != bool(said)
        assert all(f"left out: {one[:40]}" in done.stdout for one in said)
    rows = {line.row for line in found.lines if line.what == "sawlog"}
    assert rows == {"1", "2", "5", "6", "8"}


@pytest.mark.parametrize(
    "module", ["benchmarks", "benchmarks.peers", "benchmarks.instructions", "benchmarks.plots"]
)
def test_help_teaches(module: str) -> None:
    done = run(module, "--help")
    assert done.returncode == 0
    assert f"python -m {module}" in done.stdout and len(done.stdout.splitlines()) > 8


def test_an_unknown_row_is_refused_with_the_rows_that_there_are() -> None:
    done = run("benchmarks", "--rows", "15")
    assert done.returncode == 2 and "'14', 'follow', 'long'" in done.stderr


def test_scenarios_of_instructions_do_what_they_say(tmp_path: Path) -> None:
    """The same events each time, byte for byte, whatever the clock and the ids of the machine."""
    import sawlog

    heads: list[list[bytes]] = []
    for turn in range(2):
        file = str(tmp_path / f"steps{turn}.db")
        instructions.steps(file, 2)
        with sawlog.open(file, read_only=True) as log:
            row = log.find("bench")
            heads.append([event.digest for event in log.store.read(row)])
    assert heads[0] == heads[1] and len(heads[0]) > 80
    instructions.appends(str(tmp_path / "appends.db"), 7)
    with sawlog.open(str(tmp_path / "appends.db"), read_only=True) as log:
        assert log.find("bench").head == 7
    instructions.verify(str(tmp_path / "verify.db"), 1)

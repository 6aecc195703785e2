"""Counts instructions, which no other process on the machine can change.

A fixed scenario runs under valgrind twice, with and without the work; the difference, by the number
of events or steps, is what one of them costs. Two runs of one version of sawlog, Python and SQLite
differ by far less than a change of the code makes.

    python -m benchmarks.instructions
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import count

import sawlog
from benchmarks.children import ROOT
from benchmarks.driving import SESSION, WINDOW, Clocked, record, whole_step
from benchmarks.events import event_of
from benchmarks.workload import session

_WARM = 10
"""Steps that a session has before its further ones, and its packets, are counted."""
_STEPS = 50
"""Steps that are at hand for the appends; more would cost more than what is counted."""
_BEGUN = 1_780_000_000_000_000

Scenario = Callable[[str, int], None]


def appends(file: str, events: int) -> None:
    """So many events, one append each."""
    parts = [part for step in session(_STEPS) for part in step]
    made = [event_of(part) for part in parts[:events]]
    with opened(file) as log:
        row = log.store.session(SESSION, create=True)
        for new in made:
            log.store.append(row, (new,))


def steps(file: str, further: int) -> None:
    """So many whole steps, behind some that were there."""
    with opened(file) as log:
        clock = Clocked(log)
        with log.session(SESSION, window=WINDOW) as driven:
            for parts in session(_WARM + further):
                whole_step(driven, parts, clock)


def verify(file: str, times: int) -> None:
    """A session of some steps verified so many times."""
    with opened(file) as log:
        record(log, session(_WARM))
        for _ in range(times):
            if not log.read(SESSION).verify().sound:
                raise RuntimeError("the session does not verify")


SCENARIOS: dict[str, tuple[Scenario, int, int, str]] = {
    "append": (appends, 200, 200, "event appended"),
    "step": (steps, 20, 20, "whole step"),
    "verify": (verify, 1, _WARM, "step verified"),
}
"""Name to the scenario, how much work it does, by what to divide, and what that is called."""


def opened(file: str) -> sawlog.AgentLog:
    """A store whose ids, salts and times are the same at each run."""
    ids, salts, times = count(1), count(1), count(_BEGUN, 1000)
    return sawlog.open(
        file,
        make_id=lambda: next(ids).to_bytes(16),
        make_salt=lambda: next(salts).to_bytes(16),
        clock=lambda: next(times),
    )


def counted(name: str, valgrind: str) -> float:
    """Instructions for one event or step of that scenario."""
    _, work, by, _ = SCENARIOS[name]
    _instructions([], name, 0)  # compiles what is not compiled yet
    return (_instructions([valgrind], name, work) - _instructions([valgrind], name, 0)) / by


def _instructions(valgrind: list[str], name: str, work: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        tool = [*valgrind, "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        done = subprocess.run(
            [
                *(tool if valgrind else []),
                sys.executable,
                "-m",
                "benchmarks.instructions",
                "--child",
                name,
                str(work),
                f"{folder}/store.db",
            ],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
        )
    if done.returncode:
        raise RuntimeError(f"the scenario {name!r} failed: {done.stderr.strip().splitlines()[-1:]}")
    found = re.findall(r"Collected : (\d+)", done.stderr)
    return int(found[-1]) if found else 0


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each scenario; 2 when there is no valgrind."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.instructions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        name, work, file = given.child
        SCENARIOS[name][0](file, int(work))
        return 0
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("instructions are counted by valgrind, which is not installed", file=sys.stderr)
        return 2
    for name in given.only:
        print(f"{counted(name, valgrind):>14,.0f} instructions for one {SCENARIOS[name][3]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

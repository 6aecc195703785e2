"""What a process of its own shows: cold starts, what its imports cost, its peak of memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

_PEAK = """
try:
    # ru_maxrss of a child begins with what its parent had when it forked; VmHWM begins anew.
    with open("/proc/self/status", encoding="ascii") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
except OSError:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("PEAK", peak, file=sys.stderr)
"""


def seconds(code: str) -> float:
    """How long a fresh interpreter takes for that code, from its start to its end."""
    began = time.perf_counter()
    _run("-c", code)
    return time.perf_counter() - began


def import_seconds(code: str, runs: int = 3) -> float:
    """What all imports take while the code runs, the interpreter's own among them: the best run."""
    found: list[float] = []
    for _ in range(runs):
        lines = _run("-X", "importtime", "-c", code).stderr
        # import time:  self [us] | cumulative | imported package
        took = re.findall(r"^import time: +(\d+) \|", lines, re.MULTILINE)
        found.append(sum(map(int, took)) / 1e6)
    return min(found)


def peak_bytes(code: str) -> float:
    """The most memory that a fresh interpreter held while it ran that code."""
    done = _run("-c", f"import sys\n{code}\n{_PEAK}")
    found = re.findall(r"^PEAK (\d+)$", done.stderr, re.MULTILINE)
    return int(found[-1]) * 1024


def command(*arguments: str) -> str:
    """The code that runs the `sawlog` command with these arguments and ends well."""
    return (
        "from sawlog.cli import main\n"
        f"try:\n    main({list(arguments)!r})\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
    )


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,  # where `benchmarks` is
        env={name: value for name, value in os.environ.items() if not name.startswith("SAWLOG_")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode:
        raise RuntimeError(f"a child process failed: {done.stderr.strip().splitlines()[-1:]}")
    return done

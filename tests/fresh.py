"""What a fresh interpreter loads, and how long that takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys


def imported_modules(code: str) -> frozenset[str]:
    """Give the names of all modules that a fresh interpreter has loaded after running `code`."""
    report = "import json, sys; print('\\n' + json.dumps(list(sys.modules)))"
    done = _run("-c", f"{code}\n{report}")
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return frozenset(names)


def import_milliseconds(code: str, *arguments: str, runs: int = 5) -> float:
    """Give the time that imports take while `code` runs, in ms: the shortest of some runs.

    All imports count, those of the interpreter's own start as well; `arguments` become
    `sys.argv[1:]`.
    """
    return min(_import_milliseconds(code, *arguments) for _ in range(runs))


def _import_milliseconds(code: str, *arguments: str) -> float:
    done = _run("-X", "importtime", "-c", code, *arguments)
    # import time:  self [us] | cumulative | imported package
    microseconds = re.findall(r"^import time: +(\d+) \|", done.stderr, re.MULTILINE)
    assert microseconds, done.stderr
    return sum(map(int, microseconds)) / 1000


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    # -P: a folder in the working directory must not pass for a package.
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done


PEAK = """
def peak():
    # ru_maxrss of a child begins with what its parent had when it forked; VmHWM begins anew.
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""
"""Source of `peak()`: the most memory, in KiB, that the process which runs it has taken."""

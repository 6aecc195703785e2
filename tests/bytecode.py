"""Compiled modules for all processes of a run, also where the environment says to write none.

PYTHONDONTWRITEBYTECODE keeps a checkout clean, and lets each of the hundreds of processes that the
tests start compile all of sawlog again, which takes longer than what most of them do.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile


def keep_for_the_run() -> None:
    """Let processes that are started from now on share what they compile, in a folder of the run's
    own that goes with it. Where the environment keeps compiled modules already, nothing changes."""
    if not os.environ.get("PYTHONDONTWRITEBYTECODE") or "PYTHONPYCACHEPREFIX" in os.environ:
        return
    del os.environ["PYTHONDONTWRITEBYTECODE"]
    folder = tempfile.mkdtemp(prefix="sawlog-bytecode-")
    os.environ["PYTHONPYCACHEPREFIX"] = folder
    atexit.register(_remove, folder, os.getpid())


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a fork that ends leaves it to those who still use it
        shutil.rmtree(folder, ignore_errors=True)

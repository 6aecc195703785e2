"""Compiled modules for all processes of a run, also where the environment says to write none.

PYTHONDONTWRITEBYTECODE keeps a checkout clean, and lets each of the hundreds of processes that the
tests start compile all of sawlog again, which takes longer than what most of them do.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".pytest_cache" / "bytecode"
"""Where pytest keeps what it needs again; `make clean` removes it."""


def keep_in_the_cache() -> None:
    """Let processes that are started from now on share what they compile, in a folder of its own.

    Where the environment keeps compiled modules already, nothing changes.
    """
    if os.environ.get("PYTHONDONTWRITEBYTECODE") and "PYTHONPYCACHEPREFIX" not in os.environ:
        del os.environ["PYTHONDONTWRITEBYTECODE"]
        os.environ["PYTHONPYCACHEPREFIX"] = str(FOLDER)

"""Runs the command: in this process, which is quick, or in one of its own, as users do."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from sawlog.cli import main


class Done(NamedTuple):
    """How a run ended: its exit code and what it wrote."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """What it wrote to stdout, as text."""
        return self.out.decode("utf-8")

    @property
    def json(self) -> Any:
        """What it wrote to stdout, as JSON."""
        return json.loads(self.out)


def sawlog(*arguments: object) -> Done:
    """Run the command in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with patch.object(sys, "stdout", out), patch.object(sys, "stderr", err):
        code = main([str(argument) for argument in arguments])
        out.flush()
        err.flush()
    return Done(code, _written(out), _written(err).decode("utf-8"))


def _written(stream: io.TextIOWrapper) -> bytes:
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue()


def spawned(*arguments: object, cwd: Path | None = None, **environment: str) -> Done:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "sawlog", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr.decode("utf-8"))


def one_sentence(done: Done) -> str:
    """The one sentence that a refused run ends with. Fails where there is more, or a traceback."""
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("sawlog: ")
    assert len(lines[0]) > len("sawlog: ") + 15, "it says too little"
    return lines[0]

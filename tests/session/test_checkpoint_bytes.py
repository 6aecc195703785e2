"""A checkpoint has the same bytes wherever it is written: any hash seed, locale, zone, Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.store.exchange import export
from tests.session import checkpoint_digests
from tests.session.agents import SYSTEM, opened
from tests.session.branches import worked
from tests.test_determinism import ENVIRONMENTS, RELEASES, fitted_out, python_of

ROOT = Path(__file__).parents[2]
ODD = "Never touch vendor\u0130/. \u017fei \ufb03 \u1e9e \U0001f600 \u202e \u0661\u0662 na\u00efve"
"""Letters whose case and class differ between releases of Unicode."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An exported session with three checkpoints, one over the other."""
    folder = tmp_path_factory.mktemp("exported")
    with opened(str(folder / "agent.db")) as log:
        with log.session("task") as s:
            s.system(SYSTEM)
            s.task("Mend it \u0130.")
            for turn in range(3):
                s.user(f"{ODD} turn {turn}\n- [ ] box {turn} {ODD}\n" + "long " * 300)
                s.note("open", f"note{turn}", f"{ODD} {turn}")
                worked(s, 4, f"turn {turn} {ODD}")
                s.compact(keep_user=0)
            s.user("and now?")
        path = folder / "task.jsonl"
        path.write_bytes(b"".join(export(log.store, log.find("task"))))
    yield path


def printed(python: str, file: Path, environ: dict[str, str]) -> list[str]:
    """What a Python makes of the session, under an environment."""
    done = subprocess.run(
        [python, "-P", str(Path(checkpoint_digests.__file__)), str(file)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_is_stored_comes_out_again(file: Path) -> None:
    lines = [line.split() for line in checkpoint_digests.lines_of(file)]
    assert [line[1] for line in lines] == ["region", "checkpoint"] * 3 + ["history"]
    assert all(line[2] == line[3] for line in lines[:-1])


@pytest.mark.parametrize("environ", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_hash_seed_locale_and_zone_change_nothing(file: Path, environ: dict[str, str]) -> None:
    assert printed(sys.executable, file, environ) == checkpoint_digests.lines_of(file)


@pytest.mark.parametrize("release", RELEASES)
def test_every_python_writes_the_same(file: Path, release: str) -> None:
    python = fitted_out(python_of(release), release)
    assert printed(python, file, {"PYTHONHASHSEED": "7"}) == checkpoint_digests.lines_of(file)

"""The same log gives the same packets: under any hash seed, locale, time zone, on any Python.

Golden sessions stand in `fixtures/sessions` with the digests that their packets must come out as.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.store.exchange import export, load
from tests.session import packet_digests
from tests.session.agents import opened
from tests.session.make_sessions import PACKETS, SESSIONS, make

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "fixtures" / "sessions"
FILES = sorted(GOLDEN.glob("*.jsonl"))
RELEASES = ("3.11", "3.12", "3.13", "3.14")
WAIT = 60
"""Seconds that the fitting out of another Python may take."""


def golden() -> dict[str, list[dict[str, Any]]]:
    """What the packets of each session must come out as."""
    found: dict[str, list[dict[str, Any]]]
    found = json.loads((GOLDEN / PACKETS).read_text(encoding="utf-8"))
    return found


def golden_lines() -> list[str]:
    """The same as `packet_digests` prints it."""
    return [
        f"{name} {step['step']} {step['semantic']} {step['request']} {step['size']}"
        for name in sorted(golden())
        for step in golden()[name]
    ]


def printed(python: str, environ: dict[str, str]) -> list[str]:
    """What a Python prints of the golden sessions' packets, under an environment."""
    done = subprocess.run(
        [python, "-P", str(Path(packet_digests.__file__)), *map(str, FILES)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def packets(lines: list[str]) -> list[str]:
    """Without the lines of the states."""
    return [line for line in lines if " state " not in line]


def test_the_golden_sessions_are_those_that_are_made() -> None:
    assert [file.stem for file in FILES] == sorted(SESSIONS) == sorted(golden())
    assert sum(map(len, golden().values())) > 60


def test_making_them_again_gives_the_same_packets_and_each_time_the_same_bytes(
    tmp_path: Path,
) -> None:
    """The stored ones stay as the release that made them left them: a newer one may write other
    events around the same packets, such as a newer version of a start."""
    made, again = tmp_path / "made", tmp_path / "again"
    for folder in (made, again):
        folder.mkdir()
    make(made)
    environ = {**os.environ, "PYTHONHASHSEED": "4242", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"}
    command = [sys.executable, "-m", "tests.session.make_sessions", str(again)]
    subprocess.run(command, check=True, cwd=ROOT, env=environ, timeout=WAIT)
    assert (made / PACKETS).read_bytes() == (GOLDEN / PACKETS).read_bytes()
    assert len(list(made.iterdir())) == len(list(GOLDEN.iterdir()))
    for path in sorted(made.iterdir()):
        assert (again / path.name).read_bytes() == path.read_bytes(), path.name


def test_every_packet_comes_out_with_its_golden_digests() -> None:
    lines = [line for file in FILES for line in packet_digests.lines_of(file)]
    assert packets(lines) == golden_lines()


ENVIRONMENTS = {
    "seed 0, C": {"PYTHONHASHSEED": "0", "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0"},
    "seed 1, UTC": {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
    "Turkish, far east": {
        "PYTHONHASHSEED": "4242",
        "LC_ALL": "tr_TR.UTF-8",
        "LANG": "tr_TR.UTF-8",
        "TZ": "Pacific/Kiritimati",
    },
    "optimised, far west": {
        "PYTHONHASHSEED": "random",
        "PYTHONOPTIMIZE": "1",
        "LC_ALL": "de_DE.ISO-8859-1",
        "TZ": "America/St_Johns",
    },
}


@pytest.mark.parametrize("environ", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_hash_seed_locale_and_time_zone_change_nothing(environ: dict[str, str]) -> None:
    assert packets(printed(sys.executable, environ)) == golden_lines()


# --- every Python that the machine has ------------------------------------------------------------


def python_of(release: str) -> str:
    """An interpreter of that release. Skips, naming it, where the machine has none."""
    managed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{release}.*/bin/python"))
    for python in (shutil.which(f"python{release}"), *map(str, managed)):
        if python and not subprocess.run([python, "-c", ""], capture_output=True).returncode:
            return python
    pytest.skip(f"there is no Python {release} on this machine")


def fitted_out(python: str, release: str) -> str:
    """That interpreter with msgspec, in an environment that is kept for the next run."""
    if sys.version_info[:2] == tuple(map(int, release.split("."))):
        return sys.executable
    kept = Path(tempfile.gettempdir()) / f"sawlog-test-python-{release}-{os.getuid()}"
    fitted = kept / "bin" / "python"
    if _has_msgspec(fitted):
        return str(fitted)
    with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
        made = Path(scratch) / "venv"
        for command in (
            [python, "-m", "venv", str(made)],
            [str(made / "bin" / "python"), "-m", "pip", "install", "--quiet", "msgspec>=0.20"],
        ):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT)
            except subprocess.TimeoutExpired:
                pytest.skip(f"Python {release} could not be fitted out in {WAIT} s")
            if done.returncode:
                pytest.skip(f"Python {release} could not be fitted out: {done.stderr[-300:]}")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(made, kept, symlinks=True)
    assert _has_msgspec(fitted)
    return str(fitted)


def _has_msgspec(python: Path) -> bool:
    if not python.exists():
        return False
    return not subprocess.run([python, "-c", "import msgspec"], capture_output=True).returncode


@pytest.mark.parametrize("release", RELEASES)
def test_every_python_gives_the_same_packets_and_states(release: str) -> None:
    here = [line for file in FILES for line in packet_digests.lines_of(file)]
    assert packets(here) == golden_lines()
    assert printed(fitted_out(python_of(release), release), {"PYTHONHASHSEED": "7"}) == here


# --- through a store ------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_golden_session_goes_through_a_store_and_is_sound_there(
    file: Path, tmp_path: Path
) -> None:
    with opened(str(tmp_path / "store.db")) as log:
        _check(log, file, "task")


def test_the_same_on_the_other_database(postgres_url: str) -> None:
    with opened(postgres_url) as log:
        for file in FILES:
            _check(log, file, file.stem)


def _check(log: AgentLog, file: Path, name: str) -> None:
    with file.open("rb") as lines:
        row = load(log.store, lines, name=name)
    recorded = log.read(row.id.hex())
    report = recorded.verify()
    assert report.sound and not report.blocked, report
    assert set(report.paths.values()) == {"ok"}
    found = [(step.packet.semantic, step.packet.request.digest) for step in recorded.steps]
    wanted = [(step["semantic"], step["request"]) for step in golden()[file.stem]]
    assert found == wanted
    if name == "task":
        assert b"".join(export(log.store, row)) == file.read_bytes()

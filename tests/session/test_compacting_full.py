"""A disk that is full during a compaction: packets are as before, and with room it succeeds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from sawlog.providers.fake import FakeProvider
from sawlog.store.events.compaction import CompactionCompleted, NoteRecorded
from tests.session import shrinking
from tests.session.agents import ROOT, opened, sound
from tests.session.bracketing import again, body, brackets
from tests.session.shrinking import API, WAYS

FULL = """
import contextlib, io, json, subprocess, sys
from tests.session.shrinking import fill_up
for line in sys.stdin:
    *given, disk = json.loads(line)
    if disk:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        fill_up(*given, disk)
    if disk:
        subprocess.run(["umount", disk], check=True)
    print(json.dumps(said.getvalue().splitlines()), flush=True)
"""
OWN = ["unshare", "--map-root-user", "--mount"]
"""Runs a program that may mount a disk of its own, which nobody else sees."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of a file")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")


@pytest.fixture
def disk(tmp_path: Path) -> str:
    """A folder to mount a small disk on. Skips where no user may."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = [*OWN, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    if shutil.which(OWN[0]) is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    return str(folder)


class Filled:
    """A process that compacts on a disk that is full from some append on: each time on a new one,
    where it may mount one (`disk`), or else with a log whose file may not grow."""

    def __init__(self, way: str, how: str, disk: str) -> None:
        self._given = way, how, disk
        self._process = subprocess.Popen(
            [*(OWN if disk else ()), sys.executable, "-c", FULL],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, store: Path, at: int) -> list[str]:
        """What the compaction of a store printed; 0: there is always room."""
        way, how, disk = self._given
        assert self._process.stdin is not None and self._process.stdout is not None
        with FakeProvider(list(WAYS[way].script)) as fake:
            line = json.dumps([str(store), way, fake.base_url(API), at, how, disk])
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        assert answer, "the process ended; its words are in what the test wrote"
        said: list[str] = json.loads(answer)
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


ASKED = [("by code", "stays"), ("by code", "passes"), ("at the provider", "passes")]


@pytest.mark.parametrize(("way", "how"), [*ASKED, ("by a model that tries again", "stays")])
def test_a_compaction_on_a_full_disk(tmp_path: Path, disk: str, way: str, how: str) -> None:
    fill_everywhere(tmp_path, way, how, disk, "StoreFull")


@pytest.mark.parametrize(("way", "how"), ASKED)
def test_one_whose_file_may_not_grow(tmp_path: Path, way: str, how: str) -> None:
    """SQLite says only that the commit failed: what came of it is what the log says."""
    fill_everywhere(tmp_path, way, how, "", "OutcomeUnknown")


def fill_everywhere(folder: Path, way: str, how: str, disk: str, error: str) -> None:
    """A compaction whose disk is full in front of each of its appends, each time in a copy."""
    base = folder / "base.db"
    with opened(str(base)) as log:
        with log.session("base") as s:
            shrinking.worked(s)
    whole = folder / "whole.db"
    shutil.copy(base, whole)
    with opened(str(whole)) as log:
        with log.session("base") as s:
            s.note("next", "there-is-room", "go on")
        old = body(log, "base")
    shutil.copy(base, whole)
    with Filled(way, how, disk) as filled:
        fill_each(folder, filled, way, how, error, old)


def fill_each(folder: Path, filled: Filled, way: str, how: str, error: str, old: bytes) -> None:
    """The same, of a session whose packet is `old`."""
    base, whole = folder / "base.db", folder / "whole.db"
    assert filled(whole, 0) == ["compacted", "False"]
    with opened(str(whole)) as log:
        new = body(log, "base")
    assert new != old
    for at in range(1, WAYS[way].appends + 1):
        store = folder / f"full at {at}.db"
        shutil.copy(base, store)
        # Where it stays full the end of the bracket finds no room either.
        left_open = at > 1 and how == "stays"
        assert filled(store, at) == [error, str(left_open)], at
        with opened(str(store)) as log:
            assert body(log, "base") == old
            begun, ended = brackets(list(sound(log, "base").events()))
            assert begun - ended == int(left_open)
            with log.session("base") as s:
                assert again(s, WAYS[way])
            events = list(sound(log, "base").events())
        begun, ended = brackets(events)
        assert begun == ended == (2 if at > 1 else 1)
        kinds = [type(event.content) for event in events]
        assert (kinds.count(CompactionCompleted), kinds.count(NoteRecorded)) == (1, 1)

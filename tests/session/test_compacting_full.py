"""A disk that is full during a compaction: packets are as before, and with room it succeeds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sawlog.providers.fake import FakeProvider
from sawlog.store.events.compaction import CompactionCompleted, NoteRecorded
from tests.session import shrinking
from tests.session.agents import ROOT, opened, sound
from tests.session.bracketing import again, body, brackets
from tests.session.shrinking import API, WAYS

FULL = """
import subprocess, sys
from tests.session.shrinking import fill_up
store, way, url, at, how, disk = sys.argv[1:]
if disk:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
fill_up(store, way, url, int(at), how, disk)
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


def filled(store: Path, way: str, at: int, how: str, disk: str) -> list[str]:
    """Compact in a process of its own, whose disk is full from that append on; what it printed."""
    with FakeProvider(list(WAYS[way].script)) as fake:
        arguments = (str(store), way, fake.base_url(API), str(at), how, disk)
        done = subprocess.run(
            [*(OWN if disk else ()), sys.executable, "-c", FULL, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


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
    whole, old, new = folder / "whole.db", b"", b""
    shutil.copy(base, whole)
    with opened(str(whole)) as log:
        with log.session("base") as s:
            s.note("next", "there-is-room", "go on")
        old = body(log, "base")
    shutil.copy(base, whole)
    assert filled(whole, way, 0, how, disk) == ["compacted", "False"]
    with opened(str(whole)) as log:
        new = body(log, "base")
    assert new != old
    for at in range(1, WAYS[way].appends + 1):
        store = folder / f"full at {at}.db"
        shutil.copy(base, store)
        # Where it stays full the end of the bracket finds no room either.
        left_open = at > 1 and how == "stays"
        assert filled(store, way, at, how, disk) == [error, str(left_open)], at
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

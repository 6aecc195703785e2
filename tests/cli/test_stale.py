"""stale and watch: what is no longer so, and a process that tells the session when files change."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sawlog.agentlog import open as open_log
from sawlog.store.content import TextPart
from sawlog.store.events.world import ObservationRecorded, Saw
from tests.cli.command import one_sentence, sawlog


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace of one file."""
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.py").write_text("one")
    return folder


@pytest.fixture
def reader(tmp_path: Path) -> str:
    """A store with a session that has read the file."""
    url = str(tmp_path / "reader.db")
    version = hashlib.sha256(b"one").hexdigest()
    with open_log(url) as log, log.session("reader") as s:
        seen = ObservationRecorded((TextPart("one"),), saw=(Saw("a.py", "", version),))
        s.append(seen, source="hook:read")
        s.user("go")
        s.step("openai-chat", model="m")
    return url


def test_exit_code_1_when_something_is_stale(reader: str, root: Path) -> None:
    fine = sawlog("--store", reader, "stale", "reader", "--root", root)
    assert fine.code == 0 and "nothing that it shows is out of date" in fine.text
    (root / "a.py").write_text("two")
    assert sawlog("--store", reader, "stale", "reader").code == 0
    done = sawlog("--store", reader, "stale", "reader", "--root", root)
    assert done.code == 1
    assert "file a.py, shown by event 2: it is of another version now" in done.text
    assert "in the workspace; not labelled yet" in done.text
    told = sawlog("--store", reader, "stale", "-", "--root", root, "--json")
    assert told.code == 1
    [one] = told.json["stale"]
    assert (one["name"], one["by"], one["labelled"]) == ("a.py", "workspace", False)


def test_watch_once_records_what_changed_before(reader: str, root: Path) -> None:
    run = ("--store", reader, "watch", root, "--session", "reader", "--once")
    assert sawlog(*run).out == b""
    (root / "a.py").unlink()
    assert sawlog(*run).text == "a.py absent\n"
    assert sawlog(*run).out == b""
    done = sawlog("--store", reader, "stale", "reader")
    assert done.code == 1 and "it is gone, by event" in done.text
    assert "no directory" in one_sentence(sawlog(*run[:3], root / "no", "--session", "-", "--once"))
    assert "--session" in one_sentence(sawlog("--store", reader, "watch", root))


def _interruptible() -> None:
    # A shell starts what runs in the background with this signal ignored, and children inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_watch_tells_of_changes_as_they_happen_until_it_is_ended(reader: str, root: Path) -> None:
    command = [sys.executable, "-P", "-m", "sawlog", "--store", reader]
    with subprocess.Popen(
        [*command, "watch", str(root), "--session", "reader", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
        preexec_fn=_interruptible,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            assert "Ctrl-C ends it" in process.stderr.readline()
            (root / "a.py").write_text("two")
            line = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
    assert (line["path"], line["version"]) == ("a.py", hashlib.sha256(b"two").hexdigest())
    assert sawlog("--store", reader, "stale", "reader").code == 1

"""Reading writes nothing, and finds its way where nothing can be written."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sawlog.store.database import open_database
from sawlog.store.errors import NoStore, ReadOnly
from sawlog.store.follow import follow
from sawlog.store.log import Log
from tests.store.stores import REGISTRY, deed


def bytes_of(path: Path) -> list[bytes | None]:
    """The bytes of the database and of its WAL, if any."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return [file.read_bytes() if file.exists() else None for file in files]


def read_everything(path: Path, head: int) -> None:
    """Open a store and read all that can be read."""
    with open_database(path, read_only=True) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s")
        assert session.head == head
        assert len(list(log.read(session))) == head
        assert len(list(log.stored(session))) == head
        assert log.blob(session, hashlib.sha256(b"x" * 5000).digest()) == b"x" * 5000
        assert log.snapshot_get(session, fold=1, layout=1) is None
        assert len(list(follow(database))) == head
        assert log.find("nothing") == [] and len(log.sessions()) == 1
        assert database.epoch()


def filled(path: Path, close: bool = True) -> Log:
    """A store with two events and a blob."""
    log = Log(open_database(path), registry=REGISTRY)
    session = log.session("s", create=True)
    log.append(session, [deed("x" * 5000)])
    log.append(session, [deed("y")])
    if close:
        log.database.close()
    return log


def test_a_hundred_readings_change_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    filled(path)
    before = bytes_of(path)
    for _ in range(100):
        read_everything(path, 2)
        now = bytes_of(path)
        assert now[0] == before[0] and not now[1]
    with open_database(path) as database:  # able to write, and not writing
        log = Log(database, registry=REGISTRY)
        assert len(list(log.read(log.session("s", create=True)))) == 2
    assert bytes_of(path)[0] == before[0] and not bytes_of(path)[1]


def test_readings_beside_a_writer_and_after_its_death_change_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = filled(path, close=False)
    before = bytes_of(path)
    assert before[1]  # the events stand in the WAL
    for _ in range(100):
        read_everything(path, 2)
        assert bytes_of(path) == before
    # A copy of both files is what a killed writer leaves.
    dead = tmp_path / "dead"
    dead.mkdir()
    for name in ("store.db", "store.db-wal"):
        shutil.copy(tmp_path / name, dead / name)
    log.database.close()
    before = bytes_of(dead / "store.db")
    for _ in range(100):
        read_everything(dead / "store.db", 2)
        assert bytes_of(dead / "store.db") == before


def test_reading_makes_no_store_and_no_lock_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for options in ({"read_only": True}, {"create": False}):
        with pytest.raises(NoStore, match="there is no store"):
            open_database(path, **options)
    assert list(tmp_path.iterdir()) == []
    filled(path)
    (tmp_path / "store.db-lock").unlink()
    read_everything(path, 2)
    assert not (tmp_path / "store.db-lock").exists()


def test_a_reading_handle_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    filled(path)
    with open_database(path, read_only=True) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s")
        for call in (
            lambda: log.append(session, [deed()]),
            lambda: log.session("new", create=True),
            lambda: log.leases.acquire(session.id, "o", 1),
            lambda: log.snapshot_put(session, 1, b"", fold=1, layout=1, data=b""),
        ):
            with pytest.raises(ReadOnly, match="reading only"):
                call()
        with database.read() as tx, pytest.raises(ReadOnly):
            with database.read() as tx:
                tx.run("DELETE FROM sawlog.sessions")
        assert log.get(session).head == 2


# As root every folder can be written, so the rest runs as another user in a process of its own.
AS_NOBODY = """
import os, sys
from pathlib import Path
import sawlog.store.sqlite, sqlalchemy.dialects.sqlite, sqlalchemy.pool, sawlog.migrations
from tests.store.test_readonly import *
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
eval(sys.argv[1])(Path(sys.argv[2]))
print("fine")
"""


def as_nobody(function: str, path: Path) -> None:
    """Run a function of this file on a path whose folder cannot be written."""
    temporary = Path(tempfile.gettempdir())
    for parent in path.parents:
        if parent.stat().st_uid == os.geteuid() and temporary in parent.parents:
            parent.chmod(parent.stat().st_mode | 0o055)
    folder = path.parent
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    try:
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, function, str(path)],
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        folder.chmod(0o755)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def reads(path: Path) -> None:
    """The whole store can be read."""
    read_everything(path, 2)


def names_the_wal(path: Path) -> None:
    """The newest events cannot be reached, and that is said."""
    with pytest.raises(ReadOnly, match="copy both files"):
        open_database(path, read_only=True)


def cannot_append(path: Path) -> None:
    """Reading goes well, and writing names the folder."""
    with open_database(path) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s")
        with pytest.raises(ReadOnly):
            log.append(session, [deed()])
        assert log.get(session).head == 2


def test_a_store_on_a_medium_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "medium" / "store.db"
    path.parent.mkdir()
    filled(path)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    as_nobody("reads", path)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    as_nobody("cannot_append", path)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_events_in_a_wal_that_cannot_be_read_are_not_passed_over(tmp_path: Path) -> None:
    log = filled(tmp_path / "store.db", close=False)
    path = tmp_path / "medium" / "store.db"
    path.parent.mkdir()
    for name in ("store.db", "store.db-wal"):
        shutil.copy(tmp_path / name, path.parent / name)
    log.database.close()
    as_nobody("names_the_wal", path)

"""Many processes at one store: nothing is lost, doubled, or refused for a lock."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from sawlog.store.codec import genesis
from sawlog.store.database import open_database
from sawlog.store.errors import Busy
from sawlog.store.log import Log
from sawlog.store.sidelock import SideLock
from tests.forking import CONTEXT
from tests.store import workers
from tests.store.stores import REGISTRY, deed, finished, made, python

PROCESSES = 20
EACH = 20


def test_twenty_processes_append_to_one_session_of_an_empty_store(
    new_store_url: str,
) -> None:
    url = new_store_url
    links = [CONTEXT.Pipe() for _ in range(PROCESSES)]
    processes = [
        CONTEXT.Process(target=workers.contend, args=(url, number, EACH, theirs))
        for number, (_, theirs) in enumerate(links)
    ]
    for process in processes:
        process.start()
    for ours, theirs in links:
        theirs.close()
        ours.send("go")
    given: list[list[int]] = [ours.recv() for ours, _ in links]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert sorted(seq for seqs in given for seq in seqs) == list(range(1, PROCESSES * EACH + 1))
    with open_database(url) as database:
        log = Log(database, registry=REGISTRY)
        [session] = log.sessions()
        events = list(log.read(session))
        assert [event.seq for event in events] == list(range(1, PROCESSES * EACH + 1))
        assert len({event.id for event in events}) == PROCESSES * EACH
        assert session.digest == events[-1].digest
        for number, seqs in enumerate(given):
            payloads = [event.payload for event in log.events(session, seqs)]
            assert payloads == [b'{"text":"%d.%d"}' % (number, each) for each in range(EACH)]


def test_the_lock_file_keeps_checkpoints_away_from_commits(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path, wait=0.3) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        side = SideLock(f"{path}-lock")
        assert side.try_exclusive()
        with pytest.raises(Busy):
            log.append(session, [deed("while somebody checkpoints")])
        side.release()
        with database.write():
            assert not side.try_exclusive()
            assert side.try_shared()
            side.release()
        assert side.try_exclusive()
        side.close()
        assert log.append(session, [deed()]).seqs == (1,)


def test_whoever_waits_leaves_the_database_alone(tmp_path: Path) -> None:
    """While somebody shares the lock nobody begins: a waiter looks at the lock and at no more."""
    path = tmp_path / "store.db"
    with open_database(path, wait=0.3) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        side = SideLock(f"{path}-lock")
        assert side.try_shared()
        stranger = sqlite3.connect(path, timeout=0, isolation_level=None)
        with pytest.raises(Busy, match="try again"):
            log.append(session, [deed("while somebody is to begin")])
        stranger.execute("BEGIN IMMEDIATE")  # nobody waits with the write lock in hand
        stranger.execute("ROLLBACK")
        stranger.close()
        side.close()
        assert log.append(session, [deed()]).seqs == (1,)


def test_a_writer_that_shares_the_lock_first_gets_along_with_ours(tmp_path: Path) -> None:
    """The lock's law is older than how we ask for it: shared from BEGIN IMMEDIATE to commit."""
    path = tmp_path / "store.db"
    code = "import sys; from tests.store.workers import append; append(sys.argv[1], 1, 150)"
    open_database(path).close()
    process = python(code, str(path), stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    side = SideLock(f"{path}-lock")
    raw = sqlite3.connect(path, timeout=0, isolation_level=None)
    raw.execute("PRAGMA wal_autocheckpoint=0")
    done = 0
    deadline = time.monotonic() + 120
    while done < 150 or process.poll() is None:
        assert time.monotonic() < deadline
        if side.try_shared():
            try:
                raw.execute("BEGIN IMMEDIATE")
                raw.execute("UPDATE sessions SET touched_at = touched_at")
                raw.execute("COMMIT")
                done += 1
            except sqlite3.OperationalError as error:
                assert error.sqlite_errorcode == sqlite3.SQLITE_BUSY
            side.release()
        time.sleep(0.001)
    raw.close()
    side.close()
    assert finished([process]) == ["done\n"]
    with open_database(path, read_only=True) as database:
        assert Log(database).session("own 1").head == 150


def test_a_forked_child_keeps_no_lock_of_a_killed_parent(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path).close()
    code = """
import os, sys, time
from sawlog.store.database import open_database
with open_database(sys.argv[1]).write() as tx:
    child = os.fork()
    if not child:
        os.close(1)
        os.close(2)
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
    os.kill(os.getpid(), 9)
"""
    process = python(code, str(path))
    out, _ = process.communicate(timeout=60)
    child = int(out)
    try:
        with open_database(path, wait=10) as database:
            log = Log(database, registry=REGISTRY)
            assert log.append(log.session("s", create=True), [deed()]).seqs == (1,)
        os.kill(child, 0)  # it still lives
    finally:
        os.kill(child, 9)


def test_two_handles_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    one, two = SideLock(str(tmp_path / "lock")), SideLock(str(tmp_path / "lock"))
    assert one.try_shared() and two.try_shared()
    assert not one.try_exclusive()
    two.release()
    assert one.try_exclusive()
    assert not two.try_shared() and not two.try_exclusive()
    two.close()  # closing another handle's file lets nothing go
    three = SideLock(str(tmp_path / "lock"))
    assert not three.try_shared()
    one.close()
    assert three.try_exclusive()
    three.close()


def test_a_strangers_lock_is_waited_for_and_then_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path, wait=0.2) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        stranger = sqlite3.connect(path, isolation_level=None)
        stranger.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(Busy, match="try again"):
            log.append(session, [deed()])
        assert 0.2 <= time.monotonic() - began < 25
        stranger.execute("ROLLBACK")
        stranger.close()
        assert log.append(session, [deed()]).seqs == (1,)


def test_the_wal_is_moved_into_the_database_as_it_grows_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sawlog.store.sqlitewriter.CHECKPOINT_BYTES", 200_000)
    path = tmp_path / "store.db"
    wal = tmp_path / "store.db-wal"
    with open_database(path) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        for _ in range(300):
            log.append(session, [deed("x" * 1000)])
            assert wal.stat().st_size < 1_000_000
        assert path.stat().st_size > 100_000
    assert not wal.exists() or wal.stat().st_size == 0
    with open_database(path, read_only=True) as database:
        assert Log(database).session("s").head == 300


def test_what_a_killed_process_had_appended_is_there(store_url: str) -> None:
    with made(store_url) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
    code = """
import os, sys
from sawlog.store.database import open_database
from sawlog.store.log import Log
from tests.store.stores import REGISTRY, deed
log = Log(open_database(sys.argv[1]), registry=REGISTRY)
session = log.session("s")
for number in range(10):
    log.append(session, [deed(str(number))])
    print(number, flush=True)
with log.database.write() as tx:
    tx.run("UPDATE sawlog.sessions SET head = 77")
    os.kill(os.getpid(), 9)
"""
    process = python(code, store_url)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -9 and len(out.split()) == 10
    with open_database(store_url) as database:
        log = Log(database, registry=REGISTRY)
        assert log.get(session).head == 10
        assert log.append(session, [deed("next")]).seqs == (11,)
        assert session.digest == genesis(session.id)

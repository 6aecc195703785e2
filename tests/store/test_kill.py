"""A process may die at any moment: what it was told is durable stays, and nothing is half there."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from sawlog import migrations
from sawlog.store.checked import Check, directory_damage
from sawlog.store.database import Database, open_database
from sawlog.store.errors import NewerSchema, NoStore
from sawlog.store.log import Log
from tests.forking import CONTEXT
from tests.postgres import PostgresServer
from tests.store import victims
from tests.store.files import file_of, grown
from tests.store.stores import REGISTRY, ROOT, deed, made

KILLS = {"sqlite": 120, "postgresql": 40}


class Victim:
    """A process to be killed. A server that has everything loaded forks it within milliseconds."""

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        self.pipe, theirs = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(target=work, args=(*arguments, theirs))
        self._process.start()
        theirs.close()

    def kill(self) -> list[Any]:
        """Kill it and give all that it acknowledged before."""
        self._process.kill()
        return self.end()

    def end(self) -> list[Any]:
        """Wait for its end and give all that it acknowledged."""
        told: list[Any] = []
        try:
            while True:
                told.append(self.pipe.recv())
        except EOFError:
            self.pipe.close()
        self._process.join()
        self.died = self._process.exitcode
        self._process.close()
        return told


def sound(log: Log) -> bool:
    """True when nothing is wrong with any session."""
    for row in log.sessions():
        check = Check(log, row)
        if any(place.why for place in check.places()) or check.directory():
            return False
    return not directory_damage(log)


@pytest.fixture
def store(store_url: str) -> Iterator[Database]:
    """A store, open for reading while writers come and go."""
    made(store_url).close()
    with open_database(store_url, read_only=True) as database:
        yield database


def test_writers_killed_at_random_points_lose_nothing(store: Database, store_url: str) -> None:
    """The log is a clean prefix of whole batches, and what was acknowledged is in it as it was."""
    log = Log(store, registry=REGISTRY)
    chance = random.Random(54)
    seen = 0
    acknowledged: tuple[int, bytes] = (0, b"")
    written = 0
    for run in range(KILLS[store.dialect]):
        victim = Victim(victims.write, store_url, run)
        if run % 4 == 0:
            time.sleep(chance.random() * 0.06)  # perhaps before its first append
        else:
            assert victim.pipe.poll(60)
            time.sleep(chance.random() * 0.012)
        told = victim.kill()
        if not log.find("s"):
            assert not told
            continue
        acknowledged = max([acknowledged, *told])
        written += len(told)
        head = log.session("s").head
        assert head % victims.BATCH == 0
        assert head >= max(seen, acknowledged[0])
        assert head <= acknowledged[0] + victims.BATCH or not told
        if acknowledged[0]:
            [event] = log.events(log.session("s"), [acknowledged[0]])
            assert event.digest == acknowledged[1]
        seen = head
        if run % 20 == 0:
            assert sound(log)
    assert sound(log) and written > KILLS[store.dialect] // 2
    texts = [REGISTRY.decode(event) for event in log.read(log.session("s"))]
    assert len(texts) == seen


def test_an_append_killed_at_each_statement_is_there_or_not(tmp_path: Path) -> None:
    """On the short way and on the long one; the same events again settle which."""
    url = str(tmp_path / "store.db")
    open_database(url).close()
    [statements] = Victim(victims.append, url, victims.LAST).end()
    assert statements > 8
    for statement in range(1, statements + 1):
        with open_database(url, read_only=True) as database:
            before = Log(database).session("s").head
        victim = Victim(victims.append, url, statement)
        assert victim.end() == [] and victim.died == -9
        with open_database(url, read_only=True) as database:
            log = Log(database, registry=REGISTRY)
            head = log.session("s").head
            assert head - before in (0, victims.BATCH, 2 * victims.BATCH) and sound(log)
        [_] = Victim(victims.append, url, victims.LAST).end()


# --- first creation


def shape_of(path: Path) -> tuple[object, ...]:
    """What an SQLite file is: its tables and indexes as they were declared, its numbers."""
    with closing(sqlite3.connect(path)) as raw:
        entries = raw.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
        numbers = [
            raw.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")
        ]
    return entries, numbers


def usable(path: Path | str) -> bool:
    """True when a store can be written and read."""
    with open_database(path) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("usable", create=True)
        head = log.append(session, [deed("x" * 5000)]).head
        return len(list(log.read(session))) == head and sound(log)


def test_a_first_creation_killed_at_each_statement(tmp_path: Path) -> None:
    """Nothing, or the whole store; and whoever comes next makes it, or finds it."""
    reference = tmp_path / "reference.db"
    [statements] = Victim(victims.create, str(reference), victims.LAST).end()
    shape = shape_of(reference)
    assert statements > 25
    outcomes: set[str] = set()
    for statement in range(1, statements + 1):
        path = tmp_path / f"{statement}.db"
        victim = Victim(victims.create, str(path), statement)
        assert victim.end() == [] and victim.died == -9
        outcomes.add(looked_at(path, shape))
    chance = random.Random(8)
    for _ in range(30):  # and between statements, where files are made and synced
        path = tmp_path / "random.db"
        victim = Victim(victims.create, str(path), victims.LAST)
        time.sleep(chance.random() * 0.1)
        victim.kill()
        looked_at(path, shape)
        for each in tmp_path.glob("random.db*"):
            each.unlink()
    assert outcomes == {"nothing", "whole"}


def looked_at(path: Path, shape: tuple[object, ...]) -> str:
    """What a killed creation left: `nothing` or `whole`; afterwards it is a store."""
    try:
        with open_database(path, read_only=True) as database:
            assert Log(database).sessions() == []
        found = "whole"
        assert shape_of(path) == shape
    except NoStore:
        found = "nothing"
    assert usable(path) and shape_of(path) == shape
    return found


def columns_of(url: str) -> list[tuple[object, ...]]:
    """The columns of all tables in a PostgreSQL database, and the number of the schema."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'sawlog' ORDER BY 1, 2"
        ).fetchall()
        rows: list[tuple[object, ...]] = [tuple(row) for row in found]
        if rows:
            number = connection.exec_driver_sql("SELECT schema FROM sawlog.store").fetchone()
            rows.append(tuple(number or ()))
    engine.dispose()
    return rows


def test_a_first_creation_in_postgresql_killed_at_statements(
    postgres_server: PostgresServer,
) -> None:
    with postgres_server.database() as url:
        [statements] = Victim(victims.create, url, victims.LAST).end()
        shape = columns_of(url)
    assert statements > 60
    points = [*range(1, statements, 9), *range(statements - 8, statements + 1)]
    outcomes: list[bool] = []
    while points:
        with postgres_server.database() as url:
            while points:
                victim = Victim(victims.create, url, points.pop(0))
                assert victim.end() == [] and victim.died == -9
                found = columns_of(url)
                assert found in ([], shape)
                outcomes.append(bool(found))
                if found:
                    break  # what comes later needs an empty database again
            if not outcomes[-1]:
                assert Victim(victims.create, url, victims.LAST).end()
            assert columns_of(url) == shape and usable(url)
    assert sorted(outcomes) == outcomes and len(set(outcomes)) == 2


# --- a migration

NEXT = """
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade():
    bind = op.get_bind()
    prefix = "sawlog." if bind.dialect.name == "postgresql" else ""
    for statement in (
        "CREATE TABLE {0}notes (one BIGINT NOT NULL, two TEXT)",
        "CREATE INDEX {1}notes_two ON {0}notes (two)",
        "ALTER TABLE {0}sessions ADD COLUMN colour TEXT",
        "ALTER TABLE {0}events ADD COLUMN weight BIGINT",
        "UPDATE {0}events SET weight = seq",
        "INSERT INTO {0}notes (one, two) SELECT seq, type FROM {0}events",
        "CREATE UNIQUE INDEX {1}events_weight ON {0}events (sid, weight)",
    ):
        bind.exec_driver_sql(statement.format(prefix, ""))
"""


@pytest.fixture
def following(tmp_path: Path) -> str:
    """A folder with the migrations that there are and one more."""
    folder = tmp_path / "migrations"
    shutil.copytree(Path(migrations.__file__).parent, folder)
    (folder / "versions" / "0003_notes.py").write_text(NEXT, encoding="utf-8")
    return str(folder)


def test_a_migration_killed_at_each_statement(tmp_path: Path, following: str) -> None:
    """The schema is the old one or the new one, and the events are those that were there."""
    template = tmp_path / "template.db"
    with open_database(template) as database:
        log = Log(database, registry=REGISTRY)
        file = file_of(log, grown(log, "s", 50))
    old = shape_of(template)
    path = tmp_path / "migrated.db"
    shutil.copy(template, path)
    [statements] = Victim(victims.migrate, str(path), following, victims.LAST).end()
    new = shape_of(path)
    assert old != new and statements > 15
    outcomes: set[str] = set()
    for statement in range(1, statements + 1):
        path = tmp_path / f"{statement}.db"
        shutil.copy(template, path)
        victim = Victim(victims.migrate, str(path), following, statement)
        assert victim.end() == [] and victim.died == -9
        try:
            with open_database(path) as database:
                log = Log(database, registry=REGISTRY)
                assert file_of(log, log.session("s")) == file
            assert shape_of(path) == old
            outcomes.add("old")
            # Whoever migrates next gets it done.
            assert len(Victim(victims.migrate, str(path), following, victims.LAST).end()) == 1
        except NewerSchema:
            outcomes.add("new")
        assert shape_of(path) == new
        with closing(sqlite3.connect(path)) as raw:
            assert raw.execute("SELECT count(*) FROM events WHERE weight = seq").fetchone() == (50,)
            assert raw.execute("SELECT version_num FROM alembic_version").fetchall() == [("0003",)]
    assert outcomes == {"old", "new"}


def test_a_migration_in_postgresql_killed_at_each_statement(
    postgres_url: str, following: str
) -> None:
    with made(postgres_url) as database:
        log = Log(database, registry=REGISTRY)
        file = file_of(log, grown(log, "s", 50))
    old = columns_of(postgres_url)
    statement = 0
    while True:
        statement += 1
        victim = Victim(victims.migrate, postgres_url, following, statement)
        if victim.end():
            break
        assert victim.died == -9
        if columns_of(postgres_url) != old:
            break
        with open_database(postgres_url) as database:
            log = Log(database, registry=REGISTRY)
            assert file_of(log, log.session("s")) == file
    assert statement > 12
    new = columns_of(postgres_url)
    assert new[-1] == (3,) and ("sessions", "colour", "text") in new
    with pytest.raises(NewerSchema):
        open_database(postgres_url)


# --- an import


def test_an_import_killed_at_statements_is_whole_or_absent(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with open_database(tmp_path / "from.db") as database:
        log = Log(database, registry=REGISTRY)
        root = grown(log, "root", 300)
        child = log.fork(root, 280, name="child")
        grown(log, "child", 700)
        file.write_bytes(file_of(log, log.get(child)))
    store = tmp_path / "to.db"
    open_database(store).close()
    [statements] = Victim(victims.take_in, str(tmp_path / "x.db"), str(file), victims.LAST).end()
    assert statements > 60
    for statement in [*range(5, statements, statements // 12), *range(statements - 4, statements)]:
        victim = Victim(victims.take_in, str(store), str(file), statement)
        assert victim.end() == [] or victim.died == 0
        with open_database(store, read_only=True) as database:
            log = Log(database, registry=REGISTRY)
            if log.sessions():
                assert file_of(log, log.session("child")) == file.read_bytes()
            with database.read() as tx:
                [(count,)] = tx.all("SELECT count(*) FROM sawlog.events")
            assert count in (0, 700)
    assert len(Victim(victims.take_in, str(store), str(file), victims.LAST).end()) == 1
    with open_database(store, read_only=True) as database:
        log = Log(database, registry=REGISTRY)
        assert file_of(log, log.session("child")) == file.read_bytes() and sound(log)


# --- no room


def test_a_file_that_may_not_grow_ends_at_the_last_good_event(tmp_path: Path) -> None:
    """Wherever the write fails: a named error, nothing half written, and later appends work."""
    path = tmp_path / "store.db"
    assert usable(path)
    names: set[str] = set()
    for room in range(0, 200_000, 13_337):
        [told, seqs] = Victim(victims.outgrow, str(path), room).end()
        name, words, head, number = told
        names.add(name)
        assert head == number * victims.BATCH and words
        assert seqs == tuple(range(head + 1, head + 1 + victims.BATCH))
        with open_database(path, read_only=True) as database:
            assert sound(Log(database, registry=REGISTRY))
    assert names and names <= {"OutcomeUnknown", "StoreFull"}


def test_a_full_file_system_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    """In a file system of two megabytes, where this machine lets one be made."""
    code = (
        "import json, sys\n"
        "from tests.store import victims\n"
        "class Told:\n"
        "    def send(self, value): print(json.dumps(value))\n"
        "victims.fill_up(sys.argv[1], Told())\n"
    )
    mount = 'mount -t tmpfs -o size=2m none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, code]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare here, so no small file system can be made")
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no small file system can be made here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    errno, told, seqs = json.loads(done.stdout)
    assert errno == 0, told
    name, words, head, number = told
    assert name == "StoreFull" and "make room" in words
    assert head == number * victims.BATCH
    assert seqs == [head + 1, head + 2, head + 3]

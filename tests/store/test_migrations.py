"""How a store comes to be and is recognised: migrations, schema numbers, files of other kinds."""

from __future__ import annotations

import re
import shutil
import sqlite3
import zipfile
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.dialects.postgresql.base import PGDialect

from sawlog import migrations
from sawlog.store.database import SCHEMA, open_database
from sawlog.store.errors import NewerSchema, NoStore, OldSchema, ReadOnly
from sawlog.store.log import Log
from sawlog.store.schema import Xid8, tables
from tests.store.stores import REGISTRY, deed, finished, made, python


def set_number(url: str, number: int) -> None:
    """Write another schema number into a store."""
    engine = create_engine(url)
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA user_version = {number}")
        else:
            connection.exec_driver_sql(f"UPDATE sawlog.store SET schema = {number}")
    engine.dispose()


def test_the_newest_migration_is_the_schema_of_this_release() -> None:
    assert migrations.head() == SCHEMA


def test_migrations_make_the_tables_that_the_schema_describes(
    new_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert migrations.upgrade(new_store_url) == (0, SCHEMA)
    engine = create_engine(new_store_url)
    postgresql = engine.dialect.name == "postgresql"
    monkeypatch.setitem(PGDialect.ischema_names, "xid8", Xid8)

    def ours(name: str | None, kind: str, parents: object) -> bool:
        if kind == "schema":
            return name == ("sawlog" if postgresql else None)
        return not (kind == "table" and re.fullmatch(r"alembic_version|\w+_\d\d", name or ""))

    options = {
        "include_schemas": postgresql,
        "include_name": ours,
        "version_table_schema": "sawlog" if postgresql else None,
    }
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, tables(engine.dialect.name)) == []
    engine.dispose()


def test_a_second_upgrade_changes_nothing(new_store_url: str) -> None:
    with made(new_store_url) as database:
        Log(database).session("s", create=True)
        epoch = database.epoch()
    assert migrations.upgrade(new_store_url) == (SCHEMA, SCHEMA)
    with open_database(new_store_url) as database:
        assert database.epoch() == epoch
        assert len(Log(database).sessions()) == 1


def test_postgresql_waits_for_the_command(empty_postgres_url: str) -> None:
    for read_only in (False, True):
        with pytest.raises(NoStore, match="migrate"):
            open_database(empty_postgres_url, read_only=read_only)
    migrations.upgrade(empty_postgres_url)
    with open_database(empty_postgres_url) as database:
        assert Log(database).sessions() == []


def test_postgresql_that_is_not_there_is_named(postgres_url: str) -> None:
    elsewhere = re.sub(r"/test_\d+\?", "/no_such_database?", postgres_url)
    with pytest.raises(NoStore, match="no_such_database"):
        open_database(elsewhere)
    with pytest.raises(NoStore):
        open_database("postgresql://localhost:1/x")
    with pytest.raises(NoStore):
        open_database("postgresql://localhost:port/x")


def test_a_newer_store_is_refused_by_name(store_url: str) -> None:
    with made(store_url) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        log.append(session, [deed()])
        set_number(store_url, SCHEMA + 1)
        for read_only in (False, True):
            with pytest.raises(NewerSchema, match="upgrade sawlog"):
                open_database(store_url, read_only=read_only)
        with pytest.raises(NewerSchema):
            migrations.upgrade(store_url)
        if database.dialect == "sqlite":
            with pytest.raises(NewerSchema):
                log.get(session)
        set_number(store_url, SCHEMA)
        assert log.append(session, [deed()]).seqs == (2,)


def test_an_older_store_is_not_migrated_by_reading(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(store_url).close()
    for module in ("database", "sqlite", "postgresql"):
        monkeypatch.setattr(f"sawlog.store.{module}.SCHEMA", SCHEMA + 1)
    if store_url.startswith("postgresql"):
        for read_only in (False, True):
            with pytest.raises(OldSchema, match="migrate"):
                open_database(store_url, read_only=read_only)
        return
    open_database(store_url, read_only=True).close()
    assert migrations.upgrade(store_url, SCHEMA) == (SCHEMA, SCHEMA)  # it is as it was
    monkeypatch.setattr("sawlog.store.sqlite.READABLE", SCHEMA + 1)
    with pytest.raises(OldSchema, match="migrate"):
        open_database(store_url, read_only=True)


class TestOtherFiles:
    """Whatever is no store stays as it is, and nothing appears beside it."""

    def files(self, folder: Path) -> list[Path]:
        """One file of each kind."""
        foreign = folder / "foreign.db"
        with sqlite3.connect(foreign) as db:
            db.execute("CREATE TABLE events (id INTEGER PRIMARY KEY)")
        db.close()
        named = folder / "named.db"
        shutil.copy(foreign, named)
        with sqlite3.connect(named) as db:
            db.execute("PRAGMA application_id = 77")
        db.close()
        (folder / "text.db").write_text("SQLite is a fine database.\n" * 100, encoding="utf-8")
        (folder / "short.db").write_bytes(b"SQLite format 3")
        (folder / "random.db").write_bytes(bytes(range(256)) * 64)
        with zipfile.ZipFile(folder / "zip.db", "w") as archive:
            archive.writestr("a", "b" * 1000)
        return sorted(folder.glob("*.db"))

    def test_they_are_refused_and_left_alone(self, tmp_path: Path) -> None:
        files = self.files(tmp_path)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert len(files) == 6
        for path in files:
            for options in ({}, {"read_only": True}, {"create": False}):
                with pytest.raises(NoStore, match=re.escape(path.name)):
                    open_database(path, **options)
            with pytest.raises(NoStore, match=re.escape(path.name)):
                migrations.upgrade(path)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_a_strangers_wal_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "wal.db"
        db = sqlite3.connect(path)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE theirs (id INTEGER PRIMARY KEY)")
        db.commit()
        before = [path.read_bytes(), path.with_name("wal.db-wal").read_bytes()]
        with pytest.raises(NoStore, match="another program"):
            open_database(path)
        assert [path.read_bytes(), path.with_name("wal.db-wal").read_bytes()] == before
        db.close()

    def test_folders_and_places_that_do_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(NoStore, match="a folder"):
            open_database(tmp_path)
        with pytest.raises(NoStore, match="no folder"):
            open_database(tmp_path / "missing" / "store.db")
        assert list(tmp_path.iterdir()) == []

    def test_an_empty_file_becomes_a_store_only_when_asked(self, tmp_path: Path) -> None:
        path = tmp_path / "empty.db"
        path.touch()
        for options in ({"read_only": True}, {"create": False}):
            with pytest.raises(NoStore, match="no store"):
                open_database(path, **options)
        assert path.read_bytes() == b""
        with open_database(path) as database:
            assert Log(database).sessions() == []

    def test_a_path_may_hold_any_character(self, tmp_path: Path) -> None:
        folder = tmp_path / "100% ?#&=é '\" dir"
        folder.mkdir()
        for name in ("a b%20.db", "ü?mode=ro.db", "#1.db"):
            with open_database(folder / name) as database:
                Log(database).session("s", create=True)
            with open_database(str(folder / name), read_only=True) as database:
                assert len(Log(database).sessions()) == 1
        assert {path.name for path in folder.glob("*.db")} == {"a b%20.db", "ü?mode=ro.db", "#1.db"}


def test_a_copy_that_is_not_in_wal_is_put_back_into_it(tmp_path: Path) -> None:
    with open_database(tmp_path / "store.db") as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        log.append(session, [deed()])
    db = sqlite3.connect(tmp_path / "store.db")
    db.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    db.close()
    with open_database(tmp_path / "copy.db") as database:
        log = Log(database, registry=REGISTRY)
        assert log.append(session.id, [deed()]).seqs == (2,)
    db = sqlite3.connect(tmp_path / "copy.db")
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


def test_a_store_cannot_be_made_where_nothing_can_be_written(empty_postgres_url: str) -> None:
    engine = create_engine(empty_postgres_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE ROLE reader LOGIN")
    reader = empty_postgres_url.replace("postgres@", "reader@")
    with pytest.raises(ReadOnly):
        migrations.upgrade(reader)
    with engine.connect() as connection:
        connection.exec_driver_sql("DROP ROLE reader")
    engine.dispose()


def test_the_ordinary_path_loads_no_alembic_and_reading_no_sqlalchemy(store_url: str) -> None:
    with made(store_url) as database:
        log = Log(database, registry=REGISTRY)
        log.append(log.session("s", create=True), [deed("a")])
    code = """
import sys
from sawlog.store.database import open_database
from sawlog.store.log import Log
from tests.store.stores import REGISTRY, deed
for name in [name for name in sys.modules if name.split(".")[0] in ("alembic", "sqlalchemy")]:
    del sys.modules[name]  # the helpers of the tests may have loaded them
for name in [name for name in sys.modules if name.startswith("sawlog.store.") and "sql" in name]:
    del sys.modules[name]
database = open_database(sys.argv[1])
log = Log(database, registry=REGISTRY)
[session] = log.sessions()
assert [event.seq for event in log.read(session)] == [1]
loaded = {name.split(".")[0] for name in sys.modules}
print("alembic" in loaded, "sqlalchemy" in loaded)
log.append(session, [deed("b")])
print("alembic" in {name.split(".")[0] for name in sys.modules})
database.close()
"""
    [printed] = finished([python(code, store_url)])
    postgresql = store_url.startswith("postgresql")
    assert printed.split() == ["False", str(postgresql), "False"]

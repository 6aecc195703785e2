"""SQLite behind the face: one writing connection a handle, many reading ones, a lock beside it.

Writers commit with synchronous=FULL, always. Readers open the file with mode=ro and change no byte
of database or WAL; they do not load SQLAlchemy, which would take longer than most of what they do.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import weakref
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING

from sawlog.store.database import READABLE, SCHEMA, Database, Transaction, Values, check_schema
from sawlog.store.errors import NoStore, OldSchema
from sawlog.store.packs import Shelf
from sawlog.store.sidelock import SideLock
from sawlog.store.sqlitefile import (
    APPLICATION_ID,
    Reader,
    connect,
    connect_to_write,
    identify,
    named,
    patiently,
)
from sawlog.store.sqlitetransaction import SqliteTransaction
from sawlog.store.sqlitewriter import Turn, Writing, sqlalchemy_on

if TYPE_CHECKING:
    from sqlalchemy import Connection

IDLE_READERS = 8
"""Reading connections that a handle keeps open for the next read."""


class SqliteDatabase(Database):
    """A store in an SQLite file."""

    dialect = "sqlite"

    def __init__(self, path: str, *, read_only: bool, wait: float) -> None:
        super().__init__(f"sqlite:///{path}", read_only=read_only, wait=wait)
        self.path = path
        self._idle: list[Reader] = []
        self.packs = self._shelf = Shelf()
        self._writing = Writing(path, self.url, wait, self._shelf)
        # Also when the handle is forgotten, and at exit: the closing writer tidies the WAL.
        self._let_go = weakref.finalize(self, _let_go, self._writing, self._idle, os.getpid())

    @contextmanager
    def read(self) -> Generator[Transaction]:
        """A transaction on a reading connection; it takes no lock that a writer would feel."""
        self._usable(writing=False)
        reader = self._reader()
        try:
            number = reader.begin()
            check_schema(self.url, number)
            yield SqliteTransaction(reader.raw, self.url, self._shelf if number > 1 else None)
        except sqlite3.Error as error:
            reader.broken = True
            raise named(error, self.url) from error
        finally:
            if reader.broken or self.closed or len(self._idle) >= IDLE_READERS:
                reader.raw.close()
            else:
                reader.raw.rollback()
                self._idle.append(reader)

    def _reader(self) -> Reader:
        while self._idle:
            with suppress(IndexError):  # another thread took the last one
                reader = self._idle.pop()
                if not reader.outdated:
                    return reader
                reader.raw.close()
        return Reader(self.path, self.url, self.wait)

    def write(self) -> AbstractContextManager[Transaction]:
        """A transaction on the one writing connection of this handle; threads take turns."""
        self._usable(writing=True)
        return Turn(self._writing, self)

    def append_at_once(
        self,
        session: bytes,
        move: Values,
        events: Sequence[Values],
        contents: Sequence[Values],
        given: Sequence[bytes] = (),
    ) -> bool:
        """Move a head and insert what comes with it; see `Database.append_at_once`."""
        self._usable(writing=True)
        writer = self._writing.take()
        try:
            return writer.append(move, events, contents, given)
        finally:
            self._writing.give_back()

    def shrink(self) -> None:
        """Write the file anew without its empty pages."""
        self._usable(writing=True)
        side = SideLock(f"{self.path}-lock")
        raw = connect_to_write(self.path, self.url, self.wait, side)
        try:
            with side.exclusive(self.wait):
                patiently(lambda: raw.execute("VACUUM"), self.url, self.wait)
                patiently(lambda: raw.execute("PRAGMA wal_checkpoint(TRUNCATE)"), self.url, 1.0)
        except sqlite3.Error as error:
            raise named(error, self.url) from error
        finally:
            raw.close()
            side.close()

    def close(self) -> None:
        """Close all connections; a writing one moves the WAL into the database first."""
        self.closed = True
        self._let_go()


def _let_go(writing: Writing, idle: list[Reader], process: int) -> None:
    if os.getpid() != process:
        return  # a forked child: the connections are its parent's
    while idle:
        idle.pop().raw.close()
    writing.close()


def open_sqlite(path: str, *, create: bool, read_only: bool, wait: float) -> SqliteDatabase:
    """The store in a file; see `database.open_database`."""
    found = identify(path, wait)
    if found != SCHEMA:
        check_schema(path, found)
        if not found and (read_only or not create):
            raise NoStore(f"there is no store at {path}")
        if read_only and found < READABLE:
            raise OldSchema(
                f"{path} has schema {found} and this sawlog reads {READABLE} and above: "
                f"run `sawlog --store {shlex.quote(path)} migrate`"
            )
        if not read_only:
            # The one look upward: making a store is the first migration, and only this path,
            # never the ordinary one, loads Alembic.
            from sawlog.migrations import upgrade

            upgrade(path, wait=wait)
    database = SqliteDatabase(path, read_only=read_only, wait=wait)
    database.schema = found if read_only and found else SCHEMA
    return database


class _SqliteChange:
    """A file held alone for its migrations."""

    def __init__(self, connection: Connection, found: int) -> None:
        self.connection = connection
        self.found = found

    def mark(self, number: int) -> None:
        """Write the schema's number, and whose file it is, into the header."""
        self.connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        self.connection.exec_driver_sql(f"PRAGMA user_version = {number}")


@contextmanager
def change_sqlite(path: str, wait: float) -> Generator[_SqliteChange]:
    """Hold a file alone, in one transaction, for its migrations; see `database.change_schema`."""
    identify(path, wait)  # a stranger's file gets no lock file beside it
    side = SideLock(f"{path}-lock")
    try:
        with side.exclusive(wait):
            # Again, now that nobody else can be making it.
            found = identify(path, wait)
            check_schema(path, found)
            raw = connect(path, "mode=rwc")
            try:
                raw.execute("PRAGMA synchronous=FULL")
                raw.execute("PRAGMA wal_autocheckpoint=0")
                patiently(lambda: raw.execute("PRAGMA journal_mode=WAL").fetchall(), path, wait)
                connection = sqlalchemy_on(raw, lambda: _begin_change(raw, path, wait))
                with connection.begin():
                    yield _SqliteChange(connection, found)
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                connection.close()
            finally:
                raw.close()
    except Exception as error:
        driver = getattr(error, "orig", error)  # SQLAlchemy wraps what its own calls met
        if isinstance(driver, sqlite3.Error):
            raise named(driver, path) from error
        raise
    finally:
        side.close()


def _begin_change(raw: sqlite3.Connection, path: str, wait: float) -> None:
    patiently(lambda: raw.execute("BEGIN IMMEDIATE"), path, wait)

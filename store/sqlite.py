"""SQLite behind the face: one writing connection a handle, many reading ones, a lock beside it.

Writers commit with synchronous=FULL, always. Readers open the file with mode=ro and change no byte
of database or WAL; they do not load SQLAlchemy, which would take longer than most of what they do.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING

from sawlog.store import blobs, rows
from sawlog.store.database import (
    SCHEMA,
    Database,
    Place,
    Row,
    Transaction,
    Values,
    check_schema,
)
from sawlog.store.errors import Busy, NoStore, OldSchema, OutcomeUnknown
from sawlog.store.sidelock import SideLock, wait_a_little
from sawlog.store.sqlitefile import (
    APPLICATION_ID,
    Reader,
    connect,
    connect_to_write,
    corrupt,
    identify,
    is_busy,
    is_fatal,
    is_io,
    is_no_text,
    named,
    patiently,
    version_of,
    wal_size,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

CHECKPOINT_BYTES = 2 << 20
"""About how much a handle writes before it moves the WAL into the database.

A WAL that is short is soon used again, and writing into it costs less than making it longer."""

IDLE_READERS = 8
"""Reading connections that a handle keeps open for the next read."""


@cache
def _text(sql: str) -> str:
    return sql.replace("sawlog.", "")


def _mended(text: bytes) -> str:
    return text.decode("utf-8", "replace")


class SqliteTransaction(Transaction):
    """A transaction on an sqlite3 connection."""

    arrival = "e.pos"

    def __init__(self, raw: sqlite3.Connection, url: str) -> None:
        self._raw = raw
        self._url = url
        self._execute = raw.execute
        self._execute_many = raw.executemany

    def all(self, sql: str, values: Values = ()) -> list[Row]:
        """Run a query and give its rows."""
        try:
            return self._execute(_text(sql), values).fetchall()
        except (sqlite3.OperationalError, UnicodeDecodeError) as error:
            if not is_no_text(error):
                raise
        # A flipped bit can make a text that is no UTF-8. Whoever reads the row finds it damaged;
        # the rows beside it are to be read all the same.
        self._raw.text_factory = _mended
        try:
            return self._execute(_text(sql), values).fetchall()
        except UnicodeDecodeError as error:
            raise corrupt(f"what SQLite has to say of it is no text: {error}") from error
        finally:
            self._raw.text_factory = str

    def run(self, sql: str, values: Values = ()) -> int:
        """Run a statement and give the number of rows that it touched."""
        return self._execute(_text(sql), values).rowcount

    def run_many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run a statement once for each row of values."""
        self._execute_many(_text(sql), rows)

    def run_new(self, sql: str, rows: Sequence[Values]) -> bool:
        """Insert rows; False when one of them is there already, and the transaction is spoilt."""
        try:
            self._execute_many(_text(sql), rows)
        except sqlite3.IntegrityError:
            return False
        return True

    def hold(self, sql: str, tenant: str, session: bytes) -> Row | None:
        """Run the query: BEGIN IMMEDIATE already keeps all other writers out."""
        check_schema(self._url, version_of(self._raw))  # somebody may have migrated meanwhile
        return self.one(sql, (tenant, session))

    def take_turn(self, session: bytes) -> None:
        """Nothing: BEGIN IMMEDIATE was everybody's turn."""

    def itself(self, table: str, index: str) -> str:
        """Rows found by an index, read by their rowid."""
        return (
            f"sawlog.{table} i INDEXED BY {index} LEFT JOIN sawlog.{table} e ON e.rowid = i.rowid"
        )

    def whole(self, table: str) -> str:
        """The table alone."""
        return f"sawlog.{table} s NOT INDEXED"

    def now(self, clock: Callable[[], int]) -> int:
        """The clock's time: all writers of a file are on one machine."""
        return clock()

    def changes(
        self, columns: str, after: Place, tenant: str | None, limit: int
    ) -> list[tuple[Place, Row]]:
        """Events by `pos`, which is given under the write lock."""
        # CROSS JOIN keeps SQLite from starting at the tenant's sessions and sorting.
        rows = self.all(
            f"SELECT e.pos, {columns} FROM sawlog.events e "
            "CROSS JOIN sawlog.sessions s ON s.sid = e.sid "
            f"WHERE e.pos > ? {'' if tenant is None else 'AND s.tenant = ?'} "
            "ORDER BY e.pos LIMIT ?",
            (after[0] if after else 0, *(() if tenant is None else (tenant,)), limit),
        )
        return [(row[:1], row[1:]) for row in rows]

    def horizon(self) -> Place:
        """The last `pos`: whatever comes later is given a greater one."""
        row = self.one("SELECT max(pos) FROM sawlog.events")
        return (row[0],) if row and row[0] is not None else ()


class SqliteDatabase(Database):
    """A store in an SQLite file."""

    dialect = "sqlite"

    def __init__(self, path: str, *, read_only: bool, wait: float) -> None:
        super().__init__(f"sqlite:///{path}", read_only=read_only, wait=wait)
        self.path = path
        self.turn = threading.Lock()
        self._idle: list[Reader] = []
        self.writers: list[_Writer] = []  # one or none
        # Also when the handle is forgotten, and at exit: the closing writer tidies the WAL.
        self._let_go = weakref.finalize(
            self, _let_go, self.turn, self._idle, self.writers, os.getpid()
        )

    @contextmanager
    def read(self) -> Generator[Transaction]:
        """A transaction on a reading connection; it takes no lock that a writer would feel."""
        self._usable(writing=False)
        reader = self._reader()
        try:
            check_schema(self.url, reader.begin())
            yield SqliteTransaction(reader.raw, self.url)
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
        return _Turn(self)

    def append_at_once(
        self, session: bytes, move: Values, events: Sequence[Values], contents: Sequence[Values]
    ) -> bool:
        """Move a head and insert what comes with it; see `Database.append_at_once`."""
        self._usable(writing=True)
        turn = _Turn(self)
        writer = turn.take()
        try:
            return writer.append(move, events, contents)
        finally:
            turn.give_back()

    def close(self) -> None:
        """Close all connections; a writing one moves the WAL into the database first."""
        self.closed = True
        self._let_go()


def _let_go(turn: threading.Lock, idle: list[Reader], writers: list[_Writer], process: int) -> None:
    if os.getpid() != process:
        return  # a forked child: the connections are its parent's
    while idle:
        idle.pop().raw.close()
    if turn.acquire(timeout=1.0):  # else a thread still writes: its connection ends with it
        try:
            while writers:
                writers.pop().close()
        finally:
            turn.release()


class _Turn:
    """One thread's turn at the writing connection; as a context manager, one transaction on it."""

    __slots__ = ("_database", "_writer")

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def take(self) -> _Writer:
        """Wait for the turn. Raises Busy."""
        database = self._database
        if not database.turn.acquire(timeout=database.wait):
            raise Busy(f"another thread kept writing to {database.path} for {database.wait:g} s")
        try:
            if not database.writers:
                database.writers.append(_Writer(database.path, database.url, database.wait))
            self._writer = database.writers[0]
        except BaseException:
            database.turn.release()
            raise
        return self._writer

    def give_back(self) -> None:
        """Let the next thread have it; a connection that failed goes."""
        database = self._database
        try:
            if self._writer.broken:
                database.writers.clear()
                self._writer.discard()
        finally:
            database.turn.release()

    def __enter__(self) -> Transaction:
        writer = self.take()
        try:
            return writer.begin()
        except BaseException:
            self.give_back()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._writer.commit()
            else:
                self._writer.roll_back(error)
        finally:
            self.give_back()


class _Writer:
    """The writing connection: SQLAlchemy's, driven at driver level, under the side lock."""

    def __init__(self, path: str, url: str, wait: float) -> None:
        self.broken = False
        self._url = url
        self._wait = wait
        self._side = SideLock(f"{path}-lock")
        self._raw = connect_to_write(path, url, wait, self._side)
        self._connection = _sqlalchemy_on(self._raw, self._begin)
        self._tx = SqliteTransaction(self._raw, url)
        # What writers left behind that were killed before they could tidy up.
        self._unmoved = CHECKPOINT_BYTES if wal_size(path) > CHECKPOINT_BYTES else 0

    def begin(self) -> Transaction:
        """Begin, when nobody else writes. Raises Busy."""
        self._tx.written = 0
        try:
            self._transaction = self._connection.begin()
        except BaseException as error:
            self._fail(error)
            raise
        return self._tx

    def commit(self) -> None:
        """Make the transaction durable, and tidy the WAL when enough was written."""
        try:
            self._transaction.commit()
        except BaseException as error:
            # A commit that failed still stands in the way of SQLAlchemy's next transaction.
            with suppress(Exception):
                self._transaction.rollback()
            self._fail(error, committing=True)
            raise
        self._side.release()
        self._tidy(self._tx.written)

    def roll_back(self, error: BaseException) -> None:
        """Undo the transaction, and name the driver's error if that is what ended it."""
        with suppress(Exception):  # what keeps it from ending is met again below
            self._transaction.rollback()
        self._fail(error)

    def append(self, move: Values, events: Sequence[Values], contents: Sequence[Values]) -> bool:
        """One append as a transaction of its own, without SQLAlchemy's part in it."""
        execute, execute_many = self._raw.execute, self._raw.executemany
        committing = False
        try:
            self._begin()
            if execute(_text(rows.MOVE), move).rowcount != 1:
                self._fail()
                return False
            if contents:
                execute_many(_text(blobs.INSERT), contents)
            execute_many(_text(rows.INSERT), events)
            committing = True
            self._raw.commit()
        except sqlite3.IntegrityError:
            self._fail()
            return False
        except BaseException as error:
            self._fail(error, committing)
            raise
        self._side.release()
        self._tidy(sum([len(row[-1]) for row in events]) + sum([len(row[-1]) for row in contents]))
        return True

    def _fail(self, error: BaseException | None = None, committing: bool = False) -> None:
        """Undo what was begun and let others write; raise the name of a driver's error."""
        try:
            self._raw.rollback()
        except sqlite3.Error:  # what cannot end goes with its connection
            self.broken = True
        self._side.release()
        driver = getattr(error, "orig", error)  # SQLAlchemy wraps what its own calls met
        if isinstance(driver, sqlite3.Error):
            self.broken = self.broken or is_fatal(driver)
            if committing and is_io(driver):
                raise OutcomeUnknown(
                    f"{self._url}: the medium failed while committing ({driver}); "
                    "the same call with the same ids settles whether it was written"
                ) from error
            raise named(driver, self._url) from error
        if committing:
            self.broken = True  # interrupted: who knows how far it came

    def _tidy(self, written: int) -> None:
        # A small append puts about five pages into the WAL.
        self._unmoved += written + 20_480
        if self._unmoved >= CHECKPOINT_BYTES:
            self._checkpoint()

    def close(self) -> None:
        """Move the WAL into the database, if nobody writes meanwhile, and close."""
        try:
            with self._side.exclusive(self._wait):
                # A reader may stand in its way; then the next writer moves the rest.
                with suppress(sqlite3.OperationalError):
                    self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._end()
        except Busy:
            # Others are connected, so SQLite itself does not checkpoint on closing either.
            self._end()
        self._side.close()

    def discard(self) -> None:
        """Close a connection that failed, without more ado."""
        self._end()
        self._side.close()

    def _end(self) -> None:
        with suppress(sqlite3.Error):
            self._raw.rollback()
        self._connection.close()
        self._raw.close()

    def _begin(self) -> None:
        # The side lock is given back before each sleep, so that whoever needs it alone gets it.
        deadline = 0.0
        while True:
            if self._side.try_shared():
                try:
                    self._raw.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.Error as error:
                    self._side.release()
                    if not is_busy(error):
                        raise
            deadline = deadline or time.monotonic() + self._wait
            if not wait_a_little(deadline):
                raise Busy(f"others kept writing to {self._url} for {self._wait:g} s; try again")

    def _checkpoint(self) -> None:
        # Whoever has just committed mostly finds the lock free; if not, the next commit tries.
        if not self._side.try_exclusive():
            return
        try:
            self._raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._unmoved = 0
        except sqlite3.Error as error:
            # The events are durable in the WAL, so this append succeeded; the next commit that
            # meets the fault says so.
            self.broken = is_fatal(error)
        finally:
            self._side.release()


def _sqlalchemy_on(raw: sqlite3.Connection, begin: Callable[[], None]) -> Connection:
    """SQLAlchemy's connection over a driver's, whose transactions begin as `begin` says."""
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import StaticPool

    def on_begin(_: Connection) -> None:
        begin()

    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
    event.listen(engine, "begin", on_begin)
    return engine.connect()


def open_sqlite(path: str, *, create: bool, read_only: bool, wait: float) -> SqliteDatabase:
    """The store in a file; see `database.open_database`."""
    found = identify(path, wait)
    if found != SCHEMA:
        check_schema(path, found)
        if not found and (read_only or not create):
            raise NoStore(f"there is no store at {path}")
        if read_only:
            raise OldSchema(
                f"{path} has schema {found} and this sawlog reads {SCHEMA}: "
                f"run `sawlog --store {shlex.quote(path)} migrate`"
            )
        # The one look upward: making a store is the first migration, and only this path, never
        # the ordinary one, loads Alembic.
        from sawlog.migrations import upgrade

        upgrade(path, wait=wait)
    return SqliteDatabase(path, read_only=read_only, wait=wait)


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
                connection = _sqlalchemy_on(raw, lambda: _begin_change(raw, path, wait))
                with connection.begin():
                    yield _SqliteChange(connection, found)
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                connection.close()
            finally:
                raw.close()
    except sqlite3.Error as error:
        raise named(error, path) from error
    finally:
        side.close()


def _begin_change(raw: sqlite3.Connection, path: str, wait: float) -> None:
    patiently(lambda: raw.execute("BEGIN IMMEDIATE"), path, wait)

"""Writing to an SQLite file: one connection a handle, which threads take turns at.

The connection takes the side lock before BEGIN IMMEDIATE and until commit, and moves the WAL into
the database as it grows and at the end.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from sawlog.store import blobs, rows
from sawlog.store.database import Transaction, Values
from sawlog.store.errors import Busy, OutcomeUnknown
from sawlog.store.packs import Shelf
from sawlog.store.sidelock import SideLock, wait_a_little
from sawlog.store.sqlitefile import connect_to_write, is_busy, is_fatal, is_io, named, wal_size
from sawlog.store.sqlitetransaction import SqliteTransaction, unqualified

if TYPE_CHECKING:
    from sqlalchemy import Connection

CHECKPOINT_BYTES = 2 << 20
"""About how much a handle writes before it moves the WAL into the database.

A WAL that is short is soon used again, and writing into it costs less than making it longer."""


_MOVE, _INSERT, _INSERT_BLOB = map(unqualified, (rows.MOVE, rows.INSERT, blobs.INSERT))


class Writing:
    """The writing side of a handle: its one connection, made on first use, and whose turn it is."""

    def __init__(self, path: str, url: str, wait: float, shelf: Shelf) -> None:
        self._path = path
        self._url = url
        self._wait = wait
        self._shelf = shelf
        self._lock = threading.Lock()
        self._writer: Writer | None = None

    def take(self) -> Writer:
        """Wait for the connection, and keep other threads from it. Raises Busy."""
        if not self._lock.acquire(timeout=self._wait):
            raise Busy(f"another thread kept writing to {self._path} for {self._wait:g} s")
        try:
            if self._writer is None:
                self._writer = Writer(self._path, self._url, self._wait, self._shelf)
            return self._writer
        except BaseException:
            self._lock.release()
            raise

    def give_back(self) -> None:
        """Let the next thread have it; a connection that failed goes."""
        writer = self._writer
        try:
            if writer is not None and writer.broken:
                self._writer = None
                writer.discard()
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connection, unless a thread still writes: then it ends with that thread."""
        if self._lock.acquire(timeout=1.0):
            try:
                writer, self._writer = self._writer, None
                if writer is not None:
                    writer.close()
            finally:
                self._lock.release()


class Turn:
    """One thread's turn at the writing connection, as one transaction on it.

    Holds on to the handle, for one that is forgotten closes its connections.
    """

    __slots__ = ("_handle", "_writer", "_writing")

    def __init__(self, writing: Writing, handle: object) -> None:
        self._writing = writing
        self._handle = handle

    def __enter__(self) -> Transaction:
        self._writer = self._writing.take()
        try:
            return self._writer.begin()
        except BaseException:
            self._writing.give_back()
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
            self._writing.give_back()


class Writer:
    """The writing connection: SQLAlchemy's, driven at driver level, under the side lock."""

    def __init__(self, path: str, url: str, wait: float, shelf: Shelf) -> None:
        self.broken = False
        self._url = url
        self._wait = wait
        self._side = SideLock(f"{path}-lock")
        self._shelf = shelf
        self._raw = connect_to_write(path, url, wait, self._side)
        self._cursor = self._raw.cursor()
        self._connection = sqlalchemy_on(self._raw, self._begin)
        self._tx = SqliteTransaction(self._raw, url, shelf)
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
        self._let_others(self._tx.written)

    def roll_back(self, error: BaseException) -> None:
        """Undo the transaction, and name the driver's error if that is what ended it."""
        with suppress(Exception):  # what keeps it from ending is met again below
            self._transaction.rollback()
        self._fail(error)

    def append(
        self,
        move: Values,
        events: Sequence[Values],
        contents: Sequence[Values],
        given: Sequence[bytes],
    ) -> bool:
        """One append as a transaction of its own, without SQLAlchemy's part in it."""
        cursor = self._cursor
        written = 0
        committing = False
        try:
            self._begin()
            if cursor.execute(_MOVE, move).rowcount != 1:
                self._fail()
                return False
            if given and self._shelf.by_ids(self._tx, move[3], given):
                self._fail()
                return False
            if contents:
                cursor.executemany(_INSERT_BLOB, contents)
                for row in contents:
                    written += len(row[-1])
            cursor.executemany(_INSERT, events)
            for row in events:
                written += len(row[-1])
            committing = True
            self._raw.commit()
        except sqlite3.IntegrityError:
            self._fail()
            return False
        except BaseException as error:
            self._fail(error, committing)
            raise
        self._let_others(written)
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

    def _let_others(self, written: int) -> None:
        """Give the side lock back behind a commit, and tidy the WAL before when it grew enough."""
        try:
            # A small append puts about five pages into the WAL.
            self._unmoved += written + 20_480
            if self._unmoved >= CHECKPOINT_BYTES:
                self._checkpoint()
        finally:
            self._side.release()

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
            self._cursor.close()  # its last statement would keep the file open
        self._connection.close()
        self._raw.close()

    def _begin(self) -> None:
        # Whoever waits asks for the side lock alone: while anybody writes, that fails in one system
        # call. A BEGIN that fails takes five more, and holds a lock of the WAL's readers meanwhile,
        # which may keep the next writer from starting the WAL anew. Once the transaction stands,
        # the lock is shared again.
        deadline = 0.0
        while True:
            if self._side.try_exclusive():
                try:
                    self._cursor.execute("BEGIN IMMEDIATE")
                    if self._side.try_shared():
                        return
                    self._raw.rollback()  # somebody came between, and finds the write lock taken
                except sqlite3.Error as error:
                    self._side.release()
                    if not is_busy(error):
                        raise
            deadline = deadline or time.monotonic() + self._wait
            if not wait_a_little(deadline):
                raise Busy(f"others kept writing to {self._url} for {self._wait:g} s; try again")

    def _checkpoint(self) -> None:
        # Nobody gets the lock alone while this writer shares it, so it mostly becomes its own; if
        # not, the next commit tries.
        if not self._side.try_exclusive():
            return
        try:
            self._raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._unmoved = 0
        except sqlite3.Error as error:
            # The events are durable in the WAL, so this append succeeded; the next commit that
            # meets the fault says so.
            self.broken = is_fatal(error)


def sqlalchemy_on(raw: sqlite3.Connection, begin: Callable[[], None]) -> Connection:
    """SQLAlchemy's connection over a driver's, whose transactions begin as `begin` says."""
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import StaticPool

    def on_begin(_: Connection) -> None:
        begin()

    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
    event.listen(engine, "begin", on_begin)
    return engine.connect()

"""PostgreSQL behind the face: connections at hand, the session's row as the lock.

All tables stand in the schema `sawlog`. An append takes the session's advisory lock, then its row
FOR UPDATE, before it writes anything. The advisory lock comes first because it costs no transaction
id: whoever waits is given its id only when its turn has come, so ids rise with seq in each session,
and a follower may go by them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg
from sqlalchemy import create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from sawlog.store.database import (
    SCHEMA,
    Database,
    Place,
    Row,
    Transaction,
    Values,
    check_schema,
)
from sawlog.store.errors import (
    Busy,
    Damaged,
    NoStore,
    OldSchema,
    OutcomeUnknown,
    ReadOnly,
    StoreError,
    StoreFull,
)
from sawlog.store.postgresqlline import AT_ONCE, SPACE, Line, turn

if TYPE_CHECKING:
    from sqlalchemy import Connection

_SCHEMA = "SELECT schema FROM sawlog.store"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


@cache
def _text(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()


class PostgresTransaction(Transaction):
    """A transaction on a psycopg connection."""

    arrival = "e.xid::text::bigint"

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw
        self._cursor = raw.cursor(binary=True)

    def all(self, sql: str, values: Values = ()) -> list[Row]:
        """Run a query and give its rows."""
        return self._cursor.execute(_text(sql), values).fetchall()

    def run(self, sql: str, values: Values = ()) -> int:
        """Run a statement and give the number of rows that it touched."""
        return self._cursor.execute(_text(sql), values).rowcount

    def run_many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run a statement once for each row of values."""
        if len(rows) == 1:
            self._cursor.execute(_text(sql), rows[0])
        else:
            self._cursor.executemany(_text(sql), rows)

    def run_new(self, sql: str, rows: Sequence[Values]) -> bool:
        """Insert rows; False when one of them is there already, and the transaction is spoilt."""
        try:
            self.run_many(sql, rows)
        except pg.UniqueViolation:
            return False
        return True

    def hold(self, sql: str, tenant: str, session: bytes) -> Row | None:
        """Run the query under the session's advisory lock, and lock the row that it finds."""
        text = _hold(sql)
        row: Row | None = self._cursor.execute(text, (turn(session), tenant, session)).fetchone()
        return row

    def take_turn(self, session: bytes) -> None:
        """Take the session's advisory lock, which costs no transaction id."""
        self.all(f"SELECT pg_advisory_xact_lock({SPACE}, ?::int)", (turn(session),))

    def itself(self, table: str, index: str) -> str:
        """Rows from the table, where PostgreSQL reads them whatever finds them."""
        return f"sawlog.{table} i LEFT JOIN LATERAL (SELECT i.*) e ON TRUE"

    def whole(self, table: str) -> str:
        """The table, by whatever way: its indexes are PostgreSQL's own care."""
        return f"sawlog.{table} s"

    def now(self, clock: Callable[[], int]) -> int:
        """The server's time, for the writers may be on many machines."""
        row = self.one("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        assert row is not None
        return int(row[0])

    def changes(
        self, columns: str, after: Place, tenant: str | None, limit: int
    ) -> list[tuple[Place, Row]]:
        """Events by (xid, sid, seq), below every transaction that still runs."""
        rows = self.all(
            f"SELECT e.xid::text::bigint, e.sid, e.seq, {columns} FROM sawlog.events e "
            "JOIN sawlog.sessions s ON s.sid = e.sid "
            "WHERE (e.xid, e.sid, e.seq) > (?::text::xid8, ?, ?) "
            "AND e.xid < pg_snapshot_xmin(pg_current_snapshot()) "
            f"{'' if tenant is None else 'AND s.tenant = ?'} "
            "ORDER BY e.xid, e.sid, e.seq LIMIT ?",
            (
                *((str(after[0]), after[1], after[2]) if after else ("0", 0, 0)),
                *(() if tenant is None else (tenant,)),
                limit,
            ),
        )
        return [(row[:3], row[3:]) for row in rows]

    def horizon(self) -> Place:
        """Just below the oldest transaction that still runs."""
        row = self.one("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
        assert row is not None
        return (int(row[0]), 0, 0)


@cache
def _hold(sql: str) -> bytes:
    # The rows are locked above the join, so the advisory lock is held before the row is asked for.
    return _text(
        "WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock("
        f"{SPACE}, ?::int)) {sql.replace(' WHERE ', ' CROSS JOIN turn WHERE ')} FOR UPDATE OF s"
    )


IDLE_CONNECTIONS = 8
"""Connections that a handle keeps at hand."""


class PostgresDatabase(Database):
    """A store in a PostgreSQL database."""

    dialect = "postgresql"

    def __init__(self, options: dict[str, Any], url: str, *, read_only: bool, wait: float) -> None:
        super().__init__(url, read_only=read_only, wait=wait)
        self._options = options
        self._idle: list[Line] = []
        self._patience = max(1, int(wait * 1000))

    @contextmanager
    def read(self) -> Generator[Transaction]:
        """A transaction that sees one state of the store, on a connection of its own."""
        self._usable(writing=False)
        yield from self._transaction(_READ)

    @contextmanager
    def write(self) -> Generator[Transaction]:
        """A transaction on a connection of its own."""
        self._usable(writing=True)
        yield from self._transaction(
            f"BEGIN; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {self._patience}"
        )

    def connect(self) -> psycopg.Connection[Any]:
        """A new connection. It opens no transactions of its own: ours begin by one message."""
        return psycopg.connect(**self._options, autocommit=True)

    def _transaction(self, begin: str) -> Iterator[Transaction]:
        committing = False
        try:
            with self._lent() as line:
                raw = line.raw
                raw.execute(begin.encode())
                try:
                    yield PostgresTransaction(raw)
                    committing = True
                    raw.commit()
                except BaseException:
                    if not raw.closed:
                        raw.rollback()
                    raise
        except psycopg.Error as error:
            raise named(error, self.url, committing) from error

    @contextmanager
    def _lent(self) -> Generator[Line]:
        line = self._line()
        try:
            yield line
        finally:
            self._back(line)

    def _line(self) -> Line:
        # A new one taken in place of one that died in its sleep is worth more than an error about
        # an append that never left.
        while True:
            try:
                line = self._idle.pop()
            except IndexError:
                return Line(self.connect())
            if line.awake():
                return line
            line.raw.close()

    def _back(self, line: Line) -> None:
        if self.closed or not line.idle or len(self._idle) >= IDLE_CONNECTIONS:
            line.raw.close()
        else:
            self._idle.append(line)

    def append_at_once(
        self,
        session: bytes,
        move: Values,
        events: Sequence[Values],
        contents: Sequence[Values],
        given: Sequence[bytes] = (),
    ) -> bool:
        """Move a head and insert what comes with it, in one statement and one round trip."""
        self._usable(writing=True)
        if len(events) > AT_ONCE or len(contents) > AT_ONCE:
            return False
        try:
            line = self._line()
            try:
                done = line.append(session, self._patience, move, events, contents)
            finally:
                self._back(line)
        except pg.UniqueViolation:
            return False
        except psycopg.Error as error:
            raise named(error, self.url, committing=True) from error
        return done == len(events)

    def renew_epoch(self) -> bytes:
        """Begin a new life of the store, as after a restore; followers must start anew.

        A restored database gives transaction ids from another series, so the rows that it brought
        are put before all of those.
        """
        epoch = os.urandom(16)
        with self.write() as tx:
            tx.run("UPDATE sawlog.events SET xid = '0' WHERE xid <> '0'")
            tx.run("UPDATE sawlog.store SET epoch = ?", (epoch,))
        return epoch

    def rest(self) -> None:
        """Let go of all connections that nobody uses."""
        while self._idle:
            self._idle.pop().raw.close()

    def close(self) -> None:
        """Close all connections, those in use when they come back."""
        self.closed = True
        self.rest()


def _place(url: str) -> tuple[dict[str, Any], str]:
    """What psycopg connects with, and the URL as it may be shown.

    SQLAlchemy reads the URL, because migrations reach the database by it, too.
    """
    try:
        parsed = make_url(url)
        _, options = parsed.get_dialect()().create_connect_args(parsed)
    except (ArgumentError, ValueError) as error:
        raise NoStore(f"{url} is no URL of a PostgreSQL database ({error})") from error
    return dict(options), parsed.render_as_string(hide_password=True)


def open_postgresql(url: str, *, read_only: bool, wait: float) -> PostgresDatabase:
    """The store in a database; see `database.open_database`."""
    options, shown = _place(url)
    database = PostgresDatabase(options, shown, read_only=read_only, wait=wait)
    try:
        found = _schema(database)
        check_schema(shown, found)
        if not found:
            raise NoStore(
                f"{shown} holds no sawlog store yet: "
                f"run `sawlog --store {shlex.quote(shown)} migrate`"
            )
        if found < SCHEMA:
            raise OldSchema(
                f"{shown} has schema {found} and this sawlog needs {SCHEMA}: "
                f"run `sawlog --store {shlex.quote(shown)} migrate`"
            )
    except BaseException:
        database.close()
        raise
    return database


def _schema(database: PostgresDatabase) -> int:
    try:
        with database.read() as tx:
            row = tx.one(_SCHEMA)
    except NoStore as error:
        if isinstance(error.__cause__, pg.UndefinedTable):
            return 0
        raise
    return int(row[0]) if row else 0


def _found(tx: Transaction) -> int:
    there = tx.one("SELECT to_regclass('sawlog.store') IS NOT NULL")
    if there is None or not there[0]:
        return 0
    row = tx.one(_SCHEMA)
    return int(row[0]) if row else 0


def _raw(connection: Connection) -> psycopg.Connection[Any]:
    raw: psycopg.Connection[Any] | None = connection.connection.driver_connection
    assert raw is not None
    return raw


class _PostgresChange:
    """A database held for its migrations."""

    def __init__(self, connection: Connection, found: int) -> None:
        self.connection = connection
        self.found = found

    def mark(self, number: int) -> None:
        """Write the schema's number."""
        self.connection.exec_driver_sql("UPDATE sawlog.store SET schema = %s", (number,))


@contextmanager
def change_postgresql(url: str, wait: float) -> Generator[_PostgresChange]:
    """Hold a database, in one transaction, for its migrations; see `database.change_schema`."""
    _, shown = _place(url)
    begin = (
        f"BEGIN; SET LOCAL lock_timeout = {max(1, int(wait * 1000))}; "
        f"SELECT pg_advisory_xact_lock({SPACE}, 0); CREATE SCHEMA IF NOT EXISTS sawlog"
    )
    # The driver opens no transaction: ours begins with one message that also takes the lock.
    engine = create_engine(url, isolation_level="AUTOCOMMIT")

    def on_begin(connection: Connection) -> None:
        _raw(connection).execute(begin.encode())

    event.listen(engine, "begin", on_begin)
    try:
        with engine.connect() as connection, connection.begin():
            found = _found(PostgresTransaction(_raw(connection)))
            check_schema(shown, found)
            yield _PostgresChange(connection, found)
    except (psycopg.Error, DBAPIError) as error:
        driver = getattr(error, "orig", error)
        assert isinstance(driver, psycopg.Error)
        raise named(driver, shown, False) from error
    finally:
        engine.dispose()


def named(error: psycopg.Error, url: str, committing: bool) -> StoreError:
    """The error of the tree that says what PostgreSQL's error means for the caller."""
    if error.sqlstate is None or isinstance(error, pg.AdminShutdown | pg.CrashShutdown):
        if committing:
            return OutcomeUnknown(
                f"the connection to {url} broke while committing ({_first(error)}); "
                "the same call with the same ids settles whether it was written"
            )
        return NoStore(f"{url} cannot be reached ({_first(error)}); nothing was written")
    match error:
        case pg.LockNotAvailable() | pg.DeadlockDetected() | pg.QueryCanceled():
            return Busy(f"{url} stayed locked by others ({_first(error)}); try again")
        case pg.TooManyConnections() | pg.SerializationFailure():
            return Busy(f"{url} is too busy ({_first(error)}); try again")
        case pg.DiskFull():
            return StoreFull(
                f"no room left for {url}: nothing of this was written; make room and try again"
            )
        case pg.ReadOnlySqlTransaction() | pg.InsufficientPrivilege():
            return ReadOnly(f"{url} cannot be written by this user or here ({_first(error)})")
        case pg.DataCorrupted() | pg.IndexCorrupted() | pg.UniqueViolation():
            return Damaged(f"{url} is damaged ({_first(error)}): run `sawlog verify --all`")
        case pg.UndefinedTable() | pg.InvalidCatalogName() | pg.InvalidSchemaName():
            return NoStore(f"{url} holds no sawlog store ({_first(error)})")
        case _:
            return StoreError(f"{url}: {_first(error)}")


def _first(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0]

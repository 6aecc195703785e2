"""SQLite or PostgreSQL behind one face: transactions that read, transactions that write.

What the two do differently is in `sqlite` and `postgresql`, and nowhere else. Statements are text
with `?` for parameters and `sawlog.` before each table; the dialect turns both into its own.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from types import TracebackType
from typing import Any, Protocol, Self

from sawlog.store.dictionary import Kept
from sawlog.store.errors import ConfigError, NewerSchema, NoStore, ReadOnly, StoreError

SCHEMA = 2
"""The number of the schema that this release writes: its newest migration."""

READABLE = 1
"""The oldest schema that an SQLite store can be read in without a migration."""

WAIT = 30.0
"""Seconds that a writer waits for others before it gives up with Busy."""

Values = Sequence[Any]
Row = tuple[Any, ...]
Place = tuple[int, ...]
"""A place in the order in which events arrived in the store; () is before the first."""


class Shelf(Protocol):
    """Where events are found that have no rows of their own: in packs (`packs.Shelf`).

    They come as rows of `events` would, in the order of seq. Each call may raise Damaged.
    """

    def rows(self, tx: Transaction, sid: int, first: int, last: int) -> list[Row]:
        """Those of a session's events from `first` to `last` that lie here."""
        ...

    def among(self, tx: Transaction, sid: int, seqs: Sequence[int]) -> list[Row]:
        """Those of a session's events of these seqs that lie here."""
        ...

    def digest_at(self, tx: Transaction, sid: int, seq: int) -> bytes | None:
        """The chain's digest at an event of a session that lies here; None: it does not."""
        ...

    def by_ids(self, tx: Transaction, sid: int, ids: Sequence[bytes]) -> list[Row]:
        """Those of a session's events of these ids that lie here."""
        ...


class Transaction(ABC):
    """One transaction on one connection. Errors of the driver are named where it ends."""

    written = 0
    """Bytes that went into rows, about: what tells SQLite when to tidy its WAL."""

    shelf: Shelf | None = None
    """Where events and blobs are found that lie in packs; None where there are none."""

    arrival: str
    """The column of events `e` that rises in the order of arrival."""

    @abstractmethod
    def all(self, sql: str, values: Values = ()) -> list[Row]:
        """Run a query and give its rows."""

    @abstractmethod
    def run(self, sql: str, values: Values = ()) -> int:
        """Run a statement and give the number of rows that it touched."""

    @abstractmethod
    def run_many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run a statement once for each row of values."""

    @abstractmethod
    def run_new(self, sql: str, rows: Sequence[Values]) -> bool:
        """Insert rows; False when one of them is there already, and the transaction is spoilt."""

    @abstractmethod
    def hold(self, sql: str, tenant: str, session: bytes) -> Row | None:
        """Run a query for one session's directory row and keep all other writers from it.

        The query takes tenant and id and ends with its WHERE clause.
        """

    @abstractmethod
    def take_turn(self, session: bytes) -> None:
        """Keep other appends from a session before anything is written; `hold` alone does it, too.

        Whoever will hold several sessions takes all turns first.
        """

    @abstractmethod
    def itself(self, table: str, index: str) -> str:
        """What stands in FROM to find rows by an index, `i`, and read them from the table, `e`.

        An index repeats columns, and a query that needs no more may never look at the table. Where
        the index leads to no row, all of `e` is NULL.
        """

    @abstractmethod
    def whole(self, table: str) -> str:
        """What stands in FROM to read a table, `s`, by no index where the file may be damaged."""

    @abstractmethod
    def now(self, clock: Callable[[], int]) -> int:
        """The time by which leases expire, in microseconds UTC: the server's, else the clock's."""

    @abstractmethod
    def changes(
        self, columns: str, after: Place, tenant: str | None, limit: int
    ) -> list[tuple[Place, Row]]:
        """Columns of events `e` and their sessions `s` after a place in the order of arrival."""

    @abstractmethod
    def horizon(self) -> Place:
        """The place up to which the order of arrival is settled, as this transaction sees it."""

    def one(self, sql: str, values: Values = ()) -> Row | None:
        """Run a query and give its first row, if any."""
        rows = self.all(sql, values)
        return rows[0] if rows else None

    def among(self, sql: str, values: Values, wanted: Sequence[Any]) -> list[Row]:
        """Run a query that ends with `IN (*)` for any number of wanted values."""
        rows: list[Row] = []
        for start in range(0, len(wanted), 256):
            some = wanted[start : start + 256]
            # Few distinct texts, so that prepared statements are met again: sizes are powers of
            # four, the last value filling up.
            size = next(size for size in (1, 4, 16, 64, 256) if size >= len(some))
            filled = (*some, *(some[-1],) * (size - len(some)))
            rows += self.all(_of_size(sql, size), (*values, *filled))
        return rows


@cache
def _of_size(sql: str, size: int) -> str:
    return sql.replace("IN (*)", f"IN ({', '.join('?' * size)})")


class Database(ABC):
    """A store's database. Threads may share it; a forked process must open its own."""

    dialect: str

    def __init__(self, url: str, *, read_only: bool, wait: float) -> None:
        self.url = url
        self.read_only = read_only
        self.wait = wait
        self.closed = False
        self.dictionaries = Kept()
        self.schema = SCHEMA
        """The number of the store's schema; lower only for one that is open for reading."""
        self.packs: Shelf | None = None
        """The packs that were read last; None where the store has none."""
        self._process = os.getpid()

    @abstractmethod
    def read(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one state of the store and changes nothing."""

    @abstractmethod
    def write(self) -> AbstractContextManager[Transaction]:
        """A transaction that is durable when its block ends, and undone when the block raises.

        Raises Busy after `wait` seconds behind others, StoreFull, ReadOnly, Damaged, NewerSchema,
        and OutcomeUnknown when the connection broke while committing.
        """

    @abstractmethod
    def append_at_once(
        self,
        session: bytes,
        move: Values,
        events: Sequence[Values],
        contents: Sequence[Values],
        given: Sequence[bytes] = (),
    ) -> bool:
        """Move a head and insert events and blobs, in the shortest transaction that does it.

        The values are those of `rows.MOVE`, `rows.INSERT` and `blobs.INSERT`; `given` are the ids
        that did not come into being with these events. False, with nothing written, when the head
        was not there to be moved or an event's id is taken.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of all connections. More than once is once."""

    def shrink(self) -> None:
        """Give room that is no longer used back to the file system; others wait meanwhile.

        PostgreSQL sees to it by itself, and nothing happens. Raises as `write`.
        """
        self._usable(writing=True)

    def epoch(self) -> bytes:
        """The random name of this life of the store: a follower's positions hold within one."""
        with self.read() as tx:
            return self.epoch_in(tx)

    def epoch_in(self, tx: Transaction) -> bytes:
        """The epoch as a transaction sees it. Raises NoStore where there is no store."""
        row = tx.one("SELECT epoch FROM sawlog.store")
        if row is None:
            raise NoStore(f"{self.url} holds no sawlog store")
        return bytes(row[0])

    def renew_epoch(self) -> bytes:
        """Begin a new life of the store, as after a restore; followers must start anew."""
        epoch = os.urandom(16)
        with self.write() as tx:
            tx.run("UPDATE sawlog.store SET epoch = ?", (epoch,))
        return epoch

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _usable(self, writing: bool) -> None:
        if os.getpid() != self._process:
            raise StoreError("this store was opened by the parent process: open it again here")
        if self.closed:
            raise StoreError(f"{self.url} was closed")
        if writing and self.read_only:
            raise ReadOnly(f"{self.url} was opened for reading only")


class SchemaChange(Protocol):
    """A store held for the change of its schema, in one transaction."""

    connection: Any
    """The SQLAlchemy connection that the migrations run on."""

    found: int
    """The schema's number before the change; 0: there was no store."""

    def mark(self, number: int) -> None:
        """Write the schema's number."""


def open_database(
    url: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    wait: float = WAIT,
) -> Database:
    """The database at a path (`agent.db`) or URL (`sqlite:///…`, `postgresql+psycopg://…`).

    An SQLite store that does not exist is made if `create` and not `read_only`, and one of an
    older schema is migrated unless `read_only`; PostgreSQL waits for `sawlog migrate`. Raises
    NoStore, OldSchema, NewerSchema, and Busy when others hold the store for more than `wait`
    seconds.
    """
    dialect, place = parse_url(url)
    if dialect == "sqlite":
        from sawlog.store.sqlite import open_sqlite

        return open_sqlite(place, create=create, read_only=read_only, wait=wait)
    try:
        from sawlog.store.postgresql import open_postgresql
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise ConfigError(
            "a PostgreSQL store needs psycopg: pip install 'sawlog[postgresql]'"
        ) from error
    return open_postgresql(place, read_only=read_only, wait=wait)


def change_schema(
    url: str | os.PathLike[str], wait: float = WAIT
) -> AbstractContextManager[SchemaChange]:
    """Hold a store, existing or not, for its migrations; only `migrations.upgrade` calls this."""
    dialect, place = parse_url(url)
    if dialect == "sqlite":
        from sawlog.store.sqlite import change_sqlite

        return change_sqlite(place, wait)
    from sawlog.store.postgresql import change_postgresql

    return change_postgresql(place, wait)


def parse_url(url: str | os.PathLike[str]) -> tuple[str, str]:
    """The dialect of a store, and its path (SQLite) or whole URL (PostgreSQL).

    Raises NoStore for what can hold no store.
    """
    text = os.fspath(url)
    scheme, separator, rest = text.partition("://")
    if not separator:
        path = text
    elif scheme in ("sqlite", "sqlite+pysqlite"):
        path, question, options = rest.partition("?")
        if question:
            raise NoStore(f"{text}: a store in SQLite takes no options ({options})")
        if path and not path.startswith("/"):
            raise NoStore(f"{text}: an SQLite URL has three slashes, sqlite:///{path}")
        path = path[1:]
    elif scheme in ("postgresql", "postgresql+psycopg", "postgres"):
        return "postgresql", f"postgresql+psycopg://{rest}"
    else:
        raise NoStore(
            f"{scheme}:// is no kind of store: give a file, sqlite:///FILE or postgresql+psycopg://…"
        )
    if not path or path == ":memory:" or "\0" in path:
        raise NoStore(f"{text!r} names no file; a store needs one, such as agent.db")
    return "sqlite", os.path.abspath(path)


def check_schema(url: str, found: int) -> None:
    """Raise NewerSchema when the store was written by a newer sawlog than this one."""
    if found > SCHEMA:
        raise NewerSchema(
            f"{url} was written by a newer sawlog (schema {found}, this one knows {SCHEMA}): "
            "upgrade sawlog to open it"
        )

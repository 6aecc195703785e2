"""A transaction on an sqlite3 connection, reading or writing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import cache

from sawlog.store.database import Place, Row, Transaction, Values, check_schema
from sawlog.store.packs import Shelf
from sawlog.store.sqlitefile import corrupt, is_no_text, version_of


@cache
def unqualified(sql: str) -> str:
    """A statement as SQLite takes it: its tables stand in no schema."""
    return sql.replace("sawlog.", "")


def _mended(text: bytes) -> str:
    return text.decode("utf-8", "replace")


class SqliteTransaction(Transaction):
    """A transaction on an sqlite3 connection."""

    arrival = "e.pos"

    def __init__(self, raw: sqlite3.Connection, url: str, shelf: Shelf | None) -> None:
        self.shelf = self._shelf = shelf
        self._raw = raw
        self._url = url
        self._execute = raw.execute
        self._execute_many = raw.executemany

    def all(self, sql: str, values: Values = ()) -> list[Row]:
        """Run a query and give its rows."""
        try:
            return self._execute(unqualified(sql), values).fetchall()
        except (sqlite3.OperationalError, UnicodeDecodeError) as error:
            if not is_no_text(error):
                raise
        # A flipped bit can make a text that is no UTF-8. Whoever reads the row finds it damaged;
        # the rows beside it are to be read all the same.
        self._raw.text_factory = _mended
        try:
            return self._execute(unqualified(sql), values).fetchall()
        except UnicodeDecodeError as error:
            raise corrupt(f"what SQLite has to say of it is no text: {error}") from error
        finally:
            self._raw.text_factory = str

    def run(self, sql: str, values: Values = ()) -> int:
        """Run a statement and give the number of rows that it touched."""
        return self._execute(unqualified(sql), values).rowcount

    def run_many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run a statement once for each row of values."""
        self._execute_many(unqualified(sql), rows)

    def run_new(self, sql: str, rows: Sequence[Values]) -> bool:
        """Insert rows; False when one of them is there already, and the transaction is spoilt."""
        try:
            self._execute_many(unqualified(sql), rows)
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
        """Events by `pos`, which is given under the write lock; packed ones among them."""
        # CROSS JOIN keeps SQLite from starting at the tenant's sessions and sorting.
        rows = self.all(
            f"SELECT e.pos, {columns} FROM sawlog.events e "
            "CROSS JOIN sawlog.sessions s ON s.sid = e.sid "
            f"WHERE e.pos > ? {'' if tenant is None else 'AND s.tenant = ?'} "
            "ORDER BY e.pos LIMIT ?",
            (after[0] if after else 0, *(() if tenant is None else (tenant,)), limit),
        )
        found = [(row[:1], row[1:]) for row in rows]
        if self._shelf is None:
            return found
        first = after[0] if after else 0
        return self._shelf.merged(
            self, found, self._shelf.arrived(self, first, tenant, limit), limit
        )

    def horizon(self) -> Place:
        """The last `pos`: whatever comes later is given a greater one."""
        row = self.one("SELECT max(pos) FROM sawlog.events")
        return (row[0],) if row and row[0] is not None else ()

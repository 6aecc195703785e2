"""SQLite: one writing connection a handle, many reading ones, and a lock beside the file.

Writers commit with synchronous=FULL, always. Readers open the file with mode=ro and change no byte
of database or WAL; they do not load SQLAlchemy, which would take longer than most of what they do.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sawlog.store.database import (
    SCHEMA,
    Database,
    Row,
    SchemaChange,
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
from sawlog.store.sidelock import SideLock, wait_a_little

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

APPLICATION_ID = 0x5341574C
"""What an SQLite file of ours says in its header: SAWL."""

CHECKPOINT_BYTES = 4 << 20
"""About how much a handle writes before it moves the WAL into the database."""

IDLE_READERS = 8
"""Reading connections that a handle keeps open for the next read."""


@cache
def _text(sql: str) -> str:
    return sql.replace("sawlog.", "")


class SqliteTransaction(Transaction):
    """A transaction on an sqlite3 connection."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._run = raw.execute
        self._run_many = raw.executemany

    def all(self, sql: str, values: Values = ()) -> list[Row]:
        """Run a query and give its rows."""
        return self._run(_text(sql), values).fetchall()

    def run(self, sql: str, values: Values = ()) -> int:
        """Run a statement and give the number of rows that it touched."""
        return self._run(_text(sql), values).rowcount

    def run_many(self, sql: str, rows: Any) -> None:
        """Run a statement once for each row of values."""
        text = _text(sql)
        if len(rows) == 1:
            self._run(text, rows[0])
        else:
            self._run_many(text, rows)

    def hold(self, sql: str, tenant: str, session: bytes) -> Row | None:
        """Run the query: BEGIN IMMEDIATE already keeps all other writers out."""
        row: Row | None = self._run(_text(sql), (tenant, session)).fetchone()
        return row

    def now(self, clock: Callable[[], int]) -> int:
        """The clock's time: all writers of a file are on one machine."""
        return clock()

    def changes(self, sql: str, after: Values, tenant: str | None, limit: int) -> list[Row]:
        """Events by `pos`, which is given under the write lock."""
        own = "" if tenant is None else "AND s.tenant = ?"
        values = [*(after or (0,)), *([] if tenant is None else [tenant]), limit]
        return self.all(f"{sql.replace('*', 'e.pos')} WHERE e.pos > ? {own} ORDER BY e.pos LIMIT ?", values)

    def horizon(self) -> tuple[int, ...]:
        """The last `pos`: whatever comes later is given a greater one."""
        row = self.one("SELECT max(pos) FROM sawlog.events")
        return (row[0] or 0,) if row else (0,)

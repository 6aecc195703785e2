"""Stores and events for the tests of the log; also what a third party does to register a type."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from sawlog.store import directory
from sawlog.store.database import Database, Row, Values, open_database
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import NoStore
from sawlog.store.events import CORE
from sawlog.store.events.base import Payload
from sawlog.store.events.registry import event
from sawlog.store.log import Log
from sawlog.store.sqlitetransaction import SqliteTransaction
from sawlog.store.text import Text

if TYPE_CHECKING:
    import pytest  # which the processes that tests start have no need of

ROOT = Path(__file__).parents[2]


@event("test.note", 1, open=True)
class Note(Payload, frozen=True):
    """An open event of a third party."""

    text: Text = ""


@event("test.deed", 1)
class Deed(Payload, frozen=True):
    """An event of a third party that only the driver of a session may append."""

    text: Text = ""


REGISTRY = CORE.extended((Note, Deed))


def made(url: str, **options: object) -> Database:
    """The store at a URL, made first where it must be."""
    try:
        return open_database(url, **options)  # type: ignore[arg-type]
    except NoStore:
        if not url.startswith("postgresql"):
            raise
    from sawlog import migrations  # loads Alembic, and processes that tests start come here, too

    migrations.upgrade(url)
    return open_database(url, **options)  # type: ignore[arg-type]


def note(text: str = "", **fields: object) -> NewEvent:
    """An open event."""
    return NewEvent(payload=Note(text=text), source="user", **fields)  # type: ignore[arg-type]


def deed(text: str = "", **fields: object) -> NewEvent:
    """An event that needs the lease where one is live."""
    return NewEvent(payload=Deed(text=text), source="harness", **fields)  # type: ignore[arg-type]


def expire(log: Log, session: bytes) -> None:
    """Let the lease in the session's row have expired, by whatever clock counts."""
    row = structs.replace(log.get(session), expires_at=1)
    values = (row.expires_at, directory.crc(log.tenant, row), row.sid)
    with log.database.write() as tx:
        assert tx.run("UPDATE sawlog.sessions SET expires_at = ?, crc = ? WHERE sid = ?", values)


RENEWED = 1.6
"""Seconds of a lease that is to be renewed three times in them, on a machine that may stand still
for one."""


def while_renewed(log: Log, session: bytes, times: int) -> Iterator[None]:
    """Give turns until the lease of a session was renewed so often; fails where nobody does."""
    seen = {log.get(session).expires_at}
    until = time.monotonic() + 60
    while len(seen) <= times:
        assert time.monotonic() < until, "nobody renews the lease"
        yield
        time.sleep(0.02)
        seen.add(log.get(session).expires_at)


def counted(start: int = 1) -> Callable[[], bytes]:
    """A maker of ids or salts that counts."""
    numbers = itertools.count(start)
    return lambda: next(numbers).to_bytes(16, "big")


def tables_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that queries of SQLite read from now on, one for each query, as they come."""
    whole = SqliteTransaction.all
    seen: list[str] = []

    def all(self: SqliteTransaction, sql: str, values: Values = ()) -> list[Row]:
        seen.append(sql.partition("sawlog.")[2].partition(" ")[0])
        return whole(self, sql, values)

    monkeypatch.setattr(SqliteTransaction, "all", all)
    return seen


def python(code: str, *arguments: str, stdin: int | None = None) -> subprocess.Popen[str]:
    """A fresh Python process that runs `code`, with the checkout's `tests` importable."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=stdin,
        env=environ,
    )


def finished(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    """What each of the processes printed. Fails with a process's words if it failed."""
    printed: list[str] = []
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        printed.append(out)
    return printed

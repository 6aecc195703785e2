"""What the processes do that `test_kill` kills. Each acknowledges on a pipe what has returned."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import sqlite3
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg

from sawlog import migrations
from sawlog.store import sqlitewriter
from sawlog.store.database import SCHEMA, open_database
from sawlog.store.errors import StoreError
from sawlog.store.exchange import lines_of, load
from sawlog.store.log import Log
from sawlog.store.packing import pack
from tests.store.stores import REGISTRY, deed, made

BATCH = 3
"""Events of a batch: a head that it does not divide is half a batch."""

LAST = 0xFFFF
"""A statement that no run comes to: it is not killed."""


def batch(number: int) -> list[Any]:
    """The events of a batch, the same whoever makes them: short, a blob of its own, a known one."""
    noise = random.Random(number)
    texts = (str(number), noise.randbytes(noise.choice((10, 3000, 20_000))).hex(), "again " * 1000)
    return [deed(text, key=f"{number}.{at}", occurred_at=number) for at, text in enumerate(texts)]


def write(url: str, run: int, acknowledge: Connection) -> None:
    """Append batches until killed, beginning with the last one that is there.

    Every third run moves its WAL into the database all the time.
    """
    if run % 3 == 0:
        sqlitewriter.CHECKPOINT_BYTES = 50_000
    with open_database(url) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        number = max(0, session.head // BATCH - 1)
        while True:
            done = log.append(session, batch(number))
            assert done.seqs == tuple(range(number * BATCH + 1, number * BATCH + BATCH + 1))
            acknowledge.send((done.seqs[-1], log.events(session, [done.seqs[-1]])[0].digest))
            number += 1


class Statements:
    """Counts the statements of this process, and kills it when it begins the one of a number."""

    def __init__(self) -> None:
        self.count = 0
        self.last = LAST
        connect = sqlite3.connect

        def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
            raw: sqlite3.Connection = connect(*arguments, **options)
            raw.set_trace_callback(self._begun)
            return raw

        setattr(sqlite3, "connect", connected)  # noqa: B010, mypy holds it to its own type
        for name in ("execute", "executemany"):
            setattr(psycopg.Cursor, name, self._counted(getattr(psycopg.Cursor, name)))

    def _begun(self, *_: object) -> None:
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def _counted(self, method: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self._begun()
            return method(*arguments, **options)

        return call

    def start(self, last: int) -> None:
        """Count from here."""
        self.count, self.last = 0, last


def create(url: str, statement: int, acknowledge: Connection) -> None:
    """Make a store."""
    statements = Statements()
    statements.start(statement)
    made(url).close()
    acknowledge.send(statements.count)


def migrate(url: str, folder: str, statement: int, acknowledge: Connection) -> None:
    """Bring a store to the schema after the newest, whose migration is in a folder."""
    config = migrations._config()  # pyright: ignore[reportPrivateUsage]
    config.set_main_option("script_location", folder)
    setattr(migrations, "_config", lambda: config)  # noqa: B010, it is meant
    statements = Statements()
    statements.start(statement)
    assert migrations.upgrade(url, SCHEMA + 1)[1] == SCHEMA + 1
    acknowledge.send(statements.count)


def append(url: str, statement: int, acknowledge: Connection) -> None:
    """Append two batches, the first one to a session that this handle has not seen yet."""
    statements = Statements()
    with open_database(url) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        number = session.head // BATCH
        statements.start(statement)
        log.append(session, batch(number))
        log.append(session, batch(number + 1))
        acknowledge.send(statements.count)


def take_in(url: str, file: str, statement: int, acknowledge: Connection) -> None:
    """Read an export into a store."""
    statements = Statements()
    statements.start(statement)
    with made(url) as database, open(file, "rb") as lines:
        load(Log(database, registry=REGISTRY), lines_of(lines))
    acknowledge.send(statements.count)


def pack_away(url: str, statement: int, acknowledge: Connection) -> None:
    """Pack all of the session `s` but its newest event."""
    statements = Statements()
    with open_database(url) as database:
        row = Log(database, registry=REGISTRY).session("s")
        statements.start(statement)
        pack(database, row)
        acknowledge.send(statements.count)


def outgrow(url: str, room: int, acknowledge: Connection) -> None:
    """Append until no file may grow any more; then with room again.

    Acknowledges the error's name and what it says of the head, and afterwards what the same call
    gives.
    """
    largest = max(path.stat().st_size for path in Path(url).parent.glob("*.db*"))
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_database(url) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + room, kept[1]))
        number = session.head // BATCH
        try:
            while True:
                log.append(session, batch(number))
                number += 1
        except StoreError as error:
            acknowledge.send((type(error).__name__, str(error), log.get(session).head, number))
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
        acknowledge.send(log.append(session, batch(number)).seqs)


def fill_up(folder: str, acknowledge: Connection) -> None:
    """Write to a store in a file system of its own until there is no room, and once more with it.

    Acknowledges errno 0 and whether a full file system was met, or the errno of what this machine
    does not allow.
    """
    ballast = Path(folder) / "ballast"
    try:
        ballast.write_bytes(bytes(200_000))
        with open_database(f"{folder}/store.db") as database:
            log = Log(database, registry=REGISTRY)
            session = log.session("s", create=True)
            number = 0
            told: tuple[str, str, int, int] = ("", "it was never full", 0, 0)
            try:
                while number < 2000:
                    log.append(session, batch(number))
                    number += 1
            except StoreError as error:
                told = (type(error).__name__, str(error), log.get(session).head, number)
            ballast.unlink()
            again = log.append(session, batch(number)).seqs
            acknowledge.send((0, told, again))
    except OSError as error:
        acknowledge.send((error.errno or errno.EIO, str(error), ()))

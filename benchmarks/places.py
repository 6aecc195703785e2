"""Where a run keeps its sessions: a folder of SQLite files, or one PostgreSQL database."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import sawlog
from benchmarks.floors import ONE, Floor, SqliteFloor

SQLITE, POSTGRESQL = "sqlite", "postgresql"


class Place(Protocol):
    """Gives every session a store and a floor beside it. A `tag` names both, and the session."""

    @property
    def kind(self) -> str:
        """`sqlite` or `postgresql`."""
        ...

    def url(self, tag: str) -> str:
        """The store of that session, as `sawlog.open` takes it."""
        ...

    def name(self, tag: str) -> str:
        """The session's name there."""
        ...

    def floor_url(self, tag: str) -> str:
        """Where its floor lies; one place for all writers of one tag."""
        ...

    def floor(self, tag: str, session: str = ONE) -> Floor:
        """The floor, opened; made when it is not there."""
        ...


class SqlitePlace:
    """Every session in a file of its own."""

    kind = SQLITE

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def url(self, tag: str) -> str:
        """The session's file."""
        return str(self._folder / f"{tag}.db")

    def name(self, tag: str) -> str:
        """The session's name."""
        return tag

    def floor_url(self, tag: str) -> str:
        """The floor's file."""
        return str(self._folder / f"{tag}-floor.db")

    def floor(self, tag: str, session: str = ONE) -> Floor:
        """The floor with `FULL`."""
        return SqliteFloor(self.floor_url(tag), session)

    def lax_floor(self, tag: str) -> Floor:
        """The floor with `NORMAL`, which a power cut may undo."""
        return SqliteFloor(str(self._folder / f"{tag}-lax.db"), synchronous="NORMAL")

    def has(self, tag: str) -> bool:
        """True when that session was recorded already."""
        return Path(self.url(tag)).exists()

    def bytes_of(self, tag: str) -> int:
        """Bytes on disk of a store that is closed."""
        beside = (Path(self.url(tag) + end) for end in ("", "-wal", "-shm"))
        return sum(file.stat().st_size for file in beside if file.exists())


class PostgresPlace:
    """All sessions in one database, and the floors as tables beside sawlog's own.

    Names carry the time of the run, so that a database may be used again. `close` drops the floors
    and leaves the sessions.
    """

    kind = POSTGRESQL

    def __init__(self, url: str) -> None:
        from sawlog import migrations

        self._url = url
        self._run = f"{time.time_ns():x}"
        self._floors: set[str] = set()
        migrations.upgrade(url)

    def url(self, tag: str) -> str:
        """The database."""
        return self._url

    def name(self, tag: str) -> str:
        """The session's name, which no other run has."""
        return f"{tag}-{self._run}"

    def floor_url(self, tag: str) -> str:
        """The database."""
        return self._url

    def floor(self, tag: str, session: str = ONE) -> Floor:
        """The floor's table."""
        from benchmarks.postgresfloor import PostgresFloor

        table = f"bare_{self.name(tag)}"
        self._floors.add(table)
        return PostgresFloor(self._url, session, table)

    def close(self) -> None:
        """Drop the floors."""
        import psycopg
        from psycopg import sql

        from benchmarks.postgresfloor import bare

        with psycopg.connect(bare(self._url), autocommit=True) as db:
            for table in sorted(self._floors):
                db.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(table)))


def opened(place: Place, tag: str) -> sawlog.AgentLog:
    """The store of a session, opened to be written."""
    return sawlog.open(place.url(tag))


@contextmanager
def postgres(url: str) -> Generator[PostgresPlace]:
    """A place in the database at `url`, or in a server that is started for it when it is empty.

    Raises RuntimeError or ModuleNotFoundError, saying why, when no server can be started.
    """
    if url:
        place = PostgresPlace(url)
        try:
            yield place
        finally:
            place.close()
        return
    from tests.postgres import PostgresServer

    server = PostgresServer.start()
    try:
        with server.database() as own:
            yield PostgresPlace(own)
    finally:
        server.close()

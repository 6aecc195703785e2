"""What bare PostgreSQL costs: P, psycopg with prepared statements, beside `floors.SqliteFloor`."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg import sql

from benchmarks.floors import ALL, ONE, decode, encode, messages
from benchmarks.workload import Part


class PostgresFloor:
    """P: bare psycopg with a prepared statement; `url` as `sawlog.open` takes it."""

    def __init__(self, url: str, session: str = ONE, table: str = "bare") -> None:
        self._session = session
        self._db = psycopg.connect(bare(url), autocommit=True)
        name = sql.Identifier(table)
        with self._db.transaction():
            # Writers that start at once would make the table twice.
            self._db.execute("SELECT pg_advisory_xact_lock(7)")
            self._db.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {} (session text NOT NULL, seq bigint NOT NULL, "
                    "step int NOT NULL, body bytea NOT NULL, PRIMARY KEY (session, seq))"
                ).format(name)
            )
        self._insert = sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %b)").format(name)
        self._select = sql.SQL(
            "SELECT body FROM {} WHERE session = %s AND step <= %s ORDER BY seq"
        ).format(name)
        last = sql.SQL("SELECT coalesce(max(seq), 0) FROM {} WHERE session = %s").format(name)
        found = self._db.execute(last, (session,)).fetchone()
        self._seq: int = found[0] if found is not None else 0

    def append(self, part: Part) -> None:
        """One part in a transaction of its own."""
        self._db.execute(self._insert, self._row(part), prepare=True)

    def batch(self, parts: Iterable[Part]) -> None:
        """All of these in one transaction."""
        rows = [self._row(part) for part in parts]
        with self._db.transaction(), self._db.cursor() as cursor:
            cursor.executemany(self._insert, rows)

    def messages(self, upto: int = ALL) -> list[Part]:
        """The model's messages up to that step."""
        with self._db.cursor(binary=True) as cursor:
            rows = cursor.execute(self._select, (self._session, upto))
            return messages([decode(body) for (body,) in rows])

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _row(self, part: Part) -> tuple[str, int, int, bytes]:
        self._seq += 1
        return self._session, self._seq, part["step"], encode(part)


def bare(url: str) -> str:
    """A URL of `sawlog.open` as psycopg takes it."""
    return url.replace("postgresql+psycopg:", "postgresql:", 1)

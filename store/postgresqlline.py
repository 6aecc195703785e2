"""One connection to PostgreSQL, and the append that goes over it in one message and one answer.

An append is a statement that takes the session's turn, then its row, and only then writes: what is
inserted hangs on the row that was moved. psycopg's own way from Python values to the server takes
as long as the server's work, so this statement goes to libpq directly, its values in the binary
form that the columns have.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg import pq
from psycopg.types.numeric import Int8BinaryDumper

from sawlog.store import blobs, rows
from sawlog.store.database import Values

SPACE = 0x5341574C
"""The first key of our advisory locks, so that they meet nobody else's."""

AT_ONCE = 32
"""Events, and contents, that an append may bring in one statement."""

_PREPARED = 8
"""Events, and contents, up to which the server keeps the statement's plan."""

_EVENT = (
    "bigint bigint bytea text bigint bigint bigint text bigint bigint bigint bytea bytea bytea "
    "int bytea"
).split()
_BLOB = "bigint bytea bigint int bytea".split()
_MOVE = "bigint bytea bigint bigint bigint bigint".split()

_BINARY: dict[str, Callable[[Any], bytes]] = {
    "bigint": struct.Struct(">q").pack,
    "int": struct.Struct(">i").pack,
    "text": str.encode,
    "bytea": bytes,
}
_EVENT_BINARY, _BLOB_BINARY, _MOVE_BINARY = (
    [_BINARY[name] for name in types] for types in (_EVENT, _BLOB, _MOVE)
)


def turn(session: bytes) -> int:
    """The second key of a session's advisory lock.

    Two sessions that share it only wait for each other without need.
    """
    return int.from_bytes(session[-4:], "big", signed=True)


class Line:
    """A connection that is lent to one use at a time."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw
        # One size of integer, so that a statement is prepared once and not once a size.
        raw.adapters.register_dumper(int, Int8BinaryDumper)
        self._libpq = raw.pgconn
        self._prepared = set[bytes]()
        self._poll = select.poll()
        self._poll.register(raw.fileno(), select.POLLIN)

    def awake(self) -> bool:
        """Whether the connection still stands.

        It may have died in its sleep: the server's farewell then waits to be read.
        """
        if self._poll.poll(0):
            try:
                self.raw.execute("SELECT 1")
            except psycopg.Error:
                return False
        return True

    @property
    def idle(self) -> bool:
        """Whether the next one can use it: it stands, and nothing is under way on it."""
        return (
            not self.raw.closed
            and self._libpq.transaction_status == pq.TransactionStatus.IDLE
            and self._libpq.pipeline_status == pq.PipelineStatus.OFF
        )

    def append(
        self,
        session: bytes,
        patience: int,
        move: Values,
        events: Sequence[Values],
        contents: Sequence[Values],
    ) -> int:
        """Move a head and insert what comes with it; gives the number of events inserted.

        The values are those of `rows.MOVE`, `rows.INSERT` and `blobs.INSERT`, `patience` the
        milliseconds to wait for a lock. Raises what psycopg raises.
        """
        shape = _shape(len(events), len(contents))
        values: list[bytes | None] = [b"%d" % patience, session[-4:]]
        values += map(_binary, _MOVE_BINARY, move)
        for row in contents:
            values += map(_binary, _BLOB_BINARY, row)
        for row in events:
            values += map(_binary, _EVENT_BINARY, row)
        try:
            return self._run(shape, values).command_tuples or 0
        except BaseException as error:
            if not isinstance(error, psycopg.Error):
                # Interrupted. Nobody will read the answer or knows what was prepared, so the
                # connection goes, and before it what waits in the server.
                if self._libpq.transaction_status == pq.TransactionStatus.ACTIVE:
                    self.raw.cancel_safe(timeout=5)
                self.raw.close()
            raise

    def _run(self, shape: _Shape, values: Sequence[bytes | None]) -> pq.abc.PGresult:
        if not shape.name:
            self._libpq.send_query_params(
                shape.text, values, param_formats=shape.formats, result_format=pq.Format.BINARY
            )
            return self._answer()
        if shape.name in self._prepared:
            try:
                return self._run_prepared(shape, values)
            except pg.InvalidSqlStatementName:
                # With a rollback psycopg lets go of all plans of its connection; a pooler may, too.
                self._prepared.clear()
        self._libpq.send_prepare(shape.name, shape.text)
        with suppress(pg.DuplicatePreparedStatement):  # when one plan went, others may have stayed
            self._answer()
        self._prepared.add(shape.name)
        return self._run_prepared(shape, values)

    def _run_prepared(self, shape: _Shape, values: Sequence[bytes | None]) -> pq.abc.PGresult:
        self._libpq.send_query_prepared(shape.name, values, shape.formats, pq.Format.BINARY)
        return self._answer()

    def _answer(self) -> pq.abc.PGresult:
        libpq, wait = self._libpq, self._poll.poll
        while libpq.flush():  # much to send: the server may want to be read before it reads on
            self._poll.modify(libpq.socket, select.POLLIN | select.POLLOUT)
            try:
                wait()
            finally:
                self._poll.modify(libpq.socket, select.POLLIN)
            libpq.consume_input()
        answer: pq.abc.PGresult | None = None
        while True:
            while libpq.is_busy():
                wait()
                libpq.consume_input()
            result = libpq.get_result()
            if result is None:
                break
            answer = result
            if result.status != pq.ExecStatus.COMMAND_OK:  # committing may fail behind success
                while libpq.get_result() is not None:
                    pass
                raise pg.error_from_result(result)
        assert answer is not None
        return answer


def _binary(pack: Callable[[Any], bytes], value: Any) -> bytes | None:
    return None if value is None else pack(value)


class _Shape:
    """The statement for so many events and contents; without a name it is planned each time."""

    def __init__(self, events: int, contents: int) -> None:
        parts = _append_text(events, contents).split("?")
        self.formats = [pq.Format.BINARY] * (len(parts) - 1)
        numbered = (f"${number}{part}" for number, part in enumerate(parts[1:], 1))
        self.text = (parts[0] + "".join(numbered)).encode()
        kept = events <= _PREPARED and contents <= _PREPARED
        self.name = f"sawlog_append_{events}_{contents}".encode() if kept else b""


@cache
def _shape(events: int, contents: int) -> _Shape:
    return _Shape(events, contents)


def _append_text(events: int, contents: int) -> str:
    def values(types: Sequence[str], count: int) -> str:
        row = f"({', '.join(f'?::{name}' for name in types)})"
        return f"(VALUES {', '.join([row] * count)}) AS v"

    def hung(insert: str, types: Sequence[str], count: int) -> str:
        into, _, rest = insert.partition(" VALUES (")
        after = rest.partition(")")[2]
        return f"{into} SELECT v.* FROM moved CROSS JOIN {values(types, count)}{after}"

    stored = f", stored AS ({hung(blobs.INSERT, _BLOB, contents)})" if contents else ""
    moved = rows.MOVE.replace(" WHERE ", " FROM turn WHERE ")
    return (
        "WITH turn AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true), "
        f"set_config('lock_timeout', ?, true), pg_advisory_xact_lock({SPACE}, ?::int)), "
        f"moved AS ({moved} RETURNING 1){stored} {hung(rows.INSERT, _EVENT, events)}"
    )

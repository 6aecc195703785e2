"""What a piece of work costs, in counts: the same on every machine, and on a busy one.

Counted is where the work leaves sawlog: at sqlite3's and psycopg's connections, at hashlib, at
msgspec's encoders, at zstd. So nothing that is done twice hides behind a method that was renamed.

statements    calls of execute and executemany; `SELECT events` and the like tell verb and table
commits       transactions that ended in COMMIT and had written
rows, read    rows that were fetched, and the bytes of their values
put, written  rows that were given to statements that write, and the bytes of their values
effort        hundreds of instructions of SQLite's machine: a scan shows here, whatever it gives
hashes, hashed      SHA-256 begun or copied, and the bytes that went in
encodes, encoded    msgspec's encoders called, and the bytes that came out
packs, packed       zstd frames made, and the bytes that went in
unpacks, unpacked   zstd frames opened, and the bytes that came out
exchanges     what was sent to PostgreSQL and waited for: round trips, about
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import msgspec
import psycopg
import pytest

from sawlog.store.postgresqlline import Line

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import zstandard as zstd

Counts = Counter[str]

_STEP = 100
"""Instructions of SQLite's machine that are counted as one."""

_DURABLE, _FAST = "PRAGMA synchronous=FULL", "PRAGMA synchronous=OFF"
"""What is counted need not wait for a disk: the statements are the same ones."""

_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+(?:OR \w+ )?(\w+)")
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")


class Meter:
    """What was spent since it was last asked. Work of other threads counts, too."""

    def __init__(self) -> None:
        self.now: Counts = Counter()

    def spent(self) -> Counts:
        """The counts since the last call."""
        spent, self.now = self.now, Counter()
        return spent

    # --- sqlite3 --------------------------------------------------------------------------------

    def statement(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Take note of a statement and of the rows of values that it is given."""
        verb = sql.split(None, 1)[0].upper()
        table = _TABLE.search(sql)
        self.now["statements"] += 1
        self.now[f"{verb} {table[1]}" if table else verb] += 1
        if verb in _WRITES:
            self.now["put"] += len(rows)
            self.now["written"] += sum(map(_size, rows))

    def fetched(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take note of rows that came out."""
        for row in rows:
            self.now["rows"] += 1
            self.now["read"] += _size(row)


def _size(row: Sequence[Any]) -> int:
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)


def _connection(meter: Meter) -> type[sqlite3.Connection]:
    class CountedCursor(sqlite3.Cursor):
        def execute(self, sql: str, parameters: Any = (), /) -> CountedCursor:
            meter.statement(sql, [parameters])
            super().execute(sql, parameters)
            return self

        def executemany(self, sql: str, seq_of_parameters: Iterable[Any], /) -> CountedCursor:
            rows = list(seq_of_parameters)
            meter.statement(sql, rows)
            super().executemany(sql, rows)
            return self

        def fetchone(self) -> Any:
            row = super().fetchone()
            meter.fetched([] if row is None else [row])
            return row

        def fetchmany(self, size: int | None = 1) -> list[Any]:
            rows = super().fetchmany(size)
            meter.fetched(rows)
            return rows

        def fetchall(self) -> list[Any]:
            rows = super().fetchall()
            meter.fetched(rows)
            return rows

        def __next__(self) -> Any:
            row = super().__next__()
            meter.fetched([row])
            return row

    class CountedConnection(sqlite3.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._wrote = 0
            self.set_progress_handler(self._tick, _STEP)

        def _tick(self) -> int:
            meter.now["effort"] += 1
            return 0

        def cursor(self, factory: Any = CountedCursor) -> Any:
            return super().cursor(factory)

        def execute(self, sql: str, parameters: Any = (), /) -> Any:
            if sql == "COMMIT":
                self._committing()
            return self.cursor().execute(sql.replace(_DURABLE, _FAST), parameters)

        def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
            return self.cursor().executemany(sql, parameters)

        def commit(self) -> None:
            self._committing()
            super().commit()

        def _committing(self) -> None:
            meter.now["commits"] += self.total_changes > self._wrote
            self._wrote = self.total_changes

    return CountedConnection


# --- what is computed -----------------------------------------------------------------------------


def _sha256(meter: Meter, whole: Callable[..., Any]) -> Callable[..., Any]:
    class Counted:
        """A running SHA-256."""

        __slots__ = ("_hash",)

        def __init__(self, hash: Any) -> None:
            self._hash = hash
            meter.now["hashes"] += 1

        def update(self, data: Any) -> None:
            meter.now["hashed"] += len(data)
            self._hash.update(data)

        def copy(self) -> Counted:
            return Counted(self._hash.copy())

        def __getattr__(self, name: str) -> Any:
            return getattr(self._hash, name)

    def sha256(data: Any = b"", **options: Any) -> Counted:
        meter.now["hashed"] += len(data)
        return Counted(whole(data, **options))

    return sha256


def _encode(meter: Meter, whole: Callable[..., Any]) -> Callable[..., Any]:
    def encode(value: Any, **options: Any) -> Any:
        out = whole(value, **options)
        meter.now["encodes"] += 1
        meter.now["encoded"] += len(out)
        return out

    return encode


class _CountedEncoder:
    """An encoder that a module keeps whole."""

    def __init__(self, meter: Meter, whole: Any) -> None:
        self.encode = _encode(meter, whole.encode)


_ENCODERS = (msgspec.json.Encoder, msgspec.msgpack.Encoder)


def _zstd(meter: Meter, whole: Callable[..., Any], verb: str, noun: str) -> Callable[..., Any]:
    packs = verb == "compress"

    class Counted:
        """A packer or an unpacker."""

        def __init__(self, *args: Any, **options: Any) -> None:
            self._whole = whole(*args, **options)

        def __getattr__(self, name: str) -> Any:
            method = getattr(self._whole, name)
            if name != verb:
                return method

            def counted(data: bytes, *args: Any, **options: Any) -> bytes:
                out: bytes = method(data, *args, **options)
                meter.now[f"{noun}s"] += 1
                meter.now[f"{noun}ed"] += len(data if packs else out)
                return out

            return counted

    return Counted


def _exchange(meter: Meter, whole: Callable[..., Any]) -> Callable[..., Any]:
    def exchanged(*args: Any, **options: Any) -> Any:
        meter.now["exchanges"] += 1
        return whole(*args, **options)

    return exchanged


# --- the whole ------------------------------------------------------------------------------------


def _modules() -> Iterator[ModuleType]:
    for name, module in sorted(sys.modules.items()):
        if name == "sawlog" or name.startswith("sawlog."):
            yield module


def _patch(patch: pytest.MonkeyPatch, meter: Meter) -> None:
    connect = sqlite3.connect

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        return connect(*args, **options, factory=_connection(meter))

    patch.setattr(sqlite3, "connect", connected)
    for owner, name in ((psycopg.Connection, "wait"), (Line, "_answer")):
        patch.setattr(owner, name, _exchange(meter, getattr(owner, name)))
    plain = hashlib.sha256
    counted = _sha256(meter, plain)
    patch.setattr(hashlib, "sha256", counted)
    for kind, verb, noun in (
        ("ZstdCompressor", "compress", "pack"),
        ("ZstdDecompressor", "decompress", "unpack"),
    ):
        patch.setattr(zstd, kind, _zstd(meter, getattr(zstd, kind), verb, noun))
    for library in (msgspec.json, msgspec.msgpack):
        patch.setattr(library, "encode", _encode(meter, library.encode))
    for module in _modules():
        for name, value in list(vars(module).items()):
            if value is plain:
                patch.setattr(module, name, counted)
            elif isinstance(value, _ENCODERS):
                patch.setattr(module, name, _CountedEncoder(meter, value))
            elif isinstance(getattr(value, "__self__", None), _ENCODERS):
                patch.setattr(module, name, _encode(meter, value))
            elif isinstance(value, threading.local):
                # It keeps a packer of a thread, which was made before this began.
                patch.setattr(module, name, threading.local())


@contextmanager
def counting() -> Generator[Meter]:
    """Count what is done meanwhile, on stores that are opened meanwhile.

    Modules must be loaded before: the encoders that one keeps are found when this begins.
    """
    meter = Meter()
    with pytest.MonkeyPatch.context() as patch:
        _patch(patch, meter)
        yield meter

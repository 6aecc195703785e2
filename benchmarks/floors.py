"""What the bare databases cost: one table, rows of JSON, and a projector that knows no more than
how messages look.

A floor checks nothing, keeps no chain and logs no packet. It is what a step would cost at least,
and every ratio of the suite is against it, measured in the same round.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from benchmarks.workload import Part

encode = msgspec.json.Encoder().encode
"""A part as a row's bytes."""
decode: Callable[[bytes], Part] = msgspec.json.Decoder(dict[str, Any]).decode
"""A row's bytes as the part."""
ALL = 2**31 - 1
ONE = "s1"


class Floor(Protocol):
    """One session in a bare table."""

    def append(self, part: Part) -> None:
        """One part, durable, in a transaction of its own."""
        ...

    def batch(self, parts: Iterable[Part]) -> None:
        """All of these in one transaction."""
        ...

    def messages(self, upto: int = ALL) -> list[Part]:
        """The model's messages up to that step, from the stored rows."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class SqliteFloor:
    """`sqlite3` with a write-ahead log: F with `FULL`, M with `NORMAL`, which a power cut may undo.

    `session` tells apart writers of one file.
    """

    def __init__(self, path: str, session: str = ONE, synchronous: str = "FULL") -> None:
        self._session = session
        # Eight writers starve each other; without a long patience some would end in an error.
        self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {synchronous}")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS part (id INTEGER PRIMARY KEY, session TEXT NOT NULL, "
            "seq INTEGER NOT NULL, step INTEGER NOT NULL, body BLOB NOT NULL)"
        )
        self._db.execute("CREATE UNIQUE INDEX IF NOT EXISTS part_seq ON part (session, seq)")
        found = self._db.execute("SELECT max(seq) FROM part WHERE session = ?", (session,))
        self._seq: int = found.fetchone()[0] or 0

    def append(self, part: Part) -> None:
        """One part in a transaction of its own."""
        self._db.execute(_INSERT, self._row(part))

    def batch(self, parts: Iterable[Part]) -> None:
        """All of these in one transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(_INSERT, [self._row(part) for part in parts])
        self._db.execute("COMMIT")

    def messages(self, upto: int = ALL) -> list[Part]:
        """The model's messages up to that step."""
        rows = self._db.execute(
            "SELECT body FROM part WHERE session = ? AND step <= ? ORDER BY seq",
            (self._session, upto),
        )
        return messages([decode(body) for (body,) in rows])

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _row(self, part: Part) -> tuple[str, int, int, bytes]:
        self._seq += 1
        return self._session, self._seq, part["step"], encode(part)


_INSERT = "INSERT INTO part (session, seq, step, body) VALUES (?, ?, ?, ?)"


def messages(parts: Sequence[Part]) -> list[Part]:
    """The floor's own projector: all parts to chat messages, open calls answered."""
    answered = {part["call_id"] for part in parts if part["kind"] == "tool_result"}
    made: list[Part] = []
    for part in parts:
        match part["kind"]:
            case "tool_result":
                made.append(_result(part["call_id"], part["text"]))
            case "tool_call":
                if not made or made[-1]["role"] != "assistant":
                    made.append({"role": "assistant", "content": None})
                made[-1].setdefault("tool_calls", []).append(_call(part))
                if part["call_id"] not in answered:
                    made.append(_result(part["call_id"], "[interrupted]"))
            case "state":
                made.append({"role": "system", "content": str(part["value"])})
            case role:
                made.append({"role": role, "content": part["text"]})
    return made


def _call(part: Part) -> Part:
    function = {"name": part["name"], "arguments": part["args"]}
    return {"id": part["call_id"], "type": "function", "function": function}


def _result(call_id: str, text: str) -> Part:
    return {"role": "tool", "tool_call_id": call_id, "content": text}

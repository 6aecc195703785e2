"""A store with a row of each kind, to be damaged, and what there is to damage in it."""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sawlog.audit.recorded import Recorded
from sawlog.audit.verifying import verify
from sawlog.store.checked import directory_damage
from sawlog.store.content import MediaPart, TextPart
from sawlog.store.database import open_database
from sawlog.store.envelope import NewEvent
from sawlog.store.events.conversation import MessageUser
from sawlog.store.log import Log
from tests.store.files import content, file_of
from tests.store.make_golden import erase
from tests.store.stores import counted

HEAD = 12
FORKED_AT = 5
PICTURE = content(b"\x89PNG" + bytes(range(200)))


def say(*texts: str | MediaPart, **fields: Any) -> NewEvent:
    """A message of the user's."""
    parts = tuple(TextPart(each) if isinstance(each, str) else each for each in texts)
    return NewEvent(payload=MessageUser(parts), source="user", **fields)


def fill(log: Log) -> None:
    """A session of each kind of row, a fork of it, and one that nothing is done to."""
    noise = random.Random(7)
    hurt = log.session("hurt", create=True, source_id="codex:0199")
    log.append(hurt, [say("one"), say("two")])
    log.append(hurt, [say(noise.randbytes(3000).hex())])  # a blob as it is
    log.append(hurt, [say(*[f"line {number} " * 20 for number in range(20)])])  # packed
    lease = log.leases.acquire(hurt.id, "driver", 60.0)
    log.append(hurt, [say("word " * 2000, step=3)], lease=lease)  # a packed blob
    picture = MediaPart("image/png", blob=PICTURE.digest.hex())
    log.append(
        hurt,
        [say("seen", picture, blobs=(_blob(),)), say("word " * 2000, "again")],
        lease=lease,
    )
    log.append(hurt, [say("to be erased")], lease=lease)
    erase(log, log.get(hurt))
    log.append(hurt, [say(str(number)) for number in range(9, HEAD + 1)], lease=lease)
    child = log.fork(hurt, FORKED_AT, name="child")
    log.append(child, [say("word " * 2000), say("of the child")])
    other = log.session("other", create=True)
    log.append(other, [say("untouched"), say("word " * 2000)])
    row = log.get(hurt)
    log.snapshot_put(
        row, 6, log.events(row, [6])[0].digest, fold=1, layout=1, data=noise.randbytes(200)
    )


def _blob() -> Any:
    from sawlog.store.text import Blob

    return Blob(PICTURE.digest, PICTURE.data, "image/png")


class Template:
    """A filled SQLite store, to be copied, and what is in it."""

    def __init__(self, folder: Path) -> None:
        path = folder / "template.db"
        with open_database(path) as database:
            # The same bytes in every run, so that what a flip once did can be done again.
            times = itertools.count(1_700_000_000_000_000, 1_001)
            log = Log(
                database,
                clock=lambda: next(times),
                make_id=counted(1 << 100),
                make_salt=counted(1 << 90),
            )
            fill(log)
            self.files = {row.name: file_of(log, row) for row in log.sessions()}
            self.ids = {row.name: row.id.hex() for row in log.sessions()}
            self.blobs = {
                digest: event.seq
                for event in reversed(list(log.stored(log.session("hurt"))))
                for digest in event.cites
            }
            self.snapshot = log.snapshot_get(log.session("hurt"), fold=1, layout=1)
            assert self.snapshot is not None
        with closing(sqlite3.connect(path)) as raw:
            assert raw.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
        self.bytes = path.read_bytes()


class Copy:
    """A copy of the store, to be damaged and looked at."""

    def __init__(self, path: Path, template: Template) -> None:
        self.path = path
        self.template = template
        self.raw = sqlite3.connect(":memory:")

    def fresh(self) -> sqlite3.Connection:
        """The store as it was, opened for writing; closes the one before."""
        self.raw.close()
        self.path.write_bytes(self.template.bytes)
        self.raw = sqlite3.connect(self.path, isolation_level=None)
        self.raw.execute("PRAGMA synchronous=OFF")
        return self.raw

    def named(self) -> dict[str, int]:
        """What verify names: session to seq, 0 for its row in the directory."""
        with open_database(self.path, read_only=True) as database:
            return named(Log(database))

    def whole(self, name: str) -> bool:
        """True when a session reads as it was written, byte for byte."""
        with open_database(self.path, read_only=True) as database:
            log = Log(database)
            [row] = log.find(name)
            return file_of(log, row) == self.template.files[name]


def named(log: Log) -> dict[str, int]:
    """What verify names in a store: session to seq, 0 for its row in the directory."""
    found = {error.session: error.seq for error in directory_damage(log)}
    for row in log.sessions():
        report = verify(Recorded(log, row))
        if not report.sound:
            assert report.chain != "ok"
            found[report.session] = report.bad_seq
    return found


# --- flips

Flip = tuple[str, object]


def flips(value: object, chance: random.Random) -> Iterator[Flip]:
    """Values that differ from one in a bit, as SQL and its parameter; of long ones a sample."""
    if isinstance(value, int):
        for bit in (*range(0, 63, 7), 62):
            yield "?", value ^ 1 << bit
        yield "?", -value - 1
        yield "CAST(? AS TEXT)", f"{value}x"
    elif isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        places = range(len(raw)) if len(raw) <= 32 else sorted(chance.sample(range(len(raw)), 24))
        same, opposite = ("TEXT", "BLOB") if isinstance(value, str) else ("BLOB", "TEXT")
        for at in places:
            changed = bytearray(raw)
            changed[at] ^= 1 << chance.randrange(8)
            yield f"CAST(? AS {same})", bytes(changed)
        yield f"CAST(? AS {opposite})", raw  # the one bit that says which of both it is
        yield f"CAST(? AS {same})", raw[:-1]
    else:
        yield "?", 1
        yield "?", "x"
        yield "?", b"x"


def columns(raw: sqlite3.Connection, table: str) -> list[str]:
    """The names of a table's columns."""
    return [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]


def change(raw: sqlite3.Connection, table: str, rowid: int, column: str, flip: Flip) -> bool:
    """Write a flipped value; False where the table's own rules forbid it."""
    try:
        raw.execute(f"UPDATE {table} SET {column} = {flip[0]} WHERE rowid = ?", (flip[1], rowid))
    except sqlite3.IntegrityError:
        return False
    return True

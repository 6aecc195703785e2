"""Sessions to be exported, and exports that were written by somebody else."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence

import msgspec

from sawlog.store import codec, exported
from sawlog.store.checked import Check, directory_damage
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import StoredEvent
from sawlog.store.exchange import export
from sawlog.store.log import Log
from tests.store.stores import deed, note


def grown(log: Log, name: str, events: int, seed: int = 0) -> SessionRow:
    """A session of so many events: short and long texts, some of them said before."""
    chance = random.Random(f"{name} {seed}")
    row = log.session(name, create=True)
    while (head := log.get(row).head) < events:
        batch = [
            chance.choice((deed, note))(
                str(chance.random()) * chance.choice((1, 60, 300)), step=chance.randrange(4)
            )
            for _ in range(min(events - head, chance.randrange(1, 9)))
        ]
        log.append(row, batch)
    return log.get(row)


def file_of(log: Log, session: SessionRow) -> bytes:
    """The whole export of a session."""
    return b"".join(export(log, session))


def lines_in(file: bytes) -> list[bytes]:
    """Its lines, each with its newline."""
    return file.splitlines(keepends=True)


def event(
    seq: int,
    type: str = "test.note",
    payload: bytes | None = b'{"text":"x"}',
    **fields: object,
) -> StoredEvent:
    """An event that a file might claim to hold; `forged` gives it a digest."""
    salt = None if payload is None else hashlib.sha256(b"salt %d" % seq).digest()[:16]
    commitment = bytes(32) if salt is None or payload is None else codec.commit(salt, payload)
    stored = StoredEvent(
        seq=seq,
        id=hashlib.sha256(b"id %d" % seq).digest()[:16],
        type=type,
        version=1,
        flags=0,
        step=0,
        source="user",
        occurred_at=0,
        recorded_at=0,
        fence=0,
        salt=salt,
        commitment=commitment,
        digest=b"",
        payload=payload,
    )
    return msgspec.structs.replace(stored, **fields)


def forged(
    entries: Iterable[StoredEvent | bytes | exported.Content],
    *,
    session: bytes = b"s" * 16,
    name: str | None = None,
    ancestors: Sequence[tuple[bytes, int]] = (),
) -> list[bytes]:
    """A file whose chain holds, whatever it says; lines given as bytes stand where they are."""
    lines = [exported.first_line(exported.First(session, name, tuple(ancestors)))]
    owners = [*ancestors, (session, 2**63)]
    digest = codec.genesis(owners[0][0])
    seq = 0
    for entry in entries:
        if isinstance(entry, bytes):
            lines.append(entry)
        elif isinstance(entry, exported.Content):
            lines.append(exported.blob_line(entry))
        else:
            owner = next(id for id, last in owners if entry.seq <= last)
            head = codec.header(
                owner, entry.seq, entry.id, entry.type, entry.version, entry.flags, entry.step,
                entry.source, entry.occurred_at, entry.recorded_at, entry.fence,
            )  # fmt: skip
            digest = codec.link(digest, head, entry.commitment)
            seq = entry.seq
            lines.append(exported.event_line(msgspec.structs.replace(entry, digest=digest)))
    lines.append(exported.last_line(seq, digest))
    return lines


def content(data: bytes) -> exported.Content:
    """A blob."""
    return exported.Content(hashlib.sha256(data).digest(), data)


def citing(*contents: exported.Content) -> bytes:
    """A payload of a message that shows these blobs as pictures."""
    parts = [{"t": "media", "media": "image/png", "blob": each.digest.hex()} for each in contents]
    return msgspec.json.encode({"parts": parts})


def sound(log: Log, session: SessionRow) -> bool:
    """True when nothing is wrong with a session or the directory."""
    check = Check(log, session)
    whys = [place.why for place in check.places()]
    return not any(whys) and not check.directory() and not directory_damage(log)


def is_empty(log: Log) -> bool:
    """True when no table holds a row of anybody's."""
    with log.database.read() as tx:
        counts = [
            tx.all(f"SELECT count(*) FROM sawlog.{table}")[0][0]
            for table in ("sessions", "events", "blobs", "snapshots")
        ]
    return not any(counts)

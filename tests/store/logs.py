"""What tests ask of a session in a log."""

from __future__ import annotations

import msgspec

from sawlog.store.codec import commit, genesis, header, link
from sawlog.store.directory import SessionRow
from sawlog.store.log import Log


def texts(log: Log, session: SessionRow) -> list[object]:
    """The texts of a session's events."""
    return [msgspec.json.decode(event.payload or b"{}").get("text") for event in log.read(session)]


def chain_holds(log: Log, session: SessionRow) -> bool:
    """True when every event follows from the one before."""
    row = log.get(session)
    line = log.lineage(row)
    digest, at = genesis(line[0][0]), 0
    for event in log.read(row):
        at += 1
        owner = next(id for id, last in line if event.seq <= last)
        assert event.seq == at
        head = header(
            owner,
            event.seq,
            event.id,
            event.type,
            event.version,
            event.flags,
            event.step,
            event.source,
            event.occurred_at,
            event.recorded_at,
            event.fence,
        )
        if event.salt is not None and event.payload is not None:
            assert event.commitment == commit(event.salt, event.payload)
        digest = link(digest, head, event.commitment)
        if digest != event.digest:
            return False
    return at == row.head and digest == row.digest

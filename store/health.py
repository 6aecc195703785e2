"""The state of a store for the one who keeps it: sizes, sessions, leases, what holds a follower."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable

import msgspec

from sawlog.store.database import Database, Transaction, parse_url
from sawlog.store.sqlitefile import wal_size


class LiveLease(msgspec.Struct, frozen=True):
    """A session that is driven now: its id, the owner, and when the lease ends (µs UTC)."""

    session: str
    owner: str
    expires_at: int


class OpenWriter(msgspec.Struct, frozen=True):
    """A transaction that has written and not ended: no follower sees past it.

    `process` is the server's process id, 0 for a prepared transaction, which waits for COMMIT
    PREPARED under the name in `application`.
    """

    process: int
    application: str
    state: str
    seconds: int


class Health(msgspec.Struct, frozen=True):
    """What there is to know of a store without reading its events.

    Sizes are in bytes; `wal` is what SQLite has not yet moved into the database. `sessions`,
    `events` and `leases` are the tenant's; `packed` are the events, of all tenants, that lie in
    packs. `held` are the open writers that delay a follower, `waiting` the events that it does not
    get meanwhile, of all tenants.
    """

    dialect: str
    server: str
    schema: int
    epoch: str
    size: int
    wal: int
    sessions: int
    events: int
    leases: tuple[LiveLease, ...]
    packed: int = 0
    held: tuple[OpenWriter, ...] = ()
    waiting: int = 0


_COUNTS = "SELECT count(*), coalesce(sum(s.head), 0) FROM sawlog.sessions s WHERE s.tenant = ?"
_LEASES = (
    "SELECT s.id, s.owner, s.expires_at FROM sawlog.sessions s "
    "WHERE s.tenant = ? AND s.owner IS NOT NULL AND s.expires_at > ? ORDER BY s.sid"
)
_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = 'sawlog' AND c.relkind = 'r'"
)
# The follower waits for the oldest transaction of the whole server that has an id.
_WRITERS = (
    "SELECT pid, coalesce(application_name, ''), coalesce(state, ''), "
    "coalesce(extract(epoch FROM clock_timestamp() - xact_start), 0)::bigint "
    "FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() "
    "UNION ALL SELECT 0, gid, 'prepared', "
    "extract(epoch FROM clock_timestamp() - prepared)::bigint FROM pg_prepared_xacts "
    "ORDER BY 4 DESC"
)
_PACKED = "SELECT coalesce(sum(p.last - p.first + 1), 0) FROM sawlog.packs p"
_WAITING = "SELECT count(*) FROM sawlog.events WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())"


def health(database: Database, tenant: str, clock: Callable[[], int]) -> Health:
    """Look a store over for one tenant. Writes nothing."""
    with database.read() as tx:
        epoch = database.epoch_in(tx)
        sessions, events = tx.all(_COUNTS, (tenant,))[0]
        leases = tuple(
            LiveLease(id.hex(), owner, until)
            for id, owner, until in tx.all(_LEASES, (tenant, tx.now(clock)))
        )
        if database.dialect == "postgresql":
            server, size, wal = _value(tx, "SHOW server_version"), _value(tx, _SIZE), 0
            held = tuple(OpenWriter(*row) for row in tx.all(_WRITERS))
            waiting, packed = _value(tx, _WAITING), 0
        else:
            path = parse_url(database.url)[1]
            server, size, wal = sqlite3.sqlite_version, os.stat(path).st_size, wal_size(path)
            held, waiting = (), 0
            packed = int(_value(tx, _PACKED)) if tx.shelf is not None else 0
    return Health(
        dialect=database.dialect,
        server=str(server),
        schema=database.schema,
        packed=packed,
        epoch=epoch.hex(),
        size=int(size),
        wal=wal,
        sessions=int(sessions),
        events=int(events),
        leases=leases,
        held=held,
        waiting=int(waiting),
    )


def _value(tx: Transaction, sql: str) -> str | int:
    row = tx.one(sql)
    assert row is not None
    value: str | int = row[0]
    return value

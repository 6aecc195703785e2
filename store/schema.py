"""The tables of a store, as they are today, for SQLite and PostgreSQL alike.

`migrations/` makes them; a test compares what it made with what stands here. Queries are written
as text beside their use, because reading must not pay for SQLAlchemy's import.

sessions    the directory: one row a session, its head and its lease; the only table with names
events      the log: in SQLite `pos` is the order of arrival, in PostgreSQL `xid` is its first part
blobs       large contents, by digest within their session
snapshots   cached states of the fold; derived, deletable
packs       old events of a session and their blobs, many in one row; SQLite alone has them
store       one row: the schema's number and the store's epoch

Everything but the directory is keyed by `sid` and, in PostgreSQL, hash-partitioned by it; nothing
there is unique across sessions. Ids are an index of events.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import UserDefinedType

PARTITIONS = 16
PARTITIONED = ("events", "blobs", "snapshots")


class Xid8(UserDefinedType[int]):
    """PostgreSQL's 64-bit transaction id."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Give the type's name in DDL."""
        return "xid8"


# In SQLite only a column declared INTEGER can be the rowid.
_Key = BigInteger().with_variant(Integer(), "sqlite")


def tables(dialect: str) -> MetaData:
    """The tables in the dialect named `sqlite` or `postgresql`."""
    postgresql = dialect == "postgresql"
    metadata = MetaData(schema="sawlog" if postgresql else None)
    # SQLite keeps the schema's number in its header.
    number = (Column("schema", Integer, nullable=False),) if postgresql else ()
    Table(
        "store",
        metadata,
        Column("one", Integer, primary_key=True, autoincrement=False),
        *number,
        Column("epoch", LargeBinary, nullable=False),
    )
    Table(
        "sessions",
        metadata,
        Column("sid", _Key, Identity(), primary_key=True),
        Column("tenant", Text, nullable=False),
        Column("id", LargeBinary, nullable=False),
        Column("name", Text),
        Column("source_id", Text),
        Column("head", BigInteger, nullable=False),
        Column("digest", LargeBinary, nullable=False),
        Column("fence", BigInteger, nullable=False),
        Column("owner", Text),
        Column("expires_at", BigInteger),
        Column("created_at", BigInteger, nullable=False),
        Column("touched_at", BigInteger, nullable=False),
        Column("parent", BigInteger),
        Column("ancestors", Text),
        Column("crc", BigInteger, nullable=False),
        UniqueConstraint("tenant", "id", name="sessions_id"),
        UniqueConstraint("tenant", "name", name="sessions_name"),
        Index("sessions_source", "tenant", "source_id"),
        Index("sessions_parent", "parent"),
        sqlite_autoincrement=True,
    )
    order = (
        Column("xid", Xid8, nullable=False) if postgresql else Column("pos", _Key, nullable=False)
    )
    events = Table(
        "events",
        metadata,
        order,
        Column("sid", BigInteger, nullable=False),
        Column("seq", BigInteger, nullable=False),
        Column("id", LargeBinary, nullable=False),
        Column("type", Text, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("flags", BigInteger, nullable=False),
        Column("step", BigInteger, nullable=False),
        Column("source", Text, nullable=False),
        Column("occurred_at", BigInteger, nullable=False),
        Column("recorded_at", BigInteger, nullable=False),
        Column("fence", BigInteger, nullable=False),
        Column("salt", LargeBinary),
        Column("commitment", LargeBinary),
        Column("digest", LargeBinary, nullable=False),
        Column("cites", LargeBinary),
        Column("codec", Integer, nullable=False),
        Column("key", Text),
        Column("payload", LargeBinary),
    )
    if postgresql:
        events.append_constraint(PrimaryKeyConstraint("sid", "seq", name="events_pkey"))
        events.append_constraint(UniqueConstraint("sid", "id", name="events_id"))
        Index("events_order", events.c.xid, events.c.sid, events.c.seq)
    else:
        events.append_constraint(PrimaryKeyConstraint("pos"))
        Index("events_seq", events.c.sid, events.c.seq, unique=True)
        Index("events_id", events.c.sid, events.c.id, unique=True)
    blobs = Table(
        "blobs",
        metadata,
        Column("sid", BigInteger, nullable=False),
        Column("digest", LargeBinary, nullable=False),
        Column("size", BigInteger, nullable=False),
        Column("codec", Integer, nullable=False),
        Column("key", Text),
        Column("data", LargeBinary, nullable=False),
    )
    snapshots = Table(
        "snapshots",
        metadata,
        Column("sid", BigInteger, nullable=False),
        Column("fold", Integer, nullable=False),
        Column("layout", Integer, nullable=False),
        Column("seq", BigInteger, nullable=False),
        Column("chain", LargeBinary, nullable=False),
        Column("digest", LargeBinary, nullable=False),
        Column("codec", Integer, nullable=False),
        Column("key", Text),
        Column("data", LargeBinary, nullable=False),
    )
    if not postgresql:
        packs = Table(
            "packs",
            metadata,
            Column("pack", _Key, primary_key=True),
            Column("sid", BigInteger, nullable=False),
            Column("first", BigInteger, nullable=False),
            Column("last", BigInteger, nullable=False),
            Column("digest", LargeBinary, nullable=False),
            Column("first_pos", BigInteger, nullable=False),
            Column("last_pos", BigInteger, nullable=False),
            Column("low", LargeBinary, nullable=False),
            Column("high", LargeBinary, nullable=False),
            Column("loose", LargeBinary, nullable=False),
            Column("codec", Integer, nullable=False),
            Column("key", Text),
            Column("data", LargeBinary, nullable=False),
            sqlite_autoincrement=True,
        )
        Index("packs_seq", packs.c.sid, packs.c.last, packs.c.first, unique=True)
        Index("packs_ids", packs.c.sid, packs.c.high, packs.c.low)
        Index("packs_order", packs.c.last_pos, packs.c.first_pos, packs.c.sid)
    Index("blobs_digest", blobs.c.sid, blobs.c.digest, unique=True)
    Index(
        "snapshots_seq",
        snapshots.c.sid,
        snapshots.c.fold,
        snapshots.c.layout,
        snapshots.c.seq,
        unique=True,
    )
    return metadata

"""Packs: old events of a session together in one row. SQLite alone has them."""

from __future__ import annotations

import zlib

import msgspec
from alembic import op

revision = "0002"
down_revision = "0001"

# A number is never given twice: handles keep packs by it.
SQLITE = (
    """
CREATE TABLE packs (
    pack INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    sid BIGINT NOT NULL,
    first BIGINT NOT NULL,
    last BIGINT NOT NULL,
    digest BLOB NOT NULL,
    first_pos BIGINT NOT NULL,
    last_pos BIGINT NOT NULL,
    low BLOB NOT NULL,
    high BLOB NOT NULL,
    loose BLOB NOT NULL,
    codec INTEGER NOT NULL,
    key TEXT,
    data BLOB NOT NULL
)
""",
    "CREATE UNIQUE INDEX packs_seq ON packs (sid, last, first)",
    "CREATE INDEX packs_ids ON packs (sid, high, low)",
    "CREATE INDEX packs_order ON packs (last_pos, first_pos, sid)",
)


_SESSIONS = (
    "SELECT sid, tenant, id, name, source_id, fence, owner, expires_at, created_at, parent, "
    "ancestors, crc FROM sessions"
)


def upgrade() -> None:
    """Make the table; in PostgreSQL only the schema's number changes.

    A handle that an older release has open appends on the strength of the row that it saw last,
    and would not find an id that lies in a pack. So each session is taken over: that handle looks,
    and is told of the schema.
    """
    bind = op.get_bind()
    if bind.dialect.name != "sqlite":
        return
    for statement in SQLITE:
        bind.exec_driver_sql(statement)
    for sid, *row in bind.exec_driver_sql(_SESSIONS).fetchall():
        tenant, id, name, source_id, fence, owner, expires_at, created_at, parent, line, crc = row
        named, forked = (tenant, id, name, source_id, fence, owner), (created_at, parent, line)
        if crc in (_crc(*named, expires_at, *forked), _crc(*named, *forked)):
            crc = _crc(*named[:4], fence + 1, None, None, *forked)
        bind.exec_driver_sql(
            "UPDATE sessions SET fence = fence + 1, owner = NULL, expires_at = NULL, crc = ? "
            "WHERE sid = ?",
            (crc, sid),
        )


def _crc(*values: object) -> int:
    return zlib.crc32(msgspec.msgpack.encode(values))

"""Packs: old events of a session together in one row. SQLite alone has them."""

from __future__ import annotations

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


def upgrade() -> None:
    """Make the table; in PostgreSQL only the schema's number changes."""
    bind = op.get_bind()
    if bind.dialect.name == "sqlite":
        for statement in SQLITE:
            bind.exec_driver_sql(statement)

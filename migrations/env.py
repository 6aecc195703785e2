"""What Alembic runs for each command: the migrations, on the connection that `upgrade` holds."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

connection: Connection | None = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError(
        "a store is migrated under its lock: run `sawlog --store URL migrate`, "
        "or sawlog.migrations.upgrade(url)"
    )
context.configure(
    connection=connection,
    version_table_schema="sawlog" if connection.dialect.name == "postgresql" else None,
)
# The transaction is the caller's, who commits it together with the schema's number.
with context.begin_transaction():
    context.run_migrations()

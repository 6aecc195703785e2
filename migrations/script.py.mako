"""${message}."""

from __future__ import annotations

from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Add; never change or remove."""
    ${upgrades if upgrades else "raise NotImplementedError"}

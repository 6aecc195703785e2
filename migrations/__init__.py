"""The steps that make and change a store's tables; each only adds.

A store is changed alone (SQLite: the side lock; PostgreSQL: an advisory lock) and in one
transaction with its schema number, so that it is the old or the new one whenever it is killed.
This package loads Alembic; on the ordinary path nothing imports it.
"""

from __future__ import annotations

import os
from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from sawlog.store.database import SCHEMA, WAIT, change_schema


def _config() -> Config:
    config = Config()
    # ConfigParser reads a % in a path as the start of a reference.
    place = str(files(__name__)).replace("%", "%%")
    config.set_main_option("script_location", place)
    return config


def head() -> int:
    """The number of the newest migration."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    return int(revision) if revision else 0


def upgrade(
    url: str | os.PathLike[str], revision: int = SCHEMA, *, wait: float = WAIT
) -> tuple[int, int]:
    """Bring a store to a schema, making it if need be; gives the numbers before and after.

    Raises Busy when others hold the store for more than `wait` seconds, NewerSchema, NoStore.
    """
    with change_schema(url, wait) as change:
        before = change.found
        if before < revision:
            config = _config()
            config.attributes["connection"] = change.connection
            command.upgrade(config, f"{revision:04d}")
            change.mark(revision)
    return before, max(before, revision)

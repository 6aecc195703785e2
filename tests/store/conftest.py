"""An open, empty store of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sawlog.store.database import Database
from sawlog.store.log import Log
from tests.store.stores import REGISTRY, made


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    """An empty store."""
    with made(store_url) as database:
        yield database


@pytest.fixture
def log(database: Database) -> Log:
    """A log over an empty store that knows the test types, too."""
    return Log(database, registry=REGISTRY)

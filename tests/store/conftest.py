"""Stores to work on: of each kind, of one kind where that is enough, and one to be damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.store.database import Database, open_database
from sawlog.store.log import Log
from tests.store.damage import Copy, Template
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


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Log]:
    """A second, empty store."""
    with open_database(tmp_path / "other.db") as database:
        yield Log(database, registry=REGISTRY)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Log]:
    """A store to export from, where its kind makes no difference."""
    with open_database(tmp_path / "source.db") as database:
        yield Log(database, registry=REGISTRY)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A filled store; damage is done to copies of it."""
    return Template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def copy(tmp_path: Path, template: Template) -> Iterator[Copy]:
    """A copy of the store."""
    copy = Copy(tmp_path / "copy.db", template)
    yield copy
    copy.raw.close()

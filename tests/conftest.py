"""What every test may ask for: a store of each kind, and the rules of the run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import bytecode, certificates
from tests.postgres import PostgresServer

# A developer's own store and server are never touched, whatever the shell says of them. What stays
# is how many logs the laws are tried on: see test_laws.py.
for _name in [name for name in os.environ if name.startswith(("PG", "SAWLOG_"))]:
    if _name != "SAWLOG_TEST_LOGS":
        del os.environ[_name]


def _in_memory() -> str:
    """A folder whose files reach no disk, with room for a whole run; empty where there is none.

    A disk takes its time to confirm what nobody will read again: half of that of the store's tests.
    All syncs are asked for there, too, and what is killed here is a process, never the machine.
    """
    place = "/dev/shm"
    if not (os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)):
        return ""
    found = os.statvfs(place)
    if found.f_flag & os.ST_NOEXEC:  # PostgreSQL's programs are copied there
        return ""
    return place if found.f_bavail * found.f_frsize >= 4 << 30 else ""


# TMPDIR=/tmp make test says otherwise. Processes that tests start go by it, too.
if "TMPDIR" not in os.environ and _in_memory():
    os.environ["TMPDIR"] = tempfile.tempdir = _in_memory()

bytecode.keep_in_the_cache()
certificates.keep_to_one()

# The suite tries the same examples at each run; `make test-long` looks for new ones.
settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("long", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile("suite")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m alone` and `-m long` load no file without such a test: all of them take half a minute."""
    mark: str = config.option.markexpr
    if mark not in ("alone", "long") or not collection_path.match("test_*.py"):
        return None
    return f"mark.{mark}" not in collection_path.read_text(encoding="utf-8") or None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL server, one for each test process."""
    server = PostgresServer.start()
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a store on PostgreSQL: its tables are there, and no session."""
    with postgres_server.store() as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    with postgres_server.database() as url:
        yield url


def _url(request: pytest.FixtureRequest, folder: Path, postgresql: str) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'store.db'}"
    url: str = request.getfixturevalue(postgresql)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store with no session, once for each kind of database.

    In PostgreSQL it is a copy, for migrations take ten times as long. An SQLite file is not there
    yet: whoever opens it makes it.
    """
    return _url(request, tmp_path, "postgres_url")


@pytest.fixture(params=["sqlite", "postgresql"])
def new_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that does not exist yet, once for each kind of database."""
    return _url(request, tmp_path, "empty_postgres_url")

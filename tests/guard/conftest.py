"""The two sessions that the guards look at: one of them four times as long as the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sawlog import migrations
from tests.guard.holding import SHORT, TIMES, Run, recorded, warmed_up
from tests.postgres import PostgresServer


class Runs(NamedTuple):
    """A session and one that is `TIMES` as long and begins in the same way."""

    short: Run
    long: Run


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Both sessions, recorded once for each test process; nothing may write to them."""
    folder = tmp_path_factory.mktemp("guard")
    warmed_up(str(folder / "warm.db"))
    short, long = (recorded(str(folder / f"{steps}.db"), steps) for steps in (SHORT, SHORT * TIMES))
    return Runs(short, long)


@pytest.fixture
def fresh(runs: Runs, tmp_path: Path) -> str:
    """A path for a store of the test's own, with everything loaded already."""
    return str(tmp_path / "own.db")


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty store on PostgreSQL."""
    with postgres_server.database() as made:
        migrations.upgrade(made)
        yield made

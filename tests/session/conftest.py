"""An open, empty log: of SQLite, or of each kind of store where that makes a difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from tests.session.agents import opened
from tests.session.received import held_to_the_log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    """An open log over an empty SQLite store."""
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


@pytest.fixture
def any_log(store_url: str) -> Iterator[AgentLog]:
    """An open log over an empty store, once for each kind of database."""
    with opened(store_url) as log:
        yield log


@pytest.fixture(autouse=True)
def every_body_is_stored(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    with held_to_the_log(request, monkeypatch):
        yield

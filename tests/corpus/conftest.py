"""A log in a store of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log


@pytest.fixture
def log(store_url: str) -> Iterator[AgentLog]:
    """An empty log on SQLite, and one on PostgreSQL."""
    with open_log(store_url) as opened:
        yield opened

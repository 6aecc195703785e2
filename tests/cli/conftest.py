"""Stores that the command's tests look into."""

from __future__ import annotations

import pytest

from tests.cli import written


@pytest.fixture
def store(store_url: str) -> str:
    """A store of each kind that holds the written session."""
    written.make(store_url)
    return store_url


@pytest.fixture
def file_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An SQLite store that holds the written session."""
    path = str(tmp_path_factory.mktemp("store") / "agent.db")
    written.make(path)
    return path

"""What a socket of the fake provider received is what the log says was sent, in every test."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider
from sawlog.store.errors import StoreError

_BESIDE = ("compaction.asked", "foreign.record")
"""Events of sessions whose requests are no steps: to a summariser, or left without a record."""


@contextmanager
def held_to_the_log(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Generator[None]:
    """Compare, when a test with a log is over, each body that arrived with the log's steps."""
    fakes: list[FakeProvider] = []
    start = FakeProvider.start

    def started(fake: FakeProvider) -> None:
        fakes.append(fake)
        start(fake)

    monkeypatch.setattr(FakeProvider, "start", started)
    names = [one for one in ("log", "any_log") if one in request.fixturenames]
    log: AgentLog | None = request.getfixturevalue(names[0]) if names else None
    yield
    received = {body for fake in fakes for body in fake.bodies()}
    if log is None or not received:
        return
    stored: set[bytes] = set()
    try:
        rows = log.sessions()
    except StoreError:
        return  # a test of what happens without its store
    for row in rows:
        recorded = log.read(row.id.hex())
        if any(event.type in _BESIDE for event in recorded.as_stored()):
            return
        stored.update(step.packet.body for step in recorded.steps)
    assert received <= stored

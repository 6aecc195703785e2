"""What a recording costs on disk: what is new, and little more; however it grows, it reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider, Received
from tests.recorder.programs import APIS, Program, script
from tests.session.agents import client_of, opened, sound

REQUESTS = 200
LONG = ("openai-responses", "deepseek-chat")
"""APIs that the ordinary suite leaves out: OpenAI's client, which asks them, takes a minute."""

MOST = 1.3
"""Bytes on disk for each that is new, of an agent that reads files of some 3 KB."""


def news(requests: list[Received]) -> int:
    """The bytes that a conversation is: each request's growth over the one before, each reply."""
    total = 0
    before = b""
    for one in requests:
        total += max(0, len(one.body) - len(before)) + len(one.answer)
        before = one.body
    return total


@pytest.mark.long
@pytest.mark.parametrize("api", APIS)
def test_200_requests_cost_what_is_new(tmp_path: Path, api: str) -> None:
    if api in LONG and settings.get_current_profile_name() != "long":
        pytest.skip("the same client is tried with another API; make test-long tries all")
    path = tmp_path / "agent.db"
    with opened(str(path)) as log:
        with FakeProvider(script()) as fake, log.session("task") as s:
            with client_of(api, fake) as client:
                program = Program(api, sawlog.record(client, session=s), words=500)
                while len(fake.requests) < REQUESTS:
                    program.turn()
            assert all(request.status == 200 for request in fake.requests)
        recorded = sound(log, "task")
        for step in range(1, REQUESTS + 1, REQUESTS // 10):
            assert recorded.steps[step].packet.body == fake.requests[step - 1].body
        assert links(log) <= 32
    size = sum(one.stat().st_size for one in tmp_path.glob("agent.db*"))
    print(f"{api}: {size:,} bytes, {size / news(fake.requests):.2f} of what is new")
    assert size <= MOST * news(fake.requests)


def links(log: AgentLog) -> int:
    """The longest way from a recorded body to one that stands by itself."""
    depth: dict[int, int] = {}
    for event in log.read("task").events():
        if event.type == "packet.recorded":
            base = event.content.base  # type: ignore[union-attr]
            depth[event.seq] = depth[base] + 1 if base else 0
    return max(depth.values())

"""Many streams at once for a while, and what the proxy costs a single request."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from sawlog.agentlog import open as open_log
from sawlog.providers.fake import FakeProvider, Reply, Streamed
from tests.cli.command import sawlog
from tests.proxy.behind import Running, always, proxied
from tests.proxy.test_failures import resident
from tests.timing import slowness

STREAMS = 50
HEADERS = {"x-api-key": "sk-this-is-nobodys-key", "anthropic-version": "2023-06-01"}
SECONDS = 6.0


def reply(api: str, asked: Any, number: int) -> Streamed:
    """A stream that says in order what no other one says."""
    who = asked["messages"][-1]["content"]
    return Streamed(Reply(" ".join(f"{who}.{n}" for n in range(60))))


class Talker:
    """One conversation that grows for a few turns and then begins anew, as agents' tasks do."""

    def __init__(self, number: int, client: httpx.AsyncClient, url: str) -> None:
        self.number = number
        self.asked: list[bytes] = []
        self._client = client
        self._url = url

    async def talk(self, until: float) -> None:
        """Ask and read whole streams until it is that late."""
        messages: list[dict[str, str]] = []
        turn = 0
        while time.monotonic() < until:
            if turn % 5 == 0:
                messages = []
            who = f"{self.number}-{turn}"
            messages.append({"role": "user", "content": who})
            body = {"model": "m", "max_tokens": 999, "stream": True, "messages": messages}
            raw = json.dumps(body).encode()
            self.asked.append(raw)
            async with self._client.stream(
                "POST", self._url, content=raw, headers=HEADERS
            ) as response:
                assert response.status_code == 200, await response.aread()
                text = said(await response.aread())
            assert text.split() == [f"{who}.{n}" for n in range(60)]
            messages.append({"role": "assistant", "content": text})
            turn += 1


def said(stream: bytes) -> str:
    """The text of a stream."""
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: ")]
    assert events[-1]["type"] == "message_stop"
    return "".join(one["delta"].get("text", "") for one in events if "delta" in one)


@pytest.mark.long
def test_fifty_streams_at_once_lose_nothing_and_leave_memory_flat(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Every byte comes in order, every exchange is in the log, and the process does not grow."""
    long = request.config.getoption("--hypothesis-profile", None) == "long"
    seconds = 60.0 if long else SECONDS
    store = tmp_path / "s.db"
    with FakeProvider(reply) as fake, proxied(store, fake.url) as proxy:
        asked, sizes = asyncio.run(load(proxy, seconds))
        told = proxy.end()
        received = fake.bodies()
    assert Counter(asked) == Counter(received)
    assert told["recorded"] == len(asked) and told["broke"] == 0
    assert Counter(bodies(store)) == Counter(received)
    assert sawlog("--store", store, "verify", "--all").code == 0
    half, end = sizes
    grown = end - half
    print(
        f"{len(asked)} streams, {told['sessions']} sessions, {end:,} bytes, {grown:,} in the half"
    )
    # Contents of conversations that go on are held; those that ended are not.
    assert grown < 24_000_000


async def load(proxy: Running, seconds: float) -> tuple[list[bytes], tuple[int, int]]:
    """Talk for so long; gives all that was asked, and the memory at half time and at the end."""
    url = proxy.variables["ANTHROPIC_BASE_URL"] + "/v1/messages"
    limits = httpx.Limits(max_connections=STREAMS)
    async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as client:
        talkers = [Talker(n, client, url) for n in range(STREAMS)]
        until = time.monotonic() + seconds
        talks = asyncio.gather(*(one.talk(until) for one in talkers))
        await asyncio.sleep(seconds / 2)
        half = resident(proxy.process.pid)
        await talks
        end = resident(proxy.process.pid)
    return [raw for one in talkers for raw in one.asked], (half, end)


def bodies(store: Path) -> list[bytes]:
    """All that the log has of what was sent."""
    with open_log(str(store)) as log:
        read = [log.read(row.id.hex()) for row in log.sessions()]
        return [bytes(step.packet.body) for one in read for step in one.steps]


@pytest.mark.alone
def test_a_request_takes_5_ms_longer_and_the_commits(tmp_path: Path) -> None:
    """Against the same requests without a proxy, and against three commits of a small event. What
    other programs of the machine take is left out: of each the fastest tenth counts, in the best of
    some rounds. On a machine that is slower than that of `slowness` it is so many times as long."""
    with (
        FakeProvider(always("fine")) as fake,
        proxied(tmp_path / "s.db", fake.url) as proxy,
        httpx.Client(timeout=60, trust_env=False) as client,
        open_log(str(tmp_path / "own.db")) as log,
        log.session("s") as session,
    ):
        through = proxy.variables["ANTHROPIC_BASE_URL"]
        timed(client, through, 5)
        told = ""
        for _ in range(4):
            passed = timed(client, through, 60, "/count_tokens")
            passed -= timed(client, fake.url, 60, "/count_tokens")
            recorded = timed(client, through, 60) - timed(client, fake.url, 60)
            commits = commit_time(session)
            found = {"passed": passed, "recorded": recorded, "three commits": commits}
            told = ", ".join(f"{name} {1000 * each:.2f} ms" for name, each in found.items())
            print(told)
            if max(passed, recorded - commits) < 0.005 * slowness():
                return
    pytest.fail(told)


def timed(client: httpx.Client, base: str, count: int, more: str = "") -> float:
    """Seconds that a request takes, in one conversation that goes on."""
    taken: list[float] = []
    messages: list[dict[str, str]] = []
    for n in range(count):
        messages += [{"role": "user", "content": f"{n}"}]
        raw = json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()
        started = time.perf_counter()
        response = client.post(f"{base}/v1/messages{more}", content=raw, headers=HEADERS)
        response.read()
        taken.append(time.perf_counter() - started)
        messages.append({"role": "assistant", "content": "fine"})
    return statistics.quantiles(taken, n=10)[0]


def commit_time(session: Any) -> float:
    """Seconds of three commits: packet, attempt, reply."""
    taken: list[float] = []
    for n in range(60):
        started = time.perf_counter()
        for _ in range(3):
            session.user(f"{n}")
        taken.append(time.perf_counter() - started)
    return statistics.quantiles(taken, n=10)[0]

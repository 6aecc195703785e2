"""A process killed at every append of a compaction: packets are the old ones until it is whole.

The next attempt, by another process, comes to the very bytes that an undisturbed one comes to.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider
from tests.forking import CONTEXT
from tests.session import shrinking
from tests.session.agents import opened, sound
from tests.session.bracketing import again, body, brackets
from tests.session.shrinking import API, WAYS, Way


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")


def killed(store: str, name: str, way: str, at: int) -> bool:
    """Compact in a process of its own; False when it came to its end before that append.

    What is in the log behind one append is what is there in front of the next one.
    """
    with FakeProvider(list(WAYS[way].script)) as fake:
        arguments = (store, name, way, fake.base_url(API), at)
        child = CONTEXT.Process(target=shrinking.run, args=arguments)
        child.start()
        child.join(60)
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode != 0


@pytest.mark.parametrize("name", WAYS)
def test_the_old_packets_stay_until_a_compaction_is_whole(tmp_path: Path, name: str) -> None:
    kill_everywhere(f"sqlite:///{tmp_path / 'store.db'}", name)


@pytest.mark.parametrize("name", ["in vain", "at the provider"])
def test_they_do_on_postgresql(postgres_url: str, name: str) -> None:
    kill_everywhere(postgres_url, name)


def kill_everywhere(store: str, name: str) -> None:
    """A compaction killed behind each of its appends, each time in a fork of the same session."""
    way = WAYS[name]
    with opened(store) as log:
        with log.session("base") as s:
            shrinking.worked(s)
        old = body(log, "base")
        log.fork("base", name="undisturbed")
        assert not killed(store, "undisturbed", name, 0)
        new = body(log, "undisturbed")
        assert (new == old) == (name == "in vain")
        for at in range(1, way.appends + 1):
            log.fork("base", name=f"behind {at}")
            assert killed(store, f"behind {at}", name, at)
            whole = at == way.appends
            check_and_go_on(log, f"behind {at}", way, (old, new), whole=whole, planned=at % 2 == 1)
        log.fork("base", name="beyond")
        assert not killed(store, "beyond", name, way.appends + 1)


def check_and_go_on(
    log: AgentLog, name: str, way: Way, bodies: tuple[bytes, bytes], *, whole: bool, planned: bool
) -> None:
    """What a kill left is sound; the next attempt succeeds, after a recovery or by itself."""
    old, new = bodies
    assert body(log, name) == (new if whole else old)
    before = list(sound(log, name).events())
    begun, ended = brackets(before)
    with log.session(name, wait=10) as s:
        assert bool(s.state.compacting) == (begun > ended)
        if planned:
            plan = s.recover()
            assert (plan.open_compaction is not None) == (begun > ended)
            plan.apply()
            assert s.state.compacting == 0
            assert s.recover().open_compaction is None
    assert body(log, name) == (new if whole else old)
    if not whole:
        with log.session(name) as s:
            assert again(s, way) == (way.at is None)
    assert body(log, name) == new
    after = list(sound(log, name).events())
    assert after[: len(before)] == before
    begun, ended = brackets(after)
    assert begun == ended

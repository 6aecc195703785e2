"""A compaction that two processes want: one has the lease, and who lost it writes nothing more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider
from sawlog.store.errors import Leased, OutcomeUnknown
from sawlog.store.events.compaction import CompactionFailed
from tests.session import shrinking
from tests.session.agents import finished, next_step, opened, python, sound, stop
from tests.session.bracketing import again, body, brackets
from tests.session.shrinking import API, WAYS

FIRST = """
import sys
from tests.session.shrinking import wait_inside
store, name, way, url, at, ttl = sys.argv[1:]
wait_inside(store, name, way, url, int(at), float(ttl))
"""

RACER = """
import sys
import sawlog
from tests.session.shrinking import WAYS, compact
store, owner, wait = sys.argv[1:]
with sawlog.open(store) as log:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        with log.session("base", owner=owner, wait=float(wait)) as s:
            compact(s, WAYS["by code"], "")
        print("compacted")
    except sawlog.errors.Leased as error:
        print("Leased", error.owner)
    except sawlog.errors.NotCompacted as error:
        print("NotCompacted", error.code)
"""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")


def begun(store: str, name: str, way: str, url: str, at: int, ttl: float) -> subprocess.Popen[str]:
    """A process that compacts and stands behind that append."""
    process = python(FIRST, store, name, way, url, str(at), str(ttl))
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def let_go(process: subprocess.Popen[str]) -> list[str]:
    """Let it go on; gives its last words."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return finished(process).splitlines()


def base(log: AgentLog) -> tuple[bytes, bytes]:
    """A session to be compacted; its next packet as it is, and as it is when that was done."""
    with log.session("base") as s:
        shrinking.worked(s)
    with log.fork("base", name="undisturbed") as s:
        shrinking.compact(s, WAYS["by code"], "")
    return body(log, "base"), body(log, "undisturbed")


# --- the lease ------------------------------------------------------------------------------------


def test_the_second_is_refused_with_the_name_of_the_first(store_url: str) -> None:
    with opened(store_url) as log:
        old, new = base(log)
        process = begun(store_url, "base", "by code", "-", 1, 60)
        head = log.find("base").head
        with pytest.raises(Leased, match="driven by the first one") as refused:
            log.session("base", owner="the second one").acquire()
        assert refused.value.owner == "the first one"
        plan = log.read("base").recover()
        assert plan.open_compaction is not None and plan.open_compaction.under_way
        assert log.find("base").head == head and body(log, "base") == old
        assert let_go(process) == ["compacted"]
        assert body(log, "base") == new
        assert brackets(list(sound(log, "base").events())) == (1, 1)


@pytest.mark.parametrize("wait", [0, 30])
def test_of_some_that_begin_at_once_each_is_whole_or_refused(store_url: str, wait: int) -> None:
    """One after the other, when they wait; the next one finds less to give way, or nothing."""
    with opened(store_url) as log:
        _, new = base(log)
        racers = [python(RACER, store_url, f"racer {number}", str(wait)) for number in range(3)]
        for process in racers:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in racers:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        ends = [finished(process).strip() for process in racers]
        assert ends.count("compacted") >= 1
        others = {end.rstrip("012") for end in ends} - {"compacted"}
        assert others <= {"NotCompacted nothing_to_cut", "NotCompacted no_progress"} | (
            set() if wait else {"Leased racer "}
        )
        begun, ended = brackets(list(sound(log, "base").events()))
        assert begun == ended >= 1
        if ends.count("compacted") == 1:
            assert body(log, "base") == new


# --- taken over inside of the bracket -------------------------------------------------------------

PLACES = [("by code", 1), ("at the provider", 2), ("at the provider", 3)] + [
    ("by a model that tries again", at) for at in (1, 2, 5, 10)
]


@pytest.mark.parametrize(("way", "at"), PLACES)
@pytest.mark.parametrize("left", [False, True], ids=["at work", "gone again"])
def test_who_slept_inside_the_bracket_and_was_taken_over_writes_nothing(
    tmp_path: Path, way: str, at: int, left: bool
) -> None:
    take_over(f"sqlite:///{tmp_path / 'store.db'}", way, at, left=left)


@pytest.mark.parametrize(("way", "at"), PLACES[:3])
def test_so_it_is_on_postgresql(postgres_url: str, way: str, at: int) -> None:
    take_over(postgres_url, way, at, left=False)


def take_over(store: str, way: str, at: int, *, left: bool) -> None:
    """The first is stopped behind that append of its bracket; the next one takes over, compacts,
    and has given its lease back (`left`) or not when the first wakes."""
    with opened(store) as log:
        with log.session("base") as s:
            shrinking.worked(s)
        log.fork("base", name="undisturbed")
        with FakeProvider(list(WAYS[way].script)) as fake, log.session("undisturbed") as s:
            shrinking.compact(s, WAYS[way], fake.base_url(API))
        old, new = body(log, "base"), body(log, "undisturbed")
        with FakeProvider(list(WAYS[way].script)) as fake:
            process = begun(store, "base", way, fake.base_url(API), at, 0.4)
            stop(process, log, "base")
            with log.session("base", wait=20, owner="the next one") as s:
                assert body(log, "base") == old
                plan = s.recover()
                assert plan.open_compaction is not None and not plan.open_compaction.under_way
                assert again(s, WAYS[way])
                if left:
                    s.release()
                head = log.find("base").head
                os.kill(process.pid, signal.SIGCONT)
                asked = len(fake.requests)
                assert let_go(process) == [f"Fenced {'' if left else 'the next one'}"]
                # What it was about to send when it was stopped left; nothing that was not said.
                assert len(fake.requests) <= asked + 1
                assert log.find("base").head == head
                if left:
                    s.acquire()
                s.user("And then?")
                assert next_step(s, API).answer(reply()).text == "ok"
        recorded = sound(log, "base")
        events = list(recorded.events())
        assert brackets(events) == (2, 2)
        [failed] = [one.content for one in events if isinstance(one.content, CompactionFailed)]
        assert failed.reason == "abandoned: the process that began it is gone"
        assert len({event.fence for event in log.store.read(recorded.row)}) == (
            3 if not left else 4
        )
        log.fork("base", at=head, name="as the next one left it")
        assert body(log, "as the next one left it") == new


def reply() -> bytes:
    """A whole reply of the API that says one thing."""
    text: dict[str, Any] = {"type": "output_text", "text": "ok", "annotations": []}
    message: dict[str, Any] = {
        "type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text],
    }  # fmt: skip
    return json.dumps(
        {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [message]}
    ).encode()


def test_who_slept_and_was_not_taken_over_goes_on(store_url: str) -> None:
    """The clock only decides whether another may take over."""
    with opened(store_url) as log:
        _, new = base(log)
        process = begun(store_url, "base", "by code", "-", 1, 0.2)
        stop(process, log, "base")
        time.sleep(0.5)
        plan = log.read("base").recover()
        assert plan.open_compaction is not None and not plan.open_compaction.under_way
        os.kill(process.pid, signal.SIGCONT)
        assert let_go(process) == ["compacted"]
        assert body(log, "base") == new
        assert brackets(list(sound(log, "base").events())) == (1, 1)


# --- a commit of which nobody knows ---------------------------------------------------------------


@pytest.mark.parametrize("way", ["by code", "at the provider"])
def test_an_append_that_stands_and_was_not_heard_of_leaves_one_bracket_at_a_time(
    any_log: AgentLog, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks behind each commit of the bracket: the log says what came of it."""
    log = any_log
    with log.session("base") as s:
        shrinking.worked(s)
    append = log.store.append
    for at in range(1, WAYS[way].appends + 1):
        done: list[object] = []

        def unheard(*args: Any, at: int = at, done: list[object] = done, **options: Any) -> Any:
            appended = append(*args, **options)
            done.append(appended)
            if len(done) == at:
                raise OutcomeUnknown("the connection broke behind the commit")
            return appended

        with FakeProvider([*WAYS[way].script, *WAYS[way].again]) as fake:
            with log.fork("base", name=f"unheard {at}") as s:
                url = fake.base_url(API)
                monkeypatch.setattr(log.store, "append", unheard)
                with pytest.raises(OutcomeUnknown):
                    shrinking.compact(s, WAYS[way], url)
                monkeypatch.setattr(log.store, "append", append)
                whole = at == WAYS[way].appends
                assert bool(s.state.checkpoint) == whole
                if not whole:
                    shrinking.compact(s, WAYS[way], url)
                assert s.state.checkpoint and not s.state.compacting
                s.user("And then?")
                assert next_step(s, API).answer(reply()).text == "ok"
        begun, ended = brackets(list(sound(log, f"unheard {at}").events()))
        assert begun == ended == (1 if whole else 2)

"""The agent that tests of a cut compaction cut: it compacts its session, in one of several ways.

It kills itself behind an append of the bracket, waits there, or finds the disk full in front of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call, FakeProvider, HttpError, Reply, Step
from sawlog.work.compacting import Compacted, Route
from sawlog.work.session import Session
from sawlog.work.summarising import Provider
from tests.session.agents import SYSTEM, TOOLS, client_of, next_step

API = "openai-responses"
LONG = "a text of the task that is long enough to be worth a checkpoint. " * 12


class Way(NamedTuple):
    """How a session is compacted: the route, what the model behind it answers at the first attempt
    and at the next one, the border (None: by the budget), and how many appends the bracket has."""

    route: Route
    script: tuple[Step, ...]
    again: tuple[Step, ...]
    at: int | None
    appends: int


def _summary(narrative: str) -> Reply:
    fields: dict[str, Any] = {
        "goal": "Mend it.", "constraints": [], "confirmed": [], "changed": [],
        "open": [{"id": "", "text": "whether the last test is flaky", "evidence": []}],
        "next": [], "narrative": narrative,
    }  # fmt: skip
    return Reply(json.dumps(fields))


GOOD = _summary("The first idea did not work.")
OVERFLOW = HttpError(400, "too long", code="context_length_exceeded")

# started, then what is asked, answered and refused, then the checkpoint with its end, or failed.
WAYS = {
    "by code": Way("local", (), (), None, 2),
    "in vain": Way("local", (), (), 2, 3),
    "by a model that tries again": Way(
        "local", (Reply("no json"), OVERFLOW, HttpError(503), GOOD), (OVERFLOW, GOOD), None, 11
    ),
    "at the provider": Way("provider", (Reply("a summary"),), (Reply("a summary"),), None, 4),
}


def worked(s: Session) -> None:
    """A short turn, and three turns of a message, a call, its result and a last reply."""
    s.system(SYSTEM)
    s.tools(TOOLS)
    script = [Reply("Hello.")]
    for turn in range(3):
        script.append(Reply(f"I look, {turn}.", calls=[Call("read_file", {"path": f"{turn}.py"})]))
        script.append(Reply(f"Done with {turn}. {LONG}"))
    with FakeProvider(script) as fake, client_of(API, fake) as client:
        s.user("Hello.")
        next_step(s, API).send(client)
        for turn in range(3):
            s.user(f"turn {turn}: {LONG}")
            [call] = next_step(s, API).send(client).tool_calls
            with s.tool(call) as run:
                run.result(f"content of {turn}: {LONG}")
            next_step(s, API).send(client)


def compact(s: Session, way: Way, url: str) -> Compacted:
    """Compact; `url` is where the model is, if the way has one."""
    asks = Provider(api=API, model="test-model", base_url=url, retries=1) if way.script else None
    return s.compact(budget=2000, route=way.route, at=way.at, keep_user=0, summariser=asks)


def run(store: str, name: str, way: str, url: str, at: int) -> None:
    """Compact; die behind append number `at` of the bracket, which stands. 0: live."""
    os.environ["OPENAI_API_KEY"] = "test"
    with sawlog.open(store) as log, log.session(name, ttl=0.1) as s:
        _dying(log, at)
        try:
            compact(s, WAYS[way], url)
        except sawlog.errors.NotCompacted:
            assert WAYS[way].at is not None


def wait_inside(store: str, name: str, way: str, url: str, at: int, ttl: float = 0.4) -> None:
    """Compact; say `ready` behind append number `at` and wait there for a line. Prints the end."""
    os.environ["OPENAI_API_KEY"] = "test"

    def waits() -> None:
        print("ready", flush=True)
        sys.stdin.readline()

    with sawlog.open(store) as log:
        try:
            with log.session(name, ttl=ttl, owner="the first one") as s:
                _behind(log, at, waits)
                compact(s, WAYS[way], url)
            print("compacted")
        except sawlog.errors.SawlogError as error:
            print(type(error).__name__, getattr(error, "owner", ""))


def fill_up(store: str, way: str, url: str, at: int, how: str, disk: str) -> None:
    """Compact on a disk that is full in front of append number `at`, and, when `how` is `stays`,
    for all that comes after; then go on with room. Prints what the full disk made, and whether the
    bracket was left open. Append 0 is none: there is always room.

    `disk` is a folder with a file system of its own, to work in; without one the system is told
    not to let the log's file grow.
    """
    os.environ["OPENAI_API_KEY"] = "test"
    place = os.path.join(disk, "agent.db") if disk else store
    filler = os.path.join(disk, "filler")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)

    def full() -> None:
        if not disk:
            resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(f"{place}-wal"), most))
            return
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass

    def room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        with contextlib.suppress(FileNotFoundError):
            os.remove(filler)

    if disk:
        shutil.copy(store, place)
    with sawlog.open(place) as log, log.session("base", ttl=600) as s:
        _around(log, at, full, None if how == "stays" else room)
        try:
            compact(s, WAYS[way], url)
            print("compacted")
        except sawlog.errors.SawlogError as error:
            print(type(error).__name__)
        room()
        print(bool(s.state.compacting))
        s.note("next", "there-is-room", "go on")
    if disk:
        shutil.copy(place, store)


def _dying(log: AgentLog, at: int) -> None:
    _behind(log, at, lambda: os.kill(os.getpid(), signal.SIGKILL))


def _behind(log: AgentLog, at: int, act: Callable[[], None]) -> None:
    append, made = log.store.append, 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal made
        done = append(*args, **options)
        made += 1
        if made == at:
            act()
        return done

    log.store.append = counted  # type: ignore[method-assign]


def _around(
    log: AgentLog, at: int, before: Callable[[], None], after: Callable[[], None] | None
) -> None:
    append, made = log.store.append, 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal made
        made += 1
        if made == at:
            before()
        try:
            return append(*args, **options)
        finally:
            if made == at and after is not None:
                after()

    log.store.append = counted  # type: ignore[method-assign]

"""Plays the demo: starts provider and agent, kills the agent, starts it again, compares bytes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec

from sawlog.agentlog import AgentLog
from sawlog.audit.recorded import Recorded
from sawlog.demo import repository, script
from sawlog.store.directory import SessionRow
from sawlog.store.errors import SawlogError
from sawlog.store.event import Event, decoded
from sawlog.store.events.compaction import Checkpoint, CompactionStarted
from sawlog.store.events.conversation import ToolFinished, ToolRequested
from sawlog.store.events.steps import AttemptSent, PacketBuilt
from sawlog.store.events.world import FileChanged

_PATIENCE = 60.0

Tell = Callable[[str], None]
"""Called with each thing that happens."""


class Kill(msgspec.Struct, frozen=True):
    """The end of the first agent: in which step and call, behind which event."""

    process: int
    step: int
    tool: str
    call: str
    after_event: int


class Stale(msgspec.Struct, frozen=True):
    """A file that changed under the agent: the event that says so, the packet that tells it."""

    path: str
    event: int
    told_in: int
    request_digest: str


class Compact(msgspec.Struct, frozen=True):
    """The compaction: its checkpoint's event, units before and after, the packet behind it."""

    checkpoint: int
    region: int
    units: int
    step: int
    request_digest: str


class Fork(msgspec.Struct, frozen=True):
    """The fork: where it left, and that packet's digest in both sessions."""

    session: str
    name: str
    at_step: int
    parent_digest: str
    fork_digest: str
    sound: bool

    @property
    def equal(self) -> bool:
        """True when the last packet that both share is the same in both."""
        return self.parent_digest == self.fork_digest


class Replayed(msgspec.Struct, frozen=True):
    """One packet, replayed from the log, beside what the provider received.

    `session` is its session's name.
    """

    session: str

    step: int
    bytes: int
    request_digest: str
    body_sha256: str
    received_sha256: str
    equal: bool


class Facts(msgspec.Struct, frozen=True):
    """What the demo showed.

    `shown` is the result that the model was shown for the call that was cut off, in packet
    `shown_in`; `late_event` the event of the real one, which packet `late_in` shows as news.
    `received` counts the provider's requests. `verified` are the paths of `verify`.
    """

    session: str
    name: str
    steps: int
    events: int
    kill: Kill
    stale: Stale
    compact: Compact
    fork: Fork
    shown: str
    shown_in: int
    late_event: int
    late_in: int
    received: int
    replayed: int
    equal: int
    packets: tuple[Replayed, ...]
    verified: dict[str, str]
    sound: bool
    tests_pass: bool
    seconds: float

    @property
    def fine(self) -> bool:
        """True when every packet came out as it was received, and all else held, too."""
        return (
            self.replayed == self.equal == self.received == len(script.ANSWERS)
            and self.sound
            and self.tests_pass
            and self.stale.told_in > 0
            and 0 < self.compact.units < self.compact.region
            and self.fork.equal
            and self.fork.sound
        )


def play(log: AgentLog, url: str, folder: Path, tell: Tell = lambda text: None) -> Facts:
    """Play the demo in an empty folder, over the store at `url`, which `log` has open.

    Raises SawlogError when the agent or the provider ends otherwise than it should.
    """
    began = time.monotonic()
    name = _new_name(log)
    stage = _Stage(log, url, folder, name)
    with stage.provider() as provider:
        tell(f"a strict provider listens on {provider}")
        with stage.agent(provider) as first:
            tell(f"the agent (process {first.pid}) works on a repository whose test fails")
            kill = stage.kill_in_the_middle(first)
        tell(
            f"it was killed with SIGKILL while {kill.tool} ran in step {kill.step}: "
            f"event {kill.after_event}, the call's start, is the last one in the log"
        )
        with stage.agent(provider) as second:
            tell(f"a second one (process {second.pid}) waits for the dead one's lease and goes on")
            stage.wait_for(second)
        tell(f"somebody changes {stage.touch()}, which the agent has read")
        with stage.agent(provider, "later") as third:
            tell("the agent is asked again, is told of that, and then compacts its history")
            stage.wait_for(third)
        with stage.agent(provider, "fork") as fourth:
            tell(f"a fork goes on from the packet of step {script.FORKED_AT} with another question")
            stage.wait_for(fourth)
    tell("all ended; every packet is now replayed from the log")
    return stage.facts(kill, began)


def _new_name(log: AgentLog) -> str:
    taken = {row.name for row in log.sessions()}
    number = 1
    while (name := "demo" if number == 1 else f"demo-{number}") in taken:
        number += 1
    return name


class _Stage:
    """The folder, the processes and what they leave."""

    def __init__(self, log: AgentLog, url: str, folder: Path, name: str) -> None:
        self._log = log
        self._url = url
        self._name = name
        self._repository = folder / "repository"
        self._reports = folder / "reports"
        self._received = folder / "received"
        self._script = folder / "script.json"
        self._errors = folder / "errors.txt"
        folder.mkdir()
        repository.make(self._repository)
        self._reports.mkdir()
        self._script.write_text(json.dumps(script.ANSWERS), encoding="utf-8")

    # --- processes --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def provider(self) -> Generator[str, None, None]:
        """The fake provider in a process of its own; gives its URL."""
        arguments = ["--script", str(self._script), "--log", str(self._received)]
        with self._process("sawlog.providers.fake", arguments, subprocess.PIPE) as process:
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            if not url:
                raise self._failed("the provider did not start")
            yield url

    @contextlib.contextmanager
    def agent(
        self, provider: str, part: str = "task"
    ) -> Generator[subprocess.Popen[bytes], None, None]:
        """The agent in a process of its own."""
        arguments = [part, self._name, provider, str(self._repository), str(self._reports)]
        with self._process("sawlog.demo.agent", arguments, subprocess.DEVNULL) as process:
            yield process

    @contextlib.contextmanager
    def _process(
        self, module: str, arguments: list[str], stdout: int
    ) -> Generator[subprocess.Popen[bytes], None, None]:
        environment = {
            **os.environ,
            "SAWLOG_STORE": self._url,
            "SAWLOG_TENANT": self._log.store.tenant,
        }
        with (
            self._errors.open("ab") as errors,
            subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=errors,
                env=environment,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def touch(self) -> str:
        """Change a file of the repository; gives its name."""
        return repository.touch(self._repository)

    def kill_in_the_middle(self, process: subprocess.Popen[bytes]) -> Kill:
        """Kill the agent once its test run is under way, and say where that was."""
        until = time.monotonic() + _PATIENCE
        while not list(self._reports.glob("*.running")):
            if process.poll() is not None or time.monotonic() > until:
                raise self._failed("the agent did not come to its test run")
            time.sleep(0.005)
        process.kill()
        process.wait()
        events = self._events()
        last = events[-1]
        asked = [event for event in events if isinstance(event.content, ToolRequested)][-1]
        if last.type != "tool.started":
            raise self._failed("the agent was not killed inside its tool")
        assert isinstance(asked.content, ToolRequested)
        return Kill(process.pid, last.step, str(asked.content.name), asked.id, last.seq)

    def wait_for(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the agent has done its work."""
        try:
            code = process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            raise self._failed("the agent did not end") from None
        if code != 0:
            raise self._failed(f"the agent ended with exit code {code}")

    def _failed(self, what: str) -> SawlogError:
        said = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return SawlogError(f"the demo came to no end: {what} ({said[-1] if said else 'silently'})")

    # --- what they left ---------------------------------------------------------------------------

    def _row(self, name: str = "") -> SessionRow:
        return self._log.find(name or self._name)

    def _events(self, row: SessionRow | None = None) -> list[Event]:
        log = self._log.store
        return [decoded(stored, log.registry) for stored in log.read(row or self._row())]

    def facts(self, kill: Kill, began: float) -> Facts:
        """Replay everything and compare it with what the provider received."""
        session = Recorded(self._log.store, self._row())
        events = self._events()
        received = [file.read_bytes() for file in sorted(self._received.glob("[0-9]*.json"))]
        fork = Recorded(self._log.store, self._row(f"{self._name}-fork"))
        own = [event for event in self._events(fork.row) if event.seq > fork.row.base]
        sent = [
            (each, event.step)
            for each, of in ((session, events), (fork, own))
            for event in of
            if isinstance(event.content, AttemptSent)
        ]
        packets = tuple(
            _compared(each, step, body) for (each, step), body in zip(sent, received, strict=False)
        )
        shown, shown_in, late_in = _story(session, kill)
        late = [
            event.seq
            for event in events
            if isinstance(event.content, ToolFinished) and event.content.call == kill.call
        ]
        report = session.verify()
        return Facts(
            session=session.id,
            name=session.name,
            steps=len(session.steps),
            events=session.row.head,
            kill=kill,
            stale=_stale(session, events),
            compact=_compact(session, events),
            fork=_fork(session, fork),
            shown=shown,
            shown_in=shown_in,
            late_event=late[0] if late else 0,
            late_in=late_in,
            received=len(received),
            replayed=len(packets),
            equal=sum(packet.equal for packet in packets),
            packets=packets,
            verified=report.paths,
            sound=report.sound,
            tests_pass=_tests_pass(events),
            seconds=round(time.monotonic() - began, 1),
        )


def _compared(session: Recorded, step: int, received: bytes) -> Replayed:
    import hashlib

    request = session.packet(step).request
    body = request.body
    return Replayed(
        session=session.name,
        step=step,
        bytes=len(body),
        request_digest=request.digest,
        body_sha256=hashlib.sha256(body).hexdigest(),
        received_sha256=hashlib.sha256(received).hexdigest(),
        equal=body == received,
    )


def _stale(session: Recorded, events: list[Event]) -> Stale:
    """The change of a file, and the first packet that tells of it."""
    changed = next((e for e in events if isinstance(e.content, FileChanged)), None)
    if changed is None or not isinstance(changed.content, FileChanged):
        return Stale("", 0, 0, "")
    for step in range(1, len(session.steps) + 1):
        packet = session.packet(step)
        if any(entry.role == "notice" and "refunds.py" in entry.text for entry in packet.entries):
            path = str(changed.content.path)
            return Stale(path, changed.seq, step, packet.request.digest)
    return Stale(str(changed.content.path), changed.seq, 0, "")


def _compact(session: Recorded, events: list[Event]) -> Compact:
    """The compaction, and the packet behind it."""
    region = units = seq = 0
    for event in events:
        match event.content:
            case CompactionStarted(units=taken):
                region = taken
            case Checkpoint(units=taken):
                seq, units = event.seq, taken
            case PacketBuilt() if seq:
                return Compact(
                    seq, region, units, event.step, session.packet(event.step).request.digest
                )
            case _:
                pass
    return Compact(seq, region, units, 0, "")


def _fork(session: Recorded, fork: Recorded) -> Fork:
    """The fork, and the last packet that it shares."""
    at = script.FORKED_AT
    return Fork(
        session=fork.id,
        name=fork.name,
        at_step=at,
        parent_digest=session.packet(at).request.digest,
        fork_digest=fork.packet(at).request.digest,
        sound=fork.verify().sound,
    )


def _story(session: Recorded, kill: Kill) -> tuple[str, int, int]:
    """What was shown for the call that was cut off, from which step on, and when the late end."""
    shown, shown_in, late_in = "", 0, 0
    for step in range(1, len(session.steps) + 1):
        for entry in session.packet(step).entries:
            if not shown_in and entry.role == "result" and entry.status == "unknown":
                shown, shown_in = entry.text, step
            if not late_in and entry.role == "late":
                late_in = step
    return shown, shown_in, late_in


def _tests_pass(events: list[Event]) -> bool:
    runs = [
        event.content
        for event in events
        if isinstance(event.content, ToolFinished) and event.content.name == "run_tests"
    ]
    return bool(runs) and all(
        isinstance(text := getattr(part, "text", ""), str) and text.rstrip().endswith("OK")
        for part in runs[-1].parts
    )

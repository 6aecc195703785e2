"""Any mixture of forks and rewinds: every branch stays sound, and every old packet comes out again.

Warm = cold = from a snapshot, on each branch, whatever was taken back or went its own way.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sawlog.builder.state import Waiting
from sawlog.store.errors import InvalidEvent, Refused
from sawlog.store.events.lifecycle import HistoryTrimmed
from sawlog.work.call import Call
from sawlog.work.session import Session
from tests.session.agents import TOOLS, next_step, opened
from tests.session.branches import asking, every_branch_holds, own_rows, same_state

NUMBERS = st.integers(0, 99)


class Branches(RuleBasedStateMachine):
    """Sessions that share events, each driven through a handle of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.log = opened(str(Path(self.folder.name) / "agent.db"))
        self.handles: list[Session] = []
        self.sent: dict[str, dict[int, bytes]] = {}
        self.serial = 0
        self.enter(self.log.session("task", window=1_500))
        self.s.tools(TOOLS)

    def enter(self, session: Session) -> None:
        """Drive that one from here on."""
        session.acquire()
        self.handles.append(session)
        self.sent.setdefault(session.id, {})
        self.s = session

    def text(self, what: str) -> str:
        """A text that was not there before."""
        self.serial += 1
        return f"{what} {self.serial}"

    # --- what happens in a session ---------------------------------------------------------------

    @rule(size=st.integers(0, 3))
    def user(self, size: int) -> None:
        self.s.user(self.text("message") + " x" * (size * 60))

    @rule(calls=st.integers(0, 3), answered=st.booleans())
    def step(self, calls: int, answered: bool) -> None:
        try:
            step = next_step(self.s, "openai-chat", allow_waiting=True, allow_missing=True)
        except Refused as refused:
            assert refused.reason in ("nothing_to_send", "cannot_fit"), refused
            return
        self.sent[self.s.id][step.number] = bytes(step.body)
        if answered:
            names = ("read_file", "run_tests", "breaks")[:calls]
            step.send(asking(self.text("answer"), *names))

    @rule(calls=st.integers(1, 3), left=st.integers(0, 2))
    def turn(self, calls: int, left: int) -> None:
        """A message, a step, and results for its calls, but for some that are left open."""
        self.user(calls)
        self.step(calls, answered=True)
        for call in self.s.open_calls()[left:]:
            if not self.waiting(call).started:
                self.run(call, "side_effect", finish=True)

    def waiting(self, call: Call) -> Waiting:
        """What the state says of an open call."""
        return next(one for one in self.s.state.waiting if one.id == call.event_id)

    @rule(which=NUMBERS, finish=st.booleans(), effect=st.sampled_from(["read_only", "side_effect"]))
    def tool(self, which: int, finish: bool, effect: str) -> None:
        calls = [call for call in self.s.open_calls() if not self.waiting(call).started]
        if calls:
            self.run(calls[which % len(calls)], effect, finish=finish)

    def run(self, call: Call, effect: str, *, finish: bool) -> None:
        """Start a call, and give it a result where that is wanted."""
        run = self.s.tool(call, effect=effect)
        run.start()
        if finish:
            self.serial += 1
            run.saw(path=f"{self.serial % 3}.py", version=f"{self.serial % 2:02d}" * 32)
            run.result(self.text("result"))
            run.finish()
            self.s.ended(call)

    @rule(which=NUMBERS)
    def world(self, which: int) -> None:
        match which % 6:
            case 0:
                self.s.file_changed(f"{which % 3}.py", version=f"{which % 4:02d}" * 32)
            case 1:
                self.s.world(cwd=f"/{which % 4}")
            case 2:
                self.s.offer(self.text("fact"), channel="verified_fact", source_id=f"f{which % 4}")
            case 3:
                self.s.withdraw("verified_fact", f"f{which % 4}", reason="wrong")
            case 4:
                self.s.inject(self.text("note"), wakes=which % 2 == 0)
            case _:
                answered = [str(key) for key, _ in self.s.state.answered.items()]
                if answered:
                    self.s.append(HistoryTrimmed((answered[which % len(answered)],)))

    # --- what makes branches ---------------------------------------------------------------------

    @rule(which=NUMBERS)
    def rewind_to_event(self, which: int) -> None:
        self.back(to=self.s.state.seq * which // 100)

    @precondition(lambda self: self.sent[self.s.id])
    @rule(which=NUMBERS)
    def rewind_to_step(self, which: int) -> None:
        steps = list(self.sent[self.s.id])
        self.back(step=steps[which % len(steps)])

    def back(self, *, step: int | None = None, to: int | None = None) -> None:
        before = self.s.state
        try:
            found = self.s.rewind(step=step, to=to)
        except InvalidEvent as error:
            assert "newest one" in str(error) or "left: fork" in str(error)
            assert self.s.state.seq == before.seq
            return
        after = self.s.state
        assert (after.seq, after.step, after.open_step) == (found.seq, before.step, 0)
        assert after.as_of == before.as_of
        assert all(ref.seq <= found.to for ref in after.sent if ref.section == "history")
        for kept in (after.news, after.waiting, after.offers):
            assert all(one.seq <= found.to for one in kept)

    @precondition(lambda self: len(self.handles) < 5)
    @rule(which=NUMBERS, from_step=st.booleans())
    def fork(self, which: int, from_step: bool) -> None:
        steps = list(self.sent[self.s.id])
        place: dict[str, Any] = {"at": self.s.state.seq * which // 99}
        if from_step and steps:
            place = {"step": steps[which % len(steps)]}
        old = self.s
        child = self.log.fork(old.id, name=f"fork {len(self.handles)}", **place)
        row = self.log.find(child.id)
        assert own_rows(self.log, row) == 1
        last = self.log.read(child.id).last_step()
        self.sent[child.id] = {n: b for n, b in self.sent[old.id].items() if n <= last}
        self.enter(child)
        assert not self.s.state.inbox and self.s.state.step == last

    @rule(which=NUMBERS)
    def switch(self, which: int) -> None:
        self.s = self.handles[which % len(self.handles)]

    @rule()
    def reopen(self) -> None:
        at = self.handles.index(self.s)
        self.s.release()
        del self.handles[at]
        self.enter(self.log.session(self.s.name, window=1_500))

    # --- what holds ------------------------------------------------------------------------------

    @invariant()
    def is_not_blocked(self) -> None:
        assert not self.s.state.blocked

    def teardown(self) -> None:
        try:
            for session in self.handles:
                same_state(self.log, session)
                session.release()
            every_branch_holds(self.log, self.sent)
            for row in self.log.sessions():
                recorded = self.log.read(row.id.hex())
                assert recorded.what_if().steps == len(self.sent[row.id.hex()])
                assert "unnamed" not in recorded.stability().causes
        finally:
            self.log.close()
            self.folder.cleanup()


HEALTH = [HealthCheck.too_slow, HealthCheck.data_too_large]

TestBranches = pytest.mark.timeout(600)(Branches.TestCase)
TestBranches.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=HEALTH,
)

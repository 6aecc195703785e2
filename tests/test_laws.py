"""The laws of the design, each as a property over random logs.

A log is made by a random driver that does what agents, users and accidents do: messages, parallel
calls, starts, results in any order, late and second ones, denials, approvals, kills, model
switches. `make test` tries 10,000 logs of 5 to 40 events; `make test-long` goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from sawlog.builder.build import Built, Cache, bindings_of
from sawlog.builder.draft import Refusal
from sawlog.builder.manifest import expand
from sawlog.builder.packet import Entry, semantic_digest
from sawlog.builder.policy import Rules
from sawlog.builder.profiles import profile_named
from sawlog.builder.projector import entry_count, fold, fold_all
from sawlog.builder.replay import replayed
from sawlog.builder.snapshot import decode, encode, state_digest
from sawlog.builder.state import Ref, State
from sawlog.compaction.history import History, history_of
from sawlog.compaction.region import (
    CannotCompact,
    Region,
    choose,
    legal_borders,
    region_places,
)
from sawlog.providers.fake_replies import Call, Reply
from sawlog.providers.strict import check
from sawlog.store.events.compaction import (
    Checkpoint,
    CompactionCompleted,
    CompactionFailed,
    CompactionStarted,
    Line,
)
from sawlog.store.events.conversation import (
    ApprovalDecided,
    ApprovalRequested,
    MessageSystem,
    MessageUser,
    ToolDenied,
    ToolFinished,
    ToolStarted,
)
from sawlog.store.events.lifecycle import (
    ForeignRecord,
    HistoryRewound,
    HistoryTrimmed,
)
from sawlog.store.events.steps import PacketBuilt
from sawlog.store.events.world import Tool, ToolsChanged
from tests.builder.memory import RENDERERS, MemoryLog, text

LOGS = int(os.environ.get("SAWLOG_TEST_LOGS", "10000"))
SHARDS = 8
HEALTH = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

Act = tuple[str, int, int]

ACTS = st.tuples(
    st.sampled_from(
        ["user", "step", "step", "step", "start", "start", "result", "result", "result"]
        + ["second", "orphan", "deny", "ask", "decide", "kill", "noise", "system", "tools"]
        + ["rewind", "trim", "compact", "checkpoint", "checkpoint"]
    ),
    st.integers(0, 11),
    st.integers(0, 11),
)
WINDOWS = st.sampled_from([0, 0, 0, 400, 900])


class Driver:
    """Plays acts on a log and checks what must hold after each packet."""

    refusals: tuple[str, ...] = ("nothing_to_send", "awaiting_approval", "cannot_fit")

    def __init__(self, window: int) -> None:
        self.log = MemoryLog()
        self.rules = Rules(window=window, reserve=window // 10)
        self.built: list[Built] = []
        self.calls: list[str] = []
        self.approvals: list[str] = []
        self.serial = 0
        self.api, self.model = "anthropic", "model-0"

    def play(self, act: Act) -> None:
        kind, a, b = act
        getattr(self, "_" + kind)(a, b)

    def build(self, api: str, model: str = "test-model", **options: Any) -> Built | Refusal:
        """The next packet, or why there is none."""
        return self.log.build(self.rules, api, model, **options)

    def _user(self, a: int, b: int) -> None:
        self.serial += 1
        self.log.append(MessageUser(text(f"message {self.serial} " + "x" * (a * 20))))

    def _step(self, a: int, b: int) -> None:
        if a < 3:  # switches are rarer than steps, or no thinking would ever go back
            self.api, self.model = RENDERERS[b % 4], f"model-{a % 2}"
        api = self.api
        built = self.build(api, self.model, allow_waiting=b % 3 == 0)
        if isinstance(built, Refusal):
            assert built.reason in self.refusals, built
            return
        check(api, built.request.body, dict(built.request.headers))
        self._grows(built)
        _pairs(built.entries)
        event = self.log.append(built.event(), step=self.log.state.step + 1, source="harness")
        self.log.cache.settle(event.seq)
        self.built.append(built)
        if b == 11:
            return  # killed before the reply
        calls = [
            Call("tool", f'{{"n":{self.serial + n}}}', id=f"call_{self.serial + n}")
            for n in range(b % 4)
        ]
        self.serial += 4
        thinking = f"thought {self.serial}" if a % 3 == 0 and api != "openai-chat" else None
        before = len(self.log.events)
        self.log.reply(built, Reply(f"answer {self.serial}" if a % 2 else "", thinking, calls))
        self.calls.extend(e.id for e in self.log.events[before:] if e.type == "tool.requested")

    def _grows(self, built: Built) -> None:
        """Law 13: what was sent stays where it was sent, or a break names its cause."""
        if not self.built:
            return
        sent = self.built[-1].entries
        if not built.trace.breaks:
            assert built.entries[: len(sent)] == sent[:]
        else:
            assert all(one.cause for one in built.trace.breaks)

    def _pick(self, a: int) -> str | None:
        return self.calls[-1 - a % len(self.calls)] if self.calls else None

    def _start(self, a: int, b: int) -> None:
        if call := self._pick(a):
            self.log.append(ToolStarted(call=call), source="harness")

    def _result(self, a: int, b: int) -> None:
        if call := self._pick(a):
            status = ("ok", "ok", "error", "interrupted")[b % 4]
            self.serial += 1
            self.log.append(
                ToolFinished(call, self._call_id(call), "tool", status, text(f"r{self.serial}")),
                source="tool:tool",
            )

    def _second(self, a: int, b: int) -> None:
        self._result(a, b)
        self._result(a, b)

    def _orphan(self, a: int, b: int) -> None:
        self.log.append(ToolFinished(call_id=f"ghost{a}", parts=text("x")), source="tool:tool")

    def _deny(self, a: int, b: int) -> None:
        if call := self._pick(a):
            kind = ("denied", "ignored", "unknown_tool")[b % 3]
            self.log.append(ToolDenied(call=call, kind=kind, reason="no"), source="harness")

    def _ask(self, a: int, b: int) -> None:
        if call := self._pick(a):
            self.approvals.append(f"q{len(self.approvals)}")
            self.log.append(ApprovalRequested(call, self.approvals[-1]), source="harness")

    def _decide(self, a: int, b: int) -> None:
        if self.approvals:
            asked = self.approvals[a % len(self.approvals)]
            self.log.append(ApprovalDecided(asked, b % 2 == 0), source="user")

    def _kill(self, a: int, b: int) -> None:
        """A process ends: the next one has no warm builder and reads a snapshot or genesis."""
        self.log.cache = Cache()
        self.log.state = (
            decode(encode(self.log.state)) if b % 2 else fold_all(State(), self.log.events)
        )

    def _noise(self, a: int, b: int) -> None:
        self.log.append(ForeignRecord("noise"), source="harness", ignorable=True)

    def _system(self, a: int, b: int) -> None:
        role = "developer" if b % 2 else "system"
        self.log.append(MessageSystem(text(f"rule {a}"), role), source=role)

    def _tools(self, a: int, b: int) -> None:
        if b % 4 == 0:
            source = f'{{"name":"tool","description":"t{a}","parameters":{{"type":"object"}}}}'
            self.log.append(ToolsChanged((Tool("tool", source),)), source="harness")

    def _rewind(self, a: int, b: int) -> None:
        """To somewhere behind the last packet, or to anywhere at all, abandoned branches too."""
        if b % 2:
            to = max(1, self.log.state.sent_at, self.log.state.seq - a)
            to = self.log.state.seq * a // 12 if b % 4 == 3 else to
            self.log.append(HistoryRewound(to), source="harness")

    def _trim(self, a: int, b: int) -> None:
        if call := self._pick(a):
            self.log.append(HistoryTrimmed((self._call_id(call),)), source="harness")

    def _compact(self, a: int, b: int) -> None:
        """A foreign compaction that keeps any of the news, in any order, and a copy of its own."""
        if b % 2:
            return
        copy = self.log.append(MessageUser(text(f"copy {a}"), copy=True), source="harness")
        ids = [one.id for one in self.log.state.news]
        kept = [id for at, id in enumerate(ids) if (at * 7 + a) % 3]
        kept = kept[::-1] if a % 2 else kept
        history = tuple(dict.fromkeys([*kept, copy.id]))
        done = CompactionCompleted(foreign=True, history=history, unknown=True)
        self.log.append(done, source="harness")

    def _checkpoint(self, a: int, b: int) -> None:
        """A compaction of sawlog's own, up to any border where one may reach."""
        log = self.log
        if log.state.blocked:
            return
        history = history_of(log.state, self.rules.measure, log)
        legal = legal_borders(history)
        if not legal:
            return
        region = choose(history, log, at=legal[b % len(legal)], keep_user=a * 10)
        if isinstance(region, CannotCompact):
            assert region.code == "nothing_to_cut"
            return
        begun = CompactionStarted(
            "manual", route="rules", through=region.through, kept=region.kept, region=region.digest
        )
        started = log.append(begun, source="harness")
        if a == 11:
            return  # killed in the middle
        if a == 10:
            log.append(CompactionFailed("no_progress"), source="harness")
            return
        self.serial += 1
        open_items = (Line("open-1", f"item {self.serial}"),)
        seq = log.append(Checkpoint(started.id, open=open_items), source="harness").seq
        log.append(
            CompactionCompleted(checkpoint=seq, through=region.through, kept=region.kept),
            source="harness",
        )
        after = history_of(log.state, self.rules.measure, log)
        assert after.refs == tuple(
            ref for place, ref in enumerate(history.refs) if place not in _gone(history, region)
        )
        assert "item" in after.head[-1].text

    def _call_id(self, event_id: str) -> str:
        content: Any = next(e.content for e in self.log.events if e.id == event_id)
        return str(content.call_id)


def _gone(history: History, region: Region) -> set[int]:
    """The places of what a compaction takes away, what it tells anew included."""
    told = ("world", "stale", "missing", "notice")
    return {
        *region_places(history, region.through, region.kept),
        *(place for place, ref in enumerate(history.refs) if ref.form in told),
    }


def _pairs(entries: Any) -> None:
    """Law 7: each requested call shows one result, behind its message, in call order."""
    open_calls: list[str] = []
    before: Entry | None = None
    for entry in entries:
        if entry.kind == "call":
            open_calls.append(entry.call_id)
        elif entry.role == "result" and entry.first:
            assert open_calls and open_calls.pop(0) == entry.call_id
        elif entry.first:
            assert not open_calls, "a message stands between calls and their results"
        if entry.role == "result" and before is not None:
            assert before.role == "result" or before.authority == "assistant"
        before = entry
    assert not open_calls


def check_whole(driver: Driver) -> None:
    log = driver.log
    # Law 5: incremental = cold = from any snapshot, for every prefix.
    cold = State()
    packets = iter(driver.built)
    shown: dict[int, int] = {}
    listed: dict[int, list[Ref]] = {0: []}
    for at, event in enumerate(log.events):
        cold = fold(cold, event)
        if event.shown:
            shown[event.seq] = entry_count(event)
        if at % 7 == 3:
            again = fold_all(decode(encode(cold)), log.events[at + 1 :])
            assert state_digest(again) == state_digest(log.state)
        content = event.content
        if isinstance(content, PacketBuilt):
            # Laws 1, 8: the manifest alone gives the packet back, byte for byte.
            built = next(packets)
            assert cold.sent[:] == built.refs[:]
            # And so it does for a reader who knows the events alone, and no fold.
            listed[event.seq] = expand(content.parts, listed[content.base], shown)
            assert listed[event.seq] == built.refs[:]
            assert semantic_digest(built.entries, built.missing) == content.semantic
            out = replayed(
                content, cold.sent[:], log, profile_named(content.profile), bindings_of(cold)
            )
            assert (out.semantic, out.request.digest) == (content.semantic, content.request)
    assert state_digest(cold) == state_digest(log.state)
    # Law 6: whatever stands at the end, each provider accepts it or the refusal has a name.
    for api in RENDERERS:
        log.cache = Cache()
        built_now = driver.build(api, allow_waiting=True)
        if isinstance(built_now, Refusal):
            assert built_now.reason in driver.refusals
            assert built_now.reason != "awaiting_approval"
        else:
            check(api, built_now.request.body, dict(built_now.request.headers))
            _pairs(built_now.entries)


def _law(number: int) -> Callable[..., None]:
    @pytest.mark.timeout(900)
    @seed(number)
    @settings(
        max_examples=max(1, LOGS // SHARDS),
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=HEALTH,
    )
    @given(acts=st.lists(ACTS, min_size=3, max_size=22), window=WINDOWS)
    def law(acts: list[Act], window: int) -> None:
        """Laws 1, 5, 6, 7, 8 and 13 hold on a random log."""
        driver = Driver(window)
        driver.play(("user", 1, 0))
        for act in acts:
            driver.play(act)
            if len(driver.log.events) >= 40:
                break
        check_whole(driver)

    made: Callable[..., None] = law
    return made


@pytest.mark.long
@settings(deadline=None, suppress_health_check=HEALTH)
@given(acts=st.lists(ACTS, min_size=3, max_size=60), window=WINDOWS)
def test_laws_on_ever_new_logs(acts: list[Act], window: int) -> None:
    """The same on longer logs; `make test-long` tries new ones at each round."""
    driver = Driver(window)
    driver.play(("user", 1, 0))
    for act in acts:
        driver.play(act)
    check_whole(driver)


for _shard in range(SHARDS):
    globals()[f"test_laws_on_random_logs_{_shard}"] = _law(_shard)

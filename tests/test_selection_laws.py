"""The laws over logs that are told of the world, of files, of items, of tasks and of messages, too.

The driver of `test_laws` goes on as it does, and between its acts the surroundings change. How many
logs are tried follows SAWLOG_TEST_LOGS; `make test-long` goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import tests.test_laws as laws
from sawlog.builder.build import Built, Cache
from sawlog.builder.candidates import Known
from sawlog.builder.channels import CHANNELS
from sawlog.builder.draft import Refusal
from sawlog.builder.inbox import claimable
from sawlog.builder.projector import fold_all
from sawlog.builder.snapshot import decode, encode, state_digest
from sawlog.builder.state import State
from sawlog.providers.strict import check
from sawlog.store.events.conversation import MessageUser, ToolFinished
from sawlog.store.events.inbox import InboxCancelled, InboxClaimed, InboxInjected
from sawlog.store.events.items import ItemOffered, ItemWithdrawn, Label, TaskSet
from sawlog.store.events.lifecycle import HistoryRewound, SessionForked
from sawlog.store.events.steps import MeasureRecorded
from sawlog.store.events.world import FileChanged, ObservationRecorded, Saw, Section, WorldChanged
from tests.builder.memory import RENDERERS, text

LOGS = max(8, laws.LOGS // 5)
SHARDS = 4

ACTS = st.tuples(
    st.sampled_from(
        ["user", "step", "step", "step", "step", "step", "start", "result", "result", "result"]
        + ["second", "deny", "kill", "kill", "system", "tools", "rewind", "trim", "compact"]
        + ["world", "world", "file", "file", "seen", "item", "item", "item", "item", "again"]
        + ["need", "withdraw", "task", "task", "inject", "inject", "claim", "measure", "fork"]
    ),
    st.integers(0, 11),
    st.integers(0, 11),
)
WINDOWS = st.sampled_from([0, 0, 260, 400, 900])
CHANNEL_NAMES = ("retrieval", "web_content", "verified_fact", "tool_observation", "memory", "skill")


class Surrounded(laws.Driver):
    """The driver of the laws, in a world that changes."""

    refusals = (*laws.Driver.refusals, "needs_context")

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self.missing = False

    # --- acts ------------------------------------------------------------------------------------

    def _step(self, a: int, b: int) -> None:
        self._claim(a, b)
        api, model = self.api, self.model
        before = len(self.built)
        self.missing = b % 3 == 1
        super()._step(a, b)
        if len(self.built) > before:
            self._checked(self.built[-1])
        else:
            self.api, self.model = api, model

    def build(self, api: str, model: str = "model-0", **options: Any) -> Built | Refusal:
        """The next packet, or why there is none."""
        return super().build(api, model, **{"allow_missing": self.missing, **options})

    def _result(self, a: int, b: int) -> None:
        call = self._pick(a)
        if call is None:
            return
        self.serial += 1
        saw = (Saw(f"f{a % 3}.py", "", f"v{b % 4}"),) if b % 2 else ()
        result = ToolFinished(
            call, self._call_id(call), "tool", "ok", text(f"r{self.serial}"), saw=saw
        )
        self.log.append(result, source="tool:tool")

    def _world(self, a: int, b: int) -> None:
        name = ("cwd", "mode", "env", "notes")[a % 4]
        value = json.dumps({"n": b % 3}) if a % 4 > 1 else f'"/{b % 3}"'
        section = Section(name, value, removed=b == 9, unknown=b == 10)
        if b == 11:
            section = Section("notes", json.dumps("long " * 90))
        self.log.append(WorldChanged((section,)), source="harness")

    def _file(self, a: int, b: int) -> None:
        state = "absent" if b == 10 else "unreadable" if b == 11 else "present"
        version = f"v{b % 4}" if b < 9 else ""
        self.log.append(FileChanged(f"f{a % 3}.py", version, state), source="watch")

    def _seen(self, a: int, b: int) -> None:
        self.serial += 1
        saw = (Saw(f"f{a % 3}.py", "", f"v{b % 4}"),)
        parts = text(f"seen {self.serial}")
        scan = ObservationRecorded(parts, "scan", saw, once=b == 0)
        self.log.append(scan, source="hook:scan")

    def _item(self, a: int, b: int) -> None:
        self.serial += 1
        said = f"item {self.serial} " + "x" * (b * 20)
        if b == 11:
            said = "the same text"
        more: dict[str, Any] = {"source_id": f"s{a % 5}"}
        if b % 4 == 1:
            more["version"] = str(self.serial % 7)
        if b % 4 == 2:
            more["valid_until"] = len(self.log.events) + a
        if b % 4 == 3:
            more["saw"] = (Saw(f"f{a % 3}.py", "", f"v{a % 4}"),)
        if a % 3 == 0:
            more["topics"] = (f"t{b % 2}",)
        if a == 11:
            more["tenant"] = f"tenant {b % 2}"
        if a == 10:
            more["role"] = ("diff", "error_log")[b % 2]
        if a == 9:
            more["canonical"] = "one thing"
        self.offer(said, CHANNEL_NAMES[(a + b) % len(CHANNEL_NAMES)], **more)

    def _again(self, a: int, b: int) -> None:
        """An item of before is offered once more, with a newer version or just so."""
        offers = self.log.state.offers
        if not offers:
            return
        event = self.log.event(offers[a % len(offers)].seq)
        content = event.content
        assert isinstance(content, ItemOffered)
        if b % 3 == 0:
            content = replace(content, version=str(20 + b))
        if b % 3 == 1:
            self.serial += 1
            content = replace(content, parts=text(f"newer {self.serial}"), version=str(20 + b))
        self.log.append(content, source=event.source)

    def _need(self, a: int, b: int) -> None:
        """An item that gives what a task may require."""
        said = f"need {a % 3}" + "x" * (b * 15)
        self.offer(said, "verified_fact", source_id=f"n{a}", required_for=(f"need-{a % 3}",))

    def offer(self, said: str, channel: str, **more: Any) -> None:
        """Offer an item with the labels of its channel."""
        of = CHANNELS[channel]
        label = Label(
            str(of.kind), str(of.authority), str(of.trust), str(of.retention), str(of.sensitivity)
        )
        more = {"source_id": f"source {len(self.log.events)}", **more}
        self.log.append(ItemOffered(text(said), label, **more), source=channel)

    def _withdraw(self, a: int, b: int) -> None:
        offers = self.log.state.offers
        if offers:
            one = offers[a % len(offers)]
            gone = ItemWithdrawn(one.channel, one.source_id, "no reason" if b % 2 else "")
            self.log.append(gone, source="harness")

    def _task(self, a: int, b: int) -> None:
        needs = (f"need-{a % 3}",) if b % 4 == 0 else ()
        topics = (f"t{a % 2}",) if b % 5 == 0 else ()
        phase = ("", "", "verify", "investigate")[b % 4]
        goal = f"goal {a % 3} " + "g" * (b * 8) if a % 4 else ""
        task = TaskSet(
            goal, "all is done" if b % 2 else "", needs, topics, phase, tenant=f"tenant {a % 2}"
        )
        self.log.append(task, source="harness")

    def _inject(self, a: int, b: int) -> None:
        target = "next-turn" if a % 3 == 0 else "next-step"
        self.serial += 1
        message = InboxInjected(text(f"wait {self.serial}"), target, wakes=b % 2 == 0)
        self.log.append(message, source=("user", "job:x")[a % 2])
        if b == 11:
            self.log.append(InboxCancelled((self.log.events[-1].id,)), source="harness")

    def _claim(self, a: int, b: int) -> None:
        batch = claimable(self.log.state)
        if not batch:
            return
        ids = tuple(one.id for one in batch)
        self.log.append(InboxClaimed(ids, rejected=b == 7), source="harness")
        for one in batch if b != 7 else ():
            content: Any = self.log.event(one.seq).content
            entry = MessageUser(content.parts, origin="inbox")
            self.log.append(entry, source=self.log.event(one.seq).source)

    def _measure(self, a: int, b: int) -> None:
        per_mille = (800, 900, 1000, 1100, 1300)[a % 5]
        used = MeasureRecorded(
            measure=self.rules.measure, units=100, input=100, per_mille=per_mille
        )
        self.log.append(used, source="harness")

    def _fork(self, a: int, b: int) -> None:
        if b % 3 == 0:
            fork = SessionForked("00" * 16, self.log.state.seq, "00" * 32)
            self.log.append(fork, source="harness")

    def _rewind(self, a: int, b: int) -> None:
        if b % 3 == 0:
            to = max(1, self.log.state.sent_at, self.log.state.seq - a)
            to = self.log.state.seq * a // 12 if b % 2 else to
            self.log.append(HistoryRewound(to), source="harness")

    # --- what must hold --------------------------------------------------------------------------

    def _checked(self, built: Built) -> None:
        """Each candidate has one verdict, and what came in is what the verdicts say."""
        state = fold_all(State(), self.log.events[: self._packet_at() - 1])
        verdicts = built.trace.verdicts
        # A synthetic result is named after its call, which has a verdict of its own.
        calls = {e.seq for e in self.log.events if e.type == "tool.requested"}
        judged = [one for one in verdicts if one.stage != "render" and one.seq not in calls]
        keys = [(one.seq, one.part) for one in judged if one.seq and one.part]
        twice = [one for one in judged if keys.count((one.seq, one.part)) > 1]
        assert not twice, "one final verdict each"
        standing = {ref.seq for ref in built.refs if ref.form == "item"}
        cut = bool(built.trace.breaks)
        fresh = {one.seq: one for one in judged if one.part == 1}
        for offer in state.offers:
            if offer.seq in state.items and (offer.seq in standing or not cut):
                assert offer.seq in standing, "what was sent stays"
                continue
            verdict = fresh[offer.seq]
            assert (verdict.outcome != "dropped") == (offer.seq in standing), verdict
        if self.rules.window:
            own = self.rules.calibrated(state.per_mille)
            total = sum(units for _, units in built.counts)
            assert total <= own.window - own.reserve
        if state.task:
            task: Any = self.log.event(state.task).content
            said = "".join(one.text for one in built.entries if one.kind == "goal")
            assert str(task.goal) in said
        _told_once(built)

    def _packet_at(self) -> int:
        return self.log.state.sent_at


def _told_once(built: Built) -> None:
    """No two whole texts of one section behind one another, and no empty entry."""
    for one in built.entries:
        if one.kind in ("world", "goal", "notice"):
            assert one.text


def _check_end(driver: Surrounded) -> None:
    laws.check_whole(driver)
    log = driver.log
    snapshot = decode(encode(log.state))
    assert state_digest(snapshot) == state_digest(log.state)
    for api in RENDERERS:
        found: list[Built | Refusal] = []
        for state in (log.state, snapshot, fold_all(State(), log.events)):
            log.cache, held = Cache(), log.state
            log.state = state
            found.append(driver.build(api, allow_waiting=True, allow_missing=True))
            log.state = held
        first, *others = found
        for other in others:
            if isinstance(first, Refusal):
                assert first == other
                continue
            assert isinstance(other, Built)
            assert first.request.body == other.request.body
            assert first.trace == other.trace
        if isinstance(first, Built):
            check(api, first.request.body, dict(first.request.headers))
    _weighs_alike(driver)


def _weighs_alike(driver: Surrounded) -> None:
    """Weighing only the items that can matter gives what weighing all of them gives."""
    log = driver.log
    log.cache = Cache()
    few = driver.build("openai-chat", allow_waiting=True, allow_missing=True)
    like = Known.with_all_like

    def everything(self: Known, seqs: Any, among: frozenset[int]) -> set[int]:
        return set(among)

    Known.with_all_like = everything  # type: ignore[method-assign]
    try:
        log.cache = Cache()
        many = driver.build("openai-chat", allow_waiting=True, allow_missing=True)
    finally:
        Known.with_all_like = like  # type: ignore[method-assign]
    if isinstance(few, Refusal):
        assert few == many
        return
    assert isinstance(many, Built)
    assert few.request.body == many.request.body
    # What is ranked among more may be scored as before: the verdicts are the same, too.
    assert few.trace == many.trace


def play(
    acts: Sequence[laws.Act], window: int, most: int, of: Callable[[int], Surrounded] = Surrounded
) -> None:
    """Play the acts with a driver for that window, and check what holds of its log."""
    driver = of(window)
    driver.play(("user", 1, 0))
    for act in acts:
        driver.play(act)
        if len(driver.log.events) >= most:
            break
    _check_end(driver)


def _law(number: int) -> Callable[..., None]:
    @pytest.mark.timeout(900)
    @seed(number)
    @settings(
        max_examples=max(1, LOGS // SHARDS),
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=laws.HEALTH,
    )
    @given(acts=st.lists(ACTS, min_size=6, max_size=40), window=WINDOWS)
    def law(acts: list[laws.Act], window: int) -> None:
        """Laws 1, 5-8 and 13 hold on random logs with a world around; one verdict a candidate."""
        play(acts, window, 80)

    made: Callable[..., None] = law
    return made


@pytest.mark.long
@settings(deadline=None, suppress_health_check=laws.HEALTH)
@given(acts=st.lists(ACTS, min_size=6, max_size=80), window=WINDOWS)
def test_selection_laws_on_ever_new_logs(acts: list[laws.Act], window: int) -> None:
    """The same on longer logs; `make test-long` tries new ones at each round."""
    play(acts, window, 200)


for _shard in range(SHARDS):
    globals()[f"test_selection_laws_on_random_logs_{_shard}"] = _law(_shard)

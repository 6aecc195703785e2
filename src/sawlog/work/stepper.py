"""How a session makes its next step: its packet is built over all that the log holds, and logged.

A packet is appended only behind exactly the events that it was built from. When others append in
between it is built again, and after a few times while nobody else can append.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from sawlog.builder.build import Built, Cache, Sending, build
from sawlog.builder.draft import Refusal
from sawlog.builder.policy import Rules
from sawlog.builder.projector import FOLD, fold_all
from sawlog.builder.state import State
from sawlog.store.append import Tail
from sawlog.store.codec import sealed
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import ConfigError, Conflict, Refused
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.steps import AttemptLost, PolicySet, StepAbandoned
from sawlog.store.text import seal
from sawlog.work.calibrating import Effort, effort_of
from sawlog.work.claims import Claims, PreStep
from sawlog.work.driver import Driver

_CONFLICTS = 3
"""Conflicts after which a packet is built inside the append's transaction."""


class Asked(msgspec.Struct, frozen=True):
    """What a caller asks of a step: where it goes, and what may be wanting."""

    sending: Sending
    fallback_of: EventId = ""
    allow_waiting: bool = False
    allow_missing: bool = False


class Stepper:
    """Builds and logs the packets of one driver's session, keeping the builder warm."""

    def __init__(
        self,
        driver: Driver,
        rules: Rules,
        clock: Callable[[], int],
        pre_step: PreStep | None = None,
    ) -> None:
        self._driver = driver
        self._rules = rules
        self._clock = clock
        self._cache = Cache()
        self._claims = Claims(driver, pre_step)
        self._effort = Effort()

    def step(self, asked: Asked) -> tuple[int, Built, Event, Effort]:
        """Build and log the next packet: the step's number, what was built, its `packet.built`,
        what it took.

        Raises Refused with the builder's reason when there is no packet, ConfigError when another
        policy of the same name and number is in force.
        """
        driver = self._driver
        with driver.lock:
            self._check_number(driver.load())
            for _ in range(_CONFLICTS):
                state = driver.load()
                if self._claims.reject(state):
                    continue
                before = self._before(state, asked.sending)
                try:
                    built, packet = self._made(state, before, asked)
                except Refused:
                    if driver.catch_up().seq == state.seq:
                        raise
                    continue  # what was missing may be what others appended, such as a decision
                try:
                    seqs = driver.append([*before, packet], expected_seq=state.seq)
                except Conflict:
                    driver.catch_up()
                    continue
                return self._done(built, seqs[-1])
            return self._inside(asked)

    def _inside(self, asked: Asked) -> tuple[int, Built, Event, Effort]:
        """The same while nobody else can append."""
        done: list[Built] = []

        def make(tail: Tail) -> Sequence[NewEvent]:
            state = self._driver.catch_up()
            before = self._before(state, asked.sending)
            built, packet = self._made(state, before, asked)
            done.append(built)
            return [*before, packet]

        seqs = self._driver.append([], build=make)
        return self._done(done[-1], seqs[-1])

    def _done(self, built: Built, seq: int) -> tuple[int, Built, Event, Effort]:
        self._cache.settle(seq)
        event = self._driver.window.event(seq)
        return event.step, built, event, self._effort

    # --- what stands in front of the packet -----------------------------------------------------

    def _before(self, state: State, sending: Sending) -> list[NewEvent]:
        """Events that the step adds in front of its packet: an end for a cut step, new rules."""
        new = self._driver.new
        events: list[NewEvent] = []
        if state.open_step:
            if state.unsettled:
                lost = AttemptLost(number=state.unsettled, reason="no outcome was recorded")
                events.append(new(lost, "harness", step=state.open_step))
            gone = StepAbandoned(reason="another step began before it had a reply")
            events.append(new(gone, "harness", step=state.open_step))
        rules = self._policy(sending)
        if not self._in_force(state, rules):
            events.append(new(rules, "harness"))
        events.extend(self._claims.entries(state))
        return events

    def _policy(self, sending: Sending) -> PolicySet:
        rules = self.rules_for(sending)
        own = sending.profile.own_digest
        return PolicySet(
            policy=rules.policy,
            pairing=rules.pairing,
            fold=FOLD,
            measure=rules.measure,
            profile=sending.profile.named if own else None,
            window=rules.window,
            reserve=rules.reserve,
            policy_text=rules.stages.text if rules.stages is not None else "",
            profile_text=sending.profile.text if own else "",
        )

    def rules_for(self, sending: Sending) -> Rules:
        """The rules of a step: a window that nobody gave is the profile's."""
        window = self._rules.window or sending.profile.window
        return replace(self._rules, window=window)

    def _check_number(self, state: State) -> None:
        """Raise ConfigError when the log has another policy under the name and number of this one.

        A policy is never changed: who reads a name and a number must know what they mean.
        """
        stages = self._rules.stages
        content = self._driver.window.event(state.policy).content if state.policy else None
        if stages is None or not isinstance(content, PolicySet):
            return
        if content.policy == stages.named and content.policy_text != seal(stages.text)[0]:
            raise ConfigError(
                f"the session was built under another policy {stages}: a changed policy is a new "
                f"number, so give yours number = {stages.number + 1}"
            )

    def _in_force(self, state: State, wanted: PolicySet) -> bool:
        if not state.policy:
            return False
        now = self._driver.window.event(state.policy).content
        return isinstance(now, PolicySet) and now == sealed(wanted)[0]

    # --- the packet -----------------------------------------------------------------------------

    def _made(
        self, state: State, before: Sequence[NewEvent], asked: Asked
    ) -> tuple[Built, NewEvent]:
        """The packet, and the time that it took where the policy has a use for that."""
        if self._rules.selection is None:
            return self._packet(state, before, asked)
        began = self._clock()
        made = self._packet(state, before, asked)
        took = self._clock() - began
        self._effort = effort_of(state, state.sent_at, self._driver.window, took)
        return made

    def _packet(
        self,
        state: State,
        before: Sequence[NewEvent],
        asked: Asked,
    ) -> tuple[Built, NewEvent]:
        driver = self._driver
        ahead = driver.as_events(state, before)
        driver.window.hold(ahead)
        folded = fold_all(state, ahead)
        if self._cache.assembly is None or folded.cuts:
            driver.window.prefetch(folded.sent)
        result = build(
            folded,
            self.rules_for(asked.sending),
            asked.sending,
            self._clock(),
            driver.window,
            self._cache,
            allow_waiting=asked.allow_waiting,
            allow_missing=asked.allow_missing,
        )
        if isinstance(result, Refusal):
            policy = str(self._rules.policy)
            raise Refused(result.reason, result.message, result.needs, policy=policy)
        payload = result.event(replaces=self._replaced(state), fallback_of=asked.fallback_of)
        return result, driver.new(payload, "harness", step=folded.step + 1)

    def _replaced(self, state: State) -> EventId:
        """The packet of a step that is given up for this one."""
        if not state.open_step or not state.sent_at:
            return ""
        return self._driver.window.event(state.sent_at).id

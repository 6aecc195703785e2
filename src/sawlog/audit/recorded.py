"""A recorded session, to be read: its steps, each step's packet, its events. Writes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sawlog.audit.bindings import Bindings
from sawlog.audit.expanding import expanded, packet_of
from sawlog.audit.reconstructing import foreign_sending, reconstruct
from sawlog.audit.steppacket import StepPacket, reconstructed_packet, replayed_packet
from sawlog.builder.branching import attended, resuming, state_at
from sawlog.builder.build import Sending
from sawlog.builder.contents import text_of
from sawlog.builder.draft import Refusal
from sawlog.builder.packet import Binding
from sawlog.builder.profiles import Profile, profile_named, profile_of
from sawlog.builder.projector import FOLD, fold, fold_all
from sawlog.builder.replay import Replayed, replayed, sent_under
from sawlog.builder.snapshot import CODEC, decode
from sawlog.builder.state import Ref, State
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import NoStep, Refused
from sawlog.store.event import Event, decoded
from sawlog.store.events.conversation import MessageAssistant, ToolRequested
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.store.events.steps import (
    PacketBuilt,
    PacketRecorded,
    PolicySet,
    StepAbandoned,
    StepCompleted,
    StepFailed,
    StepRefused,
)
from sawlog.store.log import Log
from sawlog.work.places import Places
from sawlog.work.window import Window

if TYPE_CHECKING:
    from sawlog.audit.findings import Change, Report, Stability, WhatIf, Why, ZoneUse
    from sawlog.audit.handoffrequest import Handoff
    from sawlog.builder.selection.policy import Policy
    from sawlog.builder.trace import Trace
    from sawlog.work.plan import Plan

_BEHIND = 256
"""Events between a packet and the request that a client made of it, at most."""

_KNOWN = 16
"""States at rewinds that a reading keeps, so that the next one goes on from there."""


class Recorded:
    """A session of the log. Made by `AgentLog.read`."""

    def __init__(self, log: Log, row: SessionRow) -> None:
        self.log = log
        self.row = row
        self._window = Window(log, row)
        self._places = Places(log, row, self._window)
        self._profiles: dict[str, Profile] = {}
        self._states: dict[int, State] = {}
        self._bindings: dict[int, Binding] = {}

    @property
    def id(self) -> str:
        """The session's id, 32 hex digits."""
        return self.row.id.hex()

    @property
    def name(self) -> str:
        """The session's name; empty when it has none."""
        return self.row.name or ""

    @property
    def window(self) -> Window:
        """The session's contents, for reading."""
        return self._window

    @property
    def binding(self) -> Bindings:
        """Step to what the bound items of its reply are bound to, or None."""
        # Made anew each time: kept, it would keep this reading and all its contents from being
        # let go of before the next full collection.
        return Bindings(self.packet_event, self.as_stored, self._window, self._bindings)

    def events(self, after: int = 0, upto: int | None = None) -> Iterator[Event]:
        """The events after `after`, up to `upto`, as a fold reads them."""
        return attended(self.as_stored(after, upto), self.resuming, None if after else 0)

    def as_stored(self, after: int = 0, upto: int | None = None) -> Iterator[Event]:
        """The same as they are stored: a rewind says where to, and not what is there."""
        for stored in self.log.read(self.row, after=after, upto=upto):
            yield decoded(stored, self.log.registry)

    def rewound_to(self) -> frozenset[int]:
        """The seqs that rewinds of this session go back to."""
        found: set[int] = set()
        for stored in self.log.read(self.row):
            if stored.type == "history.rewound":
                content = self.log.registry.decode(stored)
                if isinstance(content, HistoryRewound):
                    found.add(content.to)
        return frozenset(found)

    def resuming(self, rewind: Event) -> State:
        """The state that a rewind goes back to, folded from the first event on."""
        return resuming(rewind, self.state_at, self.as_stored)

    def state_at(self, seq: int) -> State:
        """The state after that event, folded from the first one on."""
        state = state_at(seq, self._before, self.as_stored)
        self._states[state.seq] = state
        while len(self._states) > _KNOWN:
            del self._states[next(iter(self._states))]
        return state

    def _before(self, seq: int) -> State:
        known = max((at for at in self._states if at <= seq), default=0)
        return self._states[known] if known else State()

    @property
    def steps(self) -> Steps:
        """The steps by number."""
        return Steps(self)

    def verify(self) -> Report:
        """Every step by independent paths, the chain and the blobs; see `verifying.verify`."""
        from sawlog.audit.verifying import verify

        return verify(self)

    def recover(self, root: str | os.PathLike[str] | None = None) -> Plan:
        """What stands open at the newest event, and what is safe next; see `Session.recover`.

        It writes nothing, and its plan is for reading: one that can be applied is made by the
        session that is entered. Who drives the session is named in `driven_by`.
        """
        from sawlog.work.driven import driven
        from sawlog.work.recovering import Undeclared, plan_of

        row = self.log.get(self.row)
        found = self.log.snapshot_get(row, fold=FOLD, layout=CODEC, upto=row.head)
        state = decode(found.data) if found is not None else State()
        state = fold_all(state, self.events(state.seq, row.head))
        who = driven(self.log, row)
        return plan_of(self.log, row, state, self._window, Undeclared(), who, root=root)

    def what_if(
        self,
        *,
        policy: str | Policy | None = None,
        budget: int | None = None,
        reserve: int | None = None,
        api: str | None = None,
        model: str | None = None,
    ) -> WhatIf:
        """Every step built again under other rules, from the log alone: which steps would differ.

        What is not given stays as recorded. `policy` is a built-in one's name or a policy document,
        `budget` and `reserve` are in units of the measure. Calls no model; see
        `sawlog.audit.otherwise`.
        """
        from sawlog.audit.otherwise import Other
        from sawlog.audit.whatif import what_if

        return what_if(self, Other(policy, budget, reserve, api, model))

    def handoff(
        self,
        *,
        provider: str,
        model: str = "",
        say: str | None = None,
        tools: Iterable[Any] | None = None,
        window: int | None = None,
        reserve: int | None = None,
        profile: Profile | None = None,
        headers: Mapping[str, str] | None = None,
        allow_missing: bool = False,
        **parameters: Any,
    ) -> Handoff:
        """The request that continues this session with another provider; nothing is written.

        `provider` is one of those that `Session.step` takes; `model` need only be given where the
        log names none of that API. `say` is the user's next message, needed where the history ends
        with the model's own reply; `tools` are offered in the place of those in force. Both stand
        in this request and in no log. `window` and `reserve` are as in `AgentLog.session`: not
        given, the model's profile's or else the session's own; 0 is no bound. Parameters go to the
        provider as they are.
        Raises ConfigError, by name, for what is lacking, and Refused when there is no request.
        """
        from sawlog.audit.handoff import handoff
        from sawlog.work.apis import api_of

        return handoff(
            self,
            api_of(provider),
            model,
            say=say,
            tools=tools,
            window=window,
            reserve=reserve,
            profile=profile,
            headers=headers,
            allow_missing=allow_missing,
            parameters=parameters,
        )

    def stability(self) -> Stability:
        """How much of each packet the next one keeps, every break by its cause; `prefixes`."""
        from sawlog.audit.prefixes import stability

        return stability(self)

    def step_of_call(self, call_id: str) -> int:
        """The step that asked for the call of that provider id. Raises NoStep."""
        for event in self.as_stored():
            content = event.content
            if isinstance(content, ToolRequested):
                asked = text_of(content.call_id, self._window)
                if call_id in (asked, event.id):
                    return event.step
        raise NoStep(
            f"no call {call_id!r} was asked for in this session: give the id of its event, as "
            "`sawlog show SESSION --json` has it, or the provider's id of the call"
        )

    # --- where steps are ------------------------------------------------------------------------

    @property
    def format(self) -> str:
        """The foreign format that the session was imported from; empty when it was not."""
        return self._places.format

    def last_step(self) -> int:
        """The number of the newest step; 0 when there is none."""
        return self._places.last_step()

    def packet_event(self, step: int) -> Event | None:
        """The newest packet of a step, built or recorded, or None when it has none (an import)."""
        return self._places.packet_event(step)

    def place(self, step: int) -> int:
        """The seq of a step's packet; where a foreign file shows the step, that before its reply.

        What was shown at the step is what stands there. Raises NoStep.
        """
        return self._places.place(step)

    # --- packets --------------------------------------------------------------------------------

    def packet(self, step: int) -> StepPacket:
        """The packet of a step: replayed from its manifest, read from the spans of a recorded
        request, or reconstructed for an import."""
        event = self.packet_event(step)
        if event is not None and isinstance(event.content, PacketRecorded):
            from sawlog.audit.recordedpackets import recorded_packet

            shown = (one for one in self.events(0, event.seq) if one.shown)
            return recorded_packet(event, shown, self._window)
        if event is not None:
            return self._replayed(event)
        before = self.place(step)
        return self.reconstructed(before, model=self._foreign_model(step, before + 1))

    def is_rewritten(self, step: int) -> bool:
        """True of a step whose packet a client wrote again before it left."""
        event = self.packet_event(step)
        content = event.content if event is not None else None
        return isinstance(content, PacketRecorded) and content.origin == "rewritten"

    def built(self, step: int) -> StepPacket:
        """The packet of a step as sawlog built it, also where a client wrote it again.

        Raises NoStep when sawlog built none.
        """
        event = self.packet_event(step)
        if event is not None and isinstance(event.content, PacketRecorded):
            # It stands right behind, but for what others appended in between.
            before = [*self.as_stored(max(0, event.seq - 1 - _BEHIND), event.seq - 1)]
            ours = (one for one in reversed(before) if isinstance(one.content, PacketBuilt))
            event = next((one for one in ours if one.step == step), None)
        if event is None or not isinstance(event.content, PacketBuilt):
            raise NoStep(f"sawlog built no packet for step {step}")
        return self._replayed(event)

    def _foreign_model(self, step: int, place: int) -> str:
        """The model that an import's own file names for a step; empty when it names none."""
        for event in self.as_stored(place - 1):
            if event.step > step:
                break
            if event.step == step and isinstance(event.content, MessageAssistant):
                model = text_of(event.content.model, self._window)
                if model:
                    return model
        return ""

    def _replayed(self, event: Event) -> StepPacket:
        packet = packet_of(event)
        refs = self.expanded(packet)
        self._window.prefetch(refs)
        out: Replayed = replayed(packet, refs, self._window, self.profile_of(packet), self.binding)
        return replayed_packet(event.seq, packet, sent_under(packet, self._window), out)

    def expanded(self, packet: PacketBuilt) -> list[Ref]:
        """The entries of a packet, along its manifests down to a full one."""
        return expanded(packet, self.log, self.row, self._window)

    def reconstructed(
        self, sees: int, sending: Sending | None = None, *, model: str = ""
    ) -> StepPacket:
        """The packet that stands to reason over the first `sees` events, by the policy recorded.

        `model` is the one that the file names, if it does.
        """
        state = State()
        newest = UNKNOWN_TIME
        for event in self.events(0, sees):
            state = fold(state, event)
            newest = max(newest, event.occurred_at)
        policy = self.policy_of(state)
        built = reconstruct(
            state,
            policy,
            sending or foreign_sending(policy, model),
            newest,
            self._window,
            unknown=() if model or sending else ("model",),
        )
        if isinstance(built, Refusal):
            raise Refused(built.reason, built.message, built.needs)
        return reconstructed_packet(built, sees)

    def policy_of(self, state: State) -> PolicySet | None:
        """The rules in force in a state."""
        if not state.policy:
            return None
        content = self._window.event(state.policy).content
        return content if isinstance(content, PolicySet) else None

    def profile_of(self, packet: PacketBuilt) -> Profile:
        """The profile of a packet: a released one, or the caller's own out of the log."""
        if not packet.profile_digest:
            return profile_named(packet.profile)
        found = self._profiles.get(packet.profile_digest)
        if found is not None:
            return found
        for event in self.as_stored():
            content = event.content
            if isinstance(content, PolicySet) and content.profile_text:
                profile = profile_of(text_of(content.profile_text, self._window))
                if profile.digest == packet.profile_digest:
                    self._profiles[profile.digest] = profile
                    return profile
        raise NoStep(
            f"the profile {packet.profile} of this packet is not in the log under its digest"
        )


class Steps:
    """The steps of a recorded session, by number from 1."""

    def __init__(self, session: Recorded) -> None:
        self._session = session

    def __len__(self) -> int:
        return self._session.last_step()

    def __getitem__(self, number: int) -> RecordedStep:
        return RecordedStep(self._session, number)

    def __iter__(self) -> Iterator[RecordedStep]:
        for number in range(1, len(self) + 1):
            yield RecordedStep(self._session, number)


class RecordedStep:
    """One step of a recorded session. Its packet is made when it is asked for."""

    def __init__(self, session: Recorded, number: int) -> None:
        self.session = session
        self.number = number
        self._packet: StepPacket | None = None

    @property
    def packet(self) -> StepPacket:
        """The packet: `body` are the bytes, `entries` what they show. Raises NoStep."""
        if self._packet is None:
            self._packet = self.session.packet(self.number)
        return self._packet

    @property
    def sent(self) -> str:
        """How far what was sent is what was seen; see `sawlog.audit.sending.sent`."""
        from sawlog.audit.sending import sent

        return sent(self.session, self.number)

    @property
    def outcome(self) -> str:
        """`completed`, `failed`, `refused`, `abandoned` or `open`."""
        packet = self.session.packet_event(self.number)
        after = packet.seq if packet is not None else max(0, self.packet.sees)
        for event in self.session.as_stored(after):
            if event.step > self.number:
                break
            if event.step != self.number:
                continue
            match event.content:
                case StepCompleted():
                    return "completed"
                case StepFailed():
                    return "failed"
                case StepRefused():
                    return "refused"
                case StepAbandoned():
                    return "abandoned"
                case _:
                    pass
        return "open"

    def verify(self) -> bool:
        """True when the packet comes out as recorded, by digest."""
        event = self.session.packet_event(self.number)
        if event is not None and isinstance(event.content, PacketRecorded):
            return self.packet.request.digest == event.content.request
        if event is None or not isinstance(event.content, PacketBuilt):
            return True
        packet = self.packet
        return (
            packet.semantic == event.content.semantic
            and packet.request.digest == event.content.request
        )

    def why(self, text: str) -> list[Why]:
        """Where a text was when this step was decided, and where it fell out; see `audit.why`."""
        from sawlog.audit.auditing import why

        return why(self.session, self.number, text)

    def trace(self) -> Trace | None:
        """The step's trace, computed again: a verdict for each candidate, every break by its cause.

        None where the policy that it was built by is not installed. Raises NoStep, BlobMissing.
        """
        from sawlog.audit.weighing import trace

        return trace(self.session, self.packet)

    def zones(self) -> tuple[ZoneUse, ...]:
        """What each zone takes of the packet, and its bound; see `sawlog.audit.zones`."""
        from sawlog.audit.zones import zones

        return zones(self.session, self.packet)

    def case(self, expect: Iterable[str] = ()) -> dict[str, Any]:
        """The step as a case that policies are compared on; see `casemaking.case`."""
        from sawlog.audit.casemaking import case

        return case(self.session, self.number, expect)

    def diff(self, other: int) -> list[Change]:
        """What this step's packet has that another's has not, and the other way round."""
        from sawlog.audit.auditing import diff

        return diff(self.session.steps[other], self)

"""A recorded session built again under other rules, step by step, from the log alone.

Each step builds on what *this* run would have sent before it: its own packets, their cuts and the
items they chose stand in the place of the recorded ones, so that one cut follows from another as it
would have. What came back stays as it is recorded: the model's replies, the tools' results, the
compactions, trims and rewinds of the log. What a reply was bound to stays the packet that it really
came from, so a sealed block goes out only where that prefix is still the same.

A step of an import has no packet in the log; a packet of this run is put in its place all the same.
Where an import rewinds behind it, or a compaction lets older events go on, the run begins anew from
what the log's history then holds. A step that is refused leaves no packet: the next one has its
news to show, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import msgspec
from msgspec.structs import replace

from sawlog.audit.inforce import rules_of
from sawlog.audit.manifests import Manifests
from sawlog.audit.reconstructing import absent_of, as_recorded, base_params, foreign_sending
from sawlog.audit.recorded import Recorded
from sawlog.builder.arrange import Arrangement
from sawlog.builder.branching import resuming
from sawlog.builder.build import Built, Cache, Sending, build
from sawlog.builder.contents import text_of
from sawlog.builder.draft import Refusal
from sawlog.builder.manifest import write
from sawlog.builder.packet import Header
from sawlog.builder.policy import AS_RECORDED, DEFAULT, HISTORY_ALONE, Rules, header_refs, rules_for
from sawlog.builder.profiles import profile_for
from sawlog.builder.projector import fold
from sawlog.builder.render import renderer_of
from sawlog.builder.replay import sent_under
from sawlog.builder.selection.policy import Policy
from sawlog.builder.state import Ref, State
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import ConfigError, UnknownNumber
from sawlog.store.event import Event
from sawlog.store.events.compaction import (
    CompactionCompleted,
)
from sawlog.store.events.conversation import MessageAssistant
from sawlog.store.events.lifecycle import (
    HistoryRewound,
)
from sawlog.store.events.steps import PacketBuilt

_FORGET_EVERY = 250
"""Events after which contents are let go; those that packets still need are read again."""

HISTORY_POLICIES = {
    "default": DEFAULT,
    str(DEFAULT): DEFAULT,
    str(HISTORY_ALONE): HISTORY_ALONE,
    "as-recorded": AS_RECORDED,
    str(AS_RECORDED): AS_RECORDED,
}
"""Names of the policies that are more than stages over the same history."""


class Share(msgspec.Struct, frozen=True):
    """A budget as a share of what a session had: `percent` of its `largest` packet, in units.

    It is the room of each packet, and what is kept for the reply comes on top. 100 % is what the
    session had: where a step had a window, that one. Raises ConfigError when it leaves no unit.
    """

    percent: int
    largest: int

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ConfigError(
                f"{self.percent}% of a packet of {self.largest} units leaves nothing: give more"
            )

    @property
    def units(self) -> int:
        """The room of each packet."""
        return self.largest * self.percent // 100


class Other(msgspec.Struct, frozen=True):
    """Other rules: what is None stays as recorded.

    `policy` is a built-in one's name (`default`, `default@1`, `chapter5`, …) or a document as
    `policy_from_toml` reads it. An import has no budget of its own: with one, and without a policy,
    it is built under `default`. `budget` and `reserve` are in units of the measure, those in which
    packets are counted, and the calibration by usage does not change them; without a budget another
    model brings its profile's window. `api` and `model` say for whom.
    """

    policy: str | Policy | None = None
    budget: int | Share | None = None
    reserve: int | None = None
    api: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        for name, units in (("budget", self.budget), ("reserve", self.reserve)):
            if isinstance(units, int) and units < (name == "budget"):
                raise ConfigError(f"a {name} of {units} units leaves nothing: give more")

    def rules(self, recorded: Rules, window: int, per_mille: int = 1000) -> Rules:
        """These rules in the place of the recorded ones, window and reserve in units.

        `window` is that of the profile; `per_mille` the tokens of a thousand units, by which the
        recorded window counts. Raises UnknownNumber for a policy that is not installed.
        """
        found = recorded
        if isinstance(self.policy, str):
            named = HISTORY_POLICIES.get(self.policy)
            policy = named or _built_in(self.policy).policy
            found = replace(recorded, policy=policy, stages=None)
        elif self.policy is not None:
            found = replace(recorded, policy=self.policy.named, stages=self.policy)
        elif recorded.policy == AS_RECORDED and self.budget is not None:
            found = replace(recorded, policy=DEFAULT)
        budget = self.budget
        if isinstance(budget, Share) and budget.percent == 100 and recorded.budgeted:
            budget = None
        elif budget is None and (self.api is not None or self.model is not None):
            found = replace(found, window=window or found.window)
        found = replace(found, window=found.window or window).calibrated(per_mille)
        reserve = found.reserve if self.reserve is None else self.reserve
        if isinstance(budget, Share):
            budget = budget.units + reserve
        return replace(found, window=found.window if budget is None else budget, reserve=reserve)

    def sending(self, recorded: Sending) -> Sending:
        """What a packet goes out under, in the place of what it went out under."""
        if self.api is None and self.model is None:
            return recorded
        header = recorded.header
        api = self.api or header.api
        model = header.model if self.model is None else self.model
        if (api, model) == (header.api, header.model):
            return recorded
        profile, _ = profile_for(api, model)
        params = header.params if api == header.api else base_params(api)
        headers = recorded.headers if api == header.api else ()
        return Sending(
            Header(api, model, params, profile.named, renderer_of(profile)), profile, headers
        )


def is_built_in(name: str) -> bool:
    """True for the name of a policy that comes with this release, whatever number stands behind."""
    from sawlog.builder.selection.policy import POLICIES

    known = {policy.name for policy in POLICIES.values()}
    return name in HISTORY_POLICIES or name.partition("@")[0] in known


def _built_in(name: str) -> Rules:
    name, _, number = name.partition("@")
    if not number:
        return rules_for(name)
    if not (number.isascii() and number.isdigit()):
        raise UnknownNumber(f"{number!r} is no policy's number")
    from sawlog.builder.selection.policy import policy_of

    return Rules(policy_of(name, int(number)).named)


class Pair(msgspec.Struct, frozen=True):
    """A step as it was and as it would be.

    `refs` are the entries of the recorded packet, or of the one that an import's file shows;
    `recorded` is what it went out under, `packet` its event's payload (None of an import). `before`
    is the state of this run that the other packet was built from, `rules` its rules, in units.
    """

    step: int
    built_at: int
    refs: list[Ref]
    packet: PacketBuilt | None
    recorded: Sending
    before: State
    rules: Rules
    other: Built | Refusal


class Otherwise:
    """The run of a session under other rules. `steps` gives its steps in the log's order."""

    def __init__(self, session: Recorded, other: Other) -> None:
        self._session = session
        self._window = session.window
        self._other = other
        self._state = State()
        """The state of this run: the log's events with its own packets among them."""
        self._plain = State()
        """The log's own state: an import's has its whole history as news."""
        self._cache = Cache()
        self._arranged = Arrangement()
        self._manifests = Manifests(session.expanded)
        self._newest = UNKNOWN_TIME
        self._model = ""
        self._goals = session.rewound_to()
        self._kept: dict[int, State] = {0: State()}
        """This run's own states at the events that the log rewinds to."""

    def steps(self) -> Iterator[Pair]:
        """Every step, the one that a foreign file shows included; nothing is written or sent.

        Ends where the log itself reads no further (`Recorded.verify` names why). Raises
        BlobMissing, BadManifest, NoStep and UnknownNumber for what the log needs and is not there.
        """
        for event in self._session.events():
            self._window.hold((event,))
            self._manifests.see(event)
            if self._plain.blocked:
                return
            content = event.content
            if isinstance(content, PacketBuilt):
                refs = self._manifests.read(content)[:]
                sending = Sending(
                    sent_under(content, self._window),
                    self._session.profile_of(content),
                    content.headers,
                )
                yield self._step(event.step, event.seq, refs, content, sending)
                self._plain = fold(self._plain, event)
            else:
                if event.step > self._plain.step and self._is_foreign():
                    yield from self._foreign(event)
                self._follow(event)
            if event.seq in self._goals:
                # A step that was refused here has no packet: the state ends before it.
                self._kept[event.seq] = replace(self._state, seq=event.seq)
            self._newest = max(self._newest, event.occurred_at)
            if event.seq % _FORGET_EVERY == 0:
                self._window.forget()

    # --- one step -------------------------------------------------------------------------------

    def _is_foreign(self) -> bool:
        policy = self._session.policy_of(self._plain)
        return policy is not None and policy.policy == AS_RECORDED

    def _foreign(self, event: Event) -> Iterator[Pair]:
        """The step of a file that shows its reply: what stands before it is what was asked."""
        refs = [*header_refs(self._plain), *chain(*self._arranged.entries(self._plain))]
        if isinstance(event.content, MessageAssistant):
            self._model = text_of(event.content.model, self._window) or self._model
        sending = foreign_sending(self._session.policy_of(self._plain), self._model)
        pair = self._step(event.step, 0, refs, None, sending)
        # A slice may begin with a reply: what it answered is not in the file.
        if not (isinstance(pair.other, Refusal) and pair.other.reason == "nothing_to_send"):
            yield pair

    def _step(
        self,
        step: int,
        built_at: int,
        refs: list[Ref],
        packet: PacketBuilt | None,
        recorded: Sending,
    ) -> Pair:
        sending = self._other.sending(recorded)
        policy = self._session.policy_of(self._plain)
        asked = as_recorded(policy) if packet is None else rules_of(packet, policy, self._window)
        before = self._state
        rules = self._other.rules(asked, sending.profile.window, before.per_mille)
        if self._cache.assembly is None:
            self._window.prefetch(before.sent)
        built = build(
            replace(before, per_mille=1000),  # the rules are in units already
            rules,
            sending,
            packet.as_of if packet is not None else self._newest,
            self._window,
            self._cache,
            allow_waiting=True,
            reconstructed=packet is None,
            missing=absent_of(before) if packet is None else (),
            allow_missing=packet is None or bool(packet.missing),
        )
        if isinstance(built, Built):
            self._send(step, built_at, packet, recorded, built)
        return Pair(step, built_at, refs, packet, recorded, before, rules, built)

    def _send(
        self,
        step: int,
        built_at: int,
        packet: PacketBuilt | None,
        recorded: Sending,
        built: Built,
    ) -> None:
        """Fold this run's packet where the recorded one stands, or in front of an import's reply.

        It decides all history up to its seq, which for an import is that of the newest event.
        """
        base, parts = write(self._state, built.refs)
        made = replace(
            built.event(),
            base=base,
            parts=parts,
            # What the reply is bound to is what was really asked.
            prefix=packet.prefix if packet is not None else "",
            api=recorded.header.api,
            model=recorded.header.model,
        )
        seq = built_at or self._state.seq
        event = Event(seq, "0" * 32, "packet.built", 1, "harness", step, 0, made, False, False)
        self._state = fold(self._state, event)
        self._cache.settle(seq)

    # --- all other events -----------------------------------------------------------------------

    def _follow(self, event: Event) -> None:
        self._plain = fold(self._plain, event)
        if self._begins_anew(event):
            self._state = replace(self._plain, as_of=self._state.as_of)
            self._cache = Cache()
        else:
            if isinstance(event.content, HistoryRewound):
                then = resuming(event, self._kept.__getitem__, self._session.as_stored)
                event = replace(event, resumes=then)
            self._state = fold(self._state, event)

    def _begins_anew(self, event: Event) -> bool:
        """True of a cut that reaches behind this run's last packet into an import's history."""
        content = event.content
        if self._plain.sent_at or self._plain.blocked:
            return False
        if isinstance(content, HistoryRewound):
            return content.to < self._state.settled_at
        return isinstance(content, CompactionCompleted)

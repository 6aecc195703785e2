"""A real transcript that is compacted somewhere in its middle and goes on as its file says.

The transcript is imported once. For each place it is forked there, the fork is compacted, and what
the file says from there on is appended as the importer made it. Before some of the later steps a
packet is built and logged, from the state of the snapshot that the compaction left. Then the fork
is read back, and one fold from genesis must come to the same states and the same bytes.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from msgspec.structs import replace

from sawlog.agentlog import AgentLog
from sawlog.audit.reconstructing import sending_for
from sawlog.audit.recorded import Recorded
from sawlog.builder.arrange import Arrangement
from sawlog.builder.build import Built, Cache, Sending, build
from sawlog.builder.draft import Refusal
from sawlog.builder.manifest import expand
from sawlog.builder.policy import Rules
from sawlog.builder.projector import FOLD, entry_count, fold
from sawlog.builder.snapshot import CODEC, decode, encode, state_digest
from sawlog.builder.state import Ref, State
from sawlog.compaction.history import History, history_of
from sawlog.compaction.region import Region, choose, legal_borders
from sawlog.providers.strict import check
from sawlog.store.codec import cites
from sawlog.store.content import TextPart
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import UNKNOWN_TIME, NewEvent
from sawlog.store.errors import NotCompacted
from sawlog.store.event import Event
from sawlog.store.events.base import Payload
from sawlog.store.events.compaction import CompactionCompleted
from sawlog.store.events.conversation import MessageUser
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.store.events.steps import PacketBuilt, PolicySet
from sawlog.store.ids import keyed_id
from sawlog.work.session import Session
from sawlog.work.window import Window

BUDGETS = (0, 1, 2, 4, 8)
"""What a compaction may leave is the history as it is there over this; 0: as little as can be."""

WINDOWS = (0, 0, 1, 2)
"""The window of the steps is the transcript's last history over this, and a header; 0: none."""

BETWEEN = 10
"""Steps that are checked between the next one and the last."""

STRICT = 4
"""One in so many of those, and the first and the last, go to the strict checker: each of the others
grows into one that does."""

SMALL = 1_500
"""Units of a region as large as which its checkpoint may be."""

LOOKED_AT = 0.05
"""The share of forks that is verified as a whole, too."""

_BATCH = 400
_SNAPSHOT_EVERY = 100


class Place(NamedTuple):
    """A border of a transcript: the newest event in front of it.

    `sent`: a packet was logged for the step before, whose reply and results are news there.
    """

    seq: int
    sent: bool


class Transcript:
    """An imported session with its states, folded once from the first event on.

    `steps` are the seqs of the events with which replies begin; `borders` those of the newest
    events in front of units, and of the last one.
    """

    def __init__(self, log: AgentLog, session: str, api: str) -> None:
        self.recorded = log.read(session)
        self.api = api
        self.sending = _sending(api)
        self.events: list[Event] = []
        self.states = [State()]
        self.newest = [UNKNOWN_TIME]
        self.steps: list[int] = []
        self.borders: list[int] = []
        arrangement = Arrangement()
        for event in self.recorded.events():
            before = self.states[-1]
            state = fold(before, event)
            if event.step > before.step:
                self.steps.append(event.seq)
            units = len(arrangement.units)
            arrangement.feed(state)
            if len(state.news) == len(before.news) + 1 and 0 < units < len(arrangement.units):
                self.borders.append(event.seq - 1)
            self.events.append(event)
            self.states.append(state)
            self.newest.append(max(self.newest[-1], event.occurred_at))
        self.borders.append(len(self.events))
        self.blobs = self._blobs(log)
        self.recorded.window.hold(self.events, self.blobs.items())
        self.all = self.history(self.states[-1])
        self._leave_snapshots(log)

    def _blobs(self, log: AgentLog) -> dict[str, bytes]:
        """All contents that packets may show."""
        cited: dict[bytes, None] = {}
        for event in self.events:
            if event.shown and isinstance(event.content, Payload):
                cited.update(dict.fromkeys(cites(replace(event.content, record=None))))
        found = log.store.blobs(self.recorded.row, list(cited))
        return {digest.hex(): data for digest, data in found.items()}

    def _leave_snapshots(self, log: AgentLog) -> None:
        """Leave snapshots as a session at work does: a fork is opened with a short tail."""
        for stored in log.store.read(self.recorded.row):
            if stored.seq % _SNAPSHOT_EVERY == 0:
                data = encode(self.states[stored.seq])
                log.store.snapshot_put(
                    self.recorded.row, stored.seq, stored.digest, fold=FOLD, layout=CODEC, data=data
                )

    def history(self, state: State) -> History:
        """The history of one of its states."""
        return history_of(state, Rules().measure, self.recorded.window)

    def place(self, seq: int) -> Place:
        """A border; where the history in front of it may not give way, a packet is sent first.

        It may not while a call is open that no packet has shown, such as one that the file never
        answers. In a session that did not begin as a file the next packet settles those.
        """
        history = self.history(self.states[seq])
        legal = legal_borders(history)[-1:] == [len(history.refs)]
        sent = not legal or random.Random(f"sent {seq}").random() < 0.5
        return Place(seq, sent and self.step_before(seq) > 0)

    def step_before(self, seq: int) -> int:
        """The seq with which the newest reply up to that event begins; 0: there is none."""
        return max((at for at in self.steps if at <= seq), default=0)


class Made(NamedTuple):
    """What was built in front of a step: a packet or its refusal, over which state, and as of
    which event of the transcript."""

    built: Built | Refusal
    digest: str
    upto: int


class Done(NamedTuple):
    """What came of one place: why nothing gave way, or empty; how many packets were checked, and
    how many steps had none."""

    refused: str
    packets: int = 0
    without: int = 0


class Fork:
    """The transcript compacted at one place, and what its file says behind that.

    Budget, window, border and the steps that are checked are left to chance, by the place; `every`
    checks all steps.
    """

    def __init__(self, log: AgentLog, of: Transcript, place: Place, *, every: bool = False) -> None:
        self.log = log
        self.of = of
        self.place = place
        self.every = every
        self.name = f"{of.recorded.id} at {place.seq}"
        self.chance = random.Random(f"{of.recorded.name} {place.seq}")
        over = self.chance.choice(WINDOWS)
        room = of.all.head_units + max(2 * SMALL, of.all.total // over) if over else 0
        self.rules = Rules(window=room)
        self.made: dict[int, Made] = {}
        """By the seq of the newest event then."""
        self.ended_as = ""
        """The digest of the state at the end, by way of the snapshot."""

    def run(self) -> Done:
        """Fork, compact, go on, read back. Raises AssertionError where something does not hold."""
        begins = self.of.step_before(self.place.seq) - 1 if self.place.sent else self.place.seq
        with self.log.fork(self.of.recorded.id, at=begins, name=self.name) as session:
            session.window.hold(self.of.events[:begins], self.of.blobs.items())
            self._begin(session, begins)
            refused = self._compact(session)
        if refused:
            return Done(refused)
        self._go_on(self.log.find(self.name))
        recorded = self.log.read(self.name)
        self._read_back(recorded, begins)
        if self.chance.random() < LOOKED_AT:
            self._look_at(recorded)
        packets = sum(isinstance(one.built, Built) for one in self.made.values())
        return Done("", packets, len(self.made) - packets)

    # --- up to the compaction ---------------------------------------------------------------------

    def _begin(self, session: Session, begins: int) -> None:
        """The rules of the fork; and with a packet sent, what came behind that."""
        profile = self.of.sending.profile
        rules = PolicySet(
            self.rules.policy,
            fold=FOLD,
            measure=self.rules.measure,
            window=self.rules.window,
            profile=profile.named,
            profile_text=profile.text if profile.own_digest else "",
        )
        session.append(rules)
        if not self.place.sent:
            return
        built = self._built(session.state, session.window, begins, Cache())
        if isinstance(built, Built):
            session.append(built.event(), step=session.state.step + 1)
        session.record([_again(event) for event in self.of.events[begins : self.place.seq]])

    def _compact(self, session: Session) -> str:
        """Compact; gives the reason when nothing gave way."""
        before = self._history(session)
        over = self.chance.choice(BUDGETS)
        budget = before.total // over if over else 0
        legal = legal_borders(before)
        # All of a history may give way only where more of it comes before the next step.
        ends = self.place.seq + 1 in self.of.steps
        at = legal[-1] if legal and not ends and self.chance.random() < 0.5 else None
        try:
            done = session.compact(budget=budget, at=at)
        except NotCompacted as error:
            assert self._history(session) == before
            region = choose(before, session.window, budget, at=at)
            if isinstance(region, Region):
                assert error.code == "no_progress" and region.units < SMALL
            else:
                assert error.code == region.code == "nothing_to_cut"
                gives = before.entries[: at or max(legal[:-1], default=0)]
                assert all(entry.authority != "assistant" for entry in gives)
            return error.code
        assert 0 < done.checkpoint.units < done.region <= before.total
        assert self._history(session).total == before.total - done.region
        return ""

    def _history(self, session: Session) -> History:
        session.window.prefetch(session.state.sent)
        return history_of(session.state, self.rules.measure, session.window)

    # --- behind it --------------------------------------------------------------------------------

    def _go_on(self, row: SessionRow) -> None:
        """Append what the file says from the place on, with a packet in front of some steps."""
        found = self.log.store.snapshot_get(row, fold=FOLD, layout=CODEC)
        assert found is not None and found.seq == row.head
        state = decode(found.data)
        window = self._window(row)
        cache = Cache()
        batch: list[NewEvent] = []

        def append(event: Event) -> None:
            nonlocal state
            batch.append(_again(event))
            window.hold((event,))
            state = fold(state, event)

        def step(upto: int) -> None:
            built = self._built(state, window, upto, cache)
            last = upto == len(self.of.events)
            number = len(self.made)
            self.made[state.seq] = Made(built, state_digest(state), upto)
            if isinstance(built, Refusal):
                self._is_due(built, upto)
            else:
                if self.every or last or number % STRICT == 0:
                    check(self.of.api, built.request.body, dict(built.request.headers), key=None)
                assert any(entry.section == "checkpoint" for entry in built.entries)
                append(_event(state, built.event(), "packet.built", "harness", state.step + 1))
                cache.settle(state.seq)

        wanted = self._wanted()
        for event in self.of.events[self.place.seq :]:
            if event.seq in wanted:
                step(event.seq - 1)
            assert not isinstance(event.content, HistoryRewound), "its `to` would have moved"
            append(replace(event, seq=state.seq + 1))
        said = MessageUser((TextPart("Go on."),))
        append(_event(state, said, "message.user", "user"))
        step(len(self.of.events))
        self.ended_as = state_digest(state)
        head = row.head
        for at in range(0, len(batch), _BATCH):
            head = self.log.store.append(row, batch[at : at + _BATCH], expected_seq=head).head

    def _is_due(self, refusal: Refusal, upto: int) -> None:
        """What is refused does not fit, or the file itself gives no reason for the step.

        A compaction of the file goes on with what it lists of what no packet has shown; where that
        is nothing to answer, neither is what it lists here.
        """
        if refusal.reason == "cannot_fit":
            assert self.rules.window
            return
        assert refusal.reason == "nothing_to_send"
        then = self._built(self.of.states[upto], self.of.recorded.window, upto, Cache())
        elsewhere = any(
            isinstance(event.content, CompactionCompleted)
            for event in self.of.events[self.place.seq : upto]
        )
        assert elsewhere or (isinstance(then, Refusal) and then.reason == refusal.reason)

    def _wanted(self) -> set[int]:
        """The steps in front of which a packet is built, by the seqs with which they begin."""
        steps = [at for at in self.of.steps if at > self.place.seq]
        if self.every or len(steps) <= BETWEEN + 2:
            return set(steps)
        return {steps[0], steps[-1], *self.chance.sample(steps[1:-1], BETWEEN)}

    def _read_back(self, recorded: Recorded, begins: int) -> None:
        """One fold from genesis over what the store gives comes to the same states and packets, and
        so does a reader of the manifests who knows the events and no fold."""
        state = self.of.states[begins]
        shown = {event.seq: entry_count(event) for event in self.of.events[:begins] if event.shown}
        listed: dict[int, list[Ref]] = {0: []}
        window = self._window(recorded.row)
        cache = Cache()
        made = dict(self.made)
        for event in (*recorded.events(begins), None):
            one = made.pop(state.seq, None)
            if one is not None:
                assert state_digest(state) == one.digest
                cold = self._built(state, window, one.upto, cache)
                if isinstance(one.built, Refusal):
                    assert cold == one.built
                else:
                    assert isinstance(cold, Built) and event is not None
                    assert cold.event() == one.built.event() == event.content
                    assert cold.request.body == one.built.request.body
                    cache.settle(event.seq)
            if event is None:
                continue
            window.hold((event,))
            state = fold(state, event)
            if event.shown:
                shown[event.seq] = entry_count(event)
            if isinstance(event.content, PacketBuilt):
                refs = expand(event.content.parts, listed[event.content.base], shown)
                listed[event.seq] = refs
                assert refs == state.sent[:]
                assert one is None or not isinstance(one.built, Built) or refs == one.built.refs[:]
        assert state_digest(state) == self.ended_as
        assert not made

    def _look_at(self, recorded: Recorded) -> None:
        """By every path of its own; and each packet comes out of its manifest alone."""
        report = recorded.verify()
        assert report.sound, [str(one) for one in report.differences]
        assert report.paths["compaction"] == report.paths["stored"] == report.paths["cold"] == "ok"
        for event in recorded.events(self.place.seq):
            one = self.made.get(event.seq - 1)
            if one is not None and isinstance(one.built, Built):
                assert recorded.packet(event.step).body == one.built.request.body

    def _window(self, row: SessionRow) -> Window:
        """The contents of the fork; what it shares with the transcript is read already."""
        window = Window(self.log.store, row)
        window.hold(self.of.events[: row.base], self.of.blobs.items())
        return window

    def _built(self, state: State, window: Window, upto: int, cache: Cache) -> Built | Refusal:
        if cache.assembly is None:
            window.prefetch(state.sent)
        return build(state, self.rules, self.of.sending, self.of.newest[upto], window, cache)


def _sending(api: str) -> Sending:
    """What packets go out under.

    Reasoning as Codex keeps it has members that the API does not take, and a packet that is logged
    in front of such a reply would make it the model's own: a profile here takes none.
    """
    sending = sending_for(api, "unknown")
    if api != "openai-responses":
        return sending
    profile = replace(sending.profile, name="openai-responses/of-a-file", bound=())
    return Sending(replace(sending.header, profile=profile.named), profile)


def _again(event: Event) -> NewEvent:
    """An event as it is appended to another session. What it cites is the parent's.

    The line of the file that it was read from is left behind: no packet shows it.
    """
    assert isinstance(event.content, Payload)
    return NewEvent(
        payload=replace(event.content, record=None),
        source=event.source,
        step=event.step,
        id=bytes.fromhex(event.id),
        occurred_at=event.occurred_at,
        ignorable=event.ignorable,
    )


def _event(state: State, content: Payload, type: str, source: str, step: int = 0) -> Event:
    """The next event behind a state."""
    seq = state.seq + 1
    id = keyed_id(f"{type} {seq}").hex()
    shown = not isinstance(content, PacketBuilt)
    return Event(seq, id, type, 1, source, step, UNKNOWN_TIME, content, shown, ignorable=False)

"""Why a text or an item was or was not in a packet: the five questions of an audit.

Was it a candidate, where did it fall out, why was another preferred, which version went out, did a
cut or a compaction change it: answered from the log and the trace that is computed again, alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from sawlog.audit.endings import STAGES as ENDS
from sawlog.audit.findings import Ended, Why, ZoneUse
from sawlog.audit.holding import Held, Key, Wanted, held
from sawlog.audit.lives import Life, Lives
from sawlog.audit.origins import digest, excerpt, fetched_by, labels, sourced, went_out
from sawlog.audit.recorded import Recorded
from sawlog.audit.recordedplaces import FORM
from sawlog.audit.steppacket import StepPacket
from sawlog.audit.weighing import (
    Weighed,
    cause_of,
    follower,
    note_of,
    preferred,
    scores_of,
    weighed,
)
from sawlog.audit.zones import bounds_of, zones_of
from sawlog.builder.measure import measure_of
from sawlog.builder.packet import Entry
from sawlog.builder.policy import Rules
from sawlog.builder.selection.candidate import zone_of
from sawlog.builder.state import Ref
from sawlog.builder.trace import Verdict
from sawlog.store.event import Event
from sawlog.store.events.steps import PacketBuilt

_CHANGED = frozenset(("compacted", "edited", "rewound", "trimmed"))
"""Cuts that are events of the log; those of packets stand in the life itself."""

_STAGES = {
    "not_yet": "log",
    "forgotten": "log",
    "duplicate": "pairing",
    "no_call": "pairing",
    "copy": "pairing",
    "block_cut": "budget",
    "outdated": "freshness",
    "once": "freshness",
    "told_anew": "freshness",
    "no_selection": "policy",
    "not_installed": "policy",
    "waiting": "inbox",
    "rejected": "inbox",
    "cancelled": "inbox",
    "claimed": "inbox",
}
"""Where a reason of the history lies; all others are the history's own."""


def why(session: Recorded, step: int, what: str) -> list[Why]:
    """Every part of the session that holds the text, and what became of it for that step.

    `what` is a text as it stands, the id of an item's source, or the id of an event, whose parts
    are then meant whatever they say. An empty list: it was never recalled, the log does not hold
    it at all. Raises NoStep, and BlobMissing where a content that the trace needs is gone.
    """
    packet = session.packet(step)
    wanted = Wanted(what)
    found = held(_each(session), session.window, wanted)
    session.window.prefetch(packet.refs)
    lives = Lives(found, session.window, wanted)
    before = None
    for event in session.events(0, packet.sees + bool(packet.built_at)):
        if event.seq > packet.sees:
            before = lives.state
        lives.see(event)
    # What no packet could show asks for no trace, and what another program chose has none.
    run = _Explaining(session, step, packet, wanted, lives)
    items = (one for one in found.values() if one.form == "item")
    if packet.origin != "recorded" and any(one.event.seq <= packet.sees for one in items):
        run.weighed = weighed(session, packet, before or lives.state)
    answers = [run.of(one) for one in found.values()]
    return [*filter(None, answers), *run.sayings(found)]


_ENDABLE = frozenset(("block_cut", "outdated", "stale", "not_shown", "forgotten"))
"""Reasons that say less than what made an item hold no longer."""

_FORGET_EVERY = 250


def _each(session: Recorded) -> Iterator[Event]:
    """The session's events, each at hand while it is looked at."""
    for event in session.events():
        session.window.hold((event,))
        yield event
        if event.seq % _FORGET_EVERY == 0:
            session.window.forget()


_FETCHED = frozenset(("compacted", "block_cut"))
"""Reasons for which a checkpoint may stand for what it is the reason of."""

_SAYINGS = frozenset(("synthetic", "notice", "stale", "missing", "checkpoint"))
"""Forms that say something of an event, or of none, and show nothing of it."""


class _Explaining:
    """The answers for one packet."""

    def __init__(
        self, session: Recorded, step: int, packet: StepPacket, wanted: Wanted, lives: Lives
    ) -> None:
        self.weighed: Weighed | None = None
        self._session = session
        self._step = step
        self._earlier: dict[int, Weighed | None] = {}
        self._uses: dict[str, ZoneUse] | None = None
        self._window = session.window
        self._packet = packet
        self._wanted = wanted
        self._lives = lives
        refs = list(enumerate(packet.refs))
        self._places: dict[Key, int] = {(ref.seq, ref.part): at for at, ref in reversed(refs)}
        self._places |= {
            (ref.seq, ref.part): at for at, ref in reversed(refs) if ref.form not in _SAYINGS
        }
        self._left_out = {
            at: why
            for at, kind, why in packet.request.notes
            if kind in ("left_out", "placeholder") and at >= 0
        }
        content = self._window.event(packet.built_at).content if packet.built_at else None
        rules = content if isinstance(content, PacketBuilt) else Rules()
        self._measure = measure_of(rules.measure)

    # --- one part -----------------------------------------------------------------------------

    def of(self, one: Held) -> Why | None:
        """What became of a part; None of a message of the inbox that was entered elsewhere."""
        life = self._lives.of(one.key)
        if one.form == "inbox" and life.reason == "claimed" and not one.named:
            return None
        seq, part = one.key
        at = self._places.get(one.key, -1)
        ref = self._packet.refs[at] if at >= 0 else None
        if ref is not None and ref.form in _SAYINGS:
            at, ref = -1, None  # a notice that the event caused shows nothing of it
        present = ref is not None and one.shown_by(ref, self._window, self._wanted)
        found, verdict, weighed_at = self._judged(one)
        if present and at in self._left_out:
            # The packet has it and the renderer could not send it to this model.
            present, reason = False, f"left_out: {self._left_out[at]}"
        else:
            reason = "" if present else self._reason(one, ref, life, verdict)
        stage = self._stage(reason, verdict)
        ended = self._ended(one, reason, found)
        dropped = verdict is not None and verdict.outcome == "dropped"
        others = (
            preferred(found, verdict, self._window)
            if found is not None and verdict is not None and dropped
            else ()
        )
        if ended is not None and not present and reason in _ENDABLE:
            reason, stage = ended.kind, ENDS.get(ended.kind, "freshness")
            if found is not None:
                others = others or follower(found, ended, stage, self._window)
        entry = self._packet.entries[at] if at >= 0 else one.entry
        units = self._units(one, entry, verdict)
        room = self._room(found, one, reason)
        use = self._use(one)
        candidate = seq <= self._packet.sees and reason not in ("forgotten", "waiting")
        answer = Why(
            seq=seq,
            part=part,
            type=one.event.type,
            source=one.event.source,
            candidate=candidate,
            present=present,
            form=ref.form if ref is not None else "",
            entry=at,
            reason=reason,
            seen_first=life.first,
            seen_until=life.last,
            out_at=life.out,
            version="" if one.is_secret or one.entry is None else digest(one.entry.text),
            excerpt=""
            if one.is_secret or one.entry is None
            else excerpt(one.entry.text, self._wanted.what),
            id=one.event.id,
            stage=stage,
            cause="" if present else cause_of(reason, units, room, others),
            changed_by=life.cut or (life.reason if life.reason in _CHANGED else ""),
            zone=self._zone(one),
            units=units,
            scores=scores_of(verdict) if verdict is not None else (),
            note=note_of(verdict, self._window) if verdict is not None else "",
            labels=labels(one),
            went_out=went_out(one, self._packet.refs, self._window),
            preferred=others,
            ended=ended,
            weighed_at=weighed_at,
            zone_units=use.units if use is not None else None,
            zone_bound=use.bound if use is not None else None,
            fetch=fetched_by(one.event, self._packet.refs, self._window)
            if reason in _FETCHED
            else "",
        )
        return sourced(answer, one, self._window)

    def _judged(self, one: Held) -> tuple[Weighed | None, Verdict | None, int]:
        """The weighing that decided on an item, its verdict, and the step if that was earlier."""
        now = self.weighed
        if now is None or one.form != "item":
            return now, None, 0
        verdict = now.verdict(*one.key)
        if verdict is None or verdict.reason != "waits_for_cut":
            return now, verdict, 0
        # It waits: what kept it out is what the step says that weighed it.
        at = self._lives.weighed(one.event.seq)
        if at is not None and at.seq not in self._earlier:
            packet = self._session.packet(at.step)
            made = packet.built_at == at.seq
            self._earlier[at.seq] = weighed(self._session, packet, at.before) if made else None
        then = self._earlier[at.seq] if at is not None else None
        decided = then.verdict(*one.key) if then is not None else None
        if at is None or decided is None or decided.outcome != "dropped":
            return now, verdict, 0
        if decided.reason == verdict.reason:
            return now, verdict, 0
        return then, decided, at.step if at.step != self._step else 0

    def _ended(self, one: Held, reason: str, found: Weighed | None) -> Ended | None:
        """Why an item holds no longer; None while it does, and of what is no item."""
        if one.form != "item" or reason in ("not_yet", "rewound"):
            return None
        endings = self._lives.endings
        told = endings.told(one.event.seq)
        if told is None and found is not None and reason:
            told = endings.of(one.event.seq, reason, found.state)
        return told

    def _reason(self, one: Held, ref: Ref | None, life: Life, verdict: Verdict | None) -> str:
        if one.event.seq > self._packet.sees:
            return "not_yet"
        if ref is not None:
            forms = {"stub": "trimmed", "outdated": "outdated"}
            return forms.get(ref.form, "other_form")
        if one.form == "inbox":
            return "waiting" if life.reason == "not_shown" else life.reason
        if self._packet.origin == "recorded" and life.reason == "not_shown":
            return "not_repeated"
        if one.form == "item" and self.weighed is not None:
            if verdict is not None:
                return verdict.reason
            if self.weighed.trace is None:
                return "not_installed"
            if not self.weighed.selects:
                return "no_selection"
            if one.event.seq not in self.weighed.items and life.reason == "not_shown":
                return "forgotten"
        return life.reason

    @staticmethod
    def _stage(reason: str, verdict: Verdict | None) -> str:
        if verdict is not None and reason in ("", verdict.reason):
            return verdict.stage
        if reason.startswith("left_out"):
            return "render"
        return _STAGES.get(reason, "history") if reason else ""

    def _units(self, one: Held, entry: Entry | None, verdict: Verdict | None) -> int:
        if one.is_secret:
            return 0
        if verdict is not None:
            return verdict.units
        return self._measure(entry) if entry is not None else 0

    def _zone(self, one: Held) -> str:
        item = self.weighed.items.get(one.event.seq) if self.weighed is not None else None
        if item is not None:
            return zone_of(item)
        if one.form == "full" and one.event.seq in {
            self._lives.state.tools[0],
            *(seq for seq, _ in self._lives.state.system),
        }:
            return "fixed"
        return "history" if one.form != "item" else ""

    def _room(self, found: Weighed | None, one: Held, reason: str) -> int:
        """The room that an item fell out of: its zone's, or that of all items; -1: no bound."""
        if found is None:
            return -1
        if reason != "zone_exceeded":
            return found.room
        return bounds_of(found.rules).get(self._zone(one), -1)

    def _use(self, one: Held) -> ZoneUse | None:
        """What the packet holds in an item's zone; None of what is no item."""
        if self.weighed is None or self.weighed.trace is None:
            return None
        if one.event.seq not in self.weighed.items:
            return None
        if self._uses is None:
            found = zones_of(
                self._packet.refs, self._packet.entries, self.weighed.items, self.weighed.rules
            )
            self._uses = {each.zone: each for each in found}
        zone = self._zone(one)
        return self._uses.get(zone, ZoneUse(zone, 0))

    # --- what no event says ---------------------------------------------------------------------

    def sayings(self, found: dict[Key, Held]) -> list[Why]:
        """Entries that show the text and stand for no part that holds it: notices, stand-ins, what
        a recorded request says in its own words."""
        out: list[Why] = []
        for at, (ref, entry) in enumerate(
            zip(self._packet.refs, self._packet.entries, strict=True)
        ):
            own = ref.form == FORM and (ref.seq, ref.part) not in found
            if not own and ref.form not in _SAYINGS:
                continue
            if not (self._wanted.is_in(entry) if own else self._wanted.what in entry.text):
                continue
            event = self._window.event(ref.seq) if ref.seq else None
            out.append(
                Why(
                    seq=ref.seq,
                    part=ref.part,
                    type=event.type if event is not None else "",
                    source=event.source if event is not None else "recorder" if own else "sawlog",
                    candidate=True,
                    present=at not in self._left_out,
                    form=ref.form,
                    entry=at,
                    reason=f"left_out: {self._left_out[at]}" if at in self._left_out else "",
                    seen_first=0,
                    seen_until=0,
                    out_at=0,
                    version=digest(entry.text),
                    excerpt=excerpt(entry.text, self._wanted.what),
                    id=event.id if event is not None else "",
                    zone="history" if ref.section == "history" else "fixed",
                    units=self._measure(entry),
                )
            )
        return out

"""Why a text or an item was or was not in a packet: the five questions of an audit.

Was it a candidate, where did it fall out, why was another preferred, which version went out, did a
cut or a compaction change it: answered from the log and the trace that is computed again, alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from sawlog.builder.contents import text_of
from sawlog.builder.measure import measure_of
from sawlog.builder.packet import Entry
from sawlog.builder.policy import Rules
from sawlog.builder.selection.candidate import zone_of
from sawlog.builder.state import Ref
from sawlog.builder.trace import Verdict
from sawlog.findings import Version, Why
from sawlog.holding import Held, Key, Wanted, held
from sawlog.lives import Life, Lives
from sawlog.recorded import Recorded
from sawlog.steppacket import StepPacket
from sawlog.store.event import Event
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.events.items import ItemOffered
from sawlog.store.events.steps import PacketBuilt
from sawlog.store.events.world import ObservationRecorded, Saw, WorldChanged
from sawlog.weighing import Weighed, cause_of, preferred, weighed

_CHANGED = frozenset(("block_cut", "compacted", "rewound", "trimmed", "header_changed"))

_STAGES = {
    "not_yet": "log",
    "forgotten": "log",
    "duplicate": "pairing",
    "no_call": "pairing",
    "copy": "pairing",
    "block_cut": "budget",
    "outdated": "freshness",
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
    # What no packet could show asks for no trace.
    run = _Explaining(session, packet, wanted, lives)
    if any(one.event.seq <= packet.sees and one.form == "item" for one in found.values()):
        run.weighed = weighed(session, packet, before or lives.state)
    answers = [run.of(one) for one in found.values()]
    return [*filter(None, answers), *run.sayings(found)]


_FORGET_EVERY = 250


def _each(session: Recorded) -> Iterator[Event]:
    """The session's events, each at hand while it is looked at."""
    for event in session.events():
        session.window.hold((event,))
        yield event
        if event.seq % _FORGET_EVERY == 0:
            session.window.forget()


_SAYINGS = frozenset(("synthetic", "notice", "stale", "missing"))
"""Forms that say something of an event, or of none, and show nothing of it."""


class _Explaining:
    """The answers for one packet."""

    def __init__(self, session: Recorded, packet: StepPacket, wanted: Wanted, lives: Lives) -> None:
        self.weighed: Weighed | None = None
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
        verdict = self._verdict(one)
        if present and at in self._left_out:
            # The packet has it and the renderer could not send it to this model.
            present, reason = False, f"left_out: {self._left_out[at]}"
        else:
            reason = "" if present else self._reason(one, ref, life, verdict)
        stage = self._stage(reason, verdict)
        dropped = verdict is not None and verdict.outcome == "dropped"
        others = (
            preferred(self.weighed, verdict, self._window)
            if self.weighed is not None and verdict is not None and dropped
            else ()
        )
        entry = self._packet.entries[at] if at >= 0 else one.entry
        units = self._units(one, entry, verdict)
        room = self.weighed.room if self.weighed is not None else -1
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
            version="" if one.is_secret or one.entry is None else _digest(one.entry.text),
            excerpt="" if one.is_secret or one.entry is None else self._around(one.entry.text),
            id=one.event.id,
            stage=stage,
            cause="" if present else cause_of(reason, units, room, others),
            changed_by=life.reason if life.reason in _CHANGED else "",
            zone=self._zone(one),
            units=units,
            scores=verdict.scores if verdict is not None else (),
            note=verdict.note if verdict is not None else "",
            labels=_labels(one),
            went_out=self._went_out(one),
            preferred=others,
        )
        return self._sourced(answer, one)

    def _verdict(self, one: Held) -> Verdict | None:
        if self.weighed is None or one.form != "item":
            return None
        return self.weighed.verdict(*one.key)

    def _reason(self, one: Held, ref: Ref | None, life: Life, verdict: Verdict | None) -> str:
        if one.event.seq > self._packet.sees:
            return "not_yet"
        if ref is not None:
            forms = {"stub": "trimmed", "outdated": "outdated"}
            return forms.get(ref.form, "other_form")
        if one.form == "inbox":
            return "waiting" if life.reason == "not_shown" else life.reason
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

    def _sourced(self, answer: Why, one: Held) -> Why:
        """The answer with what the source says of itself."""
        content = one.event.content
        match content:
            case ItemOffered():
                return msgspec.structs.replace(
                    answer,
                    source_id=text_of(content.source_id, self._window),
                    named=text_of(content.version, self._window),
                    locator=text_of(content.locator, self._window)
                    or text_of(content.path, self._window),
                )
            case WorldChanged():
                return msgspec.structs.replace(
                    answer, source_id=content.sections[one.part - 1].name
                )
            case ToolFinished() | ObservationRecorded() if content.saw:
                first = content.saw[0]
                path = text_of(first.path, self._window)
                where = f"{path}:{first.range}" if first.range else path
                return msgspec.structs.replace(
                    answer, source_id=path, named=first.version, locator=where
                )
            case _:
                return answer

    # --- which version went out -----------------------------------------------------------------

    def _went_out(self, one: Held) -> tuple[Version, ...]:
        """The versions of the part's source that the packet shows."""
        subject = self._subject(one.event.content, one.event.source)
        if subject is None:
            return ()
        found: list[Version] = []
        for at, ref in enumerate(self._packet.refs):
            if ref.form not in ("full", "preview", "late", "item") or not ref.seq:
                continue
            event = self._window.event(ref.seq)
            other = self._subject(event.content, event.source)
            if other is not None and other[0] == subject[0]:
                found.append(Version(ref.seq, ref.part, other[1], ref.form, at))
        return tuple(found)

    def _subject(self, content: object, source: str) -> tuple[str, str] | None:
        """What an event tells of, and in which version."""
        if isinstance(content, ItemOffered):
            of = text_of(content.canonical, self._window)
            of = of or f"{source}:{text_of(content.source_id, self._window)}"
            return f"item {of}", text_of(content.version, self._window)
        if isinstance(content, ToolFinished | ObservationRecorded) and content.saw:
            first: Saw = content.saw[0]
            return f"file {text_of(first.path, self._window)}", first.version
        return None

    # --- what no event says ---------------------------------------------------------------------

    def sayings(self, found: dict[Key, Held]) -> list[Why]:
        """Entries that show the text and stand for no part that holds it: notices, stand-ins."""
        out: list[Why] = []
        for at, (ref, entry) in enumerate(
            zip(self._packet.refs, self._packet.entries, strict=True)
        ):
            if ref.form not in _SAYINGS or self._wanted.what not in entry.text:
                continue
            event = self._window.event(ref.seq) if ref.seq else None
            out.append(
                Why(
                    seq=ref.seq,
                    part=ref.part,
                    type=event.type if event is not None else "",
                    source=event.source if event is not None else "sawlog",
                    candidate=True,
                    present=at not in self._left_out,
                    form=ref.form,
                    entry=at,
                    reason=f"left_out: {self._left_out[at]}" if at in self._left_out else "",
                    seen_first=0,
                    seen_until=0,
                    out_at=0,
                    version=_digest(entry.text),
                    excerpt=self._around(entry.text),
                    id=event.id if event is not None else "",
                    zone="history",
                    units=self._measure(entry),
                )
            )
        return out

    def _around(self, text: str) -> str:
        what = self._wanted.what
        at = max(0, text.find(what))
        return text[max(0, at - 60) : at + len(what) + 60]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _labels(one: Held) -> tuple[tuple[str, str], ...]:
    """How far a part is trusted and what keeps it, as far as it says so."""
    content = one.event.content
    if isinstance(content, ItemOffered):
        label = content.label
        return (
            ("authority", label.authority),
            ("trust", label.trust),
            ("retention", label.retention),
            ("sensitivity", label.sensitivity),
        )
    if one.entry is None:
        return ()
    return (("authority", one.entry.authority), ("trust", one.entry.trust))

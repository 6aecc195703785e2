"""Audit: why a text was or was not in a packet, and what two packets differ in."""

from __future__ import annotations

import difflib
import hashlib

import msgspec

from sawlog.builder.contents import Contents
from sawlog.builder.forms import show
from sawlog.builder.packet import Entry, entry_bytes
from sawlog.builder.projector import entry_count, fold
from sawlog.builder.state import Ref, State
from sawlog.findings import Change, Told, Why
from sawlog.recorded import Recorded, RecordedStep
from sawlog.store.errors import BuildError
from sawlog.store.event import Event
from sawlog.store.events.registry import Erased
from sawlog.store.events.steps import PacketBuilt
from sawlog.store.text import BlobMissing


def told(entry: Entry) -> Told:
    """An entry in short."""
    raw = entry_bytes(entry)
    return Told(
        entry.kind,
        entry.status,
        entry.name,
        hashlib.sha256(raw).hexdigest(),
        len(raw),
        entry.text[:120],
    )


def diff(old: RecordedStep, new: RecordedStep) -> list[Change]:
    """What the new step's packet has that the old one's has not, and the other way round.

    Header values (model, parameters, profile, renderer) come first, as entries of kind `header`.
    """
    before, after = old.packet, new.packet
    changes: list[Change] = []
    for name in ("api", "model", "params", "profile", "renderer"):
        was, now = str(getattr(before.header, name)), str(getattr(after.header, name))
        if was != now:
            changes.append(Change("changed", -1, -1, (_header(name, was),), (_header(name, now),)))
    left = [entry_bytes(entry) for entry in before.entries]
    right = [entry_bytes(entry) for entry in after.entries]
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    names = {"insert": "added", "delete": "removed", "replace": "changed"}
    for op, a, b, c, d in matcher.get_opcodes():
        if op != "equal":
            changes.append(
                Change(
                    names[op],
                    a,
                    c,
                    tuple(told(entry) for entry in before.entries[a:b]),
                    tuple(told(entry) for entry in after.entries[c:d]),
                )
            )
    return changes


def _header(name: str, value: str) -> Told:
    raw = value.encode("utf-8", "surrogatepass")
    return Told("header", "", name, hashlib.sha256(raw).hexdigest(), len(raw), value[:120])


def why(session: Recorded, step: int, text: str) -> list[Why]:
    """Every part of the session that holds the text, and what became of it for that step.

    Answers whether it was a candidate, where it fell out, which version went out, and whether a
    compaction changed it. An empty list: the log does not hold the text at all.
    """
    packet = session.packet(step)
    places = {(ref.seq, ref.part): at for at, ref in reversed(list(enumerate(packet.refs)))}
    left_out = {
        at: why
        for at, what, why in packet.request.notes
        if what in ("left_out", "placeholder") and at >= 0
    }
    found = _holding(session, text)
    history = _History({key: _shows(session.window, key, text) for key in found})
    history.read(session, packet.sees + bool(packet.built_at))
    out: list[Why] = []
    for (seq, part), (event, entry) in found.items():
        at = places.get((seq, part), -1)
        shown = packet.entries[at] if at >= 0 else None
        present = shown is not None and (text in shown.text or text == shown.name)
        form = packet.refs[at].form if at >= 0 else ""
        life = history.of((seq, part))
        if present and at in left_out:
            # The packet has it and the renderer could not send it to this model.
            present, reason = False, f"left_out: {left_out[at]}"
        elif present:
            reason = ""
        elif seq > packet.sees:
            reason = "not_yet"
        elif form == "stub":
            reason = "trimmed"
        else:
            reason = "other_form" if form else life.reason
        out.append(
            Why(
                seq=seq,
                part=part,
                type=event.type,
                source=event.source,
                candidate=seq <= packet.sees,
                present=present,
                form=form,
                entry=at,
                reason=reason,
                seen_first=life.first,
                seen_until=life.last,
                out_at=life.out,
                version=hashlib.sha256(entry.text.encode("utf-8", "surrogatepass")).hexdigest(),
                excerpt=_around(entry.text, text),
            )
        )
    return out


def _holding(session: Recorded, text: str) -> dict[tuple[int, int], tuple[Event, Entry]]:
    """The parts of shown events whose text holds this one, whole contents looked at."""
    found: dict[tuple[int, int], tuple[Event, Entry]] = {}
    for event in session.events():
        if not event.shown or isinstance(event.content, Erased):
            continue
        session.window.hold((event,))
        for part in range(1, entry_count(event) + 1):
            entry = _shown(session.window, event.seq, part)
            if entry is not None and (text in entry.text or text == entry.name):
                found[event.seq, part] = (event, entry)
    return found


def _shown(contents: Contents, seq: int, part: int, form: str = "full") -> Entry | None:
    try:
        return show(Ref("history", seq, part, form), contents, None)
    except (BlobMissing, BuildError):
        # A part whose content is gone holds no text that could be looked for.
        return None


def _shows(contents: Contents, key: tuple[int, int], text: str) -> frozenset[str]:
    """The forms of a part in which the text can be read."""
    preview = _shown(contents, *key, "preview")
    forms = {"full", "late"}
    if preview is not None and text in preview.text:
        forms.add("preview")
    return frozenset(forms)


class _Life(msgspec.Struct):
    first: int = 0
    last: int = 0
    out: int = 0
    reason: str = "not_shown"


class _History:
    """In which packets a text could be read in some parts, and what took it out."""

    def __init__(self, parts: dict[tuple[int, int], frozenset[str]]) -> None:
        self._forms = parts
        self._lives = {key: _Life() for key in parts}
        self._parts: dict[int, list[tuple[int, int]]] = {}
        for key in parts:
            self._parts.setdefault(key[0], []).append(key)
        self._state = State()

    def of(self, key: tuple[int, int]) -> _Life:
        """What is known of a part."""
        return self._lives[key]

    def read(self, session: Recorded, upto: int) -> None:
        """Follow the session up to an event."""
        for event in session.events(0, upto):
            before = self._state
            self._state = fold(before, event)
            if len(self._state.cuts) > len(before.cuts):
                self._cut(before, self._state.cuts[-1])
            if isinstance(event.content, PacketBuilt):
                self._packet(event.step, before)
            self._flagged(event)

    def _flagged(self, event: Event) -> None:
        if event.seq not in self._parts or not self._state.news:
            return
        news = self._state.news[-1]
        if news.seq == event.seq and news.flag in ("duplicate", "no_call", "copy"):
            self._give(event.seq, news.flag)

    def _cut(self, before: State, cause: str) -> None:
        """An event cut the history: what it took out has that reason."""
        if cause == "trimmed":
            for seq in set(self._state.trims) - set(before.trims):
                self._give(seq, cause)
            return
        was = {one.seq for one in before.news} | {ref.seq for ref in before.sent}
        now = {one.seq for one in self._state.news} | {ref.seq for ref in self._state.sent}
        for seq in was - now:
            self._give(seq, cause)

    def _give(self, seq: int, reason: str) -> None:
        for key in self._parts.get(seq, ()):
            self._lives[key].reason = reason

    def _packet(self, step: int, before: State) -> None:
        """A packet was built: what it does not show any more and nothing else took, it cut."""
        was = {ref.seq: ref.section for ref in before.sent}
        now = {
            (ref.seq, ref.part)
            for ref in self._state.sent
            if ref.form in self._forms.get((ref.seq, ref.part), ())
        }
        for key, life in self._lives.items():
            if key in now:
                life.first = life.first or step
                life.last, life.out, life.reason = step, 0, "not_shown"
            elif life.last and not life.out:
                life.out = step
                if life.reason == "not_shown" and key[0] in was:
                    header = was[key[0]] in ("system", "tools")
                    life.reason = "header_changed" if header else "block_cut"


def _around(text: str, what: str) -> str:
    at = max(0, text.find(what))
    return text[max(0, at - 60) : at + len(what) + 60]

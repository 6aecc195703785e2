"""Prefix stability: how much of each request the next one begins with, and what breaks it.

A provider reads what it has seen before from its cache, as far as the bytes are the same from the
start. Every break is measured in bytes and named by what the log says happened in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from sawlog.audit.findings import Kept, Stability
from sawlog.audit.manifests import Manifests
from sawlog.audit.reconstructing import as_recorded, foreign_sending
from sawlog.audit.recorded import Recorded
from sawlog.builder.arrange import Arrangement
from sawlog.builder.assembly import Assembly
from sawlog.builder.build import Sending
from sawlog.builder.compacted import SECTION
from sawlog.builder.contents import text_of
from sawlog.builder.measure import measure_of
from sawlog.builder.packet import Binding
from sawlog.builder.policy import AS_RECORDED, header_refs
from sawlog.builder.projector import fold
from sawlog.builder.render import unmarked
from sawlog.builder.replay import sent_under
from sawlog.builder.state import Ref, State
from sawlog.store.event import Event
from sawlog.store.events.base import Named
from sawlog.store.events.conversation import MessageAssistant
from sawlog.store.events.steps import PacketBuilt

Progress = Callable[[int, int], None]
"""Called with (events done, events in all)."""

_FORGET_EVERY = 250

_END = len("]}")
"""Bytes that end every body and its list of messages."""


def stability(session: Recorded, progress: Progress = lambda done, all: None) -> Stability:
    """How much of each packet the next one keeps, over a whole session.

    Imported steps are taken as their file shows them. Raises BlobMissing, BadManifest, NoStep and
    UnknownNumber for what the log needs and is not there.
    """
    steps: list[Kept] = []
    causes: Counter[str] = Counter()
    run = _Run(session)
    for one in run.pairs(progress):
        steps.append(one)
        causes.update(one.causes)
    return Stability(
        session=session.id,
        name=session.name,
        steps=tuple(steps),
        size=sum(one.size for one in steps),
        kept=sum(one.kept for one in steps),
        entries=sum(one.entries for one in steps),
        kept_entries=sum(one.kept_entries for one in steps),
        causes=dict(sorted(causes.items())),
    )


class _Packet(msgspec.Struct, frozen=True):
    """What is compared of a packet. The last of the chunks ends the body and stays nowhere."""

    step: int
    refs: list[Ref]
    assembly: Assembly
    sending: Sending
    chunks: Sequence[bytes]
    size: int
    foreign: bool


class _Run:
    """One pass over a session's events, with one packet held beside the next."""

    def __init__(self, session: Recorded) -> None:
        self._session = session
        self._window = session.window
        self._state = State()
        self._arranged = Arrangement()
        self._manifests = Manifests(session.expanded)
        self._assembly: Assembly | None = None
        self._measured: Named | None = None
        self._model = _first_model(session)
        self._last: _Packet | None = None
        self._cuts: tuple[str, ...] = ()
        """Cuts of an import since its last step; a recorded packet's stand in the state."""

    def pairs(self, progress: Progress) -> Iterator[Kept]:
        """Each packet but the last, against the next one."""
        for event in self._session.events():
            self._window.hold((event,))
            self._manifests.see(event)
            if self._state.blocked:
                return
            found = self._packet(event)
            if found is not None:
                if self._last is not None:
                    yield self._kept(self._last, found)
                self._last = found
                self._cuts = self._state.cuts
            self._state = fold(self._state, event)
            if event.seq % _FORGET_EVERY == 0:
                self._window.forget()
            progress(event.seq, self._session.row.head)

    def _packet(self, event: Event) -> _Packet | None:
        """The packet that an event is, or that an import's reply shows; None of all others."""
        content = event.content
        if isinstance(content, PacketBuilt):
            refs = self._manifests.read(content)[:]
            profile = self._session.profile_of(content)
            # The profile brings its own headers; what else was recorded the caller had set.
            own = tuple(one for one in content.headers if one not in profile.headers)
            # Cache marks roll on with every request: prefixes are compared without them.
            header = sent_under(content, self._window)
            header = replace(header, renderer=unmarked(header.renderer))
            sending = Sending(header, profile, own)
            return self._made(event.step, refs, content.measure, sending, self._session.binding)
        policy = self._session.policy_of(self._state)
        foreign = policy is not None and policy.policy == AS_RECORDED
        if not foreign or event.step <= self._state.step:
            return None
        history = list(chain(*self._arranged.entries(self._state)))
        if not history:
            return None  # a slice may begin with a reply: what it answered is not in the file
        if isinstance(content, MessageAssistant):
            self._model = text_of(content.model, self._window) or self._model
        refs = [*header_refs(self._state), *history]
        sending = foreign_sending(policy, self._model)
        return self._made(event.step, refs, as_recorded(policy).measure, sending, None)

    def _made(
        self,
        step: int,
        refs: list[Ref],
        measured: Named,
        sending: Sending,
        binding: Callable[[int], Binding | None] | None,
    ) -> _Packet:
        used = self._assembly
        same = used is not None and self._measured == measured
        if used is None or not same or used.refs[:] != refs[: len(used.refs)]:
            self._window.prefetch(refs)
            used = Assembly(measure_of(measured))
            self._assembly, self._measured = used, measured
        used.extend(refs[len(used.refs) :], self._window)
        request = used.request(
            sending.header, sending.headers, sending.profile, binding or _unbound
        )
        return _Packet(step, refs, used, sending, request.chunks, request.size, binding is None)

    # --- one packet and the next ------------------------------------------------------------------

    def _kept(self, old: _Packet, new: _Packet) -> Kept:
        entries = _common(old.refs, new.refs)
        kept = _common_bytes(old.chunks, new.chunks)
        causes = self._causes(old, new, entries)
        if not causes and kept < old.size - len(old.chunks[-1]):
            causes = ["unnamed"]
        if not causes and old.foreign and _closed(old) and kept < old.size - _END:
            causes = ["closing"]
        lost = old.assembly.entries.between(entries, len(old.refs)) if causes else []
        return Kept(
            before=old.step,
            step=new.step,
            size=old.size,
            kept=kept,
            entries=len(old.refs),
            kept_entries=entries,
            causes=tuple(causes),
            units=sum(old.assembly.units.between(entries, len(old.refs))) if causes else 0,
            bound=sum(one.part == "bound" for one in lost),
        )

    def _causes(self, old: _Packet, new: _Packet, entries: int) -> list[str]:
        causes: list[str] = []
        was, now = old.sending, new.sending
        if was.header.api != now.header.api:
            causes.append("provider_changed")
        elif was.header.model != now.header.model:
            causes.append("model_changed")
        if was.header.api == now.header.api and was.header.params != now.header.params:
            causes.append("parameters_changed")
        if not causes and (was.profile.text != now.profile.text or _rendered_otherwise(was, now)):
            causes.append("profile_changed")
        if entries == len(old.refs):
            return causes
        if _header(old.refs) != _header(new.refs):
            causes.append("header_changed")
        cuts = self._state.cuts
        fresh = cuts[len(self._cuts) :] if new.foreign else cuts
        causes.extend(dict.fromkeys(fresh))
        if _cut_notice(new.refs) not in (None, _cut_notice(old.refs)):
            causes.append("block_cut")
        if not causes or (causes == ["header_changed"] and entries >= len(_header(old.refs))):
            causes.append(self._moved(old, new, entries))
        return causes

    def _moved(self, old: _Packet, new: _Packet, at: int) -> str:
        """Why an entry is another one, where no cut and no header says it."""
        gone = old.refs[at]
        come = new.refs[at] if at < len(new.refs) else None
        if come is None:
            return "unnamed"
        if come.form == "erased":
            return "erased"
        if new.foreign and gone.form == "synthetic":
            return "answered"
        if new.foreign and come.seq > max(ref.seq for ref in old.refs):
            return "paired"
        return "unnamed"


def _first_model(session: Recorded) -> str:
    """The model that an import's file names first: steps before it are taken to be by the same."""
    for event in session.events() if session.format else ():
        if isinstance(event.content, MessageAssistant) and event.content.model:
            return text_of(event.content.model, session.window)
    return ""


def _unbound(step: int) -> Binding | None:
    return None


def _rendered_otherwise(was: Sending, now: Sending) -> bool:
    return was.header.renderer != now.header.renderer or was.headers != now.headers


def _closed(packet: _Packet) -> bool:
    """True when a fixed message stands behind the history, which no later packet has there."""
    if not packet.sending.profile.needs.last_user or not packet.refs:
        return False
    # The assembly may have grown since.
    return packet.assembly.entries[len(packet.refs) - 1].authority == "assistant"


def _header(refs: Sequence[Ref]) -> list[Ref]:
    """System text and tools; the checkpoint behind them changes by a cut, which is named."""
    return [ref for ref in refs if ref.section not in ("history", SECTION)]


def _cut_notice(refs: Sequence[Ref]) -> Ref | None:
    """The notice of a block cut, which stands in front of the history that is left."""
    for ref in refs:
        if ref.section == "history":
            return ref if ref.form == "notice" else None
    return None


def _common(one: Sequence[Ref], other: Sequence[Ref]) -> int:
    """How many entries both begin with."""
    if list(other[: len(one)]) == list(one):
        return len(one)
    at = 0
    while at < min(len(one), len(other)) and one[at] == other[at]:
        at += 1
    return at


def _common_bytes(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many bytes both bodies begin with. Chunks that are one object are not looked into."""
    at = kept = 0
    while at < min(len(one), len(other)) and one[at] is other[at]:
        kept += len(one[at])
        at += 1
    left, right = b"".join(one[at:]), b"".join(other[at:])
    return kept + _common_prefix(left, right)


def _common_prefix(left: bytes, right: bytes) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

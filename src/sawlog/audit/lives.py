"""In which packets of a session parts could be read, and what took them out."""

from __future__ import annotations

import msgspec

from sawlog.audit.endings import Endings
from sawlog.audit.holding import Held, Key, Wanted
from sawlog.builder.contents import Contents
from sawlog.builder.projector import fold
from sawlog.builder.state import Ref, State
from sawlog.store.event import Event
from sawlog.store.events.conversation import MessageSystem, MessageUser
from sawlog.store.events.inbox import InboxCancelled, InboxClaimed
from sawlog.store.events.lifecycle import HistoryEdited, HistoryRewound
from sawlog.store.events.steps import PacketBuilt
from sawlog.store.events.world import ObservationRecorded


class Life(msgspec.Struct):
    """The first and the last step whose packet had a part, the first after that without it.

    `reason` is what took it out, or why it was in none; `cut` the cut at which that was.
    """

    first: int = 0
    last: int = 0
    out: int = 0
    reason: str = "not_shown"
    cut: str = ""


class Weighing(msgspec.Struct, frozen=True):
    """The packet that an item was weighed for: its event, its step, the state it was built from."""

    seq: int
    step: int
    before: State


class Lives:
    """The lives of some parts, followed event by event."""

    def __init__(self, parts: dict[Key, Held], contents: Contents, wanted: Wanted) -> None:
        self.state = State()
        """The state after the newest event that was followed."""
        self._held = parts
        self._contents = contents
        self._wanted = wanted
        self._lives = {key: Life() for key in parts}
        self._parts: dict[int, list[Key]] = {}
        for key in parts:
            self._parts.setdefault(key[0], []).append(key)
        items = [key[0] for key, one in parts.items() if one.form == "item"]
        self.endings = Endings(items, contents)
        """What made the items among the parts hold no longer."""
        self._weighed: dict[int, Weighing] = {}
        self._items = frozenset(items)
        self._ids = {one.event.id: key for key, one in parts.items()}
        self._now: set[Key] = set()

    def of(self, key: Key) -> Life:
        """What is known of a part."""
        return self._lives[key]

    def weighed(self, seq: int) -> Weighing | None:
        """The newest packet that an item was weighed for with all that it competes with.

        Between cuts what found no room waits, and is not weighed again.
        """
        return self._weighed.get(seq)

    def see(self, event: Event) -> None:
        """Follow the session by one event."""
        before = self.state
        self.state = fold(before, event)
        content = event.content
        self.endings.see(event, self.state)
        if isinstance(content, HistoryRewound):
            self._cut(before, "rewound")
            # Behind it stands what stood there then, and nothing else.
            self._now = {(ref.seq, ref.part) for ref in self.state.sent if self._shows(ref)}
        elif isinstance(content, HistoryEdited):
            self._cut(before, "edited")
        elif len(self.state.cuts) > len(before.cuts):
            self._cut(before, self.state.cuts[-1])
        if isinstance(content, PacketBuilt):
            self._packet(event.seq, event.step, before)
        elif isinstance(content, InboxClaimed | InboxCancelled):
            rejected = isinstance(content, InboxClaimed) and content.rejected
            gone = "cancelled" if isinstance(content, InboxCancelled) else "claimed"
            for id in content.messages:
                if id in self._ids:
                    self._give(self._ids[id][0], "rejected" if rejected else gone)
        self._flagged(event)

    def _flagged(self, event: Event) -> None:
        if event.seq not in self._parts or not self.state.news:
            return
        news = self.state.news[-1]
        if news.seq == event.seq and news.flag in ("duplicate", "no_call", "copy"):
            self._give(event.seq, news.flag)

    def _cut(self, before: State, cause: str) -> None:
        """An event cut the history: what it took out has that reason."""
        if cause == "trimmed":
            for seq in set(self.state.trims) - set(before.trims):
                self._give(seq, cause)
            return
        offered = cause == "rewound"
        for seq in _there(before, offered=offered) - _there(self.state, offered=offered):
            self._give(seq, cause)

    def _give(self, seq: int, reason: str) -> None:
        for key in self._parts.get(seq, ()):
            self._lives[key].reason = reason

    def _packet(self, at: int, step: int, before: State) -> None:
        """A packet was built: what it does not show any more and nothing else took, it cut."""
        sent = self.state.sent
        grew = sent.grew_from(before.sent) and len(before.sent) > 0
        fresh = sent.between(len(before.sent) if grew else 0, len(sent))
        cut = _Cut(before, fresh) if not grew else None
        afresh = (
            cut is not None or bool(before.cuts) or max(before.task, before.policy) > before.sent_at
        )
        for seq in self._items if afresh else self._items - self._weighed.keys():
            if seq <= before.seq:
                self._weighed[seq] = Weighing(at, step, before)
        self.endings.shows(fresh)
        if cut is not None:
            self._now = set()
        self._now.update((ref.seq, ref.part) for ref in fresh if self._shows(ref))
        for key, life in self._lives.items():
            if key in self._now:
                life.first = life.first or step
                life.last, life.out, life.reason, life.cut = step, 0, "not_shown", ""
            elif life.last and not life.out:
                life.out = step
                if life.reason == "not_shown" and cut is not None:
                    life.reason, life.cut = cut.took(key, self._held[key])

    def _shows(self, ref: Ref) -> bool:
        one = self._held.get((ref.seq, ref.part))
        return one is not None and one.shown_by(ref, self._contents, self._wanted)


def _there(state: State, *, offered: bool) -> set[int]:
    """Seqs of what stands in a state's history; with `offered` of what may come into it, too."""
    there = {*(one.seq for one in state.news), *(ref.seq for ref in state.sent)}
    return there | {one.seq for one in state.offers} if offered else there


_MOVES = frozenset(("world", "item", "stale", "missing", "notice"))
"""Forms that a cut may bring anew behind what stays."""


class _Cut:
    """What a packet that does not only grow left behind of what was sent before it."""

    def __init__(self, before: State, refs: list[Ref]) -> None:
        self._was = {
            (ref.seq, ref.part): at for at, ref in enumerate(before.sent) if ref.form != "stale"
        }
        self._sections = {ref.seq: ref.section for ref in before.sent}
        stay = [
            self._was[ref.seq, ref.part]
            for ref in refs
            if ref.section == "history"
            and ref.form not in _MOVES
            and (ref.seq, ref.part) in self._was
        ]
        self._border = min(stay, default=len(before.sent))

    def took(self, key: Key, one: Held) -> tuple[str, str]:
        """Why a part is gone, and by which cut.

        In front of the border all goes. Behind it only what holds no longer or was meant for one
        step does, and what is told anew.
        """
        section = self._sections.get(key[0])
        if section is None:
            return "not_shown", ""
        if section in ("system", "tools"):
            return "header_changed", "header_changed"
        if self._was.get(key, -1) < self._border:
            return "block_cut", "block_cut"
        content = one.event.content
        if one.form == "world":
            return "told_anew", "block_cut"
        if isinstance(content, MessageUser | MessageSystem | ObservationRecorded) and content.once:
            return "once", "block_cut"
        return "outdated", "block_cut"

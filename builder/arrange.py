"""The arrangement: the news in the order in which packets show them, in units that stay together.

What a call without a result shows is a form, never an event: see `synthetic_kind`. The order is by
the pairing that the state names: `default` as below, or `codex` (`pairing_codex`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sawlog.builder.pairing_codex import CODEX, aborted_ref
from sawlog.builder.state import News, Ref, State, Waiting
from sawlog.builder.vec import Vec
from sawlog.store.events.base import Named
from sawlog.store.text import Text


def synthetic_kind(call: Waiting) -> str:
    """What the result of a call that has none says of it."""
    if call.denied:
        return call.denied
    if call.approval:
        return "awaiting_approval"
    return "unknown" if call.started else "not_started"


class Unit(msgspec.Struct):
    """What stays together: a message, or a reply with its calls and their results.

    `results` are by the call's seq; `apart` are the calls whose result is a unit of its own.
    `listed` are its entries once all its calls have results; then only one more member or other
    trims change them.
    """

    lead: News
    members: list[News]
    results: dict[int, News]
    apart: set[int]
    listed: Sequence[Ref] | None = None

    def open_calls(self) -> list[int]:
        """Seqs of calls in it that have no result."""
        return [
            one.seq
            for one in self.members
            if one.kind == "tool.requested" and one.seq not in self.results
        ]


_REPLY = ("message.assistant", "tool.requested")


class Arrangement:
    """The units of a line of news, in the order in which packets show them.

    Grows with the news: feeding k new events costs O(k). It is a cache over a state's news and
    starts afresh when given another line.
    """

    def __init__(self) -> None:
        self._news: Vec[News] = Vec()
        self.units: list[Unit] = []
        self._aside: list[News] = []
        # Results whose call has no place yet: a compaction may list them in any order.
        self._ahead: dict[int, News] = {}
        self._by_step: dict[int, Unit] = {}
        self._by_call: dict[int, Unit] = {}
        self._last: Unit | None = None
        self._sent_step = -1
        self._pairing: Named | None = None
        self._asked: dict[Text, int] = {}
        self._trims: tuple[int, ...] = ()

    def feed(self, state: State) -> None:
        """Take in what is new in the state's news."""
        news = state.news
        same = self._sent_step == state.sent_step and self._pairing == state.pairing
        if not news.grew_from(self._news) or not same:
            self.__init__()  # type: ignore[misc]
            self._sent_step = state.sent_step
            self._pairing = state.pairing
        for at in range(len(self._news), len(news)):
            self._place(news[at])
        self._news = news

    def entries(self, state: State) -> list[Sequence[Ref]]:
        """The entries of each unit, in order, once what is new in the state's news is taken in."""
        self.feed(state)
        if state.trims != self._trims:
            self._trims = state.trims
            for unit in self.units:
                unit.listed = None
        waiting = {call.seq: call for call in state.waiting}
        trims = frozenset(state.trims)
        codex = state.pairing == CODEX
        found: list[Sequence[Ref]] = []
        for unit in self.units:
            refs = unit.listed
            if refs is None:
                refs = unit_refs(unit, waiting, trims, codex=codex)
                if not unit.open_calls():  # what an open one shows is for the state to say
                    unit.listed = refs
            found.append(refs)
        return found

    def aside(self) -> list[News]:
        """The news that packets do not show, each for the reason that its flag names."""
        return [*self._aside, *self._ahead.values()]

    def _place(self, one: News) -> None:
        if one.flag == "copy":
            return
        if one.flag in ("duplicate", "no_call"):
            self._aside.append(one)
            return
        if one.kind == "tool.finished" and not one.flag:
            unit = self._by_call.get(one.call)
            if unit is None:
                self._ahead[one.call] = one
            else:
                self._answer(unit, one)
            return
        if one.kind in _REPLY:
            self._reply(one)
            return
        self._new_unit(one)
        self._last = None

    def _reply(self, one: News) -> None:
        unit = self._by_step.get(one.step) if one.step else None
        if unit is None and not one.step and one.kind == "tool.requested":
            unit = self._last
        if unit is None:
            # What the model answered stands right behind what it was shown, before anything that
            # arrived while it was thinking: bound items hold to exactly that prefix.
            first = one.step > 0 and one.step == self._sent_step and one.step not in self._by_step
            unit = self._new_unit(one, first=first)
            if one.step:
                self._by_step[one.step] = unit
            self._last = None if one.step else unit
        else:
            unit.members.append(one)
            unit.listed = None
        if one.kind == "tool.requested":
            self._by_call[one.seq] = unit
            self._asked[one.call_id] = self._asked.get(one.call_id, 0) + 1
            result = self._ahead.pop(one.seq, None)
            if result is not None:
                self._answer(unit, result)

    def _answer(self, unit: Unit, result: News) -> None:
        unit.results[result.call] = result
        if self._pairing == CODEX and self._asked.get(result.call_id, 0) < 2:
            unit.apart.add(result.call)
            self._new_unit(result)
            self._last = None

    def _new_unit(self, one: News, *, first: bool = False) -> Unit:
        unit = Unit(one, [one], {}, set())
        if first:
            self.units.insert(0, unit)
        else:
            self.units.append(unit)
        return unit


def unit_refs(
    unit: Unit, waiting: dict[int, Waiting], trims: frozenset[int], *, codex: bool = False
) -> list[Ref]:
    """The entries of a unit: its parts in order, then one result for each call in call order.

    With `codex` what was cut short says so straight behind its call.
    """
    lead = unit.lead
    if lead.flag == "late":
        return _late_refs(lead)
    refs: list[Ref] = []
    results: list[Ref] = []
    for member in unit.members:
        refs.extend(event_refs(member, trims))
        if member.kind != "tool.requested" or member.erased or member.seq in unit.apart:
            continue
        result = unit.results.get(member.seq)
        if result is not None:
            results.extend(event_refs(result, trims))
            continue
        call = waiting[member.seq]
        aborted = aborted_ref(call) if codex else None
        if aborted is not None:
            refs.append(aborted)
        else:
            results.append(synthetic_ref(call))
    return [*refs, *results]


def event_refs(one: News, trims: frozenset[int]) -> list[Ref]:
    """The entries of one event in the forms that were fixed when it was appended."""
    if one.erased:
        return [Ref("history", one.seq, part, "erased") for part in range(1, one.parts + 1)]
    if one.seq in trims:
        return [Ref("history", one.seq, 1, "stub")]
    if one.parts == 1 and not one.previews:  # as nearly all are
        return [Ref("history", one.seq, 1, "full")]
    return [
        Ref("history", one.seq, part, "preview" if part in one.previews else "full")
        for part in range(1, one.parts + 1)
    ]


def synthetic_ref(call: Waiting) -> Ref:
    """The entry that stands for the result that a call does not have."""
    args: tuple[tuple[str, str | int], ...] = (("kind", synthetic_kind(call)),)
    if call.because:
        args = (*args, ("because", call.because))
    return Ref("history", call.seq, 1, "synthetic", 1, args)


def _late_refs(one: News) -> list[Ref]:
    return [
        Ref("history", one.seq, part, "late", 1, (("call", one.call),))
        for part in range(1, one.parts + 1)
    ]

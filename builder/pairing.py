"""Pairing: every requested call shows one result, right after its message, in call order.

The fold pairs results with calls as they arrive, O(open calls) an event; `arrange` puts the news
in the order in which packets show it. What a call without a result shows is a form, never an
event: see `synthetic_kind`.

Why: providers refuse a call without a result and a result without a call, and a history that hides
either hides what was tried (DESIGN, Pairing).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from sawlog.builder.state import Answer, News, Ref, State, Waiting
from sawlog.builder.vec import Index, Vec
from sawlog.store.event import Event
from sawlog.store.events.conversation import (
    ApprovalDecided,
    ApprovalRequested,
    ToolDenied,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.text import Text

# --- as events arrive ----------------------------------------------------------------------------


def requested(state: State, event: Event, content: ToolRequested, news: News) -> State:
    """The state after a call was asked for."""
    early = any(call_id == content.call_id for call_id, _ in state.orphans)
    waiting = Waiting(event.seq, event.id, content.call_id, event.step)
    return replace(
        state,
        news=state.news.append(replace(news, flag="early") if early else news),
        waiting=(*state.waiting, waiting),
    )


def finished(state: State, content: ToolFinished, news: News) -> State:
    """The state after a result arrived: paired, late, or set aside with a flag."""
    found = find_waiting(state, content.call, content.call_id)
    if found is None:
        return _unpaired(state, content, news)
    call = state.waiting[found]
    flag = "late" if call.gone else ""
    return replace(
        state,
        news=state.news.append(replace(news, call=call.seq, call_id=call.call_id, flag=flag)),
        waiting=state.waiting[:found] + state.waiting[found + 1 :],
        answered=state.answered.set(call.call_id, Answer(call.seq, news.seq)),
    )


def _unpaired(state: State, content: ToolFinished, news: News) -> State:
    if content.external:
        return replace(state, news=state.news.append(replace(news, flag="external")))
    if content.call or state.answered.get(content.call_id) is not None:
        return replace(state, news=state.news.append(replace(news, flag="duplicate")))
    return replace(
        state,
        news=state.news.append(replace(news, flag="no_call")),
        orphans=(*state.orphans, (content.call_id, news.seq)),
    )


def find_waiting(state: State, call: str, call_id: Text) -> int | None:
    """The place among the waiting calls of the one named by event id, else by call id.

    Call ids repeat in real files, so the nearest preceding unanswered call has the id.
    """
    for at in range(len(state.waiting) - 1, -1, -1):
        one = state.waiting[at]
        if one.id == call if call else one.call_id == call_id:
            return at
    return None


def noted(state: State, event: Event) -> State:
    """The state after a start, a denial or an approval changed what a call is waiting for."""
    content = event.content
    match content:
        case ToolStarted():
            at = find_waiting(state, content.call, content.call_id)
            return state if at is None else _changed(state, at, started=True)
        case ToolDenied():
            at = find_waiting(state, content.call, content.call_id)
            if at is None or state.waiting[at].denied:
                return state
            return _changed(state, at, denied=content.kind, because=event.seq, approval="")
        case ApprovalRequested():
            at = find_waiting(state, content.call, "")
            return state if at is None else _changed(state, at, approval=content.approval)
        case ApprovalDecided():
            for at, call in enumerate(state.waiting):
                # Once decided the id is cleared, so that the first decision wins.
                if call.approval == content.approval:
                    if content.allow:
                        return _changed(state, at, approval="")
                    return _changed(state, at, approval="", denied="denied", because=event.seq)
            return state
        case _:
            return state


def _changed(
    state: State,
    at: int,
    *,
    started: bool | None = None,
    denied: str | None = None,
    because: int | None = None,
    approval: Text | None = None,
) -> State:
    old = state.waiting[at]
    new = replace(
        old,
        started=old.started if started is None else started,
        denied=old.denied if denied is None else denied,
        because=old.because if because is None else because,
        approval=old.approval if approval is None else approval,
    )
    return replace(state, waiting=(*state.waiting[:at], new, *state.waiting[at + 1 :]))


def forked(state: State) -> State:
    """The state of a fork: what was open at the parent is not this session's to answer."""
    waiting = tuple(
        call if call.gone else replace(call, denied="forked", because=0, approval="")
        for call in state.waiting
    )
    return replace(state, waiting=waiting)


def settled(state: State, shown: Iterable[int]) -> State:
    """The state in which calls that are not among the shown seqs are settled for good.

    Their first result, should it come, is news.
    """
    still = frozenset(shown)
    waiting = tuple(
        call if call.gone or call.seq in still else replace(call, gone=True)
        for call in state.waiting
    )
    return replace(state, waiting=waiting)


def rewound(state: State, to: int) -> State:
    """The state in which nothing after event `to` is shown, results included."""
    news = [one for one in state.news if one.seq <= to]
    answered = [entry for entry in state.answered.items() if entry[1].result <= to]
    return replace(
        state,
        news=Vec(news),
        answered=Index(answered),
        waiting=still_waiting(news, [call for call in state.waiting if call.seq <= to]),
        orphans=tuple(orphan for orphan in state.orphans if orphan[1] <= to),
    )


def still_waiting(news: Iterable[News], before: Iterable[Waiting]) -> tuple[Waiting, ...]:
    """The calls that wait once only these news are left: those before, and those whose result
    left. That a call had a result says that it was started."""
    news = list(news)
    waiting = {call.seq: call for call in before}
    paired = {one.call for one in news if one.kind == "tool.finished" and not one.flag}
    for one in news:
        if one.kind == "tool.requested" and one.seq not in paired and one.seq not in waiting:
            waiting[one.seq] = Waiting(one.seq, one.id, one.call_id, one.step, started=True)
    return tuple(waiting[seq] for seq in sorted(waiting))


# --- as packets show them ------------------------------------------------------------------------


def synthetic_kind(call: Waiting) -> str:
    """What the result of a call that has none says of it."""
    if call.denied:
        return call.denied
    if call.approval:
        return "awaiting_approval"
    return "unknown" if call.started else "not_started"


class Unit(msgspec.Struct):
    """What stays together: a message, or a reply with its calls and their results."""

    lead: News
    members: list[News]
    results: dict[int, News]

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

    def feed(self, state: State) -> None:
        """Take in what is new in the state's news."""
        news = state.news
        if not news.grew_from(self._news) or self._sent_step != state.sent_step:
            self.__init__()  # type: ignore[misc]
            self._sent_step = state.sent_step
        for at in range(len(self._news), len(news)):
            self._place(news[at])
        self._news = news

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
                unit.results[one.call] = one
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
        if one.kind == "tool.requested":
            self._by_call[one.seq] = unit
            result = self._ahead.pop(one.seq, None)
            if result is not None:
                unit.results[one.seq] = result

    def _new_unit(self, one: News, *, first: bool = False) -> Unit:
        unit = Unit(one, [one], {})
        if first:
            self.units.insert(0, unit)
        else:
            self.units.append(unit)
        return unit


def unit_refs(unit: Unit, waiting: dict[int, Waiting], trims: frozenset[int]) -> list[Ref]:
    """The entries of a unit: its parts in order, then one result for each call in call order."""
    lead = unit.lead
    if lead.flag == "late":
        return _late_refs(lead)
    refs: list[Ref] = []
    for member in unit.members:
        refs.extend(event_refs(member, trims))
    for member in unit.members:
        if member.kind != "tool.requested":
            continue
        result = unit.results.get(member.seq)
        if result is not None:
            refs.extend(event_refs(result, trims))
        else:
            refs.append(synthetic_ref(waiting[member.seq]))
    return refs


def event_refs(one: News, trims: frozenset[int]) -> list[Ref]:
    """The entries of one event in the forms that were fixed when it was appended."""
    if one.erased:
        return [Ref("history", one.seq, part, "erased") for part in range(1, one.parts + 1)]
    if one.seq in trims:
        return [Ref("history", one.seq, 1, "stub")]
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

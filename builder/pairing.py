"""Pairing: every requested call shows one result, right after its message, in call order.

The fold pairs results with calls as they arrive, O(open calls) an event; `arrange` puts the news
in the order in which packets show it.

Why: providers refuse a call without a result and a result without a call, and a history that hides
either hides what was tried (docs/design.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from sawlog.builder.pairing_codex import CODEX
from sawlog.builder.state import Answer, News, State, Waiting
from sawlog.builder.vec import Index, Vec
from sawlog.store.event import Event
from sawlog.store.events.base import Named
from sawlog.store.events.conversation import (
    ApprovalDecided,
    ApprovalRequested,
    ToolDenied,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.text import Text

PAIRINGS = (Named("default", 1), CODEX)
"""The rule sets of this release; none is ever taken out or changed."""


def unknown_pairing(state: State) -> str:
    """Why nothing can be built under the rule set that is in force; empty when it is known."""
    if state.pairing in PAIRINGS:
        return ""
    known = ", ".join(map(str, PAIRINGS))
    return (
        f"the pairing {state.pairing} of event {state.policy} is not installed; known are {known}"
    )


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


def began(state: State, content: ToolFinished) -> int:
    """The seq of the start of the call that a result answers; else of its request, else 0."""
    at = find_waiting(state, content.call, content.call_id)
    return 0 if at is None else state.waiting[at].since or state.waiting[at].seq


def noted(state: State, event: Event) -> State:
    """The state after a start, a denial or an approval changed what a call is waiting for."""
    content = event.content
    match content:
        case ToolStarted():
            at = find_waiting(state, content.call, content.call_id)
            return state if at is None else _changed(state, at, started=True, since=event.seq)
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
    since: int | None = None,
) -> State:
    old = state.waiting[at]
    new = replace(
        old,
        started=old.started if started is None else started,
        denied=old.denied if denied is None else denied,
        because=old.because if because is None else because,
        approval=old.approval if approval is None else approval,
        since=old.since if since is None else since,
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


def edited(state: State, gone: Iterable[str]) -> State:
    """The state in which the events of these ids are not shown; a call takes its result along.

    What a packet of sawlog's own has settled stays as it is.
    """
    ids = frozenset(gone)
    calls = {one.seq for one in state.news if one.id in ids and one.kind == "tool.requested"}
    news = [one for one in state.news if one.id not in ids and one.call not in calls]
    left = {one.seq for one in state.news} - {one.seq for one in news}
    answered = [
        entry
        for entry in state.answered.items()
        if entry[1].call not in left and entry[1].result not in left
    ]
    waiting = still_waiting(news, [call for call in state.waiting if call.id not in ids])
    return replace(
        state,
        news=Vec(news),
        answered=Index(answered),
        waiting=waiting,
        gaps=tuple(sorted({*state.gaps, *left})),
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

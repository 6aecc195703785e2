"""Branches of one log: every event that is folded, with what a rewind goes back to.

A fold answers a rewind to before its last packet only when it is given the state there. Whoever
feeds events to a fold takes them from `attended`, so that no reader can forget it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from sawlog.builder import offers
from sawlog.builder.projector import fold
from sawlog.builder.state import State
from sawlog.store.event import Event
from sawlog.store.events.compaction import CompactionCompleted
from sawlog.store.events.items import ItemWithdrawn
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.store.events.steps import PacketBuilt

Events = Callable[[int, int], Iterable[Event]]
"""The events of a log after one seq, up to another, as they are stored."""


def attended(
    events: Iterable[Event], resume: Callable[[Event], State], packet: int | None
) -> Iterator[Event]:
    """These events, each rewind that reaches behind a packet with the state that it goes back to.

    `resume` gives that state for a rewind. `packet` is the seq of the newest packet before these
    events, or of the end of a compaction that came behind it (0: there is none; None: nobody knows,
    so that every rewind is given its state).
    """
    for event in events:
        content = event.content
        if type(content) is PacketBuilt:
            packet = event.seq
        elif type(content) is CompactionCompleted and content.checkpoint:
            packet = event.seq
        elif type(content) is HistoryRewound and (packet is None or content.to < packet):
            event = replace(event, resumes=resume(event))
        yield event


def resuming(rewind: Event, at: Callable[[int], State], events: Events) -> State:
    """The state that a rewind goes back to: that `at` its `to`, and what sources took back since.

    An item that was withdrawn is not valid again because the history forgets that it was.
    """
    then = at(_to(rewind))
    for event in events(then.seq, rewind.seq - 1):
        if isinstance(event.content, ItemWithdrawn):
            then = offers.withdrawn(then, event, event.content)
    return then


def state_at(to: int, start: Callable[[int], State], events: Events) -> State:
    """The state after event `to` of a log.

    `start` gives a state at or before a seq, such as a snapshot's or the empty one. Two passes over
    the events between; the first finds how far back rewinds among them reach.
    """
    begin = start(to)
    targets: set[int] = set()
    while True:
        targets = {_to(one) for one in events(begin.seq, to) if _rewinds(one)}
        lowest = min(targets, default=to)
        if lowest >= begin.seq:
            break
        begin = start(lowest)
    kept = {begin.seq: begin}
    state = begin
    for event in events(begin.seq, to):
        if _rewinds(event) and _to(event) < state.settled_at:
            event = replace(event, resumes=resuming(event, kept.__getitem__, events))
        state = fold(state, event)
        if event.seq in targets:
            kept[event.seq] = state
    return state


def _rewinds(event: Event) -> bool:
    return isinstance(event.content, HistoryRewound)


def _to(event: Event) -> int:
    assert isinstance(event.content, HistoryRewound)
    return max(0, event.content.to)

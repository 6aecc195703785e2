"""The inbox: what waits for a later step, and what a step may claim of it (CONTRACTS S2-18).

A claim takes all next-step messages and, where a turn begins, one next-turn message. Messages that
do not wake are never a reason for a step.
"""

from __future__ import annotations

from msgspec.structs import replace

from sawlog.builder.facts import Pending
from sawlog.builder.state import State
from sawlog.store.event import Event
from sawlog.store.events.inbox import InboxCancelled, InboxClaimed, InboxInjected

NEXT_STEP = "next-step"
NEXT_TURN = "next-turn"


def injected(state: State, event: Event, content: InboxInjected) -> State:
    """The state after a message was put into the inbox."""
    if any(one.id == event.id for one in state.inbox):
        return state
    one = Pending(event.seq, event.id, content.target, content.wakes)
    return replace(state, inbox=(*state.inbox, one))


def left(state: State, content: InboxClaimed | InboxCancelled) -> State:
    """The state after messages left the inbox."""
    gone = frozenset(content.messages)
    return replace(state, inbox=tuple(one for one in state.inbox if one.id not in gone))


_ASIDE = ("duplicate", "no_call", "copy")
"""Flags of news that no packet shows."""


def turn_begins(state: State) -> bool:
    """True when the last step asked for nothing: no call waits and no result is to be sent.

    A step that is made again, for its last one had no reply, is where that one was: in its turn.
    """
    if any(not one.gone for one in state.waiting) or (state.sent and not state.news):
        return False
    return not any(one.kind == "tool.finished" and one.flag not in _ASIDE for one in state.news)


def wakes(state: State) -> bool:
    """True when there is a reason for a step beside messages that do not wake."""
    if not state.news:
        # The packet sent last has no reply: its step is made again. One that was never made waits.
        return bool(state.sent) or any(one.wakes for one in state.inbox)
    if any(one.kind != "message.assistant" and one.flag not in _ASIDE for one in state.news):
        return True
    return any(one.wakes for one in state.inbox)


def claimable(state: State) -> tuple[Pending, ...]:
    """What the next step claims: nothing while there is no reason for a step."""
    if not state.inbox or not wakes(state):
        return ()
    steps = tuple(one for one in state.inbox if one.target == NEXT_STEP)
    turns = tuple(one for one in state.inbox if one.target == NEXT_TURN)
    return (*steps, *turns[:1]) if turn_begins(state) else steps

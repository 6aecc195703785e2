"""The inbox: messages that wait while a step runs, until a step claims them."""

from __future__ import annotations

from sawlog.store.content import Part
from sawlog.store.events.base import EventId, Payload
from sawlog.store.events.registry import event
from sawlog.store.text import Text


@event("inbox.injected", 1, open=True)
class InboxInjected(Payload, frozen=True):
    """A message for a later step; the event's source says who it is from.

    `target` is `next-step` or `next-turn`. `wakes`: it is a reason to make a step by itself.
    """

    parts: tuple[Part, ...]
    target: str = "next-step"
    wakes: bool = False


@event("inbox.claimed", 1)
class InboxClaimed(Payload, frozen=True):
    """These messages left the inbox: they are entered in the same append, or were rejected."""

    messages: tuple[EventId, ...]
    rejected: bool = False
    reason: Text = ""


@event("inbox.cancelled", 1)
class InboxCancelled(Payload, frozen=True):
    """These messages are no longer wanted; no packet shows them."""

    messages: tuple[EventId, ...]
    reason: Text = ""

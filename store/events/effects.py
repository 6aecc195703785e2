"""Effects: what a tool run is about to do to the world, and what became of it.

A call's own start and result are its first effect. These are for the further ones inside one run,
and for what others found out about one whose outcome nobody recorded.
"""

from __future__ import annotations

from sawlog.store.events.base import EventId, Payload
from sawlog.store.events.registry import event
from sawlog.store.text import Text


@event("effect.intended", 1)
class EffectIntended(Payload, frozen=True):
    """A tool run is about to act; durable before it does.

    `key` is the same each time the same effect is tried, for the other side to do it once. `call`
    names the request whose run it is, `effect` is its effect class, `what` says it in words.
    """

    key: Text
    call: EventId = ""
    effect: str = "side_effect"
    what: Text = ""


@event("effect.settled", 1, open=True)
class EffectSettled(Payload, frozen=True):
    """What became of an effect, as the run that did it knows: `done` or `failed`.

    `receipt` is what the other side gave for it.
    """

    key: Text
    outcome: str = "done"
    receipt: Text = ""


@event("effect.reconciled", 1, open=True)
class EffectReconciled(Payload, frozen=True):
    """What became of an effect whose outcome was unknown, as `by` found out.

    `outcome` is `done`, `failed` (it was tried, and changed nothing) or `not_done`. `key` is the
    effect's, or that of a call's start.
    """

    key: Text
    outcome: str = "done"
    by: Text = ""
    receipt: Text = ""

"""What the log says of effects: which were intended, and what became of each.

A start opens the effect that the call itself is, its result settles it; `effect.*` events do the
same for those inside a run. Nothing in a packet depends on this: it is read when a run is to be
recovered or repeated, out of the events alone. A rewind takes nothing back, for the world stays as
it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.conversation import ToolFinished, ToolStarted
from sawlog.store.events.effects import EffectIntended, EffectReconciled, EffectSettled
from sawlog.store.events.lifecycle import HistoryRewound, SessionForked
from sawlog.store.text import Text, seal

UNKNOWN = "unknown"
DONE = "done"
FAILED = "failed"
NOT_DONE = "not_done"

READ_ONLY = "read_only"
IDEMPOTENT = "idempotent"
SIDE_EFFECT = "side_effect"
CLASSES = (READ_ONLY, IDEMPOTENT, SIDE_EFFECT)
"""Effect classes: what a tool does when it is run twice. Undeclared ones are side effects."""

TYPES = frozenset(
    "effect.intended effect.reconciled effect.settled history.rewound session.forked "
    "tool.finished tool.started".split()
)
"""The types of the events that say anything of effects; others need not be read."""


class Effect(msgspec.Struct, frozen=True):
    """One effect: its key, class and state (`unknown`, `done`, `failed` or `not_done`).

    `since` is the seq of its newest intention, `said` that of the event that says the state.
    `call` is the request whose run it is, `step` the step that asked for it.
    """

    key: Text
    call: EventId
    effect: str
    since: int
    said: int
    step: int = 0
    state: str = UNKNOWN
    what: Text = ""
    receipt: Text = ""


class Effects(msgspec.Struct, frozen=True):
    """The effects of a session as of one event: of whole calls, and of those inside runs by key.

    `starts` are by the event id of the request, or by call id where a start names no more.
    `rewound` is the seq of the newest rewind (0: none), which may have opened a call again.
    """

    seq: int = 0
    rewound: int = 0
    starts: dict[Text, Effect] = msgspec.field(default_factory=dict[Text, Effect])
    inside: dict[Text, Effect] = msgspec.field(default_factory=dict[Text, Effect])

    def find(self, key: Text) -> Effect | None:
        """The effect of that key, inside a run or a whole call's; None when there is none."""
        key = _stored(key)
        found = self.inside.get(key)
        if found is not None:
            return found
        return next((one for one in self.starts.values() if _stored(one.key) == key), None)

    def of(self, call: EventId) -> Iterator[Effect]:
        """The effects inside the runs of a call, in the order in which they were first tried."""
        return (one for one in self.inside.values() if one.call == call)


def read(events: Iterable[Event], before: Effects | None = None) -> Effects:
    """The effects after these events, which follow those that `before` was read from."""
    before = before or Effects()
    starts, inside = dict(before.starts), dict(before.inside)
    seq, rewound = before.seq, before.rewound
    for event in events:
        seq = event.seq
        match event.content:
            case ToolStarted(call=call, call_id=call_id, effect=effect, key=key):
                name = call or call_id
                one = Effect(key or name, call, effect, seq, seq, event.step)
                starts[name] = _again(starts.get(name), one)
            case ToolFinished(call=call, call_id=call_id, status=status):
                _settle(starts, call or call_id, DONE if status != "error" else FAILED, seq)
            case EffectIntended(key=key, call=call, effect=effect, what=what):
                one = Effect(key, call, effect, seq, seq, event.step, what=what)
                inside[key] = _again(inside.get(key), one)
            case EffectSettled(key=key, outcome=outcome, receipt=receipt):
                _settle(inside, key, outcome, seq, receipt)
            case EffectReconciled(key=key, outcome=outcome, receipt=receipt):
                _reconcile(starts, inside, key, outcome, seq, receipt)
            case HistoryRewound():
                rewound = event.seq
            case SessionForked():
                # What was tried up to here is the parent's to find out.
                starts, inside = {}, {}
            case _:
                pass
    return Effects(seq, rewound, starts, inside)


def _stored(key: Text) -> Text:
    """A key as events hold it: a foreign id in the place of one may be of any length."""
    return seal(key)[0] if isinstance(key, str) else key


def _again(old: Effect | None, new: Effect) -> Effect:
    """An effect that is tried again: a try that may have acted is not forgotten for the new one."""
    if old is not None and old.state == UNKNOWN and old.effect == SIDE_EFFECT:
        return replace(new, effect=SIDE_EFFECT)
    return new


def _settle(
    effects: dict[Text, Effect], name: Text, state: str, seq: int, receipt: Text = ""
) -> None:
    """The run's own word: it counts whatever others believed meanwhile; the first one stands."""
    old = effects.get(name)
    if old is not None and old.state not in (DONE, FAILED):
        effects[name] = replace(old, state=state, said=seq, receipt=receipt)


def _reconcile(
    starts: dict[Text, Effect],
    inside: dict[Text, Effect],
    key: Text,
    state: str,
    seq: int,
    receipt: Text,
) -> None:
    """Another's word: it counts only while nothing is known."""
    for effects in (inside, starts):
        for name, old in effects.items():
            if _stored(old.key) == key:
                if old.state == UNKNOWN:
                    effects[name] = replace(old, state=state, said=seq, receipt=receipt)
                return

"""Offers: items that may stand in packets, until they are withdrawn or forgotten.

An item is offered once; each build weighs what does not stand in the packet yet. A session
remembers the newest of them and all that a requirement may need, so that a build costs the same
after a year.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from sawlog.builder import freshness
from sawlog.builder.facts import Offer, Sight
from sawlog.builder.state import Ref, State
from sawlog.store.event import Event
from sawlog.store.events.items import ItemOffered, ItemWithdrawn

REMEMBERED = 256
"""Optional items that a session remembers; the oldest one that no packet shows goes first."""


def offered(state: State, event: Event, content: ItemOffered) -> State:
    """The state after an item was offered."""
    required = bool(content.required_for) or content.label.retention == "required"
    one = Offer(
        event.seq,
        event.source,
        content.source_id,
        len(content.parts),
        required,
        after=state.sent_at,
        saw=tuple(
            Sight(one.path, one.version, event.seq)
            for one in content.saw
            if isinstance(one.path, str) and one.holds == freshness.UNTIL_CHANGE
        ),
    )
    offers = (*state.offers, one)
    if len(offers) > REMEMBERED:
        shown = frozenset(state.items)
        optional = [each for each in offers if not each.required and each.seq not in shown]
        if len(optional) > REMEMBERED:
            offers = tuple(each for each in offers if each is not optional[0])
    return replace(state, offers=offers)


def withdrawn(state: State, event: Event, content: ItemWithdrawn) -> State:
    """The state after a source took back what it said."""
    offers = tuple(
        replace(each, withdrawn=event.seq)
        if each.channel == content.channel and each.source_id == content.source_id
        else each
        for each in state.offers
    )
    return replace(state, offers=offers)


def rewound(state: State, to: int) -> State:
    """The state in which nothing that was offered after event `to` is a candidate."""
    return replace(state, offers=tuple(each for each in state.offers if each.seq <= to))


def shown(state: State, refs: Iterable[Ref], *, grown: bool) -> State:
    """The state in which the items among these refs stand in the packet.

    `grown`: they came behind those that stand there already. What a notice calls out of date is
    no candidate any more: should it be said again, it is another item.
    """
    refs = list(refs)
    dead = {
        value for ref in refs if ref.form == "stale" for name, value in ref.args if name == "of"
    }
    if dead:
        state = replace(state, offers=tuple(one for one in state.offers if one.seq not in dead))
    now = {ref.seq for ref in refs if ref.form == "item"} - dead
    before = state.items if grown else ()
    for one in state.offers:
        if one.seq in now:
            state = freshness.shows(state, one.seq, one.saw)
    if not (now or dead) and grown:
        return state
    return replace(state, items=tuple(sorted({*before, *now} - dead)))

"""What stands around the history: the world, items and notices, as a packet shows them.

A packet tells what is new of them behind its last result; from then on it is history like all
else. When text of theirs has left the packet, it is new again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sawlog.builder import freshness, offers, world
from sawlog.builder.state import Ref, State

FORMS = ("world", "stale", "item")
"""What is told beside the history."""


def shown(state: State, refs: Sequence[Ref], *, grown: bool) -> State:
    """The state after a packet showed these refs.

    `grown`: they came behind what stood there already; else they are the whole packet.
    """
    if grown and not any(ref.form in FORMS for ref in refs):
        return state if not state.dirty else replace(state, dirty=freshness.still_dirty(state))
    state = offers.shown(state, refs, grown=grown)
    state = replace(state, told=world.told(state, refs, grown=grown))
    if not grown:
        return freshness.rebuilt(state, refs, frozenset(state.trims))
    state = freshness.labelled(state, refs)
    return replace(state, dirty=freshness.still_dirty(state))


def news(state: State) -> list[tuple[Ref, str, str]]:
    """What the next packet tells of the world and of stale text: ref, stage and reason of each."""
    return [
        *((ref, "world", why) for ref, why in world.news(state)),
        *((ref, "freshness", why) for ref, why in freshness.news(state)),
    ]

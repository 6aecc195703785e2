"""A rewind to before the last packet: the history as it was, in a world that went on.

The conversation is that of the event rewound to, its last packet included: the next manifest may
build on that one. What is known of the world stays, for nothing that an agent did is undone by
that its history forgets it: world sections, files, instructions, tools, policy, task, inbox.

A call of the abandoned branch is no call of this one: a result that it still gets is kept aside
(a pair is shown or hidden as one). A call from before the rewind whose start or result is not shown
any more is open again, and does not pass for one that was never started.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from sawlog.builder import freshness
from sawlog.builder.facts import Offer, Sight
from sawlog.builder.state import State, Waiting
from sawlog.builder.vec import Index


def resumed(state: State, then: State) -> State:
    """The state after a rewind (its `seq` is the rewind's) to an event; `then` is the state there.

    Fields that are named here stay as they are now; all others are of the history, and as then.
    """
    merged = replace(
        then,
        seq=state.seq,
        step=state.step,
        began=state.began,
        as_of=state.as_of,
        system=state.system,
        tools=state.tools,
        policy=state.policy,
        pairing=state.pairing,
        waiting=_waiting(state.waiting, then.waiting),
        gaps=_gaps(state, then),
        cuts=(*then.cuts, "rewound"),
        open_step=0,
        attempts=0,
        unsettled=0,
        compacting=0,
        task=state.task,
        world=state.world,
        files=state.files,
        sights=_sights(state, then),
        offers=_offers(state.offers, then),
        inbox=state.inbox,
        per_mille=state.per_mille,
    )
    return freshness.rebuilt(merged, merged.sent, frozenset(merged.trims))


def _waiting(now: Iterable[Waiting], then: Iterable[Waiting]) -> tuple[Waiting, ...]:
    """The calls that waited then, with what is known of them now.

    One that does not wait any more has a result that is not shown: so it was started.
    """
    known = {call.seq: call for call in now}
    return tuple(
        replace(known[call.seq], gone=call.gone)
        if call.seq in known
        else replace(call, started=True, approval="")
        for call in then
    )


def _gaps(state: State, then: State) -> tuple[int, ...]:
    """Seqs that no run of a manifest may span.

    The rewind's own stands for all that was abandoned before it. The header stays as it is now: no
    run of system texts spans what was said between them.
    """
    gaps = {*then.gaps, state.seq}
    if then.tools[0] and then.tools != state.tools:
        gaps.add(then.tools[0])
    system = [seq for seq, _ in state.system]
    if system and system[-1] > then.seq:
        gaps.update(set(range(then.seq + 1, system[-1])) - set(system))
    return tuple(sorted(gaps))


def _sights(state: State, then: State) -> Index[int, tuple[Sight, ...]]:
    """Which files each event shows, with what was learned later of those that stand again."""
    found = dict(then.sights.items())
    for seq, sights in dict(state.sights.items()).items():
        if seq in found:
            found[seq] = tuple(dict.fromkeys((*found[seq], *sights)))
    return Index(found.items())


def _offers(now: Iterable[Offer], then: State) -> tuple[Offer, ...]:
    """What may stand in packets: what is offered still, and what stands in the packet again.

    What a notice of the abandoned branch called out of date is no candidate again but there.
    """
    known = {one.seq: one for one in now}
    return tuple(
        known.get(one.seq, one) for one in then.offers if one.seq in known or one.seq in then.items
    )

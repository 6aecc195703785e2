"""What comes of the items in one packet: which come in, what is said of others, what is missing.

What stands in the packet already stays where it was sent and takes no more room.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from sawlog.builder.candidates import (
    Known,
    Measure,
    id_of,
    seq_of,
    task_of,
    thing_of,
    units_of,
)
from sawlog.builder.contents import Contents
from sawlog.builder.facts import Offer
from sawlog.builder.selection.candidate import zone_of
from sawlog.builder.selection.measure import GIVEN
from sawlog.builder.selection.policy import Policy
from sawlog.builder.selection.verdict import Verdict as Judged
from sawlog.builder.state import Args, Ref, State
from sawlog.builder.trace import Verdict
from sawlog.builder.weighing import Weighed, weigh_all

UNBOUNDED = 2**53
"""Units that stand for a window without bound."""


class Chosen(msgspec.Struct, frozen=True):
    """What a policy made of the items: refs to append, verdicts, what is missing.

    `notices` are refs that say of items in the packet that they hold no longer. `units` is what the
    refs take; `needed` what takes that without which something is missing, and `short` how much
    of that found no room (0: all of it is in).
    """

    refs: tuple[Ref, ...] = ()
    notices: tuple[tuple[Ref, str], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    missing: tuple[str, ...] = ()
    units: int = 0
    needed: int = 0
    short: int = 0


def choose(
    state: State,
    policy: Policy,
    room: int,
    as_of: int,
    contents: Contents,
    measure: Measure,
    known: Known,
    *,
    afresh: bool = False,
) -> Chosen:
    """Weigh the items of a state for `room` units. Raises BlobMissing, InvalidItem for a task.

    Between cuts only what is new is weighed: what was offered since the last packet, or all of it
    under another task or policy, or where a cut is (`afresh`). What found no room waits for that.
    An item in the packet is weighed where it can matter: beside what is like it, for what it is
    required for, when its time is over.
    """
    wanted = task_of(state, room, as_of, contents)
    if not state.offers and not wanted.requirements and not wanted.topics:
        return Chosen()
    shown = frozenset(state.items)
    if policy.measure != GIVEN:
        # One packet has one measure: the session's, whatever the policy counts with elsewhere.
        policy = replace(policy, measure=GIVEN)
    known.read(state.offers, contents, measure)
    offers = {one.seq: one for one in state.offers if one.seq in known.items}
    weighed = weigh_all(state, policy, wanted, offers, shown, known, contents, as_of, afresh=afresh)
    return chosen_of(state, weighed, offers, shown, contents, known)


def chosen_of(
    state: State,
    weighed: Weighed,
    offers: dict[int, Offer],
    shown: frozenset[int],
    contents: Contents,
    known: Known,
) -> Chosen:
    found = weighed.found
    new = [one for one in found.selected if seq_of(one) not in shown]
    sizes: dict[int, int] = {}
    refs: list[Ref] = []
    for one in new:
        refs.extend(known.refs_of(offers[seq_of(one)], one.cut, contents))
        sizes[seq_of(one)] = one.units
    judged = {one.id: one for one in found.verdicts}
    bucket = found.required_units
    return Chosen(
        tuple(refs),
        tuple(_notices(state, weighed, judged, shown, frozenset(sizes))),
        tuple(_verdicts(state, weighed, judged, shown, known)),
        found.missing,
        sum(sizes.values()),
        bucket.needed,
        bucket.short,
    )


def _verdicts(
    state: State,
    weighed: Weighed,
    judged: dict[str, Judged],
    shown: frozenset[int],
    known: Known,
) -> Iterable[Verdict]:
    """One verdict for each item that was offered and does not stand in the packet."""
    for offer in state.offers:
        seq = offer.seq
        if seq in shown:
            continue
        if seq in known.odd:
            yield Verdict(seq, 1, "label", "dropped", known.odd[seq])
        elif seq in weighed.twins:
            note = f"kept as {id_of(weighed.twins[seq])}"
            twin = known.items[seq]
            yield Verdict(
                seq, 1, "dedup", "dropped", "duplicate", units_of(twin), (), note, zone_of(twin)
            )
        elif seq in weighed.waiting:
            yield weighed.waiting[seq]
        else:
            one = judged[id_of(seq)]
            zone = zone_of(known.items[seq])
            yield Verdict(
                seq, 1, one.stage, one.outcome, one.reason, one.units, one.scores, one.note, zone
            )


_FOLLOWED = ("superseded", "overturned")


def _notices(
    state: State,
    weighed: Weighed,
    judged: dict[str, Judged],
    shown: frozenset[int],
    coming: frozenset[int],
) -> Iterable[tuple[Ref, str]]:
    """Notices for items that stand in the packet and hold no longer, each once."""
    withdrawn = {one.seq: one.withdrawn for one in state.offers}
    by_thing: dict[tuple[str, str], list[int]] = {}
    for seq, one in weighed.items.items():
        by_thing.setdefault(thing_of(one), []).append(seq)
    for seq, one in weighed.items.items():
        verdict = judged[one.id]
        if seq not in shown or verdict.outcome != "dropped":
            continue
        kind = "withdrawn" if withdrawn[seq] else verdict.reason
        cause = withdrawn[seq] or seq
        if kind in _FOLLOWED:
            newer = [each for each in by_thing[thing_of(one)] if each != seq]
            follows = [each for each in newer if each in coming]
            cause = max(follows or newer, default=seq)
            # What is newer may have found no room: then it is not said that it follows.
            kind = kind if follows else "replaced"
        elif kind not in ("withdrawn", "expired"):
            continue
        args: Args = (("kind", kind), ("of", seq))
        yield Ref("history", cause, 1, "stale", 1, args), f"item_{kind}"

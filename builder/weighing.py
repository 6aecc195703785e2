"""Weighing: the items of a state through the policy's stages, each as it stands in this build.

What was offered and does not stand in the packet is weighed when it is new, and again at a cut.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from sawlog.builder.candidates import Known, candidate_now, thing_of, units_of
from sawlog.builder.contents import Contents
from sawlog.builder.facts import Offer
from sawlog.builder.item import RETENTION_RANK
from sawlog.builder.selection import eligibility
from sawlog.builder.selection.candidate import Candidate, zone_of
from sawlog.builder.selection.choosing import Cap
from sawlog.builder.selection.field import Field
from sawlog.builder.selection.measure import measured
from sawlog.builder.selection.policy import Policy
from sawlog.builder.selection.select import select
from sawlog.builder.selection.stages import STAGES
from sawlog.builder.selection.task import Task
from sawlog.builder.selection.verdict import Selection
from sawlog.builder.selection.walks import Budget, Coverage, Prefix
from sawlog.builder.state import State
from sawlog.builder.trace import Verdict

GATES = (
    eligibility.Sensitivity,
    eligibility.Clearance,
    eligibility.Trust,
    eligibility.Scope,
    eligibility.PathScope,
    eligibility.Validity,
    eligibility.Freshness,
)
"""Stages that need nothing but the candidate and the task; they come first in each policy."""


class Weighed(msgspec.Struct, frozen=True):
    """A selection: its candidates by seq, and offers whose text stands in the packet, by whose.

    `waiting` are the verdicts on those that were not weighed.
    """

    found: Selection
    items: dict[int, Candidate]
    twins: dict[int, int]
    waiting: dict[int, Verdict] = {}


def weigh_all(
    state: State,
    policy: Policy,
    wanted: Task,
    offers: dict[int, Offer],
    shown: frozenset[int],
    known: Known,
    contents: Contents,
    as_of: int,
    *,
    afresh: bool,
) -> Weighed:
    """Weigh what can matter of these offers; `shown` are those in the packet. See `choose`."""
    ends = known.ends
    afresh = afresh or max(state.task, state.policy) > state.sent_at
    there = {name for seq in shown if seq in offers for name in known.items[seq].required_for}
    waiting = {
        seq
        for seq, one in offers.items()
        if not (afresh or seq in shown or seq > state.sent_at)
        and not (one.required and _may_be_needed(known.items[seq], there))
    }
    among = frozenset(offers) - waiting
    matter = {
        seq
        for seq in among
        if seq not in shown
        or offers[seq].required
        or offers[seq].withdrawn
        or ends.get(seq, as_of) < as_of
    }
    if any(isinstance(use, Coverage | Prefix) for use in policy.stages):
        matter, waiting, among = set(offers), set[int](), frozenset(offers)
    weighed = weigh(state, policy, wanted, offers, matter, among, shown, known, contents)
    missing = set(weighed.found.missing)
    if missing:
        needed = {seq for seq in waiting if missing & _gives(known.items[seq])}
        if needed or len(weighed.items) + len(weighed.twins) < len(among):
            among |= needed
            matter = set(among)
            weighed = weigh(state, policy, wanted, offers, matter, among, shown, known, contents)
    out = {
        seq: candidate_now(state, offers[seq], known.items[seq], shown)
        for seq in waiting
        if seq not in weighed.items
    }
    return replace(weighed, waiting=_gated(policy, wanted, out))


def _may_be_needed(one: Candidate, there: set[str]) -> bool:
    """True for what must come in, unless the packet has evidence for all that it is evidence of."""
    return one.retention == RETENTION_RANK["required"] or not there >= set(one.required_for)


def _gives(one: Candidate) -> set[str]:
    return {*one.topics, *one.required_for}


def weigh(
    state: State,
    policy: Policy,
    wanted: Task,
    offers: dict[int, Offer],
    matter: set[int],
    among: frozenset[int],
    shown: frozenset[int],
    known: Known,
    contents: Contents,
) -> Weighed:
    """Put what may `matter`, and what is like it `among` all offers, through the stages."""
    weigh = sorted(known.with_all_like(matter, among))
    items = {seq: candidate_now(state, offers[seq], known.items[seq], shown) for seq in weigh}
    for cap in (use for use in policy.stages if isinstance(use, Cap)):
        for seq, one in items.items():
            if one.units > cap.units and one.kind in cap.kinds:
                takes = known.capped(offers[seq], cap.units, contents)
                items[seq] = replace(one, capped=takes)
    twins = _joined(items, shown)
    _in_order(items, offers)
    # What stands in the packet takes no more room, however the policy measures it.
    there = measured((one for seq, one in items.items() if seq in shown), policy.measure)
    beside = sum(one.units for one in there)
    wanted = replace(wanted, budget=wanted.budget + beside)
    if any(isinstance(use, Budget) and use.bounds for use in policy.stages):
        wanted = replace(wanted, standing=_standing(state, offers, shown, known, contents))
    found = select(policy, wanted, items.values())
    return Weighed(found, items, twins)


def _standing(
    state: State,
    offers: dict[int, Offer],
    shown: frozenset[int],
    known: Known,
    contents: Contents,
) -> tuple[tuple[str, str, int], ...]:
    """Id, zone and units of each item that stands in the packet and is not withdrawn or outdated.

    All of them count, weighed or not: who else is weighed must not decide what has room.
    """
    units = known.standing(state.sent, contents)
    there = [seq for seq in sorted(shown) if seq in units and seq in offers]
    now = [candidate_now(state, offers[seq], known.items[seq], shown) for seq in there]
    return tuple(
        (one.id, zone_of(one), units[seq])
        for seq, one in zip(there, now, strict=True)
        if not one.stale
    )


def _gated(policy: Policy, wanted: Task, items: dict[int, Candidate]) -> dict[int, Verdict]:
    """Verdicts on what waits for a cut: it does, or the gate that keeps it out anyway."""
    came = tuple(items[seq] for seq in sorted(items))
    field = Field(came, came, policy.measure, 0)
    for use in policy.stages if came else ():
        if not isinstance(use, GATES):
            break
        field = STAGES[type(use)](field, wanted, use)
    kept_out = {one.id: one for one in field.verdicts}
    verdicts: dict[int, Verdict] = {}
    for seq, one in items.items():
        gate = kept_out.get(one.id)
        stage, reason = ("budget", "waits_for_cut") if gate is None else (gate.stage, gate.reason)
        verdicts[seq] = Verdict(seq, 1, stage, "dropped", reason, units_of(one), zone=zone_of(one))
    return verdicts


def _joined(items: dict[int, Candidate], shown: frozenset[int]) -> dict[int, int]:
    """Take out what says again what stands in the packet; gives by seq whose text that is.

    The text that stands there holds from then on as what was said last: its version and time, and
    all that either is required for.
    """
    there: dict[Candidate, int] = {}
    for seq, one in items.items():
        if seq in shown and not one.stale:
            there[_bare(one)] = seq
    twins: dict[int, int] = {}
    for seq, one in list(items.items()):
        if seq in shown or one.stale:
            continue
        of = there.get(_bare(one))
        if of is None:
            continue
        twins[seq] = of
        del items[seq]
        old = items[of]
        items[of] = replace(
            old,
            version=one.version,
            updated_at=one.updated_at,
            valid_until=one.valid_until,
            required_for=tuple(sorted({*old.required_for, *one.required_for})),
            topics=tuple(sorted({*old.topics, *one.topics})),
        )
    return twins


def _bare(one: Candidate) -> Candidate:
    """A candidate without what may differ between two sayings of one thing."""
    return replace(
        one,
        id="-",
        seq=0,
        text="",
        units=0,
        in_prefix=False,
        version="",
        updated_at="",
        valid_until="",
        capped=0,
        required_for=(),
        topics=(),
        relevance=None,
    )


def _in_order(items: dict[int, Candidate], offers: dict[int, Offer]) -> None:
    """Give each its place in the order of arrival, as far as that says something.

    Of one thing the later word counts. What else was offered between two packets came together: in
    which order must not decide what is shown.
    """
    came: dict[tuple[int, tuple[str, str]], int] = {}
    for seq in sorted(items):
        one, after = items[seq], offers[seq].after
        nth = came[after, thing_of(one)] = came.get((after, thing_of(one)), 0) + 1
        items[seq] = replace(one, seq=after + nth)

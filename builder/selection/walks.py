"""Walks: how room is given to candidates, whole ones only (S0-31). Each policy has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from sawlog.builder.item import RETENTION_RANK
from sawlog.builder.selection.candidate import ZONES, Candidate, zone_of
from sawlog.builder.selection.field import Field, Use
from sawlog.builder.selection.keys import RECORDED, Key, ordered
from sawlog.builder.selection.task import Task

Zone = Literal["rules", "goal", "recent", "retrieved", "summary"]
"""The zones that a policy may bound: nothing fixed is dropped for a bound."""


class ZoneBound(msgspec.Struct, frozen=True):
    """The most that a zone takes, in units of the policy's measure."""

    zone: Zone
    units: int


class Budget(Use, frozen=True, tag="budget"):
    """Gives room to the bucket, then to the ranking; what does not fit is dropped whole.

    `required`: `chain` gives room first to what is needed (kept by retention, and the evidence that
    satisfies all requirements in the least units), then to the rest of the bucket, and stops at the
    first that does not fit, so that a larger budget never loses one; `walk` goes through the bucket
    and on to smaller ones, as published. `optional_waits`: while a
    requirement is out for want of room, nothing optional takes any. `zones`: the ranking is served
    zone by zone, within the bounds that `bounds` or the task sets on zones, whichever is less.
    `trusted_first`: and in all zones what is trusted before what is not, so that no outsider's text
    takes the room of evidence.

    A bound holds the ranking alone. The bucket counts in its zones and is never held; and where a
    bound would lose a topic that the room has a place for, the least that covers it comes in.
    """

    required: Literal["chain", "walk"] = "chain"
    optional_waits: bool = True
    zones: bool = True
    trusted_first: bool = True
    bounds: tuple[ZoneBound, ...] = ()


def budget(field: Field, task: Task, params: Budget) -> Field:
    """The field after the budget walk; `chosen` in the order in which room was given."""
    at = {one.id: one for one in field.items}
    left = field.available
    bounds = _bounds(task, params)
    spent = _standing(field, task)
    chosen: list[Candidate] = []
    losers: dict[str, str | tuple[str, str]] = {}
    stopped = False
    bucket = [at[id] for id in field.bucket]
    needed = _in_need(bucket) if params.required == "chain" else bucket
    if params.required == "chain":
        ids = {one.id for one in needed}
        bucket = [*needed, *(one for one in bucket if one.id not in ids)]
    for one in bucket:
        if stopped or one.units > left:
            losers[one.id] = "budget_exceeded"
            stopped = params.required == "chain"
            continue
        chosen.append(one)
        left -= one.units
        spent[zone_of(one)] += one.units
    in_bucket = sum(one.units for one in chosen)
    satisfied = {name for one in chosen for name in one.required_for}
    lacks = any(_needed(at[id], satisfied) for id in losers)
    must = sum(one.units for one in needed)
    short = sum(one.units for one in needed if one.id in losers) if lacks else 0
    if not lacks:
        must = min(must, in_bucket)
    optional = [at[id] for id in field.ranking]
    if params.zones:
        optional = ordered(optional, ("+zone",))
    if params.trusted_first:
        optional = ordered(optional, ("-trusted",))
    if params.optional_waits and lacks:
        losers |= dict.fromkeys((one.id for one in optional), "waits_for_required")
    else:
        room = _Room(left, spent, bounds)
        came, out = room.served(optional)
        topics = _topics(field, task) - _covered(field, chosen)
        if bounds and topics - _covered(field, came):
            free, _ = _Room(left, spent, {}).served(optional)
            wanted = topics & _covered(field, free)
            if wanted - _covered(field, came):
                able = [one for one in free if wanted & _covered(field, [one])]
                evidence = _evidence(ordered(able, ("+units",)), wanted, _topics_of)
                came, out = room.served(optional, evidence)
        chosen += came
        losers |= out
    field = field.noted(_over(chosen, _standing(field, task), bounds))
    field = _given(field.without(losers, "budget"), chosen, in_bucket)
    units = msgspec.structs.replace(field.required_units, needed=must, short=short)
    return msgspec.structs.replace(field, required_units=units)


# --- zones ----------------------------------------------------------------------------------------


class _Room(msgspec.Struct, frozen=True):
    """What room there is for optional candidates: in all, and in zones that are bounded."""

    left: int
    spent: dict[str, int]
    bounds: dict[str, int]

    def served(
        self, optional: list[Candidate], first: Iterable[Candidate] = ()
    ) -> tuple[list[Candidate], dict[str, str | tuple[str, str]]]:
        """Who gets room, in order, and why others do not; `first` is served whatever the bounds."""
        left, spent = self.left, dict(self.spent)
        came: list[Candidate] = []
        out: dict[str, str | tuple[str, str]] = {}
        ahead = {one.id for one in first}
        for one in [*first, *(each for each in optional if each.id not in ahead)]:
            zone = zone_of(one)
            # What takes nothing, such as what stands in a packet already, no bound can hold.
            over = one.units and spent[zone] + one.units > self.bounds.get(zone, left + spent[zone])
            if one.units > left:
                out[one.id] = "budget_exceeded"
            elif over and one.id not in ahead:
                out[one.id] = ("zone_exceeded", _bounded(zone, self.bounds[zone]))
            else:
                came.append(one)
                left -= one.units
                spent[zone] += one.units
        return came, out


def _bounds(task: Task, params: Budget) -> dict[str, int]:
    """The bounds in force, by zone: of two, the smaller."""
    if not params.zones:
        return {}
    found = dict(task.zones)
    for one in params.bounds:
        found[one.zone] = min(one.units, found.get(one.zone, one.units))
    return found


def _standing(field: Field, task: Task) -> dict[str, int]:
    """Units by zone that stand in the packet before anything comes in; what holds no more is out.

    So a newer version never finds its zone taken by the one whose place it takes.
    """
    gone = {one.id for one in field.verdicts if one.reason in _OVER}
    spent = dict.fromkeys(ZONES, 0)
    for id, zone, units in task.standing:
        if id not in gone:
            spent[zone] += units
    return spent


_OVER = frozenset(("superseded", "overturned", "expired"))
"""Reasons after which a text holds no more. Others keep it out of a packet, not out of its zone."""


def _bounded(zone: str, units: int) -> str:
    return f"zone {zone} is bounded to {units} units"


def _over(
    chosen: Iterable[Candidate], spent: dict[str, int], bounds: dict[str, int]
) -> dict[str, str]:
    """Notes on what came in although its zone's bound has no place for it."""
    notes: dict[str, str] = {}
    for one in chosen:
        zone = zone_of(one)
        spent[zone] += one.units
        if one.units and zone in bounds and spent[zone] > bounds[zone]:
            notes[one.id] = f"{_bounded(zone, bounds[zone])}; it is needed"
    return notes


def _topics(field: Field, task: Task) -> set[str]:
    """The topics that must be covered: all of the task's, where the policy asks for any."""
    return set[str]() if field.topics_from is None else set(task.topics)


def _covered(field: Field, chosen: Iterable[Candidate]) -> set[str]:
    """The topics that these stand for: those trusted less stand for none."""
    least = field.topics_from or 0
    return {topic for one in chosen if one.trust >= least for topic in one.topics}


# --- what is needed -------------------------------------------------------------------------------


EXACTLY = 6
"""Requirements up to which the least evidence is found by trying all ways: 64 sets of them."""


def _in_need(bucket: list[Candidate]) -> list[Candidate]:
    """What of a bucket is needed, in order: with it in, nothing is missing that all would give."""
    kept = [one for one in bucket if one.retention == RETENTION_RANK["required"]]
    there = [one for one in bucket if one not in kept and not one.units]
    rest = [one for one in bucket if one not in kept and one.units]
    have = {name for one in (*kept, *there) for name in one.required_for}
    wanted = {name for one in rest for name in one.required_for} - have
    return [*kept, *there, *_evidence(rest, wanted, _names_of)]


Gives = Callable[[Candidate], tuple[str, ...]]
"""What a candidate is evidence of, by name."""


def _names_of(one: Candidate) -> tuple[str, ...]:
    return one.required_for


def _topics_of(one: Candidate) -> tuple[str, ...]:
    return one.topics


def _evidence(evidence: list[Candidate], wanted: set[str], gives: Gives) -> list[Candidate]:
    """Evidence that gives all that is wanted, in few units."""
    ways = _least if len(wanted) <= EXACTLY else _few
    return ways(evidence, wanted, gives)


def _least(evidence: list[Candidate], wanted: set[str], gives: Gives) -> list[Candidate]:
    """The evidence that gives all that is wanted in the least units, of equals the first."""
    none: frozenset[str] = frozenset()
    ways: dict[frozenset[str], tuple[int, tuple[Candidate, ...]]] = {none: (0, ())}
    for one in evidence:
        new = wanted & set(gives(one))
        for given, (units, way) in list(ways.items()):
            both = given | new
            if both != given and (both not in ways or units + one.units < ways[both][0]):
                ways[both] = (units + one.units, (*way, one))
    return list(ways[frozenset(wanted)][1])


def _few(evidence: list[Candidate], wanted: set[str], gives: Gives) -> list[Candidate]:
    """Evidence that gives all that is wanted, none of it in vain; the first of it first."""
    taken: list[Candidate] = []
    left = set(wanted)
    for one in evidence:
        if left & set(gives(one)):
            taken.append(one)
            left -= set(gives(one))
    for one in list(taken):
        others = {name for each in taken if each is not one for name in gives(each)}
        if others >= wanted:
            taken.remove(one)
    return taken


def _needed(one: Candidate, satisfied: set[str]) -> bool:
    """True when leaving a candidate out leaves something missing."""
    return one.retention == RETENTION_RANK["required"] or not satisfied >= set(one.required_for)


def _given(field: Field, chosen: Iterable[Candidate], in_bucket: int) -> Field:
    """The field with its chosen, and what of the bucket came in."""
    return msgspec.structs.replace(
        field,
        chosen=tuple(chosen),
        required_units=msgspec.structs.replace(field.required_units, selected=in_bucket),
    )


class Prefix(Use, frozen=True, tag="prefix"):
    """Takes candidates as they arrived until one does not fit; none after it (S1-10)."""


def prefix(field: Field, task: Task, params: Prefix) -> Field:
    """The field after the prefix walk."""
    left = field.available
    chosen: list[Candidate] = []
    losers: dict[str, str] = {}
    for one in ordered(field.items, ("+seq", "+id")):
        if losers:
            losers[one.id] = "after_prefix_cut"
        elif one.units > left:
            losers[one.id] = "budget_prefix_cut"
        else:
            chosen.append(one)
            left -= one.units
    return _given(field.without(losers, "budget"), chosen, 0)


class Coverage(Use, frozen=True, tag="coverage"):
    """Takes what covers most of the task's topics that are not covered yet, while any is (S1-07).

    `order` breaks ties.
    """

    order: tuple[Key, ...] = RECORDED


def coverage(field: Field, task: Task, params: Coverage) -> Field:
    """The field after the picks; `chosen` in the order of the picks.

    What shares a topic and no longer fits is left out for `budget`, the rest is `not_required`
    (S1-08).
    """
    required = set(task.topics)
    uncovered = set(required)
    left = field.available
    rest = ordered(field.items, params.order)
    chosen: list[Candidate] = []
    while uncovered:
        fitting = [one for one in rest if one.units <= left and uncovered & set(one.topics)]
        if not fitting:
            break
        pick = max(fitting, key=lambda one: len(uncovered & set(one.topics)))  # the first of these
        chosen.append(pick)
        rest.remove(pick)
        left -= pick.units
        uncovered -= set(pick.topics)
    losers = {
        one.id: "budget" if one.units > left and required & set(one.topics) else "not_required"
        for one in rest
    }
    return _given(field.without(losers, "coverage"), chosen, 0)

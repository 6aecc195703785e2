"""Walks: how room is given to candidates, whole ones only (S0-31). Each policy has one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from sawlog.builder.item import RETENTION_RANK
from sawlog.builder.selection.candidate import ZONES, Candidate, zone_of
from sawlog.builder.selection.field import Field, Use
from sawlog.builder.selection.keys import RECORDED, Key, ordered
from sawlog.builder.selection.task import Task


class Budget(Use, frozen=True, tag="budget"):
    """Gives room to the bucket, then to the ranking; what does not fit is dropped whole.

    `required`: `chain` gives room first to what is needed (kept by retention, and the evidence that
    satisfies all requirements in the least units), then to the rest of the bucket, and stops at the
    first that does not fit, so that a larger budget never loses one; `walk` goes through the bucket
    and on to smaller ones, as published. `optional_waits`: while a
    requirement is out for want of room, nothing optional takes any. `zones`: the ranking is served
    zone by zone, within the bounds that the task sets on zones. `trusted_first`: and in all zones
    what is trusted before what is not, so that no outsider's text takes the room of evidence.
    """

    required: Literal["chain", "walk"] = "chain"
    optional_waits: bool = True
    zones: bool = True
    trusted_first: bool = True


def budget(field: Field, task: Task, params: Budget) -> Field:
    """The field after the budget walk; `chosen` in the order in which room was given."""
    at = {one.id: one for one in field.items}
    left = field.available
    spent = dict.fromkeys(ZONES, 0)
    chosen: list[Candidate] = []
    losers: dict[str, str] = {}
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
    waiting = params.optional_waits and lacks
    must = sum(one.units for one in needed)
    short = sum(one.units for one in needed if one.id in losers) if lacks else 0
    if not lacks:
        must = min(must, in_bucket)
    optional = [at[id] for id in field.ranking]
    if params.zones:
        optional = ordered(optional, ("+zone",))
    if params.trusted_first:
        optional = ordered(optional, ("-trusted",))
    bounds = dict(task.zones) if params.zones else {}
    for one in optional:
        zone = zone_of(one)
        if waiting:
            losers[one.id] = "waits_for_required"
        elif one.units > left:
            losers[one.id] = "budget_exceeded"
        elif spent[zone] + one.units > bounds.get(zone, left + spent[zone]):
            losers[one.id] = "zone_exceeded"
        else:
            chosen.append(one)
            left -= one.units
            spent[zone] += one.units
    field = _given(field.without(losers, "budget"), chosen, in_bucket)
    units = msgspec.structs.replace(field.required_units, needed=must, short=short)
    return msgspec.structs.replace(field, required_units=units)


EXACTLY = 6
"""Requirements up to which the least evidence is found by trying all ways: 64 sets of them."""


def _in_need(bucket: list[Candidate]) -> list[Candidate]:
    """What of a bucket is needed, in order: with it in, nothing is missing that all would give."""
    kept = [one for one in bucket if one.retention == RETENTION_RANK["required"]]
    there = [one for one in bucket if one not in kept and not one.units]
    rest = [one for one in bucket if one not in kept and one.units]
    have = {name for one in (*kept, *there) for name in one.required_for}
    wanted = {name for one in rest for name in one.required_for} - have
    ways = _least if len(wanted) <= EXACTLY else _few
    return [*kept, *there, *ways(rest, wanted)]


def _least(evidence: list[Candidate], wanted: set[str]) -> list[Candidate]:
    """The evidence that gives all that is wanted in the least units, of equals the first."""
    none: frozenset[str] = frozenset()
    ways: dict[frozenset[str], tuple[int, tuple[Candidate, ...]]] = {none: (0, ())}
    for one in evidence:
        gives = wanted & set(one.required_for)
        for given, (units, way) in list(ways.items()):
            both = given | gives
            if both != given and (both not in ways or units + one.units < ways[both][0]):
                ways[both] = (units + one.units, (*way, one))
    return list(ways[frozenset(wanted)][1])


def _few(evidence: list[Candidate], wanted: set[str]) -> list[Candidate]:
    """Evidence that gives all that is wanted, none of it in vain; the first of it first."""
    taken: list[Candidate] = []
    left = set(wanted)
    for one in evidence:
        if left & set(one.required_for):
            taken.append(one)
            left -= set(one.required_for)
    for one in list(taken):
        others = {name for each in taken if each is not one for name in each.required_for}
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

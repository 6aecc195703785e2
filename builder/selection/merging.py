"""Merging: one candidate for one text, the newest of a source, and what contradicts what."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Literal, TypeVar

import msgspec

from sawlog.builder.item import SENSITIVITY_RANK, Kind
from sawlog.builder.selection.candidate import Candidate, digest_of
from sawlog.builder.selection.field import Field, Use, inherited
from sawlog.builder.selection.keys import (
    RECORDED,
    Key,
    is_ordered,
    natural,
    ordered,
    published_version,
    same,
    subject,
)
from sawlog.builder.selection.task import Task

K = TypeVar("K", bound=Hashable)


def grouped(items: Iterable[Candidate], key: Callable[[Candidate], K]) -> dict[K, list[Candidate]]:
    """The candidates by a key, in the order in which they came."""
    groups: dict[K, list[Candidate]] = {}
    for one in items:
        groups.setdefault(key(one), []).append(one)
    return groups


class Dedupe(Use, frozen=True, tag="dedupe"):
    """Keeps one of each: of the same kind and text, or of the same canonical name.

    `keep_locators`: the survivor keeps the places of all, and all that they were required for,
    the strictest sensitivity and the best signals among them.
    """

    by: Literal["content", "canonical"] = "content"
    order: tuple[Key, ...] = RECORDED
    keep_locators: bool = True


def dedupe(field: Field, task: Task, params: Dedupe) -> Field:
    """The field with one survivor of each group: the first in `order` (S0-26, S0-83, S1-06)."""
    by_content = params.by == "content"
    losers: dict[str, str | tuple[str, str]] = {}
    changed: dict[str, Candidate] = {}
    notes: dict[str, str] = {}
    for group in grouped(field.items, _content if by_content else _canonical).values():
        if len(group) == 1:
            continue
        survivor, *others = ordered(group, params.order)
        for one in others:
            reason = "duplicate" if by_content else "superseded"
            losers[one.id] = (reason, f"kept as {survivor.id}") if params.keep_locators else reason
        if params.keep_locators:
            changed[survivor.id] = merged(survivor, others)
            notes[survivor.id] = f"merged {', '.join(sorted(one.id for one in others))}"
    return field.changed(changed).noted(notes).without(losers, "dedup")


def _content(one: Candidate) -> tuple[str, str]:
    return (one.kind, digest_of(one))


def _canonical(one: Candidate) -> tuple[str, str]:
    return ("", one.canonical or one.id)


def merged(one: Candidate, others: Iterable[Candidate]) -> Candidate:
    """The candidate that stands for equal ones: nothing that was recorded of them is lost.

    Authority and trust stay its own, and so does what ranks it, but for what others as trusted say
    of it: a copy raises nobody.
    """
    group = [one, *others]
    heard = [each for each in group if each.trust >= one.trust]
    given = [each.relevance for each in heard if each.relevance is not None]
    return msgspec.structs.replace(
        one,
        locators=tuple(
            sorted({place for each in group for place in (*each.locators, each.locator) if place})
        ),
        required_for=tuple(sorted({name for each in group for name in each.required_for})),
        topics=tuple(sorted({topic for each in heard for topic in each.topics})),
        retention=max(each.retention for each in group),
        sensitivity=max((each.sensitivity for each in group), key=SENSITIVITY_RANK.__getitem__),
        clearance=max(each.clearance for each in group),
        relevance=max(given) if given else None,
        in_prefix=any(each.in_prefix for each in group if each.id == one.id),
        seq=min(each.seq for each in group),
    )


class Supersession(Use, frozen=True, tag="supersession"):
    """Drops older versions of the same thing.

    `first` is what decides: `authority` (a newer version takes the place only of what has no more
    authority and no more trust; versions of no known order are left to the next stage), or
    `version` alone, as published.
    """

    first: Literal["authority", "version"] = "authority"


def supersession(field: Field, task: Task, params: Supersession) -> Field:
    """The field without superseded candidates (S0-27)."""
    if params.first == "version":
        return _published_supersession(field)
    losers: dict[str, tuple[str, str]] = {}
    heirs: dict[str, str] = {}
    for (_, source), group in grouped(field.items, _versioned).items():
        versioned = [one for one in group if is_ordered(one.version)]
        if not source or len(versioned) < 2:
            continue
        for authority, trust in {(one.authority, one.trust) for one in versioned}:
            above = ordered(
                (one for one in versioned if one.authority >= authority and one.trust >= trust),
                ("-version", *RECORDED),
            )
            newest = natural(above[0].version)
            newer = [one for one in above if natural(one.version) == newest]
            for old in versioned:
                if (old.authority, old.trust) != (authority, trust) or (
                    natural(old.version) == newest
                ):
                    continue
                losers[old.id] = ("superseded", f"by {newer[0].id}")
                same_place = [one for one in newer if subject(one) == subject(old)]
                if same_place:
                    heirs[old.id] = same_place[0].id
    return inherited(field, heirs).without(losers, "supersession")


def _versioned(one: Candidate) -> tuple[str, str]:
    """What a version is of: the source, whatever piece of it this is."""
    return (one.kind, one.canonical or one.source_id)


def _source(one: Candidate) -> tuple[str, str]:
    return (one.kind, one.source_id)


def _published_supersession(field: Field) -> Field:
    losers: dict[str, str] = {}
    settled: set[tuple[str, str]] = set()
    for name, group in grouped(field.items, _source).items():
        if len({one.version for one in group}) < 2 or not all(one.version for one in group):
            continue
        settled.add(name)
        newest = max(published_version(one) for one in group)
        for one in group:
            if published_version(one) != newest:
                losers[one.id] = "superseded"
    return msgspec.structs.replace(
        field.without(losers, "supersession"), settled=frozenset(settled)
    )


class Conflict(Use, frozen=True, tag="conflict"):
    """Settles what contradicts, by kind.

    `declared`: instructions and tool schemas have a winner where one stands out in what is
    recorded; where none does, instructions all stay and are marked, and tool schemas all go.
    `published`: as in chapter 5, for groups that supersession did not touch; ids break ties.
    """

    by: Literal["declared", "published"] = "declared"


_PUBLISHED_ORDER: tuple[Key, ...] = (
    "-authority",
    "-published_depth",
    "-trust",
    "-retention",
    "-id",
)
_RULES: tuple[Key, ...] = ("-authority", "-depth", "-trust", "-retention", "-version", "-seq")
_TOOLS: tuple[Key, ...] = ("-trust", "-retention")


def conflict(field: Field, task: Task, params: Conflict) -> Field:
    """The field after conflicts (S0-28): losers dropped, what stays beside another marked."""
    published = params.by == "published"
    losers: dict[str, str | tuple[str, str]] = {}
    visible: list[str] = []
    for name, group in grouped(field.items, _source if published else subject).items():
        if len(group) < 2 or not name[1] or name in field.settled:
            continue
        winners = _winners(group, published)
        if len(winners) > 1:
            visible.extend(one.id for one in winners)
        kept = {one.id for one in winners}
        to = f"to {winners[0].id}" if winners and not published else ""
        losers.update((one.id, ("conflict_lost", to)) for one in group if one.id not in kept)
    return field.without(losers, "conflict").marked(visible, "conflict_visible")


def _winners(group: list[Candidate], published: bool) -> list[Candidate]:
    kind = group[0].kind
    if kind == Kind.INSTRUCTION:
        order = _PUBLISHED_ORDER if published else _RULES
        first, *_ = ordered(group, order)
        return [one for one in group if same(one, first, order)]
    if kind == Kind.TOOL_SCHEMA:
        if published:
            return []
        first, second, *_ = ordered(group, _TOOLS)
        return [] if same(first, second, _TOOLS) else [first]
    return group

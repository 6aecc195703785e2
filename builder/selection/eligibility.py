"""Eligibility: hard gates, before anything is ranked. A gate does not weigh, it drops."""

from __future__ import annotations

from typing import Literal

from sawlog.builder.item import TRUST_RANK, Kind
from sawlog.builder.selection.candidate import FILE_CHANGE, Candidate, digest_of
from sawlog.builder.selection.field import Field, TrustName, Use, inherited
from sawlog.builder.selection.keys import (
    RECORDED,
    covers,
    governed,
    instant,
    ordered,
    place,
    subject,
)
from sawlog.builder.selection.published import rule_prefix
from sawlog.builder.selection.task import Task
from sawlog.store.errors import InvalidItem


class Sensitivity(Use, frozen=True, tag="sensitivity"):
    """Drops what the task does not allow, and what is `never` allowed, whatever the task says."""

    never: tuple[str, ...] = ("secret",)


def sensitivity(field: Field, task: Task, params: Sensitivity) -> Field:
    """The field without sensitive candidates, even required ones (S0-23)."""
    allowed = set(task.allowed_sensitivities) - set(params.never)
    losers = {one.id: "sensitive" for one in field.items if one.sensitivity not in allowed}
    return field.without(losers, "sensitivity")


class Clearance(Use, frozen=True, tag="clearance"):
    """Drops what needs a higher level than the task has."""


def clearance(field: Field, task: Task, params: Clearance) -> Field:
    """The field without candidates above the task's clearance (S1-05)."""
    losers = {one.id: "clearance" for one in field.items if one.clearance > task.clearance}
    return field.without(losers, "clearance")


class Trust(Use, frozen=True, tag="trust"):
    """Drops what is trusted less than `minimum`."""

    minimum: TrustName = "trusted_source"


def trust(field: Field, task: Task, params: Trust) -> Field:
    """The field without untrusted candidates (S1-05)."""
    least = TRUST_RANK[params.minimum]
    losers = {one.id: "untrusted" for one in field.items if one.trust < least}
    return field.without(losers, "trust")


class Scope(Use, frozen=True, tag="scope"):
    """Drops what belongs to another tenant, repository or task."""


def scope(field: Field, task: Task, params: Scope) -> Field:
    """The field without what is out of scope, by exact equality (S0-24).

    A candidate that names no tenant, repository or task is of any.
    """
    losers = {
        one.id: "out_of_scope"
        for one in field.items
        if one.tenant not in ("", task.tenant)
        or one.repository not in ("", task.repository)
        or one.task_id not in ("", task.task_id)
    }
    return field.without(losers, "scope")


class PathScope(Use, frozen=True, tag="path_scope"):
    """Drops what holds for another directory than the target's.

    `declared`: every kind, by the directory that it says it holds for. `published`: instructions
    only, by their path, as chapter 5 computes it.
    """

    by: Literal["declared", "published"] = "declared"


def path_scope(field: Field, task: Task, params: PathScope) -> Field:
    """The field without what does not cover the target (S0-25); no path applies everywhere."""
    published = params.by == "published"
    target = task.target_path
    target = target.replace("\\", "/").strip("/") if published else place(target)

    def applies(one: Candidate) -> bool:
        if published:
            return one.kind != Kind.INSTRUCTION or covers(rule_prefix(one.path), target)
        return covers(governed(one.scope_path), target)

    losers = {one.id: "out_of_scope" for one in field.items if not applies(one)}
    return field.without(losers, "scope")


class Validity(Use, frozen=True, tag="validity"):
    """Drops what is valid no longer at the task's `as_of`."""


def validity(field: Field, task: Task, params: Validity) -> Field:
    """The field without expired candidates (S1-05); valid on its last day.

    A time that cannot be read is dropped as `unreadable_validity`: it could be any. Raises
    InvalidItem (`as_of_required`) when there is something to compare and nothing to compare with.
    """
    losers: dict[str, str] = {}
    for one in field.items:
        if not one.valid_until:
            continue
        until = instant(one.valid_until, end=True)
        if until is None:
            losers[one.id] = "unreadable_validity"
        elif until < _now(task):
            losers[one.id] = "expired"
    return field.without(losers, "validity")


def _now(task: Task) -> int:
    now = instant(task.as_of)
    if now is None:
        raise InvalidItem(
            "as_of_required",
            f"some candidates end at a time, and as_of is {task.as_of!r}: give a date "
            "(2026-07-29) or microseconds UTC",
        )
    return now


class Freshness(Use, frozen=True, tag="freshness"):
    """Drops what is known not to hold: said so, a file changed, its time ran out, overturned."""


def freshness(field: Field, task: Task, params: Freshness) -> Field:
    """The field without stale candidates (S3-06) and without overturned observations (S3-08).

    What should hold until a file changes, and saw a file that the workspace does not name, stays
    with the note `unchecked`: the fold marks what changed, and a map of files is one more check.
    """
    now = dict(task.workspace)
    losers: dict[str, str] = {}
    notes: dict[str, str] = {}
    for one in field.items:
        if one.stale or _file_changed(one, now):
            losers[one.id] = "stale"
        elif one.ttl == FILE_CHANGE:
            if any(path not in now for path, _ in _seen(one)) or not _seen(one):
                notes[one.id] = "unchecked"
        elif one.ttl:
            age = instant(one.ttl)
            since = instant(one.updated_at)
            if age is None or since is None:
                losers[one.id] = "unreadable_validity"
            elif since + age < _now(task):
                losers[one.id] = "stale"
    return _overturned(field.without(losers, "freshness").noted(notes))


def _seen(one: Candidate) -> tuple[tuple[str, str], ...]:
    if one.seen:
        return one.seen
    return ((one.path, one.version),) if one.path and one.version else ()


def _file_changed(one: Candidate, now: dict[str, str]) -> bool:
    return one.ttl == FILE_CHANGE and any(
        now.get(path, version) != version for path, version in _seen(one)
    )


def _overturned(field: Field) -> Field:
    """The field with the latest observation of each thing.

    What is trusted less overturns nothing. Two of the same moment both stay: conflict sees them.
    The one that overturns stands for what the other was required for.
    """
    groups: dict[str, list[Candidate]] = {}
    for one in field.items:
        kind, name = subject(one)
        if kind == Kind.OBSERVATION and name:
            groups.setdefault(name, []).append(one)
    losers: dict[str, tuple[str, str]] = {}
    heirs: dict[str, str] = {}
    for group in groups.values():
        moments = _moments(group)
        for trust in {one.trust for one in group}:
            trusted = [one for one in group if one.trust >= trust]
            heir = ordered(trusted, RECORDED)[0]
            for one in trusted:
                if moments[one.id] > moments[heir.id]:
                    heir = one
            for old in group:
                if old.trust != trust or digest_of(old) == digest_of(heir):
                    continue  # told again is not overturned
                if moments[heir.id] > moments[old.id]:
                    losers[old.id] = ("overturned", f"stale: overturned by {heir.id}")
                    heirs[old.id] = heir.id
    return inherited(field, heirs).without(losers, "freshness")


def _moments(group: list[Candidate]) -> dict[str, tuple[int, int]]:
    """When each was observed: by its time where all have one, else by order of arrival alone."""
    times = [instant(one.updated_at) for one in group]
    if None in times:
        return {one.id: (0, one.seq) for one in group}
    return {one.id: (at or 0, one.seq) for one, at in zip(group, times, strict=True)}

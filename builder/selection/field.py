"""The field: what stages hand on. Candidates still in, verdicts so far, marks and notes.

A stage is a pure function (field, task, its parameters) -> field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from sawlog.builder.selection.candidate import Candidate
from sawlog.builder.selection.verdict import RequiredUnits, Scores, Verdict
from sawlog.store.events.base import Named

TrustName = Literal["hostile", "unknown", "unverified", "trusted_source", "verified"]


class Use(msgspec.Struct, frozen=True, tag_field="stage"):
    """A stage in a policy: its name is the tag, its parameters are the fields.

    A default never changes once released: it is left out of the policy's text.
    """


class Field(msgspec.Struct, frozen=True):
    """The state of a selection between two stages.

    `came` is everything, `items` what is still in. `settled` names groups that supersession took
    care of. `bucket` and `ranking` are ids in the order in which room is given; `chosen` is what
    got it, in order, None before that. `topics_from` is the trust from which a candidate stands
    for a topic, None where the policy asks for no topics.
    """

    came: tuple[Candidate, ...]
    items: tuple[Candidate, ...]
    measure: Named
    available: int
    topics_from: int | None = None
    verdicts: tuple[Verdict, ...] = ()
    marks: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    scores: tuple[tuple[str, Scores], ...] = ()
    settled: frozenset[tuple[str, str]] = frozenset()
    bucket: tuple[str, ...] = ()
    ranking: tuple[str, ...] = ()
    chosen: tuple[Candidate, ...] | None = None
    required_units: RequiredUnits = RequiredUnits()
    missing: tuple[str, ...] = ()

    def without(self, losers: Mapping[str, str | tuple[str, str]], stage: str) -> Field:
        """The field without those ids, each with its verdict: a reason, or reason and note."""
        if not losers:
            return self
        notes, scores = dict(self.notes), dict(self.scores)
        verdicts = list(self.verdicts)
        kept: list[Candidate] = []
        for item in self.items:
            given = losers.get(item.id)
            if given is None:
                kept.append(item)
                continue
            reason, note = (given, "") if isinstance(given, str) else given
            verdicts.append(
                Verdict(
                    item.id,
                    stage,
                    "dropped",
                    reason,
                    0 if item.is_secret else item.units,
                    scores.get(item.id, ()),
                    joined(notes.get(item.id, ""), note),
                )
            )
        return msgspec.structs.replace(self, items=tuple(kept), verdicts=tuple(verdicts))

    def noted(self, notes: Mapping[str, str]) -> Field:
        """The field with these notes added to what is already told of those ids."""
        if not notes:
            return self
        told = dict(self.notes)
        for id, note in notes.items():
            told[id] = joined(told.get(id, ""), note)
        return msgspec.structs.replace(self, notes=tuple(sorted(told.items())))

    def marked(self, ids: Iterable[str], mark: str) -> Field:
        """The field with a mark on those ids."""
        marks = {*self.marks, *((id, mark) for id in ids)}
        return msgspec.structs.replace(self, marks=tuple(sorted(marks)))

    def changed(self, items: Mapping[str, Candidate]) -> Field:
        """The field with those candidates in their new form."""
        if not items:
            return self
        return msgspec.structs.replace(
            self, items=tuple(items.get(item.id, item) for item in self.items)
        )


def joined(*notes: str) -> str:
    """Notes in one line."""
    return "; ".join(note for note in notes if note)


def inherited(field: Field, heirs: Mapping[str, str]) -> Field:
    """The field in which each heir stands for what the ones before it were required for.

    `heirs` leads from the id of the one that goes to the id of the one that takes its place; so a
    requirement is not lost to a newer text of the same thing.
    """
    at = {item.id: item for item in field.items}
    names: dict[str, set[str]] = {}
    for gone, heir in heirs.items():
        new = set(at[gone].required_for) - set(at[heir].required_for)
        if new:
            names.setdefault(heir, set()).update(new)
    changed = {
        heir: msgspec.structs.replace(
            at[heir], required_for=tuple(sorted({*at[heir].required_for, *new}))
        )
        for heir, new in names.items()
    }
    notes = {
        heir: f"stands for {', '.join(sorted(gone for gone, by in heirs.items() if by == heir))}"
        for heir in names
    }
    return field.changed(changed).noted(notes)

"""A case: what goes into a build, and what a good answer to it is."""

from __future__ import annotations

import msgspec

from sawlog.builder.item import ContextItem
from sawlog.builder.selection.task import Task


class Contract(msgspec.Struct, frozen=True):
    """What must come of a conflict: items that are selected, and reasons by item id."""

    must_select: tuple[str, ...] = ()
    must_have_reason: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.must_select or self.must_have_reason)


class Goal(msgspec.Struct, frozen=True):
    """A good answer: a kind of decision and, for a tool, its name and the arguments it needs."""

    kind: str = "tool"
    tool: str | None = None
    arguments: tuple[str, ...] = ()


class Signals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one build knew of a candidate beside its item; a lab's own texts have none of it.

    `units` is what it took there (None: its policy measures it). The rest is as in
    `builder.selection.candidate`.
    """

    title: str = ""
    locator: str = ""
    canonical: str = ""
    topics: tuple[str, ...] = ()
    updated_at: str | None = None
    valid_until: str = ""
    relevance: int | None = None
    role: str = ""
    stale: str = ""
    units: int | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One build and its known answer.

    `irrelevant` are ids of items that should stay out. `gateway` is `chapter5` (the lab's) or
    `strict` (the one for real sessions); the grader of safety goes by the same one. `signals` are
    those of the items, in their order, where they were recorded.
    """

    experiment: str
    variant: str
    items: tuple[ContextItem, ...]
    task: Task
    goal: Goal
    irrelevant: tuple[str, ...] = ()
    contract: Contract = Contract()
    gateway: str = "chapter5"
    signals: tuple[Signals, ...] = ()

    @property
    def is_measured(self) -> bool:
        """True when the candidates bring their units: the budget is in these for every policy."""
        return any(one.units is not None for one in self.signals)

    @property
    def run_id(self) -> str:
        """The run that the ids of its calls are made from."""
        return f"{self.experiment}-{self.variant}"

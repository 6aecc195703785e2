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


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One build and its known answer.

    `irrelevant` are ids of items that should stay out. `gateway` is `chapter5` (the lab's) or
    `strict` (the one for real sessions); the grader of safety goes by the same one.
    """

    experiment: str
    variant: str
    items: tuple[ContextItem, ...]
    task: Task
    goal: Goal
    irrelevant: tuple[str, ...] = ()
    contract: Contract = Contract()
    gateway: str = "chapter5"

    @property
    def run_id(self) -> str:
        """The run that the ids of its calls are made from."""
        return f"{self.experiment}-{self.variant}"

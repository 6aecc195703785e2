"""The task: what one build is for. It comes from the harness, never from a loaded text."""

from __future__ import annotations

import msgspec

from sawlog.builder.item import Kind, Sensitivity
from sawlog.builder.selection.candidate import ZONES
from sawlog.store.errors import InvalidItem, Refused, quoted

SECTION_ORDER = (
    Kind.INSTRUCTION.value,
    Kind.TASK.value,
    Kind.FACT.value,
    Kind.ARTIFACT.value,
    Kind.OBSERVATION.value,
    Kind.TOOL_SCHEMA.value,
)
"""The published order of sections, used when a task names none."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What one build is for, and what it may spend.

    `budget` is the window in units of the policy's measure; `fixed` of it is taken by what stands
    in every packet and `reserve` is kept for the reply (S3-02). `requirements` and `topics` must
    be satisfied by what is selected. `as_of` is a date or microseconds UTC. `workspace` says which
    files are in which version now. `zones` bounds zones in units; a zone without one may take
    all that is left. `standing` is what stands in the packet already and counts in its zone
    whatever is chosen: (id, zone, units). Raises InvalidItem: `negative_budget`,
    `duplicate_section_kind`, …
    """

    budget: int
    fixed: int = 0
    reserve: int = 0
    repository: str = ""
    target_path: str = ""
    task_id: str = ""
    tenant: str = ""
    provider_boundary: str = "external-model"
    allowed_sensitivities: tuple[str, ...] = (
        Sensitivity.INTERNAL.value,
        Sensitivity.PUBLIC.value,
    )
    clearance: int = 0
    as_of: str = ""
    requirements: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    phase: str = ""
    section_order: tuple[str, ...] = ()
    zones: tuple[tuple[str, int], ...] = ()
    standing: tuple[tuple[str, str, int], ...] = ()
    workspace: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for name, units in (
            ("budget", self.budget),
            ("fixed", self.fixed),
            ("reserve", self.reserve),
            *self.zones,
        ):
            if units < 0:
                raise InvalidItem("negative_budget", f"{name} is {units} units: give 0 or more")
        if len(set(self.section_order)) != len(self.section_order):
            raise InvalidItem(
                "duplicate_section_kind", f"a kind stands twice in {list(self.section_order)}"
            )
        names = [zone for zone, _ in self.zones]
        if len(set(names)) != len(names) or not set(names) <= set(ZONES):
            raise InvalidItem(
                "unknown_zone", f"zones are {', '.join(ZONES)}, each once, not {names}"
            )
        unknown = sorted(set(self.allowed_sensitivities) - set(Sensitivity))
        if unknown:
            raise InvalidItem(
                "unknown_sensitivity", f"there is no sensitivity {quoted(unknown[0])}"
            )
        paths = [path for path, _ in self.workspace]
        if len(set(paths)) != len(paths):
            raise InvalidItem("duplicate_path", "a file of the workspace has two versions")

    @property
    def available(self) -> int:
        """Units for candidates. Raises Refused (`cannot_fit`) when fixed and reserve leave none."""
        left = self.budget - self.fixed - self.reserve
        if left < 0:
            raise Refused(
                "cannot_fit",
                f"the candidates' budget is negative: {self.fixed} units are fixed and "
                f"{self.reserve} kept for the reply, of a window of {self.budget}; "
                "nothing fixed is dropped for it",
                (f"a window of at least {self.fixed + self.reserve} units",),
            )
        return left

    @property
    def order(self) -> tuple[str, ...]:
        """The order of sections: the task's, else the published one."""
        return self.section_order or SECTION_ORDER

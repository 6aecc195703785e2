"""Verdicts: what became of each candidate, where and why. Never a text."""

from __future__ import annotations

import msgspec

from sawlog.builder.selection.candidate import Candidate

Scores = tuple[tuple[str, int], ...]


class Verdict(msgspec.Struct, frozen=True):
    """The final word on one candidate.

    `outcome` is `selected`, `selected_as_data` (shown, and nothing in it is an instruction) or
    `dropped`. `units` is what it takes or would have taken; 0 for a secret. `scores` are the
    signals that ranked it, in the order in which they were compared. `note` tells what else was
    done to it: cut, merged, inherited; ids and numbers only.
    """

    id: str
    stage: str
    outcome: str
    reason: str
    units: int
    scores: Scores = ()
    note: str = ""


class RequiredUnits(msgspec.Struct, frozen=True):
    """The three numbers that must not be one `required budget` (S0-37).

    `selected`: of the bucket, what came in. `all`: the bucket before the budget. `evidence`: of
    all items that a requirement names. Beside them, what a budget found: `needed`, what of the
    bucket leaves something missing when it is out, and `short`, how much of that found no room.
    """

    selected: int = 0
    all: int = 0
    evidence: int = 0
    needed: int = 0
    short: int = 0


class Selection(msgspec.Struct, frozen=True):
    """What a policy chose: in order, with one verdict for each candidate, sorted by id.

    `missing` are the requirements and topics that nothing selected satisfies, sorted. `marks`
    are pairs of id and mark (`conflict_visible`). `zones` are units spent in each zone.
    """

    selected: tuple[Candidate, ...]
    verdicts: tuple[Verdict, ...]
    missing: tuple[str, ...]
    units_used: int
    required_units: RequiredUnits
    marks: tuple[tuple[str, str], ...] = ()
    zones: tuple[tuple[str, int], ...] = ()

    def verdict(self, id: str) -> Verdict:
        """The verdict on the candidate of that id. Raises KeyError when there was none."""
        for verdict in self.verdicts:
            if verdict.id == id:
                return verdict
        raise KeyError(id)

"""The trace: one verdict per candidate of a packet, and what broke the prefix. Never a text.

It is not stored: the same log and the same rules give it again.
"""

from __future__ import annotations

import msgspec


class Verdict(msgspec.Struct, frozen=True):
    """What became of one candidate.

    `stage` is `pairing`, `history`, `world`, `freshness`, `budget` or `render`, or a stage of the
    policy for items; `outcome` is `selected`, `selected_as_data` or `dropped`; `reason` names the
    rule; `units` is what it takes or would have taken. `scores` are the signals that an item was
    ranked by, `note` what else was done to it, `zone` where it counts: an item's own, and else
    empty, for the history. `seq` and `part` name the
    event's part (seq 0: an entry that no event stands behind).
    """

    seq: int
    part: int
    stage: str
    outcome: str
    reason: str
    units: int = 0
    scores: tuple[tuple[str, int], ...] = ()
    note: str = ""
    zone: str = ""


class Break(msgspec.Struct, frozen=True):
    """Why what was sent does not stay as it was: the cause, and what it costs.

    `kept` and `lost` count entries of the packet before; `units` are those of the lost ones, and
    `bound` the bound items among them and among those that stay but go out no more.
    """

    cause: str
    kept: int
    lost: int
    units: int
    bound: int = 0


class Trace(msgspec.Struct, frozen=True):
    """One packet's verdicts: `kept` entries stay as sent, the rest has one verdict each.

    Where the prefix breaks or another model reads it, what is left out of the kept ones has one,
    too.
    """

    kept: int
    verdicts: tuple[Verdict, ...]
    breaks: tuple[Break, ...] = ()

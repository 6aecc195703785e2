"""Policies: which entries a packet has. Named and numbered; a packet's name says which one chose.

`default@1`: the header, then the whole history; when the history zone overflows, a cut in a block
(law 13: between cuts nothing earlier moves).
`as-recorded@1`: the header, then the whole history with the cuts that the log itself holds; no
budget and no cut of its own. It rebuilds what a foreign file shows.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sawlog.builder.packet import Entry
from sawlog.builder.state import Ref, State
from sawlog.store.errors import UnknownNumber
from sawlog.store.events.base import Named

DEFAULT = Named("default", 1)
AS_RECORDED = Named("as-recorded", 1)


class Rules(msgspec.Struct, frozen=True):
    """What decides a packet beside the log: policy, measure and the window in its units.

    `window` 0 means no bound; `reserve` is kept for the reply.
    """

    policy: Named = DEFAULT
    measure: Named = Named("utf8-quarter", 1)
    window: int = 0
    reserve: int = 0

    @property
    def budgeted(self) -> bool:
        """True when the policy cuts history that does not fit."""
        if self.policy == DEFAULT:
            return self.window > 0
        if self.policy == AS_RECORDED:
            return False
        raise UnknownNumber(f"the policy {self.policy} is not installed")


def header_refs(state: State) -> list[Ref]:
    """The entries of the header: system text, then tools."""
    refs = [Ref("system", seq, part) for seq, parts in state.system for part in range(1, parts + 1)]
    seq, tools = state.tools
    refs.extend(Ref("tools", seq, part) for part in range(1, tools + 1))
    return refs


def opens_unit(entry: Entry) -> bool:
    """True when a cut may fall in front of this history entry: it begins a unit.

    A unit is a reply with its calls and their results, or one other message.
    """
    return entry.first and entry.role != "result"


CUT_TO = (3, 5)
"""A block cut leaves at most this share of the history zone: 60 %."""


class Cut(msgspec.Struct, frozen=True):
    """Where the history begins after a block cut: `at`, the place of the first entry that stays."""

    at: int
    dropped: int


class CannotFit(msgspec.Struct, frozen=True):
    """Nothing can be cut so that the packet fits; all figures in units."""

    fixed: int
    reserve: int
    window: int
    last: int


def block_cut(
    history: Sequence[Entry], units: Sequence[int], fixed: int, notice: int, rules: Rules
) -> Cut | CannotFit | None:
    """The cut that a history needs; None when it fits as it is.

    `units` are those of each history entry; `fixed` those of the header; `notice` what the notice
    of the cut may take, which stands in front of what is left and counts with it.
    """
    zone = rules.window - rules.reserve - fixed
    total = sum(units)
    if total <= zone:
        return None
    left = total + notice
    last_border: int | None = None
    last_left = 0
    for at, entry in enumerate(history):
        if opens_unit(entry) and entry.kind != "notice":
            last_border, last_left = at, left
            if at and left * CUT_TO[1] <= zone * CUT_TO[0]:
                break
        left -= units[at]
    if not last_border or last_left > zone:
        last = total if not last_border else last_left - notice
        return CannotFit(fixed, rules.reserve, rules.window, last)
    return Cut(last_border, sum(1 for entry in history[:last_border] if entry.first))

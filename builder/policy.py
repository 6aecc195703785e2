"""Policies: which entries a packet has. Named and numbered; a packet's name says which one chose.

`default@1`: the header, then the whole history; when the history zone overflows, a cut in a block
(law 13: between cuts nothing earlier moves).
`default@2`: the same, and around the history what is new of the world, notices of text that is out
of date, and the items that its stages select. Any other name is a caller's policy with stages of
its own over the same history.
`as-recorded@1`: the header, then the whole history with the cuts that the log itself holds; no
budget and no cut of its own. It rebuilds what a foreign file shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from sawlog.builder.compacted import checkpoint_refs
from sawlog.builder.packet import Entry
from sawlog.builder.state import Ref, State
from sawlog.store.events.base import Named
from sawlog.store.events.steps import DEFAULT_PAIRING

if TYPE_CHECKING:
    # Reading a log does not load the stages that write one.
    from sawlog.builder.selection.policy import Policy

DEFAULT = Named("default", 2)
HISTORY_ALONE = Named("default", 1)
AS_RECORDED = Named("as-recorded", 1)


class Rules(msgspec.Struct, frozen=True):
    """What decides a packet beside the log: policy, measure and the window in its units.

    `window` 0 means no bound; `reserve` is kept for the reply. `stages` are those of a policy that
    no release brings. `pairing` names the rules by which calls and results are paired.
    """

    policy: Named = DEFAULT
    measure: Named = Named("utf8-quarter", 1)
    window: int = 0
    reserve: int = 0
    stages: Policy | None = None
    pairing: Named = DEFAULT_PAIRING

    @property
    def budgeted(self) -> bool:
        """True when the policy cuts history that does not fit."""
        return self.policy != AS_RECORDED and self.window > 0

    @property
    def selection(self) -> Policy | None:
        """The stages that weigh items; None for a policy that shows the history alone.

        Raises UnknownNumber for a policy that is not installed.
        """
        if self.policy in (AS_RECORDED, HISTORY_ALONE):
            return None
        if self.stages is not None:
            return self.stages
        from sawlog.builder.selection.policy import policy_of

        return policy_of(self.policy.name, self.policy.number)

    def calibrated(self, per_mille: int) -> Rules:
        """The rules with window and reserve in units, of which a thousand are `per_mille` tokens.

        A policy that shows the history alone takes the two for one.
        """
        if self.selection is None or per_mille == 1000:
            return self
        window, reserve = (units * 1000 // per_mille for units in (self.window, self.reserve))
        return msgspec.structs.replace(
            self, window=max(1, window) if self.window else 0, reserve=reserve
        )


def rules_for(
    policy: str | Policy | None, window: int = 0, reserve: int = 0, pairing: str = "default"
) -> Rules:
    """Rules under a policy: a built-in one by its name (None: the default), or a document.

    Raises UnknownNumber when there is none of that name.
    """
    pairs = DEFAULT_PAIRING if pairing == DEFAULT_PAIRING.name else Named(pairing)
    rules = Rules(window=window, reserve=reserve, pairing=pairs)
    if policy is None or policy == DEFAULT.name:
        return rules
    if not isinstance(policy, str):
        return msgspec.structs.replace(rules, policy=policy.named, stages=policy)
    from sawlog.builder.selection.policy import policy_of

    return msgspec.structs.replace(rules, policy=policy_of(policy).named)


def header_refs(state: State) -> list[Ref]:
    """The entries in front of the history: system text, tools, the newest checkpoint."""
    refs = [Ref("system", seq, part) for seq, parts in state.system for part in range(1, parts + 1)]
    seq, tools = state.tools
    refs.extend(Ref("tools", seq, part) for part in range(1, tools + 1))
    if state.checkpoint:
        refs.extend(checkpoint_refs(state.checkpoint, state.blocks))
    return refs


def opens_unit(entry: Entry) -> bool:
    """True when a cut may fall in front of this history entry: it begins a unit.

    A unit is a reply with its calls and their results, or one other message.
    """
    return entry.first and entry.role != "result"


def _within_units(history: Sequence[Entry]) -> set[int]:
    """Places that would part a call from its result, or a reply from its calls.

    Only pairing `codex` gives any: results where they arrived, a synthetic one within a reply.
    """
    last_result = [0] * len(history)
    open_calls: dict[str, list[int]] = {}
    for at, entry in enumerate(history):
        if entry.kind == "call":
            open_calls.setdefault(entry.call_id, []).append(at)
        elif entry.role == "result" and entry.first and open_calls.get(entry.call_id):
            last_result[open_calls[entry.call_id].pop()] = at
    inner: set[int] = set()
    reach = step = 0
    for at, entry in enumerate(history):
        within = entry.authority == "assistant" and step and entry.step == step
        if within or at < reach:
            inner.add(at)
        reach = max(reach, last_result[at])
        step = entry.step if entry.kind == "result" else 0
    return inner


_BESIDE = frozenset(("notice", "world", "goal"))
"""What stands behind the history of a step and is no reason to cut in front of it."""


def borders(history: Sequence[Entry], items: frozenset[int] = frozenset()) -> list[int]:
    """The places of a history where a unit begins, and a cut may fall.

    `items` are the places of entries that came in beside it: they stay with what they stand behind.
    """
    inner = _within_units(history) | items
    return [
        at
        for at, entry in enumerate(history)
        if opens_unit(entry) and entry.kind not in _BESIDE and at not in inner
    ]


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
    history: Sequence[Entry],
    units: Sequence[int],
    fixed: int,
    notice: int,
    rules: Rules,
    items: frozenset[int] = frozenset(),
    *,
    deepest: bool = False,
) -> Cut | CannotFit | None:
    """The cut that a history needs; None when it fits as it is.

    `units` are those of each history entry; `fixed` those of the header; `notice` what the notice
    of the cut may take, which stands in front of what is left and counts with it. `items` are the
    places of entries that came in beside the history: they stay with what they stand behind.
    `deepest` cuts at the last border, whatever fits.
    """
    zone = rules.window - rules.reserve - fixed
    total = sum(units)
    if total <= zone and not deepest:
        return None
    left = total + notice
    last_border: int | None = None
    last_left = before = 0
    for at in borders(history, items):
        left -= sum(units[before:at])
        last_border, last_left, before = at, left, at
        if at and left * CUT_TO[1] <= zone * CUT_TO[0] and not deepest:
            break
    if not last_border or (last_left > zone and not deepest):
        last = total if not last_border else last_left - notice
        return CannotFit(fixed, rules.reserve, rules.window, last)
    return Cut(last_border, sum(1 for entry in history[:last_border] if entry.first))

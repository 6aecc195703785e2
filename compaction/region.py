"""Which part of a history gives way: up to a border, but for what goes on being shown.

Instructions of the operator are never in a region. Messages of the user stay newest first within a
budget (CONTRACTS S3-17). A call whose result may still come is never in one (CASES 32).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sawlog.builder.contents import Contents
from sawlog.builder.packet import Entry
from sawlog.builder.state import Ref
from sawlog.compaction.history import History, digest_of
from sawlog.store.events.conversation import MessageSystem, MessageUser

KEEP = (2, 5)
"""Of a budget, what the newest history may go on taking: 40 %."""

KEEP_USER = (1, 5)
"""Of a budget, what older messages of the user may go on taking: 20 %."""


class Region(msgspec.Struct, frozen=True):
    """The entries that give way, in packet order, and what goes on.

    `through` is the highest seq among them; `kept` are the seqs at or before it that go on being
    shown. `units` is what the region takes, `stays` what the rest of the history does, `fixed` what
    stands in front of it. `at` is the border.
    """

    through: int
    kept: tuple[int, ...]
    refs: tuple[Ref, ...]
    entries: tuple[Entry, ...]
    units: int
    stays: int
    fixed: int
    at: int

    @property
    def digest(self) -> str:
        """The hex SHA-256 over the entries as packets show them."""
        return digest_of(self.entries)


class CannotCompact(msgspec.Struct, frozen=True):
    """Why no region can give way.

    `code` is `nothing_to_cut` (no border has anything in front of it that may go), `open_call` (all
    that could go belongs to a call whose result may still come) or `no_progress` (the checkpoint
    would take as much). `fixed`, `history` and `last` are units: in front of the history, of all of
    it, of what stands behind the last border.
    """

    code: str
    message: str
    fixed: int
    history: int
    last: int


def legal_borders(history: History) -> list[int]:
    """The places up to which a region may reach."""
    return [at for at in (*history.borders, len(history.refs)) if 0 < at <= history.open_from]


def region_places(history: History, through: int, kept: Sequence[int]) -> list[int]:
    """The places of the entries that a compaction of that range takes away."""
    stay = frozenset(kept)
    return [
        place
        for place, ref in enumerate(history.refs)
        if ref.seq <= through and ref.seq not in stay
    ]


def choose(
    history: History,
    contents: Contents,
    budget: int = 0,
    *,
    at: int | None = None,
    keep_user: int | None = None,
) -> Region | CannotCompact:
    """The region that leaves at most the newest 40 % of the budget, or all but the last unit.

    `budget` is in units, 0: as little as can be. `at` names the border instead. `keep_user` is what
    older messages of the user may take, in units (None: 20 % of the budget, 2,000 without one).
    """
    legal = legal_borders(history)
    inner = [place for place in legal if place < len(history.refs)]
    last = sum(history.units[history.borders[-1] :]) if history.borders else history.total

    def cannot(code: str, message: str) -> CannotCompact:
        return CannotCompact(code, message, history.head_units, history.total, last)

    if at is not None and at not in legal:
        return cannot("nothing_to_cut", f"place {at} is no border: {legal[:20]} are")
    if at is None:
        if not inner:
            if history.borders and history.open_from < len(history.refs):
                return cannot(
                    "open_call",
                    "the history begins with a call whose result may still come: finish or resolve "
                    "it first",
                )
            return cannot(
                "nothing_to_cut",
                f"the history is one unit of {history.total} units, which is never parted; "
                f"{history.head_units} more are fixed",
            )
        at = _border(history, inner, budget)
    if keep_user is None:
        keep_user = budget * KEEP_USER[0] // KEEP_USER[1] if budget else 2_000
    stays = _staying(history, contents, at, keep_user)
    left = {ref.seq for place, ref in enumerate(history.refs) if place >= at or place in stays}
    through = max((ref.seq for ref in history.refs[:at] if ref.seq not in left), default=0)
    if not through:
        return cannot(
            "nothing_to_cut",
            "all in front of the border goes on being shown, so nothing gives way: a smaller "
            "budget, or less room for the user's messages (keep_user), leaves less of it",
        )
    kept = tuple(sorted(seq for seq in left if 0 < seq <= through))
    gone = region_places(history, through, kept)
    units = sum(history.units[place] for place in gone)
    return Region(
        through,
        kept,
        tuple(history.refs[place] for place in gone),
        tuple(history.entries[place] for place in gone),
        units,
        history.total - units,
        history.head_units,
        at,
    )


def _border(history: History, inner: list[int], budget: int) -> int:
    most = budget * KEEP[0] // KEEP[1]
    left = history.total
    at = 0
    for place in inner:
        left -= sum(history.units[at:place])
        at = place
        if budget and left <= most:
            break
    return at


def _staying(history: History, contents: Contents, at: int, room: int) -> frozenset[int]:
    """Places in front of the border that go on being shown: whole messages."""
    stays: set[int] = set()
    message: list[int] = []
    full = False
    for place in range(at - 1, -1, -1):
        message.append(place)
        if not history.entries[place].first:
            continue
        ref = history.refs[place]
        if ref.form in ("full", "preview") and ref.seq:
            event = contents.event(ref.seq)
            if isinstance(event.content, MessageSystem):
                stays.update(message)
            elif isinstance(event.content, MessageUser) and not full:
                is_users = event.source == "user" and not event.content.once
                units = sum(history.units[one] for one in message)
                if is_users and units <= room:
                    room -= units
                    stays.update(message)
                elif is_users:
                    full = True  # older ones would stand there without what came after them
        message = []
    return frozenset(stays)

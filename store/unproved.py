"""Events read for their content alone: what packets show, and what is searched.

Nothing of the chain is worked out here, which costs more than reading does. What is read so is as
sound as its row, or as its pack, which has a checksum; whoever must know that it is what was
written reads `rows.event_of`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sawlog.store import dictionaries, packs, rows
from sawlog.store.database import Transaction
from sawlog.store.dictionary import Kept
from sawlog.store.envelope import Unproved
from sawlog.store.pack import Wanted

_STEPS = "SELECT e.step FROM sawlog.events e WHERE e.sid = ? AND e.seq BETWEEN ? AND ?"

_MANY = 64
"""Events from which on it pays to look into the packs first: most old ones are there."""


def between(
    tx: Transaction,
    kept: Kept,
    sid: int,
    first: int,
    last: int,
    session: bytes,
    wanted: Wanted | None = None,
) -> list[Unproved]:
    """Those of a range of a session's own events whose type and version is wanted, in order.

    Raises Damaged where any of the range is missing.
    """
    found = tx.all(rows.RANGE, (sid, first, last))
    packed: list[Unproved] = []
    upto = first - 1
    shelf = packs.shelf_of(tx.shelf)
    if len(found) != last - first + 1 and shelf is not None:
        packed, upto = shelf.contents(tx, sid, first, last, wanted)
    rows.check_whole(found, upto + 1, last, session)
    dictionary = dictionaries.of_rows(tx, kept, sid, found)
    for row in found:
        if wanted is None or wanted(row[2], row[3]):
            packed.append(rows.content_of(row, session, dictionary))
        else:
            rows.check(row, session)
    return packed


def newest_step(tx: Transaction, sid: int, first: int, last: int) -> int | None:
    """The largest step among a range of a session's own events; None unless all have sound rows."""
    steps = [step for (step,) in tx.all(_STEPS, (sid, first, last)) if isinstance(step, int)]
    return max(steps) if len(steps) == last - first + 1 else None


def among(
    tx: Transaction, kept: Kept, sid: int, seqs: Sequence[int], session: bytes
) -> list[Unproved]:
    """The events of those seqs that a session has itself, in no order. Raises Damaged."""
    out: list[Unproved] = []
    shelf = packs.shelf_of(tx.shelf)
    left = seqs
    if shelf is not None and len(left) > _MANY:
        out = shelf.contents_among(tx, sid, left)
        left = _without(left, out)
    found = tx.among(rows.AMONG, (sid,), left)
    dictionary = dictionaries.of_rows(tx, kept, sid, found)
    some = [rows.content_of(row, session, dictionary) for row in found]
    if shelf is not None and len(some) < len(left) <= _MANY:
        some += shelf.contents_among(tx, sid, _without(left, some))
    return out + some


def _without(seqs: Sequence[int], found: Sequence[Unproved]) -> list[int]:
    there = {each.seq for each in found}
    return [seq for seq in seqs if seq not in there]

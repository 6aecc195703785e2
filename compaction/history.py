"""The history as the next packet would show it, and where it may be parted.

Borders are those of the builder's block cut: in front of a unit, never inside one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from sawlog.builder.arrange import Arrangement
from sawlog.builder.assembly import Assembly
from sawlog.builder.build import trimmed
from sawlog.builder.contents import Contents
from sawlog.builder.measure import measure_of
from sawlog.builder.packet import Entry, entry_bytes
from sawlog.builder.policy import borders, header_refs
from sawlog.builder.state import Ref, State
from sawlog.store.events.base import Named


class History(msgspec.Struct, frozen=True):
    """What a packet built now would show: `head` in front of the history, then its entries.

    `refs`, `entries` and `units` are parallel. `borders` are the places among them where a unit
    begins, the first one included; `open_from` is the first place that belongs to a unit with a
    call whose result may still take its place (the number of entries: none is).
    """

    head: tuple[Entry, ...]
    head_units: int
    refs: tuple[Ref, ...]
    entries: tuple[Entry, ...]
    units: tuple[int, ...]
    borders: tuple[int, ...]
    open_from: int

    @property
    def total(self) -> int:
        """Units of all entries of the history."""
        return sum(self.units)


def history_of(state: State, measure: Named, contents: Contents) -> History:
    """The history of a state. Raises BlobMissing."""
    head = header_refs(state)
    refs = [ref for ref in state.sent if ref.section == "history"]
    if "trimmed" in state.cuts:
        refs = trimmed(refs, frozenset(state.trims))
    settled = len(refs)
    starts: list[int] = []
    for unit in Arrangement().entries(state):
        starts.append(len(refs))
        refs.extend(unit)
    assembly = Assembly(measure_of(measure))
    assembly.extend([*head, *refs], contents)
    at = len(head)
    entries = assembly.entries.between(at, len(assembly.entries))
    items = frozenset(place for place, ref in enumerate(refs) if ref.form == "item")
    open_calls = {call.seq for call in state.waiting if not call.gone}
    open_from = len(refs)
    for place in range(settled, len(refs)):
        if refs[place].seq in open_calls:
            open_from = max((start for start in starts if start <= place), default=settled)
            break
    return History(
        tuple(assembly.entries.between(0, at)),
        sum(assembly.units.between(0, at)),
        tuple(refs),
        tuple(entries),
        tuple(assembly.units.between(at, len(assembly.units))),
        tuple(borders(entries, items)),
        open_from,
    )


def digest_of(entries: Sequence[Entry]) -> str:
    """The hex SHA-256 over entries as packets show them, for the region of a compaction."""
    hasher = hashlib.sha256(b"sawlog/1 region")
    for entry in entries:
        hasher.update(entry_bytes(entry))
    return hasher.hexdigest()

"""What items take where they stand in a packet, in the form in which they were sent.

Read once for as long as the packet only grows, so that a step costs what is new.
"""

from __future__ import annotations

from collections.abc import Mapping

from sawlog.builder.contents import Contents
from sawlog.builder.forms import show
from sawlog.builder.measure import Measure
from sawlog.builder.state import Ref
from sawlog.builder.vec import Vec


class Standing:
    """Units of the items among the entries that were read last, by seq; nothing in it is truth."""

    def __init__(self) -> None:
        self._read: Vec[Ref] = Vec()
        self._units: dict[int, int] = {}

    def units(self, sent: Vec[Ref], contents: Contents, measure: Measure) -> Mapping[int, int]:
        """Units by seq of each item among these entries; an item counts with all its parts.

        Raises BlobMissing.
        """
        if not sent.grew_from(self._read):
            self._read, self._units = Vec(), {}
        new = [
            (ref.seq, measure(show(ref, contents, None)))
            for ref in sent.between(len(self._read), len(sent))
            if ref.form == "item"
        ]
        self._read = sent
        for seq, units in new:
            self._units[seq] = self._units.get(seq, 0) + units
        return self._units

"""A packet while it grows: entries, units, the running digest and the rendering.

A cache over pure functions: a packet that keeps what was sent costs what is new, and any other
one is made afresh with the same result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from sawlog.builder.contents import Contents
from sawlog.builder.forms import show
from sawlog.builder.measure import Measure
from sawlog.builder.packet import (
    Binding,
    Entry,
    Header,
    Request,
    entry_bytes,
    missing_entry,
)
from sawlog.builder.profiles import Profile
from sawlog.builder.render import Rendering, start
from sawlog.builder.state import Ref
from sawlog.builder.vec import Vec


class Assembly:
    """Entries in packet order with what is computed from them, growing at the end."""

    def __init__(self, measure: Measure | None = None) -> None:
        """Without a measure nothing is counted, and all units are 0."""
        self.refs: Vec[Ref] = Vec()
        self.entries: Vec[Entry] = Vec()
        self.units: Vec[int] = Vec()
        self.total = 0
        self._measure = measure
        self._hasher = hashlib.sha256(b"sawlog/1 packet")
        self._rendering: Rendering | None = None
        self._rendered = 0
        self._under: tuple[Header, tuple[tuple[str, str], ...], str] | None = None

    def extend(self, refs: Sequence[Ref], contents: Contents) -> None:
        """Add entries. Raises BlobMissing, having changed nothing."""
        before = self.entries[-1] if self.entries else None
        entries: list[Entry] = []
        for ref in refs:
            before = show(ref, contents, before)
            entries.append(before)
        measure = self._measure
        units = [measure(entry) for entry in entries] if measure else [0] * len(entries)
        self._hasher.update(b"".join(map(entry_bytes, entries)))
        self.refs = self.refs.extend(list(refs))
        self.entries = self.entries.extend(entries)
        self.units = self.units.extend(units)
        self.total += sum(units)

    def semantic(self, missing: Sequence[str]) -> str:
        """`semantic_packet_digest` of what is there, in hex."""
        hasher = self._hasher.copy()
        for name in missing:
            hasher.update(entry_bytes(missing_entry(name)))
        return hasher.hexdigest()

    def request(
        self,
        header: Header,
        headers: tuple[tuple[str, str], ...],
        profile: Profile,
        bindings: Callable[[int], Binding | None],
        *,
        prefixed: bool = True,
    ) -> Request:
        """The request of what is there. Rendering goes on where it stopped under this header.

        `prefixed` as for `render.start`, for a rendering that begins here.
        """
        under = (header, headers, profile.text)
        if self._rendering is None or self._under != under:
            self._rendering = start(header, profile, bindings, headers=headers, prefixed=prefixed)
            self._rendered = 0
            self._under = under
        self._rendering.bindings = bindings
        if self._rendered < len(self.entries):
            self._rendering.add(self.entries.between(self._rendered, len(self.entries)))
            self._rendered = len(self.entries)
        return self._rendering.request()

"""What stands in the place of entries that stay behind a cut: themselves, a stub, or nothing."""

from __future__ import annotations

import msgspec

from sawlog.builder import freshness
from sawlog.builder.contents import Contents
from sawlog.builder.state import Ref, State
from sawlog.store.events.conversation import MessageSystem, MessageUser, ToolFinished
from sawlog.store.events.world import ObservationRecorded


class Behind(msgspec.Struct, frozen=True):
    """What stands in the place of an entry that stays behind a cut.

    Text of a file that is out of date gives way to a stub or to nothing; items that hold no longer
    and what was meant for one step only to nothing; and so do notices and texts of the world, for
    what is true of them now is told behind the cut.
    """

    paths: dict[int, str]
    items: frozenset[int]
    sent_at: int
    contents: Contents

    @classmethod
    def of(cls, state: State, contents: Contents) -> Behind:
        """As a state asks for it."""
        alive = frozenset(state.items)
        return cls(freshness.stale_paths(state), alive, state.sent_at, contents)

    def __call__(self, ref: Ref) -> tuple[Ref | None, str]:
        """What stands in its place, and why if that is not the entry itself."""
        if ref.section != "history":
            return ref, ""
        if ref.form in ("world", "stale", "missing"):
            return None, "told_anew"
        path = self.paths.get(ref.seq)
        if ref.form == "item":
            return (ref, "") if path is None and ref.seq in self.items else (None, "outdated")
        if ref.form == "late":
            return (ref, "") if path is None else (None, "outdated")
        if ref.form not in ("full", "preview"):
            return ref, ""
        content = self.contents.event(ref.seq).content
        if path is not None and isinstance(content, ToolFinished | ObservationRecorded):
            if ref.part > 1:
                return None, "outdated"
            return Ref("history", ref.seq, 1, "outdated", 1, (("path", path),)), "outdated"
        if isinstance(content, MessageUser | MessageSystem | ObservationRecorded):
            if content.once and ref.seq <= self.sent_at:
                return None, "once"
        return ref, ""

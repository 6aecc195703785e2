"""What made items hold no longer: which event, in whose words."""

from __future__ import annotations

from collections.abc import Collection

from sawlog.audit.findings import Ended
from sawlog.builder import freshness
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.state import Ref, State
from sawlog.store.event import Event
from sawlog.store.events.items import ItemOffered, ItemWithdrawn
from sawlog.store.text import BlobMissing

STAGES = {
    "withdrawn": "freshness",
    "file_changed": "freshness",
    "overturned": "freshness",
    "expired": "validity",
    "superseded": "supersession",
    "replaced": "supersession",
}
"""Where each kind of end keeps an item out."""


class Endings:
    """The ends of some items, followed event by event: the first one of each counts."""

    def __init__(self, seqs: Collection[int], contents: Contents) -> None:
        self._seqs = frozenset(seqs)
        self._contents = contents
        self._told: dict[int, Ended] = {}
        self._taken: dict[int, int] = {}

    def see(self, event: Event, after: State) -> None:
        """Follow the session by one event; `after` is the state with it."""
        if isinstance(event.content, ItemWithdrawn):
            for one in after.offers:
                if one.withdrawn == event.seq and one.seq in self._seqs:
                    self._taken.setdefault(one.seq, event.seq)

    def shows(self, refs: Collection[Ref]) -> None:
        """Follow the notices of a packet: an item that one names is no candidate any more."""
        for ref in refs:
            args = dict(ref.args) if ref.form == "stale" else {}
            of = args.get("of")
            if isinstance(of, int) and of in self._seqs and of not in self._told:
                self._told[of] = self._ended(str(args["kind"]), ref.seq if ref.seq != of else 0)

    def told(self, seq: int) -> Ended | None:
        """What a packet said of the item; None while none did."""
        return self._told.get(seq)

    def of(self, seq: int, reason: str, before: State) -> Ended | None:
        """What ended the item that the policy drops for `reason`, in the state that it weighed."""
        if reason == "expired":
            return Ended("expired")
        if reason != "stale":
            return None
        if seq in self._taken:
            return self._ended("withdrawn", self._taken[seq])
        offer = next((one for one in before.offers if one.seq == seq), None)
        for sight in offer.saw if offer is not None else ():
            file = before.files.get(sight.path)
            if file is not None and freshness.is_outdated(before, (sight,)):
                source = self._contents.event(file.seq).source if file.seq else ""
                return Ended("file_changed", file.seq, source, sight.path)
        return None

    def _ended(self, kind: str, seq: int) -> Ended:
        if not seq:
            return Ended(kind)
        event = self._contents.event(seq)
        content = event.content
        told = ""
        try:
            if isinstance(content, ItemWithdrawn):
                told = text_of(content.reason, self._contents)
            elif isinstance(content, ItemOffered):
                told = text_of(content.version, self._contents)
        except BlobMissing:
            pass  # the event is named all the same
        return Ended(kind, seq, event.source, told)

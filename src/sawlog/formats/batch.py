"""The events of one foreign record, as an importer makes them one after the other."""

from __future__ import annotations

import msgspec

from sawlog.formats.base import ForeignEvent, ForeignRecord
from sawlog.formats.media import Blobs
from sawlog.formats.tally import Tally
from sawlog.store.events.base import Payload, Record
from sawlog.store.ids import foreign_id


class Batch:
    """Collects the events of one record: each carries the record, its id and its time.

    `last` is the id of the session's newest event before the batch (empty: there is none) and
    follows what is added.
    """

    def __init__(
        self, source_id: str, record: Record, occurred_at: int, tally: Tally, last: bytes
    ) -> None:
        self.record = record
        self.last = last
        self.events: list[ForeignEvent] = []
        self._source_id = source_id
        self._occurred_at = occurred_at
        self._tally = tally

    def add(
        self,
        payload: Payload,
        *,
        step: int = 0,
        blobs: Blobs = (),
        copy: bool = False,
        ignorable: bool = False,
        rewind_to: bytes | None = None,
        occurred_at: int | None = None,
    ) -> bytes:
        """Add an event and give its id.

        `copy`: its calls and results are no new ones. `occurred_at`: when it happened, where that
        is not the record's time.
        """
        event = ForeignEvent(
            payload=msgspec.structs.replace(payload, record=self.record),
            id=foreign_id(self._source_id, str(self.record.position), str(len(self.events))),
            step=step,
            occurred_at=self._occurred_at if occurred_at is None else occurred_at,
            ignorable=ignorable,
            rewind_to=rewind_to,
            blobs=blobs,
        )
        self.events.append(event)
        self._tally.add(payload, copy=copy)
        self.last = event.id
        return event.id

    def done(self) -> ForeignRecord:
        """The record with its events."""
        self._tally.records += 1
        return ForeignRecord(self.record.position, self.record.digest, tuple(self.events))

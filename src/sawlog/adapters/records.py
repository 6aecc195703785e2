"""Records that a framework gives to keep, and the events that they are appended as."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec.structs import replace

from sawlog.formats.media import Blobs
from sawlog.formats.pairs import Pairs
from sawlog.store.envelope import Blob, NewEvent
from sawlog.store.events.base import Payload, Record
from sawlog.store.events.conversation import ToolFinished, ToolRequested
from sawlog.store.events.lifecycle import ForeignRecord
from sawlog.store.events.steps import StepCompleted
from sawlog.store.text import raw_bytes
from sawlog.work.session import Session


class Said(msgspec.Struct, frozen=True):
    """One event of a record. `reply`: the model said it, so it belongs to a step."""

    payload: Payload
    reply: bool = False
    blobs: Blobs = ()
    ignorable: bool = False


class Entry(msgspec.Struct, frozen=True):
    """A record to be kept: its source, and what it says, in order (nothing: kept for itself).

    `kind` names a record that says nothing. `ends`: the reply that it is part of ends with it,
    though another may follow at once.
    """

    source: str
    said: tuple[Said, ...] = ()
    kind: str = ""
    ends: bool = False


class Batch:
    """The events of records that are added together; `position` is that of the first."""

    def __init__(self, session: Session, format: str, position: int, pairs: Pairs) -> None:
        self.events: list[NewEvent] = []
        self._session = session
        self._format = format
        self._position = position
        self._pairs = pairs
        self._step = session.state.step
        self._open = False
        # What the end of the step belongs to: the newest record that the model said.
        self._last: Record | None = None

    def entry(self, entry: Entry) -> None:
        """Add one record."""
        raw = raw_bytes(entry.source)
        digest = hashlib.sha256(raw).hexdigest()
        record = Record(self._format, self._position, digest, entry.source)
        self._position += 1
        said = entry.said or (Said(ForeignRecord(kind=entry.kind), ignorable=True),)
        first = True
        for one in said:
            if not one.reply and not one.ignorable:
                self.end()
            # The source stands in the log once, with the record's first event.
            own = record if first else replace(record, line="")
            self._add(one, own)
            first = False
        if entry.ends:
            self.end()

    def end(self) -> None:
        """The model's reply is over: its items are given whole, so nothing adds to it."""
        if self._open and self._last is not None:
            end = replace(StepCompleted(reconstructed=True), record=self._last)
            self.events.append(self._new(end, self._step, ()))
        self._open = False

    def _add(self, one: Said, record: Record) -> None:
        payload = one.payload
        step = 0
        if one.reply:
            if not self._open:
                self._open = True
                self._step += 1
            step = self._step
            self._last = replace(record, line="")
        elif isinstance(payload, ToolFinished):
            payload, step, _ = self._pairs.answered(payload)
        new = self._new(replace(payload, record=record), step, one.blobs)
        if one.ignorable:
            new = replace(new, ignorable=True)
        if isinstance(payload, ToolRequested) and new.id is not None:
            self._pairs.asked(str(payload.call_id), new.id, step)
        self.events.append(new)

    def _new(self, payload: Payload, step: int, blobs: Blobs) -> NewEvent:
        made = [Blob(hashlib.sha256(data).digest(), data, media) for data, media in blobs]
        source = f"adapter:{self._format}"
        return self._session.new(payload, source, step=step, blobs=made)

"""Counts what a foreign file holds while its events are made."""

from __future__ import annotations

from collections import Counter

from sawlog.formats.base import Counts
from sawlog.store.content import BoundPart, Part, RawPart
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.world import ObservationRecorded
from sawlog.store.text import Text


class Tally:
    """The running counts of one session.

    A call is unanswered when its file has fewer results than calls under its id, wherever they
    stand; a result is an orphan when its file has no call under its id.
    """

    def __init__(self, anomalies: list[str]) -> None:
        self.records = 0
        self.events = 0
        self.steps = 0
        self.anomalies = anomalies
        self._opaque = 0
        self._calls: Counter[Text] = Counter()
        self._results: Counter[Text] = Counter()

    def add(self, payload: Payload, *, copy: bool = False) -> None:
        """Count one event. The calls and results that a compaction repeats are no new ones."""
        self.events += 1
        match payload:
            case ToolRequested() if not copy:
                self._calls[payload.call_id] += 1
            case ToolFinished():
                if not copy and not payload.external:
                    self._results[payload.call_id] += 1
                self._opaque += sum(map(_is_opaque, payload.parts))
            case MessageUser() | MessageSystem() | MessageAssistant() | ObservationRecorded():
                self._opaque += sum(map(_is_opaque, payload.parts))
            case _:
                pass

    def counts(self) -> Counts:
        """The counts of the file as read so far."""
        return Counts(
            records=self.records,
            events=self.events,
            steps=self.steps,
            calls=self._calls.total(),
            unanswered=(self._calls - self._results).total(),
            orphans=sum(n for id, n in self._results.items() if id not in self._calls),
            opaque=self._opaque,
            anomalies=tuple(self.anomalies),
        )


def _is_opaque(part: Part) -> bool:
    if isinstance(part, BoundPart):
        return not part.text
    return isinstance(part, RawPart) and '"encrypted_content"' in str(part.source)

"""Records of a Claude Code transcript: their kinds, their events in the making."""

from __future__ import annotations

from typing import Any

from sawlog.formats.batch import Batch
from sawlog.formats.lines import Line
from sawlog.formats.tally import Tally
from sawlog.formats.times import moment
from sawlog.formats.values import as_object
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.events import lifecycle
from sawlog.store.events.base import Record

FORMAT = "claude-code"


class Making(Batch):
    """The events of one record in the making; `time` is the record's, UNKNOWN_TIME without one."""

    def __init__(self, source_id: str, line: Line, tally: Tally, last: bytes) -> None:
        record = Record(format=FORMAT, position=line.position, digest=line.digest, line=line.text)
        self.time = UNKNOWN_TIME if line.value is None else moment(line.value.get("timestamp"))
        self.position = line.position
        super().__init__(source_id, record, self.time, tally, last)

    def foreign(self, kind: str) -> None:
        """Keep the record as one that the model did not see, or not as the file has it."""
        self.add(lifecycle.ForeignRecord(kind=kind), ignorable=True)


def kind_of(value: dict[str, Any]) -> str:
    """The type of a record, and its subtype where it has one: `progress/hook_progress`."""
    kind = value.get("type")
    if not isinstance(kind, str):
        return "unknown"
    for sub in (
        value.get("subtype"),
        as_object(value.get("data")).get("type"),
        as_object(value.get("attachment")).get("type"),
        value.get("operation"),
    ):
        if isinstance(sub, str):
            return f"{kind}/{sub}"
    return kind

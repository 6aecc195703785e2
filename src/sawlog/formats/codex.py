"""Reads Codex rollouts: JSON lines in envelopes, and the bare lines of the first releases.

Response items are the history that the model saw, in the order of the file; everything else is
kept as a foreign record. A step is what the model wrote up to the next result or input; its end
is an event of the record that shows it, so a longer file only adds. Nothing here looks ahead.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, cast

from sawlog.formats.base import ForeignRecord, ForeignSession
from sawlog.formats.batch import Batch
from sawlog.formats.codex_compaction import Shown, compact, rolled_back, shown
from sawlog.formats.codex_envelope import (
    envelope,
    identity,
    is_ours,
    meta_id,
    parent,
    payload_field,
    payload_source,
    session_id,
)
from sawlog.formats.codex_items import API, INPUT, REPLY, RESULT, is_abort, item_of, tools_of
from sawlog.formats.lines import BOUNDS, Bounds, Line, Lines
from sawlog.formats.pairs import Pairs
from sawlog.formats.tally import Tally
from sawlog.formats.times import moment
from sawlog.store.content import BoundPart, TextPart
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import UnknownFormat
from sawlog.store.events import lifecycle
from sawlog.store.events.base import Record
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import HistoryRewound1
from sawlog.store.events.steps import StepAbandoned, StepCompleted, StepFailed
from sawlog.store.events.world import ToolsChanged

FORMAT = "codex"

_FIRST = 100
"""Records among which the one that names the session is looked for."""


def sniff(path: Path, bounds: Bounds = BOUNDS) -> bool:
    """True when the first records of a file are those of a Codex rollout."""
    try:
        return any(is_ours(line) for line in islice(Lines(path, bounds), 20))
    except UnknownFormat:
        return False


def read(path: Path, bounds: Bounds = BOUNDS) -> list[ForeignSession]:
    """The one session of a rollout.

    Raises UnknownFormat when the file is none, TooLarge past a bound.
    """
    lines = Lines(path, bounds)
    stream = iter(lines)
    first: list[Line] = []
    for line in stream:
        first.append(line)
        if session_id(line) or len(first) >= _FIRST:
            break
    if not any(map(is_ours, first)):
        raise UnknownFormat(
            f"{path} is no Codex rollout: none of its first records is one", path=str(path)
        )
    rollout = Rollout(identity(path, first), lines.anomalies)
    records = [rollout.record(line) for line in first]
    records.extend(rollout.record(line) for line in stream)
    return [rollout.session(records)]


class Rollout:
    """A rollout as read so far: records in, their events out.

    `anomalies` is the list that its reader writes to; what is odd about records joins it.
    """

    def __init__(self, source_id: str, anomalies: list[str]) -> None:
        self.source_id = source_id
        self.tally = Tally(anomalies)
        self._window = 0
        self._model = ""
        self._parent = ""
        self._instructions: str | None = None
        self._tools = ""
        self._last = b""
        self._surface: list[Shown] = []
        self._pairs = Pairs()
        # The step that runs: only reasoning came of it so far; the turn was broken off, or failed.
        self._open = False
        self._replied_at = UNKNOWN_TIME
        self._only_reasoning = False
        self._aborted = False
        self._failed = ""
        self._ordinal = -1
        self._repeated = 0

    def session(self, records: list[ForeignRecord]) -> ForeignSession:
        """The session, once its file is read to the end."""
        if self._repeated:
            self.tally.anomalies.append(
                f"{self._repeated} ordinals do not grow; the order of the file was kept"
            )
        return ForeignSession(
            format=FORMAT,
            source_id=self.source_id,
            name=f"codex-{self.source_id}",
            api=API,
            window=self._window,
            parent=self._parent,
            records=records,
            counts=self.tally.counts(),
        )

    def record(self, line: Line) -> ForeignRecord:
        """The record of one line, with its events."""
        value = line.value or {}
        batch = Batch(
            self.source_id,
            Record(FORMAT, line.position, line.digest, line.text),
            _time(line),
            self.tally,
            self._last,
        )
        self._note_ordinal(value.get("ordinal"))
        kind, payload = envelope(value)
        if line.value is None:
            _keep(batch, "unreadable")
        elif kind == "session_meta":
            self._meta(batch, line, payload)
        elif kind == "response_item":
            self._item(batch, line, payload)
        elif kind == "compacted":
            self._compacted(batch, line, payload)
        elif kind == "event_msg":
            self._event(batch, payload, line)
        else:
            if kind == "turn_context" and isinstance(payload.get("model"), str):
                self._model = payload["model"]
            _keep(batch, kind)
        self._last = batch.last
        return batch.done()

    def _note_ordinal(self, ordinal: object) -> None:
        if isinstance(ordinal, int):
            self._repeated += ordinal <= self._ordinal
            self._ordinal = ordinal

    def _odd(self, line: Line, what: str) -> None:
        self.tally.anomalies.append(f"line {line.number}: {what}")

    # --- steps ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._open:
            self._open = True
            self._only_reasoning = True
            self.tally.steps += 1

    def _end(self, batch: Batch, *, aborted: bool = False) -> None:
        # Called by the record that shows that the model had ended. What was broken off has a
        # reply all the same when a message or a call of it was recorded.
        if self._open:
            step = self.tally.steps
            if self._only_reasoning and (aborted or self._aborted):
                batch.add(StepAbandoned(reason="interrupted", reconstructed=True), step=step)
            elif self._only_reasoning and self._failed:
                batch.add(StepFailed(reason=self._failed, reconstructed=True), step=step)
            else:
                # It ended when its last item came, not when the record was written that shows it.
                end = StepCompleted(reconstructed=True)
                batch.add(end, step=step, occurred_at=self._replied_at)
        self._open = False
        self._aborted = False
        self._failed = ""

    # --- records ----------------------------------------------------------------------------------

    def _meta(self, batch: Batch, line: Line, meta: dict[str, Any]) -> None:
        if meta_id(meta) not in ("", self.source_id):
            _keep(batch, "session_meta of another session")
            return
        self._parent = self._parent or parent(meta)
        base = meta.get("base_instructions")
        text = cast(dict[str, Any], base).get("text") if isinstance(base, dict) else base
        tools = payload_field(line, "dynamic_tools")
        if isinstance(text, str) and text and text != self._instructions:
            self._end(batch)
            self._instructions = text
            batch.add(MessageSystem(parts=(TextPart(text),)))
        if tools is not None and tools not in ("null", "[]", self._tools):
            try:
                declared = tools_of(tools)
            except (ValueError, KeyError):
                self._odd(line, "dynamic tools that do not read, kept with the record")
            else:
                self._end(batch)
                self._tools = tools
                batch.add(ToolsChanged(tools=declared))
        if not batch.events:
            _keep(batch, "session_meta")

    def _item(self, batch: Batch, line: Line, value: dict[str, Any]) -> None:
        source = payload_source(line)
        item = item_of(value, source, model=self._model)
        if item is None:
            kind = value.get("type")
            if kind != "compaction_trigger":
                self._odd(line, f"a response item of an unknown kind ({kind}), kept as it is")
            _keep(batch, f"response_item/{kind}")
            return
        if item.odd:
            self._odd(line, item.odd)
        payload = item.payload
        step = 0
        if item.place == REPLY:
            self._begin()
            step = self.tally.steps
            self._replied_at = _time(line)
            self._only_reasoning = self._only_reasoning and _is_reasoning(payload)
        elif item.place in (INPUT, RESULT):
            self._end(batch, aborted=is_abort(payload))
            if isinstance(payload, ToolFinished):
                payload, step, odd = self._pairs.answered(payload)
                if odd:
                    self._odd(line, odd)
        elif self._open:
            step = self.tally.steps
        before, place = batch.last, self.tally.events
        id = batch.add(payload, step=step, blobs=item.blobs)
        if isinstance(payload, ToolRequested):
            self._pairs.asked(str(payload.call_id), id, step)
        self._surface.append(shown(item, source, id, before, place))

    def _compacted(self, batch: Batch, line: Line, value: dict[str, Any]) -> None:
        self._end(batch)
        place = self.tally.events - len(batch.events)
        self._surface, odd = compact(batch, value, payload_source(line), self._surface, place)
        for one in odd:
            self._odd(line, one)

    def _event(self, batch: Batch, event: dict[str, Any], line: Line) -> None:
        kind = event.get("type")
        if kind == "thread_rolled_back":
            self._end(batch)
            if self._roll_back(batch, event.get("num_turns"), line):
                return
        elif kind == "task_complete":
            self._end(batch)
        elif kind == "turn_aborted":
            self._aborted = True
        elif kind == "error":
            message = event.get("message")
            self._failed = message if isinstance(message, str) and message else "error"
        self._note_window(event)
        _keep(batch, f"event_msg/{kind}")

    def _note_window(self, event: dict[str, Any]) -> None:
        info = event.get("info")
        known = cast(dict[str, Any], info) if isinstance(info, dict) else event
        window = known.get("model_context_window")
        if isinstance(window, int) and window > 0:
            self._window = window

    def _roll_back(self, batch: Batch, turns: object, line: Line) -> bool:
        if not isinstance(turns, int) or turns < 1:
            self._odd(line, f"a rollback of {turns} turns, kept as it is")
            return False
        at = rolled_back(self._surface, turns)
        if at is None:
            self._odd(line, f"a rollback of {turns} turns where none is shown, kept as it is")
            return False
        left, gone = self._surface[:at], self._surface[at:]
        if any(one.place > gone[0].place for one in left) or any(
            one.place < gone[0].place for one in gone
        ):
            self._odd(line, "a rollback into a compacted history, whose items lost their order")
        batch.add(
            HistoryRewound1(to=0, reason=f"thread_rolled_back: {turns} turns"),
            rewind_to=gone[0].before,
        )
        self._surface = left
        return True


def _time(line: Line) -> int:
    return moment((line.value or {}).get("timestamp"))


def _keep(batch: Batch, kind: str) -> None:
    batch.add(lifecycle.ForeignRecord(kind=kind), ignorable=True)


def _is_reasoning(payload: object) -> bool:
    return isinstance(payload, MessageAssistant) and all(
        isinstance(part, BoundPart) for part in payload.parts
    )

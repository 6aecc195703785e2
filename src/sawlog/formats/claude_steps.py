"""Model calls and tool calls of one conversation: their numbers, their ends, their results."""

from __future__ import annotations

import msgspec

from sawlog.formats.claude_blocks import Result
from sawlog.formats.claude_notes import Notes
from sawlog.formats.claude_record import Making
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.events.steps import StepCompleted


class Steps:
    """Numbers model calls 1, 2, 3, … by the first record of each and appends their ends.

    At most one is open: the last that began. `count` is how many there are.
    """

    def __init__(self, notes: Notes) -> None:
        self.count = 0
        self._notes = notes
        self._numbers: dict[str, int] = {}
        self._open = ""
        self._stop_reason = ""
        self._time = 0

    def of(self, key: str, stop_reason: str, made: Making) -> int:
        """The number of the model call named `key`, one of whose records is being made.

        When it is a new one, the end of the call before it comes first in this record.
        """
        number = self._numbers.get(key)
        if number is None:
            self.end(made)
            self.count += 1
            number = self._numbers[key] = self.count
            self._open = key
            self._stop_reason = ""
        elif key != self._open:
            self._notes.add("a block of a reply stands after the reply's end", made.position)
            return number
        self._stop_reason = stop_reason or self._stop_reason
        self._time = made.time
        return number

    def end(self, made: Making) -> None:
        """Append the end of the open step: this record shows that no more of it can come."""
        if not self._open:
            return
        # It ended when its last block came, not when the record was written that shows it.
        made.add(
            StepCompleted(stop_reason=self._stop_reason, reconstructed=True),
            step=self._numbers[self._open],
            occurred_at=self._time,
        )
        self._open = ""


class _Call(msgspec.Struct):
    event: str
    step: int
    answered: bool = False


class Calls:
    """Pairs results with calls: the nearest preceding unanswered call of the id."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._calls: dict[str, list[_Call]] = {}
        self._alone: dict[str, list[int]] = {}

    def requested(self, call_id: str, event: bytes, step: int, position: int) -> None:
        """Take note of a call and of the event that it is."""
        self._calls.setdefault(call_id, []).append(_Call(event.hex(), step))
        if call_id in self._alone and len(self._calls[call_id]) == 1:
            self._notes.add("a call's result stands before the call", position)

    def finished(self, result: Result, made: Making) -> bytes:
        """Append a result, with the step of its call; 0 where no call stands before it."""
        calls = self._calls.get(result.call_id, [])
        call = next((one for one in reversed(calls) if not one.answered), None)
        if call is not None:
            call.answered = True
        elif calls:
            call = calls[-1]
            self._notes.add("a call has a second result", made.position)
        else:
            self._alone.setdefault(result.call_id, []).append(made.position)
        return made.add(
            ToolFinished(
                call="" if call is None else call.event,
                call_id=result.call_id,
                status="error" if result.error else "ok",
                parts=result.parts,
            ),
            step=0 if call is None else call.step,
            blobs=result.blobs,
        )

    def knows(self, call_id: str) -> bool:
        """True when a call of that id was read."""
        return call_id in self._calls

    def finish(self) -> None:
        """Note the results that have no call anywhere in the file, at its end."""
        orphans = (at for id, at in self._alone.items() if id not in self._calls)
        for position in sorted(position for positions in orphans for position in positions):
            self._notes.add("a result has no call", position)

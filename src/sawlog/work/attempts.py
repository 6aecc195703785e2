"""The attempts of one step: each is an event before its bytes leave, and one that says what came.

It is the same for a step whose packet sawlog built and for one that another program built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from sawlog.builder.replies import Answered, RefusedReply, Running
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import AttemptFailed
from sawlog.store.events.base import EventId
from sawlog.store.events.conversation import MessageAssistant, ToolRequested
from sawlog.store.events.steps import (
    AttemptAnswered,
    AttemptLost,
    AttemptRefused,
    AttemptRunning,
    StepCompleted,
    StepFailed,
    StepRefused,
)
from sawlog.work.dials import Dialled, Dials

RETRIED = ("rate_limit", "overload", "timeout", "provider_error")
"""Classes of refusal after which the same bytes may be sent again."""

Clean = Callable[[str], str]
"""Takes a key out of a text that a provider or a client says."""


class Appends(Protocol):
    """What attempts need of a session: to make events and to append them."""

    def new(self, payload: Any, source: str, *, step: int | None = None) -> NewEvent:
        """An event ready for `record`."""
        ...

    def record(self, events: Sequence[NewEvent], *, of_step: int | None = None) -> tuple[int, ...]:
        """Append events under the session's lease; StepEnded when that step has its end."""
        ...

    @property
    def dials(self) -> Dials:
        """Where this handle sent its attempts."""
        ...


class Kept(msgspec.Struct, frozen=True):
    """What the log has of a reply: its events, and its calls with the events that ask for them.

    `seqs` are those of the events, once they are in the log.
    """

    events: tuple[NewEvent, ...]
    calls: tuple[tuple[NewEvent, ToolRequested], ...]
    seqs: tuple[int, ...] = ()


class Attempts:
    """The attempts of a step, numbered from 1; at most one is under way."""

    def __init__(self, records: Appends, step: int, packet: EventId, api: str) -> None:
        self._records = records
        self.step = step
        """The step that they are of."""
        self._packet = packet
        self._api = api
        self.clean: Clean = str
        """Takes the keys of the newest one's client out of what is said of it."""
        self.number = 0
        """The number of the newest attempt; 0 before the first."""
        self.open = False
        """True while the outcome of the newest one is not in the log."""
        self.refusal = ""
        """The class of the newest refusal; empty for none."""
        self._untold = False
        """True when the outcome of the newest one is known, and could not be written."""

    def opened(self, to: Dialled, clean: Clean = str) -> None:
        """Log that the bytes are about to leave; durable when this returns.

        `clean` takes the client's keys out of what comes back.
        """
        if self._untold:
            self._outcome([self.new(AttemptLost(self.number, "its outcome could not be recorded"))])
        number = self.number + 1
        dials = self._records.dials
        sent = dials.event(self._packet, number, to)
        [seq] = self._record([self.new(sent)])
        dials.logged(seq, sent)
        self.number = number
        self.open = True
        self.clean = clean

    def lost(self, error: BaseException) -> None:
        """Log that nobody knows what became of the attempt; nothing when none is under way."""
        if not self.open:
            return
        reason = self.clean(f"{type(error).__name__}: {error}")
        self._outcome([self.new(AttemptLost(self.number, reason))])

    def refused(self, parsed: RefusedReply, *, final: bool) -> AttemptFailed:
        """Log a refusal, which ends the step when it is the `final` one; gives what to raise."""
        self.refusal = parsed.kind
        refusal = AttemptRefused(
            number=self.number,
            kind=parsed.kind,
            status=parsed.status,
            request_id=self.clean(parsed.request_id),
            message=self.clean(parsed.message),
            body=self.clean(parsed.body),
        )
        events = [self.new(refusal)]
        if final or parsed.kind not in RETRIED:
            events.append(self.new(StepFailed(reason=parsed.kind)))
        self._outcome(events)
        return AttemptFailed(
            f"the provider refused ({parsed.kind}): {refusal.message}",
            kind=parsed.kind,
            status=parsed.status,
            request_id=self.clean(parsed.request_id),
        )

    def running(self, parsed: Running) -> AttemptFailed:
        """Log that the provider goes on with it in the background; gives what to raise."""
        self._record([self.new(AttemptRunning(self.number, parsed.handle))])
        self.open = True  # the same attempt is answered later
        return AttemptFailed(
            f"the provider works on it in the background: fetch {parsed.handle} when it is "
            "done and give it to answer()",
            kind="running",
            status=parsed.status,
            request_id=parsed.request_id,
        )

    def kept(self, parsed: Answered, status: int) -> Kept:
        """The events of a reply, in order, ready for `answered`."""
        answered = AttemptAnswered(
            number=self.number,
            status=status,
            request_id=parsed.request_id,
            response_id=parsed.response_id,
            model=parsed.model,
            account=parsed.account,
            stop_reason=parsed.stop_reason,
            usage=parsed.usage,
            body=parsed.body,
            assembler=parsed.assembler,
            interrupted=parsed.interrupted,
            edits=parsed.edits,
        )
        events = [self.new(answered)]
        calls: list[tuple[NewEvent, ToolRequested]] = []
        for piece in parsed.parts_and_calls:
            if isinstance(piece, ToolRequested):
                new = self.new(piece)
                calls.append((new, piece))
            else:
                new = self.new(MessageAssistant(piece, interrupted=parsed.interrupted))
            events.append(new)
        if parsed.refusal:
            events.append(self.new(StepRefused(reason=parsed.refusal)))
        else:
            events.append(self.new(StepCompleted(stop_reason=parsed.stop_reason)))
        return Kept(tuple(events), tuple(calls))

    def answered(self, kept: Kept, more: Sequence[NewEvent] = ()) -> Kept:
        """Log a reply in one batch, with what belongs behind it; it ends the step."""
        seqs = self._outcome([*kept.events, *more])
        return msgspec.structs.replace(kept, seqs=seqs[: len(kept.events)])

    def new(self, payload: Any) -> NewEvent:
        """An event of this step, from its provider."""
        return self._records.new(payload, f"provider:{self._api}", step=self.step)

    def _outcome(self, events: Sequence[NewEvent]) -> tuple[int, ...]:
        self.open, self._untold = False, True
        seqs = self._record(events)
        self._untold = False
        return seqs

    def _record(self, events: Sequence[NewEvent]) -> tuple[int, ...]:
        return self._records.record(events, of_step=self.step)

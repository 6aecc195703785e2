"""One step: its packet, its attempts, its reply. Each attempt is an event before and after.

`send` lets exactly the packet's bytes leave; `body` and `answer` are for any other client.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

import msgspec

from sawlog.builder.build import Built
from sawlog.builder.replies import Answered, RefusedReply, Running, parse
from sawlog.builder.state import State
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import AttemptFailed, ConfigError
from sawlog.store.event import Event
from sawlog.store.events.conversation import MessageAssistant, ToolRequested
from sawlog.store.events.steps import (
    AttemptAnswered,
    AttemptLost,
    AttemptRefused,
    AttemptRunning,
    AttemptSent,
    StepAbandoned,
    StepCompleted,
    StepFailed,
)
from sawlog.work.calibrating import Effort, measured
from sawlog.work.call import Call, Declares
from sawlog.work.checking import Checks
from sawlog.work.exchange import RawReply, checked, exchange, library_of, pause_after, reply_bytes
from sawlog.work.verdicts import Denied

RETRIED = ("rate_limit", "overload", "timeout", "provider_error")
"""Classes of refusal after which the same bytes may be sent again."""


class ToolCalls(tuple[Call, ...]):
    """The calls of a reply that may run.

    It is true when the model asked for any call, also when none of them may run: a loop that ends
    without calls goes on then, and the next packet tells the model what was denied.
    """

    asked: bool

    def __new__(cls, calls: Iterable[Call] = (), *, asked: bool = False) -> Self:
        made = super().__new__(cls, calls)
        made.asked = asked or len(made) > 0
        return made

    def __bool__(self) -> bool:
        return self.asked


class Reply(msgspec.Struct, frozen=True):
    """What the model answered: text, calls to run, and the provider's own words about it.

    `denied` are the calls that do not run, each with its reason; the model is told in the next
    packet.
    """

    text: str
    tool_calls: ToolCalls
    stop_reason: str
    usage: str
    response_id: str
    request_id: str
    body: bytes
    denied: tuple[Denied, ...] = ()


class Records(Declares, Protocol):
    """What a step needs of its session: to make events and to append them."""

    def new(self, payload: Any, source: str, *, step: int | None = None) -> NewEvent:
        """An event ready for `record`."""
        ...

    def record(self, events: Sequence[NewEvent], *, of_step: int | None = None) -> tuple[int, ...]:
        """Append events under the session's lease; StepEnded when that step has its end."""
        ...

    def sending(self) -> None:
        """Raise NotEntered unless steps may be sent: another handle may drive the session."""
        ...

    @property
    def checks(self) -> Checks:
        """What says which calls may run."""
        ...

    @property
    def state(self) -> State:
        """The projector's state after the newest event that is known."""
        ...


class Step:
    """A step whose packet is in the log.

    `body` are the very bytes to send to `path` with `headers`; `number` counts the session's
    decisions from 1.
    """

    def __init__(
        self,
        session: Records,
        number: int,
        built: Built,
        event: Event,
        effort: Effort | None = None,
    ) -> None:
        self._session = session
        self._effort = effort or Effort()
        self.number = number
        self.packet = built
        self.event_id = event.id
        self.reply: Reply | None = None
        self._attempts = 0
        self._open = False

    @property
    def api(self) -> str:
        """The API that the body is written for."""
        return self.packet.header.api

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.packet.request.method

    @property
    def path(self) -> str:
        """The path to send to, without host and base."""
        return self.packet.request.path

    @property
    def headers(self) -> dict[str, str]:
        """The headers that change what the model does; no secret among them."""
        return dict(self.packet.request.headers)

    @property
    def chunks(self) -> Sequence[bytes]:
        """The body in pieces."""
        return self.packet.request.chunks

    @property
    def body(self) -> bytes:
        """The body: exactly these bytes are what the log says was sent."""
        return self.packet.request.body

    def send(self, client: Any, *, retries: int = 0, timeout: float | None = None) -> Reply:
        """Send the packet and log what comes back.

        `client` is an official `openai` or `anthropic` client, an `httpx.Client` with a base URL,
        or a callable from body bytes to reply bytes. The bytes go out unchanged, and the client's
        own retries are off: each of the `retries` is an attempt of its own in the log, after the
        pause that the provider asks for. Raises AttemptFailed with the class of the refusal,
        StepEnded when the step has its reply or was given up, NotEntered when its session was left,
        ConfigError before anything leaves when the client will not do; a connection that broke
        leaves the attempt as lost.
        """
        checked(client, awaited=False)
        for left in range(retries, -1, -1):
            self.opened(library_of(client))
            try:
                raw = exchange(client, self, timeout)
            except BaseException as error:
                self.lost(error)
                raise
            try:
                return self.closed(raw, final=left == 0)
            except AttemptFailed as error:
                if left == 0 or error.kind not in RETRIED:
                    raise
            time.sleep(pause_after(raw, retries - left))
        raise ConfigError(f"{retries} retries are less than none")

    def answer(
        self,
        body: bytes | str | Mapping[str, Any],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Log a reply that the caller received by other means: bytes as received, or a dict.

        Raises AttemptFailed when it is a refusal, StepEnded when the step has its end.
        """
        raw = reply_bytes(body)
        if not self._open:
            self.opened("caller")
        return self.closed(RawReply(status, dict(headers or {}), raw), final=True)

    def abandon(self, reason: str = "") -> None:
        """Give the step up: it ends without a reply. Raises StepEnded when it has its end."""
        self._record([self._new(StepAbandoned(reason=reason))])

    # --- attempts --------------------------------------------------------------------------------

    def opened(self, client: str, url: str = "") -> None:
        """Log that the bytes are about to leave; durable when this returns."""
        self._session.sending()
        number = self._attempts + 1
        sent = AttemptSent(self.event_id, number, url, client=client)
        self._record([self._new(sent)])
        self._attempts = number
        self._open = True

    def lost(self, error: BaseException) -> None:
        """Log that nobody knows what became of the attempt; nothing when none is under way."""
        if not self._open:
            return
        self._open = False
        reason = f"{type(error).__name__}: {error}"
        self._record([self._new(AttemptLost(self._attempts, reason))])

    def closed(self, raw: RawReply, *, final: bool) -> Reply:
        """Log a whole reply, or a refusal, which ends the step when it is the `final` one."""
        self._open = False
        parsed = parse(self.api, raw.status, raw.headers, raw.body)
        if isinstance(parsed, Running):
            self._record([self._new(AttemptRunning(self._attempts, parsed.handle))])
            self._open = True  # the same attempt is answered later
            raise AttemptFailed(
                f"the provider works on it in the background: fetch {parsed.handle} when it is "
                "done and give it to answer()",
                kind="running",
                status=parsed.status,
                request_id=parsed.request_id,
            )
        if isinstance(parsed, RefusedReply):
            self._refused(parsed, final)
            raise AttemptFailed(
                f"the provider refused ({parsed.kind}): {parsed.message}",
                kind=parsed.kind,
                status=parsed.status,
                request_id=parsed.request_id,
            )
        return self._answered(parsed, raw)

    def _refused(self, parsed: RefusedReply, final: bool) -> None:
        refusal = AttemptRefused(
            number=self._attempts,
            kind=parsed.kind,
            status=parsed.status,
            request_id=parsed.request_id,
            message=parsed.message,
            body=parsed.body,
        )
        events = [self._new(refusal)]
        if final or parsed.kind not in RETRIED:
            events.append(self._new(StepFailed(reason=parsed.kind)))
        self._record(events)

    def _answered(self, parsed: Answered, raw: RawReply) -> Reply:
        answered = AttemptAnswered(
            number=self._attempts,
            status=raw.status,
            request_id=parsed.request_id,
            response_id=parsed.response_id,
            model=parsed.model,
            account=parsed.account,
            stop_reason=parsed.stop_reason,
            usage=parsed.usage,
            body=parsed.body,
        )
        events = [self._new(answered)]
        calls: list[Call] = []
        for piece in parsed.parts_and_calls:
            if isinstance(piece, ToolRequested):
                new = self._new(piece)
                calls.append(self._call(new, piece))
            else:
                new = self._new(MessageAssistant(piece))
            events.append(new)
        events.append(self._new(StepCompleted(stop_reason=parsed.stop_reason)))
        checks = self._session.checks
        denied = checks.of_reply(calls)
        events.extend(checks.denials(denied))
        now = self._session.state.per_mille
        measure = measured(self.packet, parsed, self._attempts - 1, self._effort, now)
        if measure is not None:
            events.append(self._new(measure))
        self._record(events)
        out = {one.call.event_id for one in denied}
        self.reply = Reply(
            parsed.text,
            ToolCalls((one for one in calls if one.event_id not in out), asked=bool(calls)),
            parsed.stop_reason,
            parsed.usage,
            parsed.response_id,
            parsed.request_id,
            raw.body,
            denied,
        )
        return self.reply

    def _call(self, new: NewEvent, asked: ToolRequested) -> Call:
        # The event's own texts may lie in blobs already; those of the reply are strings.
        assert new.id is not None
        return Call(
            self._session,
            new.id.hex(),
            str(asked.call_id),
            str(asked.name),
            str(asked.arguments),
            self.number,
            asked.kind,
            str(asked.namespace),
        )

    def _new(self, payload: Any) -> NewEvent:
        return self._session.new(payload, f"provider:{self.api}", step=self.number)

    def _record(self, events: Sequence[NewEvent]) -> None:
        self._session.record(events, of_step=self.number)

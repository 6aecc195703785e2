"""One step: its packet, its attempts, its reply. Each attempt is an event before and after.

`send` lets exactly the packet's bytes leave, `stream` hands the reply through as it comes; `body`
and `answer` are for any other client.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sawlog.builder.build import Built
from sawlog.builder.replies import Answered, RefusedReply, Running, parse
from sawlog.builder.replies.assembling import is_stream
from sawlog.builder.state import State
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import AttemptFailed
from sawlog.store.event import Event
from sawlog.store.events.conversation import ToolRequested
from sawlog.store.events.steps import StepAbandoned
from sawlog.store.jsonslices import fields
from sawlog.work.attempts import RETRIED, Appends, Attempts, Clean
from sawlog.work.calibrating import Effort, measured
from sawlog.work.call import Call, Declares
from sawlog.work.checking import Checks
from sawlog.work.dialling import dialled
from sawlog.work.dials import Dialled
from sawlog.work.exchange import (
    RawReply,
    asked_pause,
    checked,
    exchange,
    pause_before,
    reply_bytes,
    retries_of,
)
from sawlog.work.reply import Reply, ToolCalls
from sawlog.work.streamexchange import open_stream
from sawlog.work.streaming import ReplyStream, StreamRecord, must_stream


class Records(Declares, Appends, Protocol):
    """What a step needs of its session, beside what its attempts and its calls need."""

    def sending(self) -> None:
        """Raise NotEntered unless steps may be sent: another handle may drive the session."""
        ...

    def streaming(self, record: StreamRecord) -> None:
        """Take note of a stream: what the session does next leaves it as interrupted."""
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
        self._attempts = Attempts(session, number, event.id, built.header.api)

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

    @property
    def under_way(self) -> bool:
        """True while an attempt to send it has no outcome yet."""
        return self._attempts.open

    @property
    def streams(self) -> bool:
        """True when the packet asks for a stream of events: built with `stream=True`."""
        return fields(self.packet.header.params).get("stream") == "true"

    def send(
        self, client: Any, *, retries: int | None = None, timeout: float | None = None
    ) -> Reply:
        """Send the packet and log what comes back.

        `client` is an official `openai` or `anthropic` client, one that `sawlog.client` made, an
        `httpx.Client` with a base URL, or a callable from body bytes to reply bytes. The bytes go
        out unchanged, and the client's own retries are off: each of the `retries` (none; those of
        `sawlog.client` where it was made with some) is an attempt of its own in the log, after the
        pause that the provider asks for. `timeout` is in seconds. A packet built with
        `stream=True` is read to its end. Raises AttemptFailed with the class of the refusal,
        StepEnded when the step has its reply or was given up, NotEntered when its session was left,
        ConfigError before anything leaves when the client will not do; a connection that broke
        leaves the attempt as lost, or with what had come of a stream as interrupted.
        """
        left = retries_of(client, retries)
        checked(client, awaited=False)
        for tried in range(left + 1):
            try:
                if self.streams:
                    return self._opened_stream(client, timeout, final=tried == left).read()
                return self.closed(self._exchanged(client, timeout), final=tried == left)
            except AttemptFailed as error:
                if tried == left or error.kind not in RETRIED:
                    raise
                pause = pause_before(tried, error.retry_after)
            time.sleep(pause)
        raise AssertionError("unreachable")

    def stream(self, client: Any, *, timeout: float | None = None) -> ReplyStream:
        """Send the packet and hand the client's own events through, one by one, as they come.

        The packet is one built with `stream=True`. An official client gives its own event objects,
        any other `Event`s with their name and data. The reply is logged when the last one came, and
        is then `step.reply`. A loop that is left, an exception in it and a line that breaks leave
        what had come, as an interrupted reply. Nothing is sent twice: there are no retries. Raises
        as `send` does; AttemptFailed also in mid-stream, when the provider says there that it
        failed.
        """
        checked(client, awaited=False)
        return self._opened_stream(client, timeout, final=True)

    def answer(
        self,
        body: bytes | str | Mapping[str, Any],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Log a reply that the caller received by other means: bytes as received, or a dict.

        The bytes of a whole stream of events will do, too. Raises AttemptFailed when it is a
        refusal, StepEnded when the step has its end.
        """
        raw = RawReply(status, dict(headers or {}), reply_bytes(body))
        if not self._attempts.open:
            self.opened(Dialled("caller"))
        if self.streams and is_stream(status, raw.headers, raw.body):
            record = self.recording_stream(raw.status, raw.headers, final=True)
            record.feed(raw.body)
            return record.end()
        return self.closed(raw, final=True)

    def abandon(self, reason: str = "") -> None:
        """Give the step up: it ends without a reply. Raises StepEnded when it has its end."""
        self._session.record(
            [self._attempts.new(StepAbandoned(reason=reason))], of_step=self.number
        )

    # --- attempts --------------------------------------------------------------------------------

    def opened(self, to: Dialled, clean: Clean = str) -> None:
        """Log that the bytes are about to leave; durable when this returns."""
        self._session.sending()
        self._attempts.opened(to, clean)

    def clean(self, text: str) -> str:
        """The text without the keys of the client that the attempt was made with."""
        return self._attempts.clean(text)

    def lost(self, error: BaseException) -> None:
        """Log that nobody knows what became of the attempt; nothing when none is under way."""
        self._attempts.lost(error)

    def closed(self, raw: RawReply, *, final: bool) -> Reply:
        """Log a whole reply, or a refusal, which ends the step when it is the `final` one."""
        parsed = parse(self.api, raw.status, raw.headers, raw.body)
        if not isinstance(parsed, Answered):
            raise self.failed(parsed, raw.headers, final=final)
        return self.settled(parsed, raw.status, raw.body)

    def failed(
        self, parsed: RefusedReply | Running, headers: Mapping[str, str], *, final: bool
    ) -> AttemptFailed:
        """Log what is no reply, and give what to raise."""
        if isinstance(parsed, Running):
            failed = self._attempts.running(parsed)
        else:
            failed = self._attempts.refused(parsed, final=final)
        failed.retry_after = asked_pause(headers)
        return failed

    def settled(self, parsed: Answered, status: int, body: bytes) -> Reply:
        """Log a reply, with what the gateway says of its calls and what it cost."""
        kept = self._attempts.kept(parsed, status)
        calls = [self._call(new, asked) for new, asked in kept.calls]
        checks = self._session.checks
        denied = checks.of_reply(calls)
        more = list(checks.denials(denied))
        now = self._session.state.per_mille
        measure = measured(self.packet, parsed, self._attempts.number - 1, self._effort, now)
        if measure is not None:
            more.append(self._attempts.new(measure))
        self._attempts.answered(kept, more)
        out = {one.call.event_id for one in denied}
        if parsed.refusal:
            calls = []  # the turn leaves, and its calls with it
        self.reply = Reply(
            parsed.text,
            ToolCalls((one for one in calls if one.event_id not in out), asked=bool(calls)),
            parsed.stop_reason,
            parsed.usage,
            parsed.response_id,
            parsed.request_id,
            body,
            denied,
            parsed.interrupted,
            parsed.refusal,
        )
        return self.reply

    def recording_stream(
        self, status: int, headers: Mapping[str, str], *, final: bool
    ) -> StreamRecord:
        """What takes in the bytes of a stream that answers this step; the session knows it, too."""
        record = StreamRecord(self, status, headers, final=final)
        self._session.streaming(record)
        return record

    def _exchanged(self, client: Any, timeout: float | None) -> RawReply:
        self.opened(*dialled(client, self))
        try:
            return exchange(client, self, timeout)
        except BaseException as error:
            self.lost(error)
            raise

    def _opened_stream(self, client: Any, timeout: float | None, *, final: bool) -> ReplyStream:
        must_stream(self)
        self.opened(*dialled(client, self))
        try:
            opened = open_stream(client, self, timeout)
        except BaseException as error:
            self.lost(error)
            raise
        if isinstance(opened, RawReply):
            # A refusal, or a server that does not stream: then the reply is there at once.
            return ReplyStream(self, None, self.closed(opened, final=final))
        record = self.recording_stream(opened.status, opened.headers, final=final)
        opened.tap(record.feed)
        return ReplyStream(self, (opened, record))

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

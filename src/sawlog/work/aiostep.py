"""A step sent from a task: the exchange is awaited, the log is written off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Self

from sawlog.store.errors import AttemptFailed
from sawlog.work.attempts import RETRIED
from sawlog.work.dialling import dialled
from sawlog.work.exchange import RawReply, aexchange, checked, pause_before, retries_of
from sawlog.work.offloop import OffLoop
from sawlog.work.reply import Reply
from sawlog.work.step import Step
from sawlog.work.streamexchange import AsyncOpened, Opened, aopen_stream
from sawlog.work.streaming import StreamRecord, cause_of, must_stream


class AsyncStep:
    """A step whose packet is in the log, to be sent from a task."""

    def __init__(self, step: Step, off_loop: OffLoop) -> None:
        self.sync = step
        self._off_loop = off_loop

    @property
    def number(self) -> int:
        """The step's number in its session."""
        return self.sync.number

    @property
    def body(self) -> bytes:
        """The body: exactly these bytes are what the log says was sent."""
        return self.sync.body

    @property
    def reply(self) -> Reply | None:
        """The reply, once it is in the log."""
        return self.sync.reply

    async def send(
        self, client: Any, *, retries: int | None = None, timeout: float | None = None
    ) -> Reply:
        """Send the packet with an async client and log what comes back; see `Step.send`.

        A task that is cancelled meanwhile leaves the attempt as lost, or with what had come of a
        stream as interrupted.
        """
        left = retries_of(client, retries)
        checked(client, awaited=True)
        step = self.sync
        for tried in range(left + 1):
            final = tried == left
            try:
                if step.streams:
                    return await self._stream(client, timeout, final=final).read()
                raw = await self._exchanged(client, timeout)
                return await self._off_loop(step.closed, raw, final=final)
            except AttemptFailed as error:
                if final or error.kind not in RETRIED:
                    raise
                pause = pause_before(tried, error.retry_after)
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    def stream(self, client: Any, *, timeout: float | None = None) -> AsyncReplyStream:
        """Send the packet and hand the client's own events through: `async for`; see `Step.stream`.

        The bytes leave when the first event is asked for. A loop that is left and a task that is
        cancelled leave what had come, as an interrupted reply.
        """
        checked(client, awaited=True)
        must_stream(self.sync)
        return self._stream(client, timeout, final=True)

    async def answer(self, body: Any, **options: Any) -> Reply:
        """Log a reply that the caller received by other means."""
        return await self._off_loop(self.sync.answer, body, **options)

    async def abandon(self, reason: str = "") -> None:
        """Give the step up: it ends without a reply."""
        await self._off_loop(self.sync.abandon, reason)

    def _stream(self, client: Any, timeout: float | None, *, final: bool) -> AsyncReplyStream:
        return AsyncReplyStream(self.sync, client, timeout, self._off_loop, final=final)

    async def _exchanged(self, client: Any, timeout: float | None) -> RawReply:
        step = self.sync
        try:
            await self._off_loop(step.opened, *dialled(client, step))
            return await aexchange(client, step, timeout)
        except BaseException as error:
            await self._off_loop(step.lost, error)
            raise


class AsyncReplyStream:
    """The events of one streamed reply, for one `async for`; `async with` closes it for sure.

    `reply` is there when the last event was.
    """

    def __init__(
        self, step: Step, client: Any, timeout: float | None, off_loop: OffLoop, *, final: bool
    ) -> None:
        self._step = step
        self._client = client
        self._timeout = timeout
        self._off_loop = off_loop
        self._final = final
        self._live: tuple[AsyncOpened | Opened, StreamRecord] | None = None
        self._begun = False
        self.reply: Reply | None = None

    async def __aiter__(self) -> AsyncGenerator[Any]:
        if self._begun:
            return
        self._begun = True
        live = await self._open()
        if live is None:
            return
        opened, record = self._live = live
        try:
            if isinstance(opened, Opened):
                for event in opened.events:
                    yield event
            else:
                async for event in opened.events:
                    yield event
            self.reply = await self._off_loop(record.end)
        except GeneratorExit:
            raise
        except BaseException as error:
            await self._failed(error)
            raise
        finally:
            await self.aclose()

    async def read(self) -> Reply:
        """Read the stream to its end and give the reply."""
        async for _ in self:
            pass
        assert self.reply is not None
        return self.reply

    async def aclose(self) -> None:
        """Stop: what had come stays in the log, as interrupted. Twice is the same as once."""
        self._begun = True
        live, self._live = self._live, None
        if live is None:
            return
        opened, record = live
        try:
            await self._off_loop(record.interrupt)
        finally:
            if isinstance(opened, Opened):
                opened.close()
            else:
                await opened.aclose()
        self.reply = self.reply or self._step.reply

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            await self._failed(error)
        await self.aclose()

    async def _open(self) -> tuple[AsyncOpened | Opened, StreamRecord] | None:
        step, off_loop = self._step, self._off_loop
        try:
            await off_loop(step.opened, *dialled(self._client, step))
            opened = await aopen_stream(self._client, step, self._timeout)
        except BaseException as error:
            await off_loop(step.lost, error)
            raise
        if isinstance(opened, RawReply):
            # A refusal, or a server that does not stream: then the reply is there at once.
            self.reply = await off_loop(step.closed, opened, final=self._final)
            return None
        record = step.recording_stream(opened.status, opened.headers, final=self._final)
        opened.tap(record.feed)
        return opened, record

    async def _failed(self, error: BaseException) -> None:
        if self._live is None:
            return
        failed = await self._off_loop(self._live[1].interrupt, error)
        if failed is not None and isinstance(error, Exception):
            raise failed from cause_of(self._step, error)

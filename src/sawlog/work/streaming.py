"""A streamed reply: its events go to the caller as they come, and what came goes into the log.

The bytes are read twice: by the client, for the caller, and by the API's assembler, for the log.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from sawlog.builder.replies import Answered, RefusedReply, Running
from sawlog.builder.replies.assembling import Assembler, assembler, reply_of
from sawlog.store.errors import AttemptFailed, ConfigError, StepEnded
from sawlog.work.reply import Reply
from sawlog.work.streamexchange import Opened


class Streaming(Protocol):
    """What a stream needs of the step that it answers."""

    reply: Reply | None

    @property
    def api(self) -> str:
        """The API whose stream it is."""
        ...

    @property
    def number(self) -> int:
        """The step's number."""
        ...

    @property
    def streams(self) -> bool:
        """True when the packet asks for a stream."""
        ...

    def clean(self, text: str) -> str:
        """The text without the client's keys."""
        ...

    def settled(self, parsed: Answered, status: int, body: bytes) -> Reply:
        """Log a reply."""
        ...

    def failed(
        self, parsed: RefusedReply | Running, headers: Mapping[str, str], *, final: bool
    ) -> AttemptFailed:
        """Log what is no reply, and give what to raise."""
        ...


def must_stream(step: Streaming) -> None:
    """Raise ConfigError for a step whose packet does not ask for a stream."""
    if not step.streams:
        raise ConfigError(
            "this packet asks for a whole reply: build it with stream=True, as in "
            "s.step(…, stream=True), or send it with send()"
        )


class StreamRecord:
    """Takes in the bytes of one stream, and leaves in the log what they amount to, once.

    Threads may share it: whoever comes first settles it.
    """

    def __init__(
        self, step: Streaming, status: int, headers: Mapping[str, str], *, final: bool
    ) -> None:
        self._step = step
        self._status = status
        self._headers = headers
        self._final = final
        self._assembler: Assembler = assembler(step.api)
        self._lock = threading.Lock()
        self.settled = False

    def feed(self, data: bytes) -> None:
        """Take in what arrived."""
        with self._lock:
            if not self.settled:
                self._assembler.feed(data)

    def end(self) -> Reply:
        """Log the reply: the stream is over. Raises AttemptFailed where it tells of a failure, or
        where it is no whole reply."""
        with self._lock:
            if not self.settled:
                self.settled = True
                reply = self._settle(closed=True)
                if reply.interrupted:
                    raise AttemptFailed(
                        "the stream was over before the reply was: what had come is in the log as "
                        "an interrupted reply",
                        kind="interrupted",
                        status=self._status,
                        request_id=reply.request_id,
                    )
                return reply
        if self._step.reply is None:
            raise StepEnded(
                f"the stream of step {self._step.number} was left: its session went on",
                step=self._step.number,
            )
        return self._step.reply

    def interrupt(self, error: BaseException | None = None) -> AttemptFailed | None:
        """Log what had come, the caller or the line having stopped; nothing when it is settled.

        Gives what the provider itself said of a failure, if it did.
        """
        with self._lock:
            if self.settled:
                return None
            self.settled = True
            try:
                self._settle(closed=False, error=error)
            except AttemptFailed as failed:
                return failed
            return None

    def _settle(self, *, closed: bool, error: BaseException | None = None) -> Reply:
        step = self._step
        found = reply_of(self._assembler.result(closed=closed), self._status, self._headers)
        if not isinstance(found, Answered):
            raise step.failed(found, self._headers, final=self._final)
        if found.fault is not None and not self._final:
            # Whoever waits for the whole reply has seen nothing of it, and it is asked for again.
            raise step.failed(found.fault, self._headers, final=False)
        reply = step.settled(found, self._status, b"")
        if found.fault is not None:
            raise AttemptFailed(
                f"the provider failed in mid-stream ({found.fault.kind}): "
                f"{step.clean(found.fault.message)}; what had come is in the log as an "
                "interrupted reply",
                kind=found.fault.kind,
                status=found.fault.status,
                request_id=found.fault.request_id,
            )
        return reply


class ReplyStream:
    """The events of one streamed reply, to be iterated once; a context manager, too.

    `reply` is there when the last event was.
    """

    def __init__(
        self, step: Streaming, live: tuple[Opened, StreamRecord] | None, reply: Reply | None = None
    ) -> None:
        self._step = step
        self._live = live
        self.reply = reply

    def __iter__(self) -> Generator[Any]:
        if self._live is None:
            return
        opened, record = self._live
        try:
            yield from opened.events
            self.reply = record.end()
        except GeneratorExit:
            raise
        except BaseException as error:
            self._failed(error)
            raise
        finally:
            self.close()

    def read(self) -> Reply:
        """Read the stream to its end and give the reply."""
        for _ in self:
            pass
        assert self.reply is not None
        return self.reply

    def close(self) -> None:
        """Stop: what had come stays in the log, as interrupted. Twice is the same as once."""
        if self._live is None:
            return
        opened, record = self._live
        self._live = None
        try:
            record.interrupt()
        finally:
            opened.close()
        self.reply = self.reply or self._step.reply

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._failed(error)
        self.close()

    def _failed(self, error: BaseException) -> None:
        """The line broke, the client could not read on, or the caller's own code failed.

        Raises AttemptFailed where the provider said why.
        """
        if self._live is None:
            return
        failed = self._live[1].interrupt(error)
        if failed is not None and isinstance(error, Exception):
            raise failed from cause_of(self._step, error)


def cause_of(step: Streaming, error: Exception) -> Exception | None:
    """The error as a cause to show; None when its words hold a key."""
    said = f"{error} {error!r} {getattr(error, 'body', '')}"
    return error if step.clean(said) == said else None

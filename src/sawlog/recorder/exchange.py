"""One recorded exchange: what left is in the log before it leaves, what came when it came.

Nothing here raises because of what a provider says: the program that asked gets it as it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from sawlog.builder.replies import Answered, RefusedReply, Running, parse
from sawlog.builder.replies.assembling import Assembler, assembler, is_stream, reply_of
from sawlog.store.errors import SawlogError
from sawlog.work.attempts import Attempts, Clean, Kept
from sawlog.work.dials import Dialled


class Exchange:
    """A request that was recorded, and the attempt to send it. Threads may share it.

    An outcome that cannot be written is raised where it is `strict`; else the program gets its
    reply, and the log tells with the next step that no outcome was recorded.
    """

    def __init__(
        self,
        attempts: Attempts,
        api: str,
        settled: Callable[[Exchange, Kept | None], None],
        *,
        strict: bool = True,
    ) -> None:
        self._attempts = attempts
        self._api = api
        self._settled = settled
        self._strict = strict
        self._lock = threading.Lock()
        self._stream: tuple[Assembler, int, Mapping[str, str]] | None = None
        self._whole = bytearray()
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._open = False
        self._done = True

    def opened(self, to: Dialled, clean: Clean = str) -> None:
        """Log that the bytes are about to leave; durable when this returns."""
        self._attempts.opened(to, clean)
        self._stream = None
        self._whole.clear()
        self._status, self._headers = 0, {}
        self._done = False
        self._open = True

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Take in the head of the answer."""
        self._status, self._headers = status, headers

    def feed(self, data: bytes) -> None:
        """Take in bytes of the body as they come, their content encoding undone."""
        with self._lock:
            if not self._open or not data:
                return
            if self._stream is None and not self._whole:
                if is_stream(self._status, self._headers, data):
                    self._stream = self._begun_stream()
            if self._stream is not None:
                self._stream[0].feed(data)
            else:
                self._whole += data

    def end(self) -> None:
        """Log what came: the body is over."""
        self._settle(closed=True, error=None)

    def broken(self, error: BaseException) -> None:
        """Log what had come: the line broke, or the program stopped reading."""
        self._settle(closed=False, error=error)

    @property
    def done(self) -> bool:
        """True when the outcome is in the log, and its conversation knows of it.

        Until then another request must not go on in that session: it would end this step.
        """
        return self._done

    @property
    def over(self) -> bool:
        """True when a stream has said its own end: nothing that may follow counts."""
        stream = self._stream
        return stream is not None and stream[0].over

    @property
    def step(self) -> int:
        """The step that it belongs to."""
        return self._attempts.step

    @property
    def refusal(self) -> str:
        """The class of the newest refusal; empty for none."""
        return self._attempts.refusal

    def _begun_stream(self) -> tuple[Assembler, int, Mapping[str, str]]:
        return assembler(self._api), self._status, self._headers

    def _settle(self, *, closed: bool, error: BaseException | None) -> None:
        with self._lock:
            if not self._open:
                return  # whoever came first settles it
            self._open = False
            try:
                self._settled(self, self._logged(closed, error))
            finally:
                self._done = True

    def _logged(self, closed: bool, error: BaseException | None) -> Kept | None:
        try:
            return self._log(closed, error)
        except SawlogError:
            if self._strict:
                raise
            return None

    def _log(self, closed: bool, error: BaseException | None) -> Kept | None:
        found: Answered | RefusedReply | Running
        if self._stream is None and not self._whole and not closed:
            if is_stream(self._status, self._headers, b""):
                self._stream = self._begun_stream()  # its head came, and nothing behind it
        if self._stream is not None:
            found = reply_of(self._stream[0].result(closed=closed), self._status, self._headers)
        elif closed or self._status >= 300:
            # A refusal's head says enough: clients that will try again do not read its body.
            found = parse(self._api, self._status, self._headers, bytes(self._whole))
        else:
            self._attempts.lost(error or ConnectionError("the answer broke off"))
            return None
        match found:
            case Answered():
                kept = self._attempts.kept(found, self._status)
                return self._attempts.answered(kept)
            case RefusedReply():
                self._attempts.refused(found, final=False)
            case Running():
                self._attempts.running(found)
        return None

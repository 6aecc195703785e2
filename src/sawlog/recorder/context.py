"""`recording`: every exchange with a model inside a `with` block, whoever makes the client."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any, Unpack

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from sawlog.recorder.conversations import Conversations, Say
from sawlog.recorder.transport import ahandle, handle
from sawlog.recorder.watching import RECORDING, AsyncSend, Send, watch
from sawlog.work.opening import SessionOptions
from sawlog.work.session import Session


@contextmanager
def recording(
    store: str | AgentLog, name: str, *, strict: bool = True, **options: Unpack[SessionOptions]
) -> Generator[Session]:
    """Record what this block says to models, through any client of `httpx` or `httpx2`.

    `store` is a file name or URL as for `sawlog.open`, or an open log; `name` the session, new or
    continued, whose lease is held meanwhile. A conversation that does not go on from its history
    has a session of its own beside it, NAME/2 and so on. Tasks that the block starts belong to it,
    and so do threads that run in a copy of its context (`asyncio.to_thread`,
    `contextvars.copy_context`); other threads do not. Gives the session.

    If a request cannot be recorded it is not sent; with `strict=False` it is, and the gap is
    marked. Clients that talk HTTP in another way are not seen. Raises ConfigError when neither
    library is installed, Leased when another process drives the session.
    """
    watch()
    with ExitStack() as stack:
        log = store if isinstance(store, AgentLog) else stack.enter_context(open_log(store))
        session = stack.enter_context(log.session(name, **options))
        said = Conversations(session, strict=strict)
        stack.enter_context(RECORDING.held(Taking(said.sent)))
        yield session


class Taking:
    """Records what it sees; a watcher."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def handle(self, library: Any, request: Any, client: str, send: Send) -> Any:
        """Send a request and record the exchange."""
        return handle(library, self._say, request, client, send)

    async def ahandle(self, library: Any, request: Any, client: str, send: AsyncSend) -> Any:
        """The same for an async client."""
        return await ahandle(library, self._say, request, client, send)

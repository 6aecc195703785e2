"""`recording`: every exchange with a model inside a `with` block, whoever makes the client.

The recording that is in force is a context variable: tasks inherit it, other tasks and threads know
nothing of it. What looks at it stands in the HTTP libraries' own transports, and is put there when
the first recording begins.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from typing import Any, Unpack

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from sawlog.recorder.conversations import Conversations, Say
from sawlog.recorder.transport import LIBRARIES, ahandle, handle
from sawlog.store.errors import ConfigError
from sawlog.work.opening import SessionOptions
from sawlog.work.session import Session

_IN_FORCE: ContextVar[Say | None] = ContextVar("sawlog.recording", default=None)
_WATCHED: set[str] = set()
_LOCK = threading.Lock()


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
    if not any(map(_watch, LIBRARIES)):
        raise ConfigError(
            "neither httpx nor httpx2 is installed, so no client could be recorded: "
            "pip install 'sawlog[providers]'"
        )
    with ExitStack() as stack:
        log = store if isinstance(store, AgentLog) else stack.enter_context(open_log(store))
        session = stack.enter_context(log.session(name, **options))
        said = Conversations(session, strict=strict)
        token = _IN_FORCE.set(said.sent)
        try:
            yield session
        finally:
            _IN_FORCE.reset(token)


def _watch(name: str) -> bool:
    """Let the transports of a library look whether a recording is in force; False without it."""
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        return False
    with _LOCK:
        if name not in _WATCHED:
            library = import_module(name)
            _watch_sync(library)
            _watch_async(library)
            _WATCHED.add(name)
    return True


def _watch_sync(library: Any) -> None:
    send = library.HTTPTransport.handle_request

    @wraps(send)
    def handle_request(self: Any, request: Any) -> Any:
        say = _IN_FORCE.get()
        if say is None:
            return send(self, request)
        return handle(library, say, request, _client(request), lambda one: send(self, one))

    library.HTTPTransport.handle_request = handle_request


def _watch_async(library: Any) -> None:
    send = library.AsyncHTTPTransport.handle_async_request

    @wraps(send)
    async def handle_async_request(self: Any, request: Any) -> Any:
        say = _IN_FORCE.get()
        if say is None:
            return await send(self, request)
        return await ahandle(library, say, request, _client(request), lambda one: send(self, one))

    library.AsyncHTTPTransport.handle_async_request = handle_async_request


def _client(request: Any) -> str:
    """The client as it names itself, without its version."""
    return str(request.headers.get("user-agent", "")).partition("/")[0].partition(" ")[0]

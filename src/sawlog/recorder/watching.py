"""The HTTP libraries' own transports, watched: who is in force sees a request before it leaves.

Two may take part: one that records an exchange, and inside of it one that answers in the network's
place. What looks for them stands in the transports of `httpx` and `httpx2`, and is put there when
the first of them begins. Who is in force is a context variable: tasks inherit it, other tasks and
threads know nothing of it; unless it was begun for all, which holds where no other is in force.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from typing import Any, Protocol

from sawlog.recorder.transport import LIBRARIES
from sawlog.store.errors import ConfigError

Send = Callable[[Any], Any]
AsyncSend = Callable[[Any], Awaitable[Any]]


class Watcher(Protocol):
    """Takes a request of a library's client, and may `send` it on."""

    def handle(self, library: Any, request: Any, client: str, send: Send) -> Any:
        """Give the response to a request of a sync client, which calls itself `client`."""
        ...

    async def ahandle(self, library: Any, request: Any, client: str, send: AsyncSend) -> Any:
        """The same for an async client."""
        ...


class Slot:
    """Room for one watcher at a time in each context."""

    def __init__(self, name: str) -> None:
        self._own: ContextVar[Watcher | None] = ContextVar(name, default=None)
        self._all: list[Watcher] = []

    @property
    def watcher(self) -> Watcher | None:
        """Who is in force here."""
        return self._own.get() or (self._all[-1] if self._all else None)

    @contextmanager
    def held(self, watcher: Watcher) -> Generator[None]:
        """Let a watcher be in force in this context. Raises ConfigError without a library."""
        watch()
        token = self._own.set(watcher)
        try:
            yield
        finally:
            self._own.reset(token)

    def begin(self, watcher: Watcher) -> None:
        """Let it be in force wherever no other is, until `end`. Raises ConfigError as `held`."""
        watch()
        self._all.append(watcher)

    def end(self, watcher: Watcher) -> None:
        """Undo `begin`; of what never began it does nothing."""
        if watcher in self._all:
            self._all.remove(watcher)


RECORDING = Slot("sawlog.recording")
ANSWERING = Slot("sawlog.answering")

_WATCHED: set[str] = set()
_LOCK = threading.Lock()


def watch() -> None:
    """Let the transports of the libraries look who is in force. Raises ConfigError without any."""
    if not any([_watch(name) for name in LIBRARIES]):
        raise ConfigError(
            "neither httpx nor httpx2 is installed, so no client could be recorded: "
            "pip install 'sawlog[providers]'"
        )


def _watch(name: str) -> bool:
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
    leave = library.HTTPTransport.handle_request

    @wraps(leave)
    def handle_request(self: Any, request: Any) -> Any:
        name = _client(request)

        def send(one: Any) -> Any:
            answering = ANSWERING.watcher
            if answering is None:
                return leave(self, one)
            return answering.handle(library, one, name, lambda it: leave(self, it))

        recording = RECORDING.watcher
        return (
            send(request) if recording is None else recording.handle(library, request, name, send)
        )

    library.HTTPTransport.handle_request = handle_request


def _watch_async(library: Any) -> None:
    leave = library.AsyncHTTPTransport.handle_async_request

    @wraps(leave)
    async def handle_async_request(self: Any, request: Any) -> Any:
        name = _client(request)

        async def send(one: Any) -> Any:
            answering = ANSWERING.watcher
            if answering is None:
                return await leave(self, one)
            return await answering.ahandle(library, one, name, lambda it: leave(self, it))

        recording = RECORDING.watcher
        if recording is None:
            return await send(request)
        return await recording.ahandle(library, request, name, send)

    library.AsyncHTTPTransport.handle_async_request = handle_async_request


def _client(request: Any) -> str:
    """The client as it names itself, without its version."""
    return str(request.headers.get("user-agent", "")).partition("/")[0].partition(" ")[0]

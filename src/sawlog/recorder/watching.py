"""The HTTP libraries' own transports, watched: who is in force sees a request before it leaves.

First come those that record an exchange, inside of them one that answers in the network's place.
What looks for them stands in the transports of `httpx` and `httpx2`, and is put there when the
first of them begins. Who is in force is a context variable: tasks inherit it, other tasks and
threads know nothing of it. Beside it there may be one that was begun for all.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from importlib import import_module
from typing import Any, Protocol

from sawlog.recorder.requests import client_of
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
    """Room for one watcher in each context, and for one that is there for all."""

    def __init__(self, name: str) -> None:
        self._own: ContextVar[Watcher | None] = ContextVar(name, default=None)
        self._all: list[Watcher] = []

    @property
    def watchers(self) -> list[Watcher]:
        """Who is in force here: that of the context first, then the last one begun for all."""
        own = self._own.get()
        found = [] if own is None else [own]
        return [*found, *(one for one in self._all[-1:] if one is not own)]

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
        """Let it be in force everywhere until `end`. Raises ConfigError as `held`."""
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


def _in_force() -> list[Watcher]:
    """All that take part in an exchange, the outermost first; of those who answer only one does."""
    return [*RECORDING.watchers, *ANSWERING.watchers[:1]]


def _watch_sync(library: Any) -> None:
    leave = library.HTTPTransport.handle_request

    @wraps(leave)
    def handle_request(self: Any, request: Any) -> Any:
        def through(watcher: Watcher, inner: Send) -> Send:
            return lambda one: watcher.handle(library, one, client_of(one.headers), inner)

        send: Send = partial(leave, self)
        for watcher in reversed(_in_force()):
            send = through(watcher, send)
        return send(request)

    library.HTTPTransport.handle_request = handle_request


def _watch_async(library: Any) -> None:
    leave = library.AsyncHTTPTransport.handle_async_request

    @wraps(leave)
    async def handle_async_request(self: Any, request: Any) -> Any:
        def through(watcher: Watcher, inner: AsyncSend) -> AsyncSend:
            return lambda one: watcher.ahandle(library, one, client_of(one.headers), inner)

        send: AsyncSend = partial(leave, self)
        for watcher in reversed(_in_force()):
            send = through(watcher, send)
        return await send(request)

    library.AsyncHTTPTransport.handle_async_request = handle_async_request

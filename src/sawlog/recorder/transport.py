"""Recording at the transport of an HTTP client: the bytes that leave, the bytes that come.

One logic, and four thin faces: the clients stand on `httpx` or on `httpx2`, sync or async. No HTTP
library is imported here; whoever has a client has loaded its own.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import Any

from sawlog.recorder.conversations import Say
from sawlog.recorder.exchange import Exchange
from sawlog.recorder.recorder import Asked
from sawlog.recorder.requests import api_of, asked_as
from sawlog.store.errors import ConfigError
from sawlog.work.exchange import headers_of
from sawlog.work.offloop import finished

LIBRARIES = ("httpx", "httpx2")


def library_of_transport(transport: Any) -> Any | None:
    """The HTTP library that a transport belongs to; None for none that is known."""
    own = getattr(transport, "sawlog_library", None)
    if own is not None:
        return own  # one that stands in another's place
    for kind in type(transport).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in LIBRARIES:
            return sys.modules[name]
    return None


def transports_of(client: Any, wanted: str) -> list[tuple[dict[Any, Any], Any, Any]]:
    """Where a client holds its transports: what holds each, under which key, and the transport.

    Raises ConfigError for what has none; `wanted` says what it was to be.
    """
    http = getattr(client, "_client", client)
    inner = getattr(http, "_transport", None)
    mounts: dict[Any, Any] = getattr(http, "_mounts", {})
    mounted = [(mounts, key, one) for key, one in mounts.items() if one is not None]
    if inner is None or library_of_transport(inner) is None:
        raise ConfigError(
            f"{type(client).__name__} is no client that can be {wanted}: give an openai or "
            "anthropic client, or one of httpx or httpx2"
        )
    return [(vars(http), "_transport", inner), *mounted]


def in_place_of(transport: Any, send: Callable[..., Any], asend: Callable[..., Any]) -> Any:
    """A transport that hands its requests on: to `send`, and of async clients to `asend`, which is
    awaited. Of one that serves both kinds, such as `MockTransport`, one that serves both."""
    library = library_of_transport(transport)
    assert library is not None

    class Sync(library.BaseTransport):  # type: ignore[misc, name-defined]
        sawlog_library = library

        def handle_request(self, request: Any) -> Any:
            return send(library, request)

        def close(self) -> None:
            transport.close()

    class Async(library.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        sawlog_library = library

        async def handle_async_request(self, request: Any) -> Any:
            return await asend(library, request)

        async def aclose(self) -> None:
            await transport.aclose()

    class Both(Sync, Async):
        pass

    if not hasattr(transport, "handle_async_request"):
        return Sync()
    return Both() if hasattr(transport, "handle_request") else Async()


def handle(library: Any, say: Say, request: Any, client: str, send: Callable[[Any], Any]) -> Any:
    """Send a request through a sync transport's own `send`, and record the exchange."""
    url = str(request.url)
    api, path = api_of(request.method, url)
    if not api:
        return send(request)
    exchange = say(asked_as(api, path, url, request.headers, request.read(), client))
    if exchange is None:
        return send(request)
    try:
        response = send(request)
    except BaseException as error:
        exchange.broken(error)
        raise
    tap = Tap(library, exchange, response)
    if tap.whole:
        tap.end()
    else:
        response.stream = _faces(library)[0](response.stream, tap)
    return response


async def ahandle(
    library: Any, say: Say, request: Any, client: str, send: Callable[[Any], Any]
) -> Any:
    """The same for an async transport; the log is written off the loop."""
    url = str(request.url)
    api, path = api_of(request.method, url)
    if not api:
        return await send(request)
    body = await request.aread()
    exchange = await _begun(say, asked_as(api, path, url, request.headers, body, client))
    if exchange is None:
        return await send(request)
    try:
        response = await send(request)
    except BaseException as error:
        await _off_loop(exchange.broken, error)
        raise
    tap = Tap(library, exchange, response)
    if tap.whole:
        await _off_loop(tap.end)
    else:
        response.stream = _faces(library)[1](response.stream, tap)
    return response


async def _begun(say: Say, told: Asked) -> Exchange | None:
    """Record a request off the loop. Of a task that was cancelled meanwhile nothing leaves, and the
    log says that what it was about to send is over."""
    begun: list[Exchange | None] = []
    try:
        await _off_loop(lambda: begun.append(say(told)))
    except BaseException as error:
        for exchange in begun:
            if exchange is not None:
                await _off_loop(exchange.broken, error)
        raise
    return begun[0]


async def _off_loop(work: Callable[..., Any], *args: Any) -> None:
    """Do blocking work in a thread; a cancelled task waits for it, for it may be in the log."""
    import anyio

    with anyio.CancelScope(shield=True):
        in_thread = anyio.to_thread.run_sync(work, *args)
        if not _in_asyncio():
            await in_thread
        else:
            # The scope holds off anyio's own cancellations alone, not those of asyncio's tasks.
            await finished(asyncio.ensure_future(in_thread))


def _in_asyncio() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


class Tap:
    """Takes in what a response brings, its content encoding undone."""

    def __init__(self, library: Any, exchange: Exchange, response: Any) -> None:
        self.exchange = exchange
        headers = headers_of(response)
        exchange.head(int(response.status_code), headers)
        # The library's own decoder, in a response of its own: that of the caller keeps its state.
        shadow = library.Response(response.status_code, headers=response.headers)
        self._decoder = shadow._get_content_decoder()
        self._failed: Exception | None = None
        # One that answers from memory gives its body with the head, read and decoded: a client
        # takes it from there and never asks for the stream.
        self.whole = bool(response.is_stream_consumed)
        """True when the whole body came with the head: `end` may follow at once."""
        if self.whole:
            self._decoder = library.Response(200)._get_content_decoder()
            exchange.feed(response.content)
            return
        encoding = headers.get("content-encoding", "").strip()
        if encoding.lower() not in ("", "identity") and _is_identity(self._decoder):
            self._failed = ConnectionError(f"nothing here reads the answer's encoding {encoding!r}")

    def feed(self, data: bytes) -> None:
        """Take in bytes as they came."""
        self._take(self._decoder.decode, data)

    def end(self) -> None:
        """The body is over."""
        self._take(self._decoder.flush)
        if self._failed is None:
            self.exchange.end()
        else:
            self.exchange.broken(self._failed)

    def _take(self, decode: Callable[..., Any], *data: bytes) -> None:
        if self._failed is not None:
            return
        try:
            decoded = decode(*data)  # bytes of httpx, of httpx2 their pieces in turn
            plain = decoded if isinstance(decoded, bytes) else b"".join(decoded)
        except Exception as error:
            self._failed = error  # the caller meets the same, and more is not known
            return
        self.exchange.feed(plain)


def _is_identity(decoder: Any) -> bool:
    return type(decoder).__name__ == "IdentityDecoder"


@cache
def _faces(library: Any) -> tuple[type[Any], type[Any]]:
    """The response streams of a library that let a tap take part, sync and async."""

    class Tapped(library.SyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, tap: Tap) -> None:
            self._inner = inner
            self._tap = tap

        def __iter__(self) -> Iterator[bytes]:
            try:
                for chunk in self._inner:
                    self._tap.feed(chunk)
                    yield chunk
            except GeneratorExit:
                raise
            except BaseException as error:
                self._tap.exchange.broken(error)
                raise
            self._tap.end()

        def close(self) -> None:
            try:
                self._tap.exchange.broken(ConnectionError("the reader closed the answer"))
            finally:
                self._inner.close()

    class AsyncTapped(library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, tap: Tap) -> None:
            self._inner = inner
            self._tap = tap

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._inner:
                    self._tap.feed(chunk)
                    yield chunk
            except GeneratorExit:
                raise
            except BaseException as error:
                await _off_loop(self._tap.exchange.broken, error)
                raise
            await _off_loop(self._tap.end)

        async def aclose(self) -> None:
            try:
                if not self._tap.exchange.done:
                    closed = ConnectionError("the reader closed the answer")
                    await _off_loop(self._tap.exchange.broken, closed)
            finally:
                await self._inner.aclose()

    return Tapped, AsyncTapped

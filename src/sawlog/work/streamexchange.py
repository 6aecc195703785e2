"""Opening a stream through a client, whoever it is: its own events, and the bytes beside them.

No HTTP library is imported here: an official client or an httpx client brings its own.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from sawlog.builder.replies.sse import Event, Events
from sawlog.store.errors import ConfigError
from sawlog.work.exchange import (
    Outgoing,
    RawReply,
    client_kind,
    from_error,
    headers_of,
    http_arguments,
    library_of,
    official_arguments,
    official_path,
    reply_bytes,
    reply_of,
)

Tap = Callable[[bytes], None]

# Where each library keeps the type of a whole reply, and that of one event of a stream.
_TYPES = {
    "anthropic": ("types", "Message", "RawMessageStreamEvent"),
    "openai-chat": ("types.chat", "ChatCompletion", "ChatCompletionChunk"),
    "deepseek-chat": ("types.chat", "ChatCompletion", "ChatCompletionChunk"),
    "openai-responses": ("types.responses", "Response", "ResponseStreamEvent"),
}


class Opened:
    """A stream whose head has arrived: status, headers, and the client's own events.

    Whoever is tapped in gets the bytes of the body in front of the events that they hold.
    """

    def __init__(self, response: Any, events: Iterator[Any] | None = None) -> None:
        self.status = int(response.status_code)
        self.headers: Mapping[str, str] = headers_of(response)
        self._response = response
        self._tap: Tap = _nowhere
        _tapped(response, self._give)
        self.events = _sse(response.iter_bytes()) if events is None else events

    def tap(self, tap: Tap) -> None:
        """Send the body's bytes there."""
        self._tap = tap

    def close(self) -> None:
        """Give the connection back. Twice is the same as once."""
        self._response.close()

    def _give(self, data: bytes) -> None:
        self._tap(data)


class AsyncOpened:
    """The same of a client whose calls are awaited."""

    def __init__(self, response: Any, events: AsyncIterator[Any] | None = None) -> None:
        self.status = int(response.status_code)
        self.headers: Mapping[str, str] = headers_of(response)
        self._response = response
        self._tap: Tap = _nowhere
        _atapped(response, self._give)
        self.events = _asse(response.aiter_bytes()) if events is None else events

    def tap(self, tap: Tap) -> None:
        """Send the body's bytes there."""
        self._tap = tap

    async def aclose(self) -> None:
        """Give the connection back. Twice is the same as once."""
        await self._response.aclose()

    def _give(self, data: bytes) -> None:
        self._tap(data)


def open_stream(client: Any, step: Outgoing, timeout: float | None) -> Opened | RawReply:
    """Send the step's bytes, and give the stream that begins; what is no stream is read whole.

    Raises what the client raises when the connection breaks.
    """
    kind = client_kind(client)
    if kind == "callable":
        return _of_callable(client(step.body))
    if kind == "official":
        try:
            stream = client.post(
                official_path(client, step.path),
                **_official(client, step, timeout, "Stream"),
            )
        except Exception as error:
            return from_error(error)
        if _streams(stream.response):
            return Opened(stream.response, iter(stream))
        stream.response.read()
        return reply_of(stream.response)
    path = official_path(client, step.path)
    request = client.build_request("POST", path, **http_arguments(step, timeout))
    response = client.send(request, stream=True)
    if _streams(response):
        return Opened(response)
    try:
        response.read()
    finally:
        response.close()
    return reply_of(response)


async def aopen_stream(
    client: Any, step: Outgoing, timeout: float | None
) -> AsyncOpened | Opened | RawReply:
    """`open_stream` for clients whose calls are awaited; a callable may be of either kind."""
    kind = client_kind(client)
    if kind == "callable":
        given = client(step.body)
        return _of_callable(await given if inspect.isawaitable(given) else given)
    if kind == "official":
        try:
            stream = await client.post(
                official_path(client, step.path),
                **_official(client, step, timeout, "AsyncStream"),
            )
        except Exception as error:
            return from_error(error)
        if _streams(stream.response):
            return AsyncOpened(stream.response, aiter(stream))
        await stream.response.aread()
        return reply_of(stream.response)
    path = official_path(client, step.path)
    request = client.build_request("POST", path, **http_arguments(step, timeout))
    response = await client.send(request, stream=True)
    if _streams(response):
        return AsyncOpened(response)
    try:
        await response.aread()
    finally:
        await response.aclose()
    return reply_of(response)


def _official(client: Any, step: Outgoing, timeout: float | None, stream: str) -> dict[str, Any]:
    library = sys.modules[library_of(client)]
    place, whole, event = _TYPES[step.api]
    module: Any = library
    for name in place.split("."):
        module = getattr(module, name)
    return {
        **official_arguments(client, step, timeout),
        "cast_to": getattr(module, whole),
        "stream": True,
        "stream_cls": getattr(library, stream)[getattr(module, event)],
    }


def _streams(response: Any) -> bool:
    kind = str(response.headers.get("content-type", ""))
    return 200 <= int(response.status_code) < 300 and kind.startswith("text/event-stream")


def _of_callable(given: object) -> Opened | RawReply:
    """What a caller's own function gives: the bytes of the whole body, or its pieces in turn."""
    if isinstance(given, bytes | bytearray | str | Mapping):
        return RawReply(200, {}, reply_bytes(cast(object, given)))
    if not isinstance(given, Iterable):
        raise ConfigError(
            f"{type(given).__name__} is no stream: give the body's bytes, or their pieces in turn"
        )
    return Opened(_Pieces(cast(Iterable[bytes], given)))


class _Pieces:
    """The pieces of a body that a caller's own function gives, as a response."""

    status_code = 200

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.headers: dict[str, str] = {}
        self._pieces = pieces

    def iter_bytes(self) -> Iterator[bytes]:
        yield from self._pieces

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


def _nowhere(data: bytes) -> None:
    """Drop what nobody asked for yet."""


def _tapped(response: Any, give: Tap) -> None:
    """Let whoever reads the body's bytes give them away, too, before they use them."""
    read = response.iter_bytes

    def iter_bytes(*args: Any, **options: Any) -> Iterator[bytes]:
        for chunk in read(*args, **options):
            give(chunk)
            yield chunk

    response.iter_bytes = iter_bytes


def _atapped(response: Any, give: Tap) -> None:
    read = response.aiter_bytes

    async def aiter_bytes(*args: Any, **options: Any) -> AsyncIterator[bytes]:
        async for chunk in read(*args, **options):
            give(chunk)
            yield chunk

    response.aiter_bytes = aiter_bytes


def _sse(chunks: Iterable[bytes]) -> Iterator[Event]:
    events = Events()
    for chunk in chunks:
        yield from events.feed(chunk)
    yield from events.close()


async def _asse(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    events = Events()
    async for chunk in chunks:
        for event in events.feed(chunk):
            yield event
    for event in events.close():
        yield event

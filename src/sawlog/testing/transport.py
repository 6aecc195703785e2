"""Answering at the transport of an HTTP client: a request comes in, the recorded reply goes back.

As with recording there is one logic for `httpx` and `httpx2`, sync and async, and no HTTP library
is imported here. The bodies come in pieces, so that whoever records beside sees them as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

from sawlog.recorder.requests import api_of
from sawlog.recorder.transport import in_place_of, transports_of
from sawlog.recorder.watching import AsyncSend, Send
from sawlog.testing.playing import Player
from sawlog.testing.recordings import Answer


class Answering:
    """Answers from a recording what official clients ask; a watcher.

    What else the program asks of the network goes its way.
    """

    def __init__(self, player: Player) -> None:
        self._player = player

    def handle(self, library: Any, request: Any, client: str, send: Send) -> Any:
        """Give the recorded response, or send on what is for no model."""
        if _asks_no_model(request, client):
            return send(request)
        return answered(library, self._player, request, request.read())

    async def ahandle(self, library: Any, request: Any, client: str, send: AsyncSend) -> Any:
        """The same for an async client."""
        if _asks_no_model(request, client):
            return await send(request)
        return answered(library, self._player, request, await request.aread())


_OFFICIAL = ("OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic")


def _asks_no_model(request: Any, client: str) -> bool:
    if api_of(request.method, str(request.url))[0]:
        return False
    return client not in _OFFICIAL and "x-stainless-lang" not in request.headers


def answered(library: Any, player: Player, request: Any, body: bytes) -> Any:
    """The library's response to a request. Raises ReplayFailed, and what a broken line raises."""
    url = str(request.url)
    api, _ = api_of(request.method, url)
    if not api:
        raise player.unknown(request.method, url.partition("?")[0])
    answer = player.answer(api, body)
    if not answer.status:
        raise library.RemoteProtocolError(_LOST, request=request)
    stream = _faces(library)(answer, request)
    return library.Response(answer.status, headers=answer.headers, stream=stream)


_LOST = "the connection broke, as it did when this was recorded"


def wrap(client: Any, player: Player) -> None:
    """Put an answering transport in the place of each of a client's own. Raises ConfigError."""

    def send(library: Any, request: Any) -> Any:
        return answered(library, player, request, request.read())

    async def asend(library: Any, request: Any) -> Any:
        return answered(library, player, request, await request.aread())

    for holder, key, transport in transports_of(client, "replayed to"):
        holder[key] = in_place_of(transport, send, asend)


@cache
def _faces(library: Any) -> type[Any]:
    """The response stream of a library that gives a recorded answer, sync and async."""

    class Pieces(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, answer: Answer, request: Any) -> None:
            self._answer = answer
            self._request = request

        def __iter__(self) -> Iterator[bytes]:
            yield from self._answer.pieces
            self._end()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in self._answer.pieces:
                yield piece
            self._end()

        def _end(self) -> None:
            if self._answer.drops:
                raise library.RemoteProtocolError(_LOST, request=self._request)

    return Pieces

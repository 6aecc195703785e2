"""Handing one request through: what the client sent leaves as it is, what comes back as it came.

Only the headers that hold for one connection are left out, and Host names where the request goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import h11
import httpx

from sawlog.proxy.keeping import Keeping, check_name
from sawlog.proxy.refusals import Refusal, no_answer, not_passed, not_recorded
from sawlog.proxy.upstreams import Elsewhere, Place
from sawlog.proxy.wire import Headers, HungUp, Line, TooMuch
from sawlog.recorder.exchange import Exchange
from sawlog.recorder.requests import asked_as, client_of
from sawlog.recorder.transport import Tap
from sawlog.store.errors import ConfigError, SawlogError
from sawlog.work.dialling import secrets_in, without

_SESSION = b"x-sawlog-session"
_LARGEST = 128 * 1024 * 1024
"""Bytes of a request that is recorded; the largest that any provider takes are 32 MiB of JSON."""

_OF_ONE_CONNECTION = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization")
    + (b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect")
)
_TURNS = 4
"""Turns of the loop in which a hang-up that has arrived is seen by who waits for it."""

_FAILURES = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError)


class Passing:
    """Hands requests through. `closing` is set when the proxy ends."""

    def __init__(self, client: httpx.AsyncClient, keeping: Keeping, closing: asyncio.Event) -> None:
        self._client = client
        self._keeping = keeping
        self._closing = closing
        self._under_way: dict[Line, asyncio.Event] = {}

    async def hand(self, line: Line, head: h11.Request, to: Place) -> None:
        """Answer one request with what its upstream answers.

        Raises Refusal when nothing was sent to the client yet, HungUp when it has left.
        """
        headers = head.headers.raw_items()
        if to.api:
            await self._recorded(line, head, headers, to)
        else:
            self._keeping.passed()
            chunked = any(name.lower() == b"transfer-encoding" for name, _ in headers)
            more = [(b"Transfer-Encoding", b"chunked")] if chunked else []
            request = _request(head, headers, to, more, _Upload(line))
            await self._through(line, request, None, to, _cleaning(headers))

    async def _recorded(self, line: Line, head: h11.Request, headers: Headers, to: Place) -> None:
        given = {name.decode("latin-1").lower(): value for name, value in _texts(headers)}
        name = _session(headers) or self._keeping.first
        try:
            body = await line.whole(_LARGEST)
        except TooMuch:
            message = f"a request that is recorded has {_LARGEST} bytes at most"
            raise Refusal(413, "sawlog_not_passed_on", message) from None
        given.pop(_SESSION.decode(), None)
        told = asked_as(to.api, to.path, to.url, given, body, client_of(given))
        done = asyncio.Event()
        await self._settled()
        try:
            exchange = await self._keeping.off_loop(self._keeping.sent, name, told)
        except SawlogError as error:
            raise not_recorded(error) from error
        # With a length of its own, in place of whatever the client bounded it by.
        framed = [pair for pair in headers if pair[0].lower() != b"content-length"]
        more = [(b"Content-Length", str(len(body)).encode())]
        request = _request(head, framed, to, more, httpx.ByteStream(body))
        self._under_way[line] = done
        try:
            await self._through(line, request, exchange, to, told.clean)
        finally:
            del self._under_way[line]
            done.set()

    async def _settled(self) -> None:
        """Wait until what clients have just left is in the log: they may go on from it."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        for line, done in list(self._under_way.items()):
            if line.gone.is_set():
                await done.wait()

    async def _through(
        self,
        line: Line,
        request: httpx.Request,
        exchange: Exchange | None,
        to: Place,
        clean: Callable[[str], str],
    ) -> None:
        """Send a request and hand the answer back, as long as the client is there."""
        passing = asyncio.create_task(self._pass(line, request, exchange))
        gone = asyncio.create_task(line.gone.wait())
        closing = asyncio.create_task(self._closing.wait())
        error: BaseException | None = None
        try:
            await asyncio.wait((passing, gone, closing), return_when=asyncio.FIRST_COMPLETED)
            if not passing.done():
                passing.cancel()
                await asyncio.wait((passing,))
        finally:
            gone.cancel()
            closing.cancel()
        if not passing.cancelled():
            error = passing.exception()
            if error is None:
                return
        if isinstance(error, SawlogError):
            self._keeping.say(f"an answer could not be recorded: {error}")
        if exchange is not None and not exchange.done:
            reason = error if isinstance(error, _FAILURES) else None
            if reason is None or line.gone.is_set() or isinstance(error, HungUp):
                left = "the proxy ended" if self._closing.is_set() else "the client hung up"
                reason = ConnectionError(left)
            await self._keeping.off_loop(self._keeping.broken, exchange, reason)
        if isinstance(error, Exception) and not line.started and not line.gone.is_set():
            if isinstance(error, SawlogError):
                raise not_recorded(error) from error
            if not isinstance(error, _FAILURES):
                raise error
            raise no_answer(to.upstream.authority, error, clean) from error
        if error is not None and not isinstance(error, _FAILURES + (SawlogError,)):
            raise error
        raise HungUp("the answer was not handed over whole")

    async def _pass(self, line: Line, request: httpx.Request, exchange: Exchange | None) -> None:
        response = await self._client.send(request, stream=True)
        try:
            copy = None if exchange is None else _Copy(self._keeping, exchange, response)
            reason = response.extensions.get("reason_phrase", b"")
            await line.start(response.status_code, reason, _passed_back(response))
            async for piece in response.aiter_raw():
                if copy is not None:
                    await copy.take(piece)
                await line.send(piece)
            if copy is not None:
                await copy.end()
            await line.finish()
        finally:
            await response.aclose()


class _Copy:
    """Takes what an answer brings into the record.

    What ends an answer is in the log before the client has it: it may go on at once, and then the
    log must know what it goes on from.
    """

    def __init__(self, keeping: Keeping, exchange: Exchange, response: httpx.Response) -> None:
        self._keeping = keeping
        self._exchange = exchange
        self._tap = Tap(httpx, exchange, response)
        length = response.headers.get("content-length", "")
        self._left = int(length) if length.isdecimal() else None

    async def take(self, piece: bytes) -> None:
        """Take in bytes as they came."""
        self._tap.feed(piece)
        if self._left is not None:
            self._left -= len(piece)
        if self._left == 0 or self._exchange.over:
            await self.end()

    async def end(self) -> None:
        """The answer is over. Raises SawlogError, in strict recording, when that fails."""
        if self._exchange.done:
            return
        try:
            await self._keeping.off_loop(self._tap.end)
        except SawlogError as error:
            if self._keeping.strict:
                raise
            self._keeping.say(f"an answer could not be recorded: {error}")


class _Upload(httpx.AsyncByteStream):
    """A request's body, sent on as it arrives."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._line.body():
            yield piece


def _request(
    head: h11.Request, headers: Headers, to: Place, more: Headers, stream: httpx.AsyncByteStream
) -> httpx.Request:
    upstream = to.upstream
    own = _without_own(headers)
    host = (b"Host", upstream.authority.encode("ascii"))
    passed = [host, *(pair for pair in own if pair[0].lower() not in (b"host", _SESSION)), *more]
    target = to.target.encode("ascii")
    url, extensions = httpx.URL(upstream.origin + to.target), {}
    if url.raw_path != target:
        # Spelled in a way that the library would mend: the very bytes go beside it.
        url, extensions = httpx.URL(upstream.origin + "/"), {"target": target}
    method = head.method.decode("ascii")
    return httpx.Request(method, url, headers=passed, stream=stream, extensions=extensions)


def _passed_back(response: httpx.Response) -> Headers:
    return _without_own(response.headers.raw)


def _without_own(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Headers without those that hold for one connection, by their names or as it names them."""
    named = {
        one.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for one in value.split(b",")
    }
    own = _OF_ONE_CONNECTION | named
    chunked = any(name.lower() == b"transfer-encoding" for name, _ in headers)
    if chunked:
        own = own | {b"content-length"}
    return [(name, value) for name, value in headers if name.lower() not in own]


def _texts(headers: Headers) -> list[tuple[bytes, str]]:
    return [(name, value.decode("latin-1")) for name, value in headers]


def _cleaning(headers: Headers) -> Callable[[str], str]:
    """What takes the keys in these headers out of a text."""
    return without(secrets_in({name.decode("latin-1"): text for name, text in _texts(headers)}))


def _session(headers: Headers) -> str:
    """The session that a client asks for; empty for none. Raises Refusal for what is no name."""
    found = [value for name, value in headers if name.lower() == _SESSION]
    if not found:
        return ""
    try:
        name = found[-1].decode()
        check_name(name)
    except (UnicodeDecodeError, ConfigError) as error:
        raise not_passed(Elsewhere(400, f"in the header x-sawlog-session: {error}")) from None
    return name

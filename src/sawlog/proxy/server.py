"""The proxy: it listens, says where, and hands each request to where it leads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import h11
import httpx

from sawlog.agentlog import AgentLog
from sawlog.proxy.keeping import Keeping, Tally
from sawlog.proxy.passing import Passing
from sawlog.proxy.refusals import Refusal, not_passed
from sawlog.proxy.upstreams import Elsewhere, Upstream, check_host, place
from sawlog.proxy.wire import Line
from sawlog.store.errors import ConfigError

_PATIENCE = 2.0
"""Seconds that clients have at the end to take what was sent to them."""

_CONNECT = 30.0
"""Seconds until a provider takes a connection. How long an answer may take the client decides."""


class Proxy:
    """A recording proxy; `async with` it, and it listens.

    `first` names the session of the first conversation. `host` is where it listens, `names` are
    further names that clients call it by, `say` is told of what went wrong, in one line each.
    """

    def __init__(
        self,
        log: AgentLog,
        known: Sequence[Upstream],
        *,
        first: str,
        strict: bool = True,
        host: str = "127.0.0.1",
        port: int = 0,
        names: Sequence[str] = (),
        say: Callable[[str], None] = print,
    ) -> None:
        self._known = known
        self._host = host
        self._port = port
        self._names = (host, *names)
        self._say = say
        self._keeping = Keeping(log, first, strict=strict, say=say)
        self._closing = asyncio.Event()
        self._lines: dict[asyncio.Task[None], Line] = {}
        self._server: asyncio.Server | None = None
        self._client: httpx.AsyncClient | None = None
        self._passing: Passing | None = None

    async def __aenter__(self) -> Proxy:
        # Pauses between requests are the client's matter, and so is how many it makes at once.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        timeout = httpx.Timeout(None, connect=_CONNECT)
        self._client = httpx.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False)
        self._passing = Passing(self._client, self._keeping, self._closing)
        try:
            self._server = await asyncio.start_server(
                self._connected, self._host, self._port, backlog=512
            )
        except OSError as error:
            await self._client.aclose()
            raise ConfigError(
                f"the proxy cannot listen on {self._host} port {self._port} "
                f"({error.strerror or error}): give another --port, or 0 for a free one"
            ) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        """Take no more requests, log what is under way as broken off, give the leases back."""
        assert self._server is not None and self._client is not None
        self._server.close()
        self._closing.set()
        if self._lines:
            waiting = (await asyncio.wait(self._lines, timeout=_PATIENCE))[1]
            for task in waiting:
                # Its client sends or reads nothing, and would be waited for without an end.
                self._lines[task].abort()
            if waiting:
                await asyncio.wait(waiting)
        await self._server.wait_closed()
        await self._client.aclose()
        await asyncio.get_running_loop().run_in_executor(None, self._keeping.close)

    async def open_first(self, wait: float = 0.0) -> None:
        """Take the lease of the first session now, not with the first request.

        `wait` (seconds) is for another owner's lease to end. Raises Leased.
        """
        await self._keeping.off_loop(self._keeping.open, self._keeping.first, wait)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """Its URL, without a path."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def tally(self) -> Tally:
        """What went through so far."""
        return self._keeping.tally

    # --- connections ------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        line = self._lines[task] = Line(reader, writer)
        try:
            await self._serve(line)
        except ConnectionError:
            line.cut()
        except Exception as error:
            # A fault of the proxy's own ends one connection, not all of them. Its words may hold
            # what a client sent.
            self._say(f"a connection ended by a fault of the proxy: {type(error).__name__}")
            line.cut()
        finally:
            await line.close()
            del self._lines[task]

    async def _serve(self, line: Line) -> None:
        while not self._closing.is_set():
            try:
                head = await self._next(line)
                if head is None:
                    return
                await self._answer(line, head)
            except Refusal as refusal:
                await line.refuse(refusal.status, refusal.body)
                return
            if not line.again():
                return

    async def _next(self, line: Line) -> h11.Request | None:
        """The next request of a connection; None when it, or the proxy, is done."""
        reading = asyncio.create_task(line.head())
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait((reading, closing), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            return None
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint or 400
            raise Refusal(status, "sawlog_not_passed_on", "this is no HTTP/1.1 request") from None
        finally:
            reading.cancel()
            closing.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await reading

    async def _answer(self, line: Line, head: h11.Request) -> None:
        assert self._passing is not None
        given = dict(head.headers)
        try:
            check_host(given.get(b"host", b"").decode("latin-1"), self._names, line.local)
            if b"websocket" in given.get(b"upgrade", b"").lower():
                raise Elsewhere(501, "websockets are not passed on: let the client use HTTP")
            method, target = head.method.decode("latin-1"), head.target.decode("latin-1")
            to = place(self._known, method, target)
        except Elsewhere as error:
            raise not_passed(error) from None
        await self._passing.hand(line, head, to)

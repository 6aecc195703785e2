"""One connection of a client: requests as they arrive, answers as they leave, and a watch on
whether the client is still there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

import h11

_LARGEST_HEAD = 256 * 1024
_PIECE = 64 * 1024
_AHEAD = 1024 * 1024
"""Bytes that a client may send ahead while it is answered; more are left unread."""

Headers = Sequence[tuple[bytes, bytes]]


class HungUp(ConnectionError):
    """The client left before its request was over."""


class TooMuch(Exception):
    """A request body has more bytes than are held."""


class Line:
    """A connection. One task uses it; `gone` may be waited for by any."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=_LARGEST_HEAD)
        self._watching: asyncio.Task[None] | None = None
        self.gone = asyncio.Event()
        self.started = False
        """True when the head of the answer has left."""
        self.local = str((writer.get_extra_info("sockname") or ("",))[0])

    # --- what comes -------------------------------------------------------------------------------

    async def head(self) -> h11.Request | None:
        """The next request; None when the client is done. Raises h11.RemoteProtocolError."""
        self.started = False
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                self._h11.receive_data(await self._read())
            elif isinstance(event, h11.Request):
                return event
            else:
                return None

    async def body(self) -> AsyncGenerator[bytes]:
        """The body of the request, piece by piece. Raises HungUp when it breaks off."""
        try:
            while True:
                if self._h11.they_are_waiting_for_100_continue:
                    await self._write(h11.InformationalResponse(status_code=100, headers=[]))
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    self._h11.receive_data(await self._read())
                elif isinstance(event, h11.Data):
                    yield bytes(event.data)
                else:
                    break
        except (h11.RemoteProtocolError, ConnectionError) as error:
            self.gone.set()
            raise HungUp("the client left in the middle of its request") from error
        self._watching = asyncio.create_task(self._watch())

    async def whole(self, largest: int) -> bytes:
        """The whole body. Raises TooMuch above so many bytes."""
        data = bytearray()
        async for piece in self.body():
            data += piece
            if len(data) > largest:
                raise TooMuch
        return bytes(data)

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(_PIECE)
        except ConnectionError:
            return b""

    async def _watch(self) -> None:
        ahead = 0
        while ahead < _AHEAD:
            data = await self._read()
            self._h11.receive_data(data)
            ahead += len(data)
            if not data:
                self.gone.set()
                return

    # --- what leaves ------------------------------------------------------------------------------

    async def start(self, status: int, reason: bytes, headers: Headers) -> None:
        """Send the head of an answer."""
        self.started = True
        # A list of pairs is what h11 takes, and it keeps the names as they are spelled.
        await self._write(h11.Response(status_code=status, reason=reason, headers=list(headers)))

    async def send(self, data: bytes) -> None:
        """Send bytes of the body; waits while the client does not take them."""
        if data:
            await self._write(h11.Data(data=data))

    async def finish(self) -> None:
        """End the answer, and be ready for the next request on this connection."""
        await self._write(h11.EndOfMessage())
        await self._unwatch()

    async def refuse(self, status: int, body: bytes) -> None:
        """Send a whole answer of the proxy's own, which ends the connection."""
        with contextlib.suppress(HungUp, TooMuch, h11.LocalProtocolError):
            if self._h11.their_state is h11.SEND_BODY:
                # Unread bytes would turn the end of the connection into a reset.
                await self.whole(_AHEAD)
        headers = [
            (b"Content-Type", b"application/json"),
            (b"Content-Length", str(len(body)).encode()),
            (b"Connection", b"close"),
        ]
        with contextlib.suppress(ConnectionError):
            await self.start(status, b"", headers)
            await self.send(body)
            await self.finish()

    def again(self) -> bool:
        """True when another request may follow on this connection."""
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        return True

    def cut(self) -> None:
        """Break the connection off, so that the client cannot take what it got for the whole."""
        if self._h11.their_http_version == b"1.0":
            self.abort()  # there the end of the connection is that of the body
        self._writer.close()

    def abort(self) -> None:
        """Drop the connection with all that has not left."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the connection, after what was sent has left."""
        await self._unwatch()
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _unwatch(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _write(self, event: h11.Event) -> None:
        data = self._h11.send(event)
        if data:
            try:
                self._writer.write(data)
                await self._writer.drain()
            except ConnectionError as error:
                self.gone.set()
                raise HungUp("the client left in the middle of its answer") from error

"""The HTTP side of the fake provider: requests in; answers out, whole, in pieces or broken."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from sawlog.providers.fake_streams import Piece
from sawlog.providers.strict import Refusal

_LARGEST = 256 * 1024 * 1024  # bytes that are read of a body, far above what any provider takes
_LOOK = 0.02  # seconds between two looks at whether a client that is kept waiting is still there


@dataclass
class Received:
    """A request as it arrived: `path` with its query, header names in lower case, the body's very
    bytes. `api` is None for a path that no API has. `status` and `answer` are what was decided to
    be sent back (0: nothing), `refusal` the reason if the checker refused the request. `hung_up`:
    the client left before it had all of that, which shows when the fake waits or writes on."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    api: str | None = None
    status: int = 0
    answer: bytes = b""
    refusal: Refusal | None = None
    hung_up: bool = False


@dataclass(frozen=True)
class Answer:
    """What goes back: after `delay` seconds the status, headers and body, of which only the first
    `cut` bytes leave before the connection drops. Status 0: it drops without an answer.

    `pieces` are the body as a stream of events, each sent for itself; after the last one the
    connection `drops` before the stream has its end, or not."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay: float = 0.0
    cut: int | None = None
    pieces: Sequence[Piece] | None = None
    drops: bool = False


class Server(ThreadingHTTPServer):
    """Listens on loopback and hands each request to `answer`, from one thread a connection."""

    request_queue_size = 128

    def __init__(self, port: int, answer: Callable[[Received], Answer]) -> None:
        self.answer = answer
        self.stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._workers: list[threading.Thread] = []
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def stop(self) -> None:
        """Drops every connection and waits until their threads are gone."""
        self.stopping.set()
        self.shutdown()
        with self._lock:
            for connection in self._open:
                _drop(connection)
        for worker in self._workers:
            worker.join()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives a connection its thread: one that stop() waits for, and a daemon, since a fake that
        nobody stops must not keep its process alive."""
        worker = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        worker.start()
        self._workers = [*(other for other in self._workers if other.is_alive()), worker]

    def opened(self, connection: socket.socket) -> None:
        """A connection's thread begins."""
        with self._lock:
            self._open.add(connection)
            if self.stopping.is_set():  # accepted just before the end
                _drop(connection)

    def closed(self, connection: socket.socket) -> None:
        """A connection's thread ends."""
        with self._lock:
            self._open.discard(connection)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_version = "sawlog-fake"

    @property
    def _server(self) -> Server:
        return cast(Server, self.server)

    def setup(self) -> None:
        super().setup()
        self._server.opened(self.connection)

    def finish(self) -> None:
        self._server.closed(self.connection)
        with contextlib.suppress(ConnectionError):  # the other end left, or stop() dropped it
            super().finish()

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # as above: nobody is left to answer
            super().handle()

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.command, self.path, headers, body)
        answer = self._server.answer(received)
        try:
            received.hung_up = self._leaves(answer.delay) or not self._sent(answer)
        except ConnectionError:
            received.hung_up = not self._server.stopping.is_set()
        if received.hung_up:
            self.close_connection = True

    def _sent(self, answer: Answer) -> bool:
        """Sends an answer; False if the client left meanwhile."""
        if answer.status == 0 or self._server.stopping.is_set():
            self._hang_up()
            return True
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.pieces is not None:
            return self._streamed(answer.pieces, answer.drops)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body if answer.cut is None else answer.body[: answer.cut])
        if answer.cut is not None:
            self._hang_up()
        return True

    def _streamed(self, pieces: Sequence[Piece], drops: bool) -> bool:
        """Sends a stream, each piece in a chunk of its own; False if the client left meanwhile."""
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate(pieces):
            if self._leaves(piece.wait):
                return False
            if self._server.stopping.is_set():
                self._hang_up()
                return True
            chunk = b"%x\r\n%b\r\n" % (len(piece.data), piece.data) if piece.data else b""
            # The end goes out with the last piece: who leaves at [DONE] has read all there is.
            ends = number == len(pieces) - 1 and not drops
            self.wfile.write(chunk + (b"0\r\n\r\n" if ends else b""))
        if drops:
            self._hang_up()
        return True

    def _leaves(self, seconds: float) -> bool:
        """Waits, and tells whether the client hung up meanwhile or before; short when it did, or
        when the server stops."""
        until = time.monotonic() + seconds
        while not self._server.stopping.is_set():
            if _is_closed(self.connection):
                return not self._server.stopping.is_set()
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._server.stopping.wait(min(left, _LOOK))
        return False

    def _hang_up(self) -> None:
        self.close_connection = True
        _drop(self.connection)

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST  # no API has them here, and they are kept too

    def log_message(self, format: str, *args: object) -> None:
        """Keeps silent: what was received is in FakeProvider.requests."""

    def _body(self) -> bytes | None:
        """The body; None if the connection broke before its end, or the body has no end in sight:
        then there is nothing to answer and the connection is closed."""
        if self.headers.get("Transfer-Encoding", "").strip().lower() == "chunked":
            return self._chunks()
        length = int(self.headers.get("Content-Length") or 0)
        if length > _LARGEST:
            return None
        body = self.rfile.read(length)
        return body if len(body) == length else None

    def _chunks(self) -> bytes | None:
        body = b""
        while len(body) <= _LARGEST:
            size = int(self.rfile.readline().partition(b";")[0].strip() or b"0", 16)
            chunk = self.rfile.read(size)
            if len(chunk) != size:
                return None
            self.rfile.readline()  # the line end behind the chunk (with none, that of the trailer)
            if size == 0:
                return body
            body += chunk
        return None


def _is_closed(connection: socket.socket) -> bool:
    """Whether the other end closed. It sends nothing while it waits, so there is nothing to read
    unless it did, or sends its next request early."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:  # reset
        return True


def _drop(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # already closed, which is what is wanted
        connection.shutdown(socket.SHUT_RDWR)

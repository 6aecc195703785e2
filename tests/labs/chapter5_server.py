"""A chat API on loopback that answers what a test scripts, and keeps what it received."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Script = Callable[[int], "Answer"]


@dataclass
class Answer:
    """A reply: after `wait` seconds the status and body, `drip` seconds between two bytes of it.
    Status 0 drops the connection."""

    status: int = 200
    body: bytes = b""
    wait: float = 0.0
    drip: float = 0.0


@dataclass
class Api:
    """Where it listens, and the bodies and authorization headers that came."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list[bytes])
    keys: list[str] = field(default_factory=list[str])


@contextlib.contextmanager
def api(script: Script) -> Generator[Api, None, None]:
    """A server that answers the n-th request, from 0, with what `script(n)` gives."""
    kept, stop = Api(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kept.keys.append(self.headers.get("authorization", ""))
            kept.bodies.append(body)
            answer = script(len(kept.bodies) - 1)
            stop.wait(answer.wait)
            if not answer.status:
                self.close_connection = True
                return
            with contextlib.suppress(OSError):  # the client has given up
                self.send_response(answer.status)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                if not answer.drip:
                    self.wfile.write(answer.body)
                    return
                for byte in answer.body:
                    if stop.is_set():
                        break
                    self.wfile.write(bytes([byte]))
                    time.sleep(answer.drip)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    kept.url = f"http://127.0.0.1:{server.server_address[1]}/chat/completions"
    try:
        yield kept
    finally:
        stop.set()
        server.shutdown()
        thread.join()
        server.server_close()

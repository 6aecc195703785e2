"""The agent that `test_recover_killed` kills: five payments at once at a service that counts them.

It kills itself in front of an append, or behind one, so that every state that a log can be left in
is met: what was done and not said, and what was said and not done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import sawlog
from sawlog.work.call import Call
from sawlog.work.reply import Reply
from sawlog.work.session import Session
from sawlog.work.toolrun import ToolRun

CALLS = 5


class Service:
    """A service that pays once for each request, and counts them by key."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                raw = self.rfile.read(size)
                if len(raw) < size:
                    return  # who asks died while asking
                asked = json.loads(raw)
                with service._lock:
                    service.paid[asked["key"]] += 1
                self._say(f"paid {asked['amount']}".encode())

            def do_GET(self) -> None:
                self._say(b"here")

            def _say(self, body: bytes) -> None:
                with suppress(OSError):  # who asked may be dead
                    self.send_response(200)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def settle(self) -> None:
        """Wait until every request that was sent before is dealt with: they are taken in turn."""
        with urllib.request.urlopen(self.url, timeout=30) as response:
            response.read()
        self._server.idle()

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Counts the connections that are being dealt with from when they are taken."""

    def __init__(self, *arguments: Any) -> None:
        self._changed = threading.Condition()
        self._dealing = 0
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._dealing += 1
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._changed:
                self._dealing -= 1
                self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        assert isinstance(error, OSError), error  # a connection of one that was killed

    def idle(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._dealing == 0, timeout=30)


@contextmanager
def serving() -> Generator[Service]:
    """The service, on a port of this machine."""
    service = Service()
    try:
        yield service
    finally:
        service.close()


def pay(amount: int) -> str:
    """Pay an amount."""
    raise AssertionError("it is run with the key of its call")


def paying(url: str) -> Callable[[ToolRun], str]:
    """What runs a call of `pay`."""

    def run(run: ToolRun) -> str:
        asked = {"key": run.key, "amount": run.call.args["amount"]}
        request = urllib.request.Request(url, json.dumps(asked).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=30) as response:
            return str(response.read().decode())

    return run


def task(s: Session) -> None:
    """What the session is told; told again it is the same."""
    s.tools([pay])
    s.user("Pay the five invoices.", key="task")


def asks(s: Session) -> Reply:
    """A step whose reply asks for five payments."""
    calls = [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": "pay", "arguments": json.dumps({"amount": n})},
        }
        for n in range(CALLS)
    ]
    return _answered(s, {"role": "assistant", "content": None, "tool_calls": calls})


def ends(s: Session) -> Reply:
    """A step whose reply asks for nothing."""
    return _answered(s, {"role": "assistant", "content": "All paid."})


def _answered(s: Session, message: dict[str, Any]) -> Reply:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return s.step("openai-chat", model="m").answer({"id": "r", "model": "m", "choices": [choice]})


def run(store: str, name: str, url: str, at: int, behind: bool) -> None:
    """Work; die in front of append number `at`, or behind it. 0: live."""
    log = sawlog.open(store)
    append, lock, made = log.store.append, threading.Lock(), 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal made
        with lock:
            made += 1
            mine = made
        if mine == at and not behind:
            os.kill(os.getpid(), signal.SIGKILL)
        done = append(*args, **options)
        if mine == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    log.store.append = counted  # type: ignore[method-assign]
    with log.session(name, ttl=0.1) as s:
        task(s)

        def one(call: Call) -> ToolRun:
            return s.run(call, paying(url))

        with ThreadPoolExecutor(CALLS) as pool:
            list(pool.map(one, asks(s).tool_calls))
        ends(s)
    log.close()

"""A proxy in a process of its own, an upstream that keeps every byte, a client that sends any."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from sawlog.cli import main
from sawlog.providers.fake import Reply
from tests.forking import CONTEXT

COMMAND = [sys.executable, "-P", "-m", "sawlog"]


def always(text: str) -> Callable[[str, Any, int], Reply]:
    """A provider's script: the same reply to each request."""
    return lambda api, asked, number: Reply(text)


class Command:
    """The command in a process of its own, forked from one that has loaded it; else as `Popen`."""

    def __init__(self, arguments: Sequence[str]) -> None:
        out, their_out = CONTEXT.Pipe(duplex=False)
        err, their_err = CONTEXT.Pipe(duplex=False)
        environ = {**os.environ, "NO_PROXY": "127.0.0.1"}
        self._process = CONTEXT.Process(
            target=_command, args=(list(arguments), environ, their_out, their_err)
        )
        self._process.start()
        for one in (their_out, their_err):
            one.close()
        self.stdout, self.stderr = (os.fdopen(os.dup(one.fileno()), "rb") for one in (out, err))
        for one in (out, err):
            one.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code or minus a signal; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float) -> None:
        """Wait for its end, so many seconds at most."""
        self._process.join(timeout)

    def ended(self) -> bytes:
        """What it wrote to stderr, once it has ended."""
        err = self.stderr.read()
        self._process.join(60)
        assert self._process.exitcode is not None, "it closed its output and goes on"
        return err


def _command(arguments: list[str], environ: dict[str, str], *outputs: Connection) -> None:
    os.environ.clear()
    os.environ.update(environ)
    for number, (name, output) in enumerate(zip(("stdout", "stderr"), outputs, strict=True), 1):
        os.dup2(output.fileno(), number)
        output.close()
        setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
    gc.freeze()  # what it did not load itself is nothing to look through
    code = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)


class Running(NamedTuple):
    """A proxy that listens, what it said of itself, and how it ended."""

    process: Command
    told: dict[str, Any]

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.told["url"].rpartition(":")[2])

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that lead clients to it."""
        return dict(self.told["variables"])

    def end(self, number: int = signal.SIGTERM) -> dict[str, Any]:
        """End it; gives what it says that it recorded."""
        self.process.send_signal(number)
        err = self.process.ended()
        assert self.process.returncode == 0, err.decode()
        return dict(json.loads(err.decode().splitlines()[-1]))


@contextlib.contextmanager
def proxied(store: object, upstream: str, *options: object) -> Generator[Running]:
    """A proxy in front of one server that speaks every API, recording into a session `s`."""
    places = ("--anthropic", upstream, "--openai", f"{upstream}/v1", "--deepseek", upstream)
    given = ("--store", store, "proxy", "--json", "--session", "s", *places, *options)
    process = Command(list(map(str, given)))
    try:
        line = process.stdout.readline()
        if not line.startswith(b'{"url"'):
            raise AssertionError(process.stderr.read().decode())
        yield Running(process, json.loads(line))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        process.stdout.close()
        process.stderr.close()


def sent(port: int, data: bytes) -> bytes:
    """What comes back for these bytes until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(data)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                found += piece
    return found


def request(
    target: str, body: bytes = b"", method: str = "POST", host: str = "127.0.0.1", **headers: str
) -> bytes:
    """A request whose connection ends with its answer; `_` in a header's name is sent as `-`."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Upstream:
    """A server that keeps each request as its very bytes, and answers with bytes as they are."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.received: list[bytes] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Upstream:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    data = b""
                    while not _is_whole(data):
                        piece = connection.recv(65536)
                        if not piece:
                            break
                        data += piece
                    self.received.append(data)
                    connection.sendall(self._answer(data))


def _is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return False
    given = headers_of(head)
    if given.get(b"transfer-encoding") == b"chunked":
        return body.endswith(b"0\r\n\r\n")
    return len(body) >= int(given.get(b"content-length", b"0"))


def headers_of(head: bytes) -> Mapping[bytes, bytes]:
    """The headers of a head, names in lower case."""
    pairs = (line.partition(b": ") for line in head.split(b"\r\n\r\n")[0].split(b"\r\n")[1:])
    return {name.lower(): value for name, _, value in pairs}


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """An answer whose connection ends behind it."""
    lines = [f"HTTP/1.1 {status}", "Connection: close", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body

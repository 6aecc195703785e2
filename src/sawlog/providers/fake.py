"""A provider to test against: a real HTTP server on loopback that refuses what real ones refuse.

    script = [Reply(calls=[Call("read", {"path": "a.py"})]), Reply("done")]
    with FakeProvider(script) as fake:
        client = anthropic.Anthropic(api_key="any", base_url=fake.url, max_retries=0)

It speaks `/v1/messages` (Anthropic), `/v1/chat/completions` and `/v1/responses` (OpenAI) and
`/chat/completions` (DeepSeek); `base_url(api)` is what their official clients are given. Models
that are called gemini-something sign calls in Chat Completions, and want the signatures back. Where
a request asks to compact, a reply's text is the summary (Responses seals what nobody reads). Every
request is kept as received, checked, and refused with the provider's error or answered with the
next step of the script: whole, or with `"stream": true` as the provider's server-sent events, which
say the same; `Streamed` breaks a stream where it is told to. From another process, which prints
`fake.url`: `python -m sawlog.providers.fake --script replies.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import threading
from pathlib import Path
from types import TracebackType

from sawlog.providers.fake_answers import answer_of, error_answer, headers_of
from sawlog.providers.fake_faults import At, Cut, ErrorEvent, Fault, Garbage, Stall
from sawlog.providers.fake_rendering import Request
from sawlog.providers.fake_replies import (
    Call,
    Drop,
    Hang,
    HttpError,
    Part,
    Raw,
    Reply,
    Script,
    ScriptError,
    Step,
    Streamed,
    Text,
    Thinking,
    storm,
    tool_use_failed,
)
from sawlog.providers.fake_scripts import read_script
from sawlog.providers.fake_server import Answer, Received, Server
from sawlog.providers.strict import FAKE_KEY, Refusal, check, error_body
from sawlog.providers.strict.reading import JsonObject, as_object, parse

__all__ = [
    "At",
    "Call",
    "Cut",
    "Drop",
    "ErrorEvent",
    "FakeProvider",
    "Fault",
    "Garbage",
    "Hang",
    "HttpError",
    "Part",
    "Raw",
    "Received",
    "Reply",
    "Script",
    "ScriptError",
    "Stall",
    "Step",
    "Streamed",
    "Text",
    "Thinking",
    "read_script",
    "storm",
    "tool_use_failed",
]

_PATHS = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/responses/compact": "openai-responses",
    "/chat/completions": "deepseek-chat",
}
_LARGEST = 32 * 1024 * 1024  # bytes that Anthropic takes of a request

_HELP = """\
Serve a script of answers as if a model gave them, to test an agent against.

The first line printed is the base URL. Give it to the client in the provider's
place: Anthropic's and DeepSeek's take it as it is, OpenAI's with /v1 behind it.
Any API key will do. Ctrl-C stops it.
"""
_EXAMPLE = """\
a script, say replies.json:
  [
    {"text": "I look.", "calls": [{"name": "read_file", "arguments": {"path": "a.py"}}]},
    {"error": {"status": 529}},
    {"error": {"status": 429, "headers": {"retry-after": "1"}, "times": 2}},
    {"hang": 2.5},
    {"drop": true},
    {"text": "I lo", "stream": {"wait": 1, "faults": [{"events": 3, "cut": true}]}},
    {"thinking": "It is simple.", "text": "Done."}
  ]

Each request takes the next answer: a reply (text, thinking, calls; stop and
model where they matter, parts for another order, raw for a whole body), an
error (so many times), or a connection that is dropped after some seconds or at
once; hang with a reply is a late one. What the real provider would refuse is
refused as it would be, and takes no answer.

A request with "stream": true gets the same reply as a stream. "stream" in an
answer breaks it: wait (seconds behind the headers), chunk (bytes at a time),
faults. A fault stands behind so many events or bytes, or inside the arguments
of a call (call: 0 is the first), and is one of stall (seconds), cut (true),
error (message, type, code; failed for a response that ends so), garbage (text).

  python -m sawlog.providers.fake --script replies.json --port 8787 --log received
"""


class FakeProvider:
    """The server: entered as a context it listens; left, it is gone with all its connections.

    `script`: see Script. `port` 0 takes a free one. `key` signs thinking and seals reasoning; fakes
    with one key take each other's. `log` names a directory that gets each received body, as
    `0001-anthropic.json` and so on, and `received.jsonl` with method, path and status of each.
    """

    def __init__(
        self,
        script: Script,
        port: int = 0,
        *,
        key: bytes = FAKE_KEY,
        log: Path | None = None,
    ) -> None:
        self.requests: list[Received] = []
        self._script = script
        self._port = port
        self._key = key
        self._log = log
        self._accepted = 0
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> FakeProvider:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begins to listen. Raises OSError if the port is taken."""
        if self._log is not None:
            self._log.mkdir(parents=True, exist_ok=True)
        self._server = Server(self._port, self._answer)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Drops all connections, hanging ones too, and frees the port. Twice is the same."""
        if self._server is not None and self._thread is not None:
            self._server.stop()
            self._thread.join()
            self._server = self._thread = None

    @property
    def url(self) -> str:
        """The base URL, without a path. Raises RuntimeError when the server does not run."""
        if self._server is None:
            raise RuntimeError("the fake provider is not running; enter it with `with` first")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def base_url(self, api: str) -> str:
        """The base URL that the official client of an API is given."""
        return f"{self.url}/v1" if api.startswith("openai-") else self.url

    def bodies(self, api: str | None = None) -> list[bytes]:
        """The bodies that were accepted, in order: of one API, or of all."""
        return [
            request.body
            for request in self.requests
            if request.api and not request.refusal and api in (None, request.api)
        ]

    @property
    def hung_up(self) -> int:
        """How many clients left before they had the whole answer."""
        return sum(request.hung_up for request in self.requests)

    def _answer(self, received: Received) -> Answer:
        """Keeps a request and decides on its answer. Runs in the connection's thread."""
        received.api = _PATHS.get(received.path.partition("?")[0])
        if received.method != "POST":
            received.api = None
        with self._lock:
            self.requests.append(received)
            number = len(self.requests)
        if self._log is not None:
            name = f"{number:04}-{received.api or 'unknown'}.json"
            (self._log / name).write_bytes(received.body)
        answer = self._decide(received, number)
        received.status, received.answer = answer.status, answer.body
        if self._log is not None:
            line = {"method": received.method, "path": received.path, "status": answer.status}
            with self._lock, (self._log / "received.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        return answer

    def _decide(self, received: Received, number: int) -> Answer:
        api = received.api
        if api is None:
            message = f"Unknown request URL: {received.method} {received.path}."
            body = error_body("", "invalid_request_error", message, None, "unknown_url", "")
            return Answer(404, body)
        request_id = hashlib.sha256(b"%d %b" % (number, received.body)).hexdigest()[:32]
        headers = headers_of(api, request_id)
        try:
            request = self._accept(api, received)
        except Refusal as refusal:
            received.refusal = refusal
            return Answer(refusal.status, refusal.body(api, f"req_{request_id}"), headers)
        with self._lock:
            accepted = self._accepted
            self._accepted += 1
        try:
            step = self._step(api, request, accepted)
            asked = Request(api, request, received.body, accepted, _compacts(received))
            return answer_of(asked, step, headers, self._key)
        except Exception as error:  # whatever the script's code raises is told to the client
            message = f"the script of the fake provider failed: {type(error).__name__}: {error}"
            return error_answer(api, HttpError(500, message), headers)

    def _accept(self, api: str, received: Received) -> JsonObject:
        if api == "anthropic" and len(received.body) > _LARGEST:
            raise Refusal(413, "request_too_large", "Request exceeds the maximum size")
        check(api, received.body, received.headers, key=self._key, compacts=_compacts(received))
        return as_object(parse(received.body.decode("utf-8"))) or {}

    def _step(self, api: str, request: JsonObject, number: int) -> Step:
        if callable(self._script):
            return self._script(api, request, number)
        if number >= len(self._script):
            raise ScriptError(
                f"it has {len(self._script)} answers and this is request {number + 1}; add one"
            )
        return self._script[number]


def _compacts(received: Received) -> bool:
    return received.path.partition("?")[0].endswith("/compact")


def main(arguments: list[str] | None = None) -> int:
    """Serves a script until SIGINT or SIGTERM; prints the base URL as its first line."""
    parser = argparse.ArgumentParser(
        prog="python -m sawlog.providers.fake",
        description=_HELP,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--script", type=Path, required=True, help="a file with a JSON list of answers; see below"
    )
    parser.add_argument("--port", type=int, default=0, help="where to listen; 0 takes a free port")
    parser.add_argument(
        "--log",
        type=Path,
        help="a directory, made if need be, for what was received: each body as "
        "0001-anthropic.json and so on, and received.jsonl with method, path and status of each",
    )
    options = parser.parse_args(arguments)
    try:
        script = read_script(options.script)
        provider = FakeProvider(script, options.port, log=options.log)
        # Blocked before the first thread starts, so that all inherit it and sigwait gets them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        provider.start()
    except (ScriptError, OSError) as error:
        print(f"fake provider: {error}", file=sys.stderr)
        return 2
    try:
        print(provider.url, flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    finally:
        provider.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Asking a summariser: a callable of the caller's, or a provider over HTTP with a key of its own.

What comes back is a value, never an exception: a compaction goes on without a summariser that does
not answer. The key goes into one header and nowhere else. No HTTP library is imported before the
first request.
"""

from __future__ import annotations

import ipaddress
import os
import time
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from sawlog.builder.build import Sending
from sawlog.builder.packet import Header, Request
from sawlog.builder.profiles import profile_for
from sawlog.builder.render import renderer_of
from sawlog.builder.replies import Answered as Whole
from sawlog.builder.replies import RefusedReply, Running, parse
from sawlog.store.content import Part
from sawlog.store.errors import ConfigError
from sawlog.work.exchange import RawReply, headers_of, pause_after, reply_bytes
from sawlog.work.spellings import Spellings

LARGEST = 16 * 1024 * 1024
"""Bytes of a reply that are read."""

AGAIN = frozenset({"rate_limit", "overload", "timeout", "provider_error", "connection"})
"""Errors after which the same bytes may be answered."""

Headers = tuple[tuple[str, str], ...]

_LEAST_KEY = 12
"""Characters of a key that is looked for in an answer: a shorter one is a word like others."""

_CUT_OFF = frozenset({"max_tokens", "length", "max_output_tokens"})
_BASES = {
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "openai-chat": ("https://api.openai.com", "OPENAI_API_KEY"),
    "openai-responses": ("https://api.openai.com", "OPENAI_API_KEY"),
    "deepseek-chat": ("https://api.deepseek.com", "DEEPSEEK_API_KEY"),
}
_PARAMS = {"anthropic": '{"max_tokens":8000}'}


class Answered(msgspec.Struct, frozen=True):
    """What a summariser answered: HTTP status (0: nothing came), body and usage as text.

    `error` is empty for an answer, else its class: those of `RefusedReply`, and `connection` (it
    broke, or could not be made), `cut_off` (the reply has no end), `too_large`, `failed` (the
    caller's own callable). `context_overflow` says that the request was too long for the
    summariser. `message` are the words that came with it. `text` and `parts` are what was said.
    `pause` is how many seconds to wait before the same is asked again.
    """

    status: int = 0
    body: str = ""
    usage: str = ""
    error: str = ""
    message: str = ""
    text: str = ""
    parts: tuple[Part, ...] = ()
    pause: float = 0.0

    @property
    def overflowed(self) -> bool:
        """True when a shorter request may be answered, and this one never."""
        return self.error == "context_overflow"


Summariser = Callable[[Request], bytes]
"""Gives the body of the reply to a request, as the API that it was rendered for would."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A model behind an API.

    `base_url` is without the request's path; empty: the provider's own. `key_variable` names the
    environment variable that holds the key; empty: the provider's usual one. A server on this
    machine needs none. `params` are the parameters as JSON source. `timeout` is in seconds for one
    try as a whole; `retries` count the further ones.
    """

    api: str
    model: str
    base_url: str = ""
    key_variable: str = ""
    params: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    timeout: float = 120.0
    retries: int = 2

    def sending(self) -> Sending:
        """What a request to it goes out under. Raises ConfigError for an unknown API."""
        profile, _ = profile_for(self.api, self.model)
        params = self.params or _PARAMS.get(self.api, "{}")
        renderer = renderer_of(profile)
        header = Header(self.api, self.model, params, profile.named, renderer)
        return Sending(header, profile, self.headers)

    def check(self) -> None:
        """Raise ConfigError when it can be asked nothing: an unknown API, a URL that no key may go
        to, no key."""
        self._door("/", ())

    def ask(self, request: Request) -> Answered:
        """Send the request's very bytes, again where that may help. Raises ConfigError alone."""
        url, headers = self._door(request.path, request.headers)
        clean = self._without_key()
        if self.retries < 0 or self.timeout <= 0:
            raise ConfigError("a summariser's retries are 0 or more, its timeout above 0 seconds")
        for tried in range(self.retries + 1):
            raw, answered = self._try(url, headers, request)
            answered = cleaned(answered, clean)
            if answered.error not in AGAIN:
                return answered
            pause = pause_after(raw, tried)
            if tried == self.retries:
                return msgspec.structs.replace(answered, pause=pause)
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _door(self, path: str, given: Headers) -> tuple[str, dict[str, str]]:
        """Where a request goes, and under which headers. Raises ConfigError."""
        if self.api not in _BASES:
            raise ConfigError(f"there is no API {self.api!r}; known are {', '.join(_BASES)}")
        base, _ = _BASES[self.api]
        base, variable = (self.base_url or base).rstrip("/"), self._variable
        local = _checked(base)
        path = path.removeprefix("/v1") if base.endswith("/v1") else path
        headers = {**dict(given), "content-type": "application/json"}
        key = os.environ.get(variable, "")
        if not key and not local:
            raise ConfigError(
                f"the summariser has no key: set {variable}, or name the variable that holds it"
            )
        if not key.isascii() or not key.isprintable() or key != key.strip():
            raise ConfigError(
                f"{variable} holds a character that no key has: set it to the key alone"
            )
        if key and self.api == "anthropic":
            headers["x-api-key"] = key
        elif key:
            headers["authorization"] = f"Bearer {key}"
        return f"{base}{path}", headers

    @property
    def _variable(self) -> str:
        return self.key_variable or _BASES[self.api][1]

    def _without_key(self) -> Callable[[str], str]:
        """Takes the key out of what a server says back, such as that it is wrong."""
        key = os.environ.get(self._variable, "")
        if len(key) < _LEAST_KEY:
            return str
        spellings = Spellings(key)
        return lambda text: spellings.replaced(f"[secret:{self._variable}]", text)

    def _try(
        self, url: str, headers: dict[str, str], request: Request
    ) -> tuple[RawReply, Answered]:
        import httpx

        deadline = time.monotonic() + self.timeout
        nothing = RawReply(0, {}, b"")
        try:
            with (
                httpx.Client(timeout=self.timeout) as client,
                client.stream("POST", url, headers=headers, content=request.body) as response,
            ):
                body = b"".join(_bounded(response.iter_bytes(), deadline))
                raw = RawReply(response.status_code, headers_of(response), body)
        except (httpx.TimeoutException, TimeoutError):
            return nothing, Answered(error="timeout", message=f"none within {self.timeout:g} s")
        except _TooLarge as error:
            return nothing, Answered(error="too_large", message=str(error))
        except httpx.HTTPError as error:
            return nothing, Answered(error="connection", message=type(error).__name__)
        return raw, read_reply(self.api, raw.status, raw.headers, raw.body)


def ask(summariser: Provider | Summariser, request: Request, api: str) -> Answered:
    """Ask a summariser. `api` is what the request was rendered for.

    Raises ConfigError for a provider that cannot be asked, before anything leaves; whatever a
    callable raises is an answer with the error `failed`.
    """
    if isinstance(summariser, Provider):
        return summariser.ask(request)
    try:
        body = reply_bytes(summariser(request))
    except Exception as error:
        return Answered(error="failed", message=f"{type(error).__name__}: {error}")
    if len(body) > LARGEST:
        return Answered(error="too_large", message=f"{len(body)} bytes")
    return read_reply(api, 200, {}, body)


def read_reply(api: str, status: int, headers: Mapping[str, str], body: bytes) -> Answered:
    """What a whole reply says, or why it is none. Raises ConfigError for an unknown API."""
    reply = parse(api, status, headers, body)
    text = body.decode("utf-8", "surrogateescape")
    match reply:
        case RefusedReply():
            return Answered(status, text, error=reply.kind, message=reply.message)
        case Running():
            return Answered(
                status, text, error="invalid_request",
                message="it is answered in the background: leave that parameter out",
            )  # fmt: skip
        case Whole():
            parts = tuple(
                part
                for piece in reply.parts_and_calls
                if isinstance(piece, tuple)
                for part in piece
            )
            error = message = ""
            if reply.stop_reason in _CUT_OFF:
                error, message = "cut_off", f"it ended with {reply.stop_reason}"
            elif reply.stop_reason == "model_context_window_exceeded":
                error, message = "context_overflow", reply.stop_reason
            elif reply.refusal:
                error, message = "refused_content", reply.refusal
            return Answered(status, text, reply.usage, error, message, reply.text, parts)


def cleaned(answered: Answered, clean: Callable[[str], str]) -> Answered:
    """The answer with all its texts cleaned; its parts stay as they are."""
    return msgspec.structs.replace(
        answered,
        body=clean(answered.body),
        usage=clean(answered.usage),
        message=clean(answered.message),
        text=clean(answered.text),
    )


class _TooLarge(Exception):
    pass


def _bounded(chunks: Iterator[bytes], deadline: float) -> Iterator[bytes]:
    """The chunks of a reply, as long as there is time and room for them."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > LARGEST:
            raise _TooLarge(f"above {LARGEST} bytes")
        # A server that sends a byte now and then never runs into the time limit of one read.
        if time.monotonic() > deadline:
            raise TimeoutError
        yield chunk


def _checked(base: str) -> bool:
    """Whether a base URL is of this machine. Raises ConfigError where a key must not go."""
    try:
        parts = urlsplit(base)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    local = _is_loopback(host)
    if host and (parts.scheme == "https" or (parts.scheme == "http" and local)):
        return local
    raise ConfigError(
        f"{base!r} is no URL that a key may be sent to: give one that begins with https://"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

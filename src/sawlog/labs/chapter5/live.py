"""The live probe: one packet, one request to DeepSeek's chat API, one attempt (S0-55 to S0-58).

Nothing is retried. A failure is an attempt with a status and no decision; what the provider wrote
about it is not kept. The key goes into one header and nowhere else.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlsplit

import httpx
import msgspec

from sawlog.builder.gateway import Decision
from sawlog.builder.item import ContextItem
from sawlog.builder.selection.chapter5 import ContextPacket
from sawlog.labs.chapter5.decision import InvalidResponse, parsed
from sawlog.labs.chapter5.messages import request_bytes
from sawlog.labs.chapter5.probe import Attempt
from sawlog.labs.chapter5.provider import ENDPOINT, KEY_VARIABLE, MODEL, TIMEOUT
from sawlog.store.errors import ConfigError

_LARGEST = 4 * 1024 * 1024  # bytes of a reply of at most 512 tokens


class LiveProbe:
    """Asks the provider. Use it as a context manager; it holds one connection.

    Raises ConfigError for a key that no header can carry, and for an endpoint that would carry it
    in the clear to another machine.
    """

    def __init__(
        self, key: str, *, model: str = MODEL, endpoint: str = ENDPOINT, timeout: float = TIMEOUT
    ) -> None:
        if not key.isascii() or not key.isprintable() or not key.strip():
            raise ConfigError(
                f"{KEY_VARIABLE} holds a character that no key has: set it to the key alone"
            )
        _check_endpoint(endpoint)
        self._model = model
        self._endpoint = endpoint
        self._timeout = timeout
        self._client = httpx.Client(
            headers={"authorization": f"Bearer {key}", "content-type": "application/json"},
            timeout=timeout,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.close()

    def attempt(self, packet: ContextPacket, items: Iterable[ContextItem]) -> Attempt:
        """One attempt at a packet. Never raises for what the provider or the network does."""
        body = request_bytes(packet, items, self._model)
        digest = hashlib.sha256(body).hexdigest()
        started = time.monotonic()
        reply, status, code = self._exchanged(body, started + self._timeout)
        latency = round((time.monotonic() - started) * 1000, 3)
        attempt = Attempt(
            status=status or "ok",
            requested_model=self._model,
            latency_ms=latency,
            request_digest=digest,
            error_code=code or None,
        )
        if status:
            return attempt
        try:
            decision, model, usage = read_reply(reply)
        except InvalidResponse:
            failed = "invalid_response"
            return msgspec.structs.replace(attempt, status=failed, error_code=failed)
        return msgspec.structs.replace(
            attempt, decision=decision, returned_model=model, usage=usage
        )

    def _exchanged(self, body: bytes, deadline: float) -> tuple[bytes, str, str]:
        """The reply's bytes; or none, and the status and error code of what went wrong."""
        try:
            with self._client.stream("POST", self._endpoint, content=body) as response:
                if not response.is_success:
                    return b"", _status_of(response.status_code), f"http_{response.status_code}"
                reply = b"".join(_bounded(response.iter_bytes(), deadline))
        except InvalidResponse:
            return b"", "invalid_response", "invalid_response"
        except (httpx.TimeoutException, TimeoutError):
            return b"", "timeout", "timeout"
        except Exception:  # the contract's words: any other exception is the transport's
            return b"", "provider_error", "transport_error"
        return reply, "", ""


def read_reply(raw: bytes) -> tuple[Decision, str | None, tuple[tuple[str, int], ...]]:
    """The decision, the served model and the counts of usage in a reply. Raises InvalidResponse."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidResponse("the reply is no JSON") from error
    body = _object(value)
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        raise InvalidResponse("the reply has no choice")
    message = _object(_object(cast("list[object]", choices)[0]).get("message"))
    model, usage = body.get("model"), body.get("usage")
    counts = cast("dict[str, object]", usage) if isinstance(usage, dict) else {}
    return (
        parsed(message.get("content")),
        model if isinstance(model, str) else None,
        tuple(
            sorted(
                (name, count)
                for name, count in counts.items()
                if isinstance(count, int) and not isinstance(count, bool)
            )
        ),
    )


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidResponse("the reply does not have its parts")
    return cast("dict[str, Any]", value)


def _status_of(status: int) -> str:
    if status in (401, 403):
        return "auth_missing"
    return "rate_limited" if status == 429 else "provider_error"


def _bounded(chunks: Iterator[bytes], deadline: float) -> Iterator[bytes]:
    """The chunks of a reply, as long as there is time and room for them."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > _LARGEST:
            raise InvalidResponse("the reply is too large")
        # A server that sends a byte now and then never runs into the time limit of one read.
        if time.monotonic() > deadline:
            raise TimeoutError
        yield chunk


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    else:
        if host and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))):
            return
    raise ConfigError(f"{endpoint!r} is no endpoint that the key may be sent to: give an https URL")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

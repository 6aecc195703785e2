"""Handing a request's bytes to a client and taking its reply as received, whoever the client is.

No HTTP library is imported here: an official client or an httpx client brings its own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from sawlog.store.errors import ConfigError


class Outgoing(Protocol):
    """What an exchange needs of a step: the bytes, where they go, under which headers."""

    @property
    def path(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def headers(self) -> dict[str, str]: ...


class RawReply(msgspec.Struct, frozen=True):
    """A reply as received: status, headers (lower-case names), body bytes."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text; bytes that are no UTF-8 stand as lone surrogates."""
        return self.body.decode("utf-8", "surrogateescape")


def exchange(client: Any, step: Outgoing, timeout: float | None) -> RawReply:
    """Send the step's bytes through a client and give its reply, refusals included.

    Raises what the client raises when the connection breaks, ConfigError for a client that cannot
    be told to send given bytes.
    """
    kind = client_kind(client)
    if kind == "official":
        return _official(client, step, timeout)
    if kind == "httpx":
        return _reply(client.post(step.path, **http_arguments(step, timeout)))
    body = client(step.body)
    return RawReply(200, {}, body if isinstance(body, bytes) else str(body).encode())


async def aexchange(client: Any, step: Outgoing, timeout: float | None) -> RawReply:
    """`exchange` for clients whose calls are awaited."""
    kind = client_kind(client)
    if kind == "official":
        try:
            answer = await _quiet(client, timeout).post(
                official_path(client, step.path), **official_arguments(client, step)
            )
        except Exception as error:
            return _from_error(error)
        return _reply(answer)
    if kind == "httpx":
        return _reply(await client.post(step.path, **http_arguments(step, timeout)))
    body = await client(step.body)
    return RawReply(200, {}, body if isinstance(body, bytes) else str(body).encode())


def client_kind(client: Any) -> str:
    """`official`, `httpx` or `callable`. Raises ConfigError for anything else."""
    module = type(client).__module__.partition(".")[0]
    if module in ("openai", "anthropic"):
        return "official"
    if hasattr(client, "post") and hasattr(client, "base_url"):
        return "httpx"
    if callable(client):
        return "callable"
    raise ConfigError(
        f"{type(client).__name__} is no client: give an openai or anthropic client, an httpx "
        "client with a base_url, or a callable from bytes to bytes"
    )


# --- official clients -----------------------------------------------------------------------------


def _official(client: Any, step: Outgoing, timeout: float | None) -> RawReply:
    try:
        answer = _quiet(client, timeout).post(
            official_path(client, step.path), **official_arguments(client, step)
        )
    except Exception as error:
        return _from_error(error)
    return _reply(answer)


def _quiet(client: Any, timeout: float | None) -> Any:
    # The clients retry inside one call; each try is to be an attempt in the log, so theirs are off.
    if timeout is None:
        return client.with_options(max_retries=0)
    return client.with_options(max_retries=0, timeout=timeout)


def official_path(client: Any, path: str) -> str:
    """The path relative to the client's base URL, which at OpenAI ends in `/v1/` already."""
    base = str(client.base_url).rstrip("/")
    return path.removeprefix("/v1") if base.endswith("/v1") else path


def official_arguments(client: Any, step: Outgoing) -> dict[str, Any]:
    """Keyword arguments that make an official client send exactly the step's bytes."""
    return {
        "content": step.body,
        "cast_to": _response_type(client),
        "options": {"headers": {**step.headers, "content-type": "application/json"}},
    }


def _response_type(client: Any) -> type[Any]:
    # The clients stand on httpx2, older ones on httpx: whichever this one holds is loaded already.
    inner = client._client
    for kind in type(inner).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in ("httpx", "httpx2"):
            found: type[Any] = sys.modules[library].Response
            return found
    raise ConfigError(f"{type(inner).__name__} is no HTTP client that sawlog knows")


def _from_error(error: Exception) -> RawReply:
    """The reply that an official client turned into an exception; other exceptions go on."""
    response = getattr(error, "response", None)
    if response is None or not hasattr(response, "status_code"):
        raise error
    return _reply(response)


def http_arguments(step: Outgoing, timeout: float | None) -> dict[str, Any]:
    """Keyword arguments for an httpx client's `post`."""
    arguments: dict[str, Any] = {
        "content": step.body,
        "headers": {**step.headers, "content-type": "application/json"},
    }
    if timeout is not None:
        arguments["timeout"] = timeout
    return arguments


def _reply(response: Any) -> RawReply:
    headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
    return RawReply(int(response.status_code), headers, bytes(response.content))

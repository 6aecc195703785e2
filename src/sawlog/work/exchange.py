"""Handing a request's bytes to a client and taking its reply as received, whoever the client is.

No HTTP library is imported here: an official client or an httpx client brings its own.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from sawlog.store.errors import ConfigError
from sawlog.store.jsontext import source_of


class Outgoing(Protocol):
    """What an exchange needs of a step: the bytes, where they go, under which headers."""

    @property
    def api(self) -> str:
        """The API that the bytes are written for."""
        ...

    @property
    def path(self) -> str:
        """The path to send to, without host and base."""
        ...

    @property
    def body(self) -> bytes:
        """The bytes."""
        ...

    @property
    def headers(self) -> dict[str, str]:
        """The headers that change what the model does."""
        ...


class RawReply(msgspec.Struct, frozen=True):
    """A reply as received: status, headers (lower-case names), body bytes."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def exchange(client: Any, step: Outgoing, timeout: float | None) -> RawReply:
    """Send the step's bytes through a client and give its reply, refusals included.

    Raises what the client raises when the connection breaks, ConfigError for what cannot be a
    reply.
    """
    kind = client_kind(client)
    if kind == "official":
        return _official(client, step, timeout)
    if kind == "httpx":
        path = official_path(client, step.path)
        return reply_of(client.post(path, **http_arguments(step, timeout)))
    return RawReply(200, {}, reply_bytes(client(step.body)))


async def aexchange(client: Any, step: Outgoing, timeout: float | None) -> RawReply:
    """`exchange` for clients whose calls are awaited; a callable may be of either kind."""
    kind = client_kind(client)
    if kind == "official":
        try:
            answer = await client.post(
                official_path(client, step.path), **official_arguments(client, step, timeout)
            )
        except Exception as error:
            return from_error(error)
        return reply_of(answer)
    if kind == "httpx":
        path = official_path(client, step.path)
        return reply_of(await client.post(path, **http_arguments(step, timeout)))
    body = client(step.body)
    return RawReply(200, {}, reply_bytes(await body if inspect.isawaitable(body) else body))


def library_of(client: Any) -> str:
    """The package that a client comes from, also when the caller made a class of it."""
    modules = [kind.__module__.partition(".")[0] for kind in type(client).__mro__]
    return next((name for name in modules if name in ("openai", "anthropic")), modules[0])


def client_kind(client: Any) -> str:
    """`official`, `httpx` or `callable`. Raises ConfigError for anything else."""
    if library_of(client) in ("openai", "anthropic") and hasattr(client, "with_options"):
        return "official"
    if hasattr(client, "post") and hasattr(client, "base_url"):
        return "httpx"
    if callable(client):
        return "callable"
    raise ConfigError(
        f"{type(client).__name__} is no client: give an openai or anthropic client, an httpx "
        "client with a base_url, or a callable from bytes to bytes"
    )


def checked(client: Any, *, awaited: bool) -> None:
    """Raise ConfigError for what is no client, or one of the other kind, before anything leaves."""
    kind = client_kind(client)
    does = client if kind == "callable" else client.post
    is_async = inspect.iscoroutinefunction(does)
    if kind == "callable" and awaited:
        return
    if is_async and not awaited:
        raise ConfigError(
            f"{type(client).__name__} is awaited: use asession(…), or give the client that is not"
        )
    if awaited and not is_async:
        raise ConfigError(
            f"{type(client).__name__} would block the loop: give the async client of its library"
        )
    if kind == "official":
        _response_type(client)
    elif kind == "httpx" and not str(client.base_url):
        raise ConfigError("this httpx client has no base_url: make it with the provider's URL")


def reply_bytes(body: object) -> bytes:
    """The bytes of a reply that a caller hands over: bytes, text, or the JSON object as a dict."""
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if isinstance(body, Mapping):
        # Its text may hold a lone surrogate, which JSON can say as an escape alone.
        source = source_of(body, "reply")  # pyright: ignore[reportUnknownArgumentType]
        return source.encode("utf-8", "backslashreplace")
    raise ConfigError(
        f"{type(body).__name__} is no reply: give the body as bytes or text, or the object as a "
        "dict (of an official client's object: `.to_json()`)"
    )


def pause_after(refusal: RawReply, number: int) -> float:
    """Seconds to wait before the same bytes go out again, after the attempt of that number."""
    return pause_before(number, asked_pause(refusal.headers))


def asked_pause(headers: Mapping[str, str]) -> float | None:
    """The seconds that a refusal asks to wait, at most a minute; None when it does not."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            asked = float(headers.get(name, "")) * unit
        except ValueError:
            continue  # absent, or a date: the usual pause will do
        if 0 <= asked <= 60:
            return asked
    return None


def pause_before(tried: int, asked: float | None) -> float:
    """Seconds to wait after so many tries before this one: what the provider asks for, else half a
    second, doubled each time up to 8."""
    return min(8.0, 0.5 * 2.0**tried) if asked is None else asked


def retries_of(client: Any, retries: int | None) -> int:
    """How often the same bytes may go out again: what is asked for, else what the client has.

    Raises ConfigError for less than none.
    """
    count: object = getattr(client, "sawlog_retries", 0) if retries is None else retries
    if not isinstance(count, int) or count < 0:
        raise ConfigError(f"{count!r} retries: give a whole number from 0 on")
    return count


# --- official clients -----------------------------------------------------------------------------


def _official(client: Any, step: Outgoing, timeout: float | None) -> RawReply:
    try:
        answer = client.post(
            official_path(client, step.path), **official_arguments(client, step, timeout)
        )
    except Exception as error:
        return from_error(error)
    return reply_of(answer)


def official_path(client: Any, path: str) -> str:
    """The path relative to the client's base URL, which at OpenAI ends in `/v1/` already."""
    base = str(client.base_url).rstrip("/")
    return path.removeprefix("/v1") if base.endswith("/v1") else path


def official_arguments(client: Any, step: Outgoing, timeout: float | None) -> dict[str, Any]:
    """Keyword arguments that make an official client send exactly the step's bytes, once.

    The clients retry inside one call; each try is to be an attempt in the log, so theirs are off.
    """
    options: dict[str, Any] = {
        "headers": {**step.headers, "content-type": "application/json"},
        "max_retries": 0,
    }
    if timeout is not None:
        options["timeout"] = timeout
    return {"content": step.body, "cast_to": _response_type(client), "options": options}


def _response_type(client: Any) -> type[Any]:
    # The clients stand on httpx2, older ones on httpx: whichever this one holds is loaded already.
    inner = client._client
    for kind in type(inner).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in ("httpx", "httpx2"):
            found: type[Any] = sys.modules[library].Response
            return found
    raise ConfigError(f"{type(inner).__name__} is no HTTP client that sawlog knows")


def from_error(error: Exception) -> RawReply:
    """The reply that an official client turned into an exception; other exceptions go on."""
    response = getattr(error, "response", None)
    if response is None or not hasattr(response, "status_code"):
        raise error
    return reply_of(response)


def http_arguments(step: Outgoing, timeout: float | None) -> dict[str, Any]:
    """Keyword arguments for an httpx client's `post`."""
    arguments: dict[str, Any] = {
        "content": step.body,
        "headers": {**step.headers, "content-type": "application/json"},
    }
    if timeout is not None:
        arguments["timeout"] = timeout
    return arguments


def reply_of(response: Any) -> RawReply:
    """A response that was read, as a reply."""
    return RawReply(int(response.status_code), headers_of(response), bytes(response.content))


def headers_of(response: Any) -> dict[str, str]:
    """A response's headers, names in lower case."""
    return {str(name).lower(): str(value) for name, value in response.headers.items()}

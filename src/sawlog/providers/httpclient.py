"""sawlog's own client: an `httpx` client that knows where an API is, and how often to try again.

It is for programs that need no official client. Its retries are attempts in the log, each with the
pause that the provider asks for; see `Step.send`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sawlog.store.errors import ConfigError

try:
    import httpx
except ModuleNotFoundError as error:
    raise ConfigError(
        f"sawlog's own client needs {error.name}, which is not installed: "
        "pip install 'sawlog[providers]'"
    ) from error

_BASES = {
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "openai-chat": ("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "openai-responses": ("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "deepseek-chat": ("https://api.deepseek.com", "DEEPSEEK_BASE_URL", "DEEPSEEK_API_KEY"),
}
"""Where each API is: its base URL, the variable that names another, the variable with the key."""

_APIS = {"openai": "openai-responses", "deepseek": "deepseek-chat"}

RETRIES = 2
TIMEOUT = 600.0


class Client(httpx.Client):
    """An `httpx.Client` for one API. Made by `sawlog.client`."""

    sawlog_retries: int = 0


class AsyncClient(httpx.AsyncClient):
    """An `httpx.AsyncClient` for one API. Made by `sawlog.aclient`."""

    sawlog_retries: int = 0


def client(
    api: str,
    *,
    base_url: str = "",
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    **options: Any,
) -> Client:
    """A client for an API or a server that speaks it; give it to `Step.send` and `Step.stream`.

    `api` is as in `Session.step`. `base_url` is where the server is (not given: the environment's
    ANTHROPIC_BASE_URL, OPENAI_BASE_URL or DEEPSEEK_BASE_URL, else the provider itself), `api_key`
    the key (not given: ANTHROPIC_API_KEY, OPENAI_API_KEY or DEEPSEEK_API_KEY of the environment; an
    empty one sends none). `headers` go out with each request. `timeout` is in seconds, for each
    wait of a request; `retries` is how often the same bytes may go out again after a rate limit, an
    overload, a time-out or a failure that the provider tells. Redirects are not followed, so that a
    key goes nowhere else. Other `options` are those of `httpx.Client`. It is a context manager.
    Raises ConfigError for an unknown API, no key, or a URL that no key may go to.
    """
    made = Client(**_options(api, base_url, api_key, headers, timeout, options))
    made.sawlog_retries = _count(retries)
    return made


def aclient(
    api: str,
    *,
    base_url: str = "",
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    **options: Any,
) -> AsyncClient:
    """The same for `async with` and `AsyncStep`."""
    made = AsyncClient(**_options(api, base_url, api_key, headers, timeout, options))
    made.sawlog_retries = _count(retries)
    return made


def _options(
    api: str,
    base_url: str,
    api_key: str | None,
    headers: Mapping[str, str] | None,
    timeout: float,
    options: dict[str, Any],
) -> dict[str, Any]:
    name = _APIS.get(api, api)
    if name not in _BASES:
        known = ", ".join((*_BASES, *_APIS))
        raise ConfigError(f"there is no API {api!r}: use one of {known}")
    usual, base_variable, key_variable = _BASES[name]
    base = base_url or os.environ.get(base_variable, "") or usual
    key = os.environ.get(key_variable) if api_key is None else api_key
    if key is None:
        raise ConfigError(
            f"there is no key for {name}: set {key_variable}, give api_key=…, or api_key='' for a "
            "server that wants none"
        )
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise ConfigError("the key holds a character that no key has: give the key alone")
    url = httpx.URL(base)
    local = url.host in ("127.0.0.1", "::1", "localhost")
    if not url.host or (url.scheme != "https" and key and not local):
        raise ConfigError(
            f"{base!r} is no URL that a key may be sent to: give one that begins with https://"
        )
    if timeout <= 0:
        raise ConfigError(f"a timeout of {timeout!r} seconds: give one above 0")
    own = {"x-api-key": key} if name == "anthropic" else {"authorization": f"Bearer {key}"}
    return {
        **options,
        "base_url": base,
        "headers": {**(own if key else {}), **(headers or {})},
        "timeout": timeout,
        "follow_redirects": False,
    }


def _count(retries: int) -> int:
    if retries < 0:
        raise ConfigError(f"{retries} retries: give a whole number from 0 on")
    return retries

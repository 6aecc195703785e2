"""What the log says of where a request goes: the URL and the headers, and never a key.

A key that the client holds is known here for one purpose: to be taken out of what a provider or an
exception says back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from sawlog.work.attempts import Clean
from sawlog.work.dials import Dialled
from sawlog.work.exchange import Outgoing, client_kind, library_of, official_path
from sawlog.work.spellings import Spellings

_SECRET = ("auth", "key", "token", "secret", "cookie", "password", "signature", "credential")
"""Words in the names of headers whose values are, or may be, secrets."""

_LEAST_KEY = 8
"""Characters from which on a key is looked for in what comes back; a shorter one is any word."""

_KEYS = ("api_key", "auth_token", "admin_api_key", "webhook_secret", "webhook_key")


def dialled(client: Any, step: Outgoing) -> tuple[Dialled, Clean]:
    """Where a client sends a step's bytes to, and what takes its keys out of what comes back."""
    library = library_of(client)
    kind = client_kind(client)
    if kind == "callable":
        return Dialled(library), str
    base = str(client.base_url).rstrip("/")
    headers = _headers(client, kind)
    own = {**headers, **step.headers, "content-type": "application/json"}
    url = shown_url(base + official_path(client, step.path))
    return Dialled(library, url, shown_headers(own)), without(keys_of(client, headers))


def shown_url(url: str) -> str:
    """The URL without what may be a secret: user information and the values of its query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = "&".join(
        f"{name}=…" if mark else name
        for name, mark, _ in (one.partition("=") for one in parts.query.split("&"))
        if name
    )
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def shown_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The headers that are no secret, names in lower case, sorted."""
    found = {name.lower(): value for name, value in headers.items()}
    return tuple(sorted((name, value) for name, value in found.items() if not is_secret(name)))


def is_secret(name: str) -> bool:
    """True of a header whose value is, or may be, a secret."""
    low = name.lower()
    return any(word in low for word in _SECRET)


def keys_of(client: Any, headers: Mapping[str, str]) -> list[str]:
    """The keys that a client holds, and those that stand in its headers."""
    held = [getattr(client, name, None) for name in _KEYS]
    found = [value for value in held if isinstance(value, str)]
    return [*found, *secrets_in(headers)]


def secrets_in(headers: Mapping[str, str]) -> list[str]:
    """The secrets that stand in headers: whole values, and what follows `Bearer` or the like."""
    found: list[str] = []
    for name, value in headers.items():
        if is_secret(name):
            found.extend({value, value.rpartition(" ")[2]})
    return found


def without(keys: Iterable[str]) -> Clean:
    """Takes these keys out of a text, however they are spelled in it."""
    ways = [Spellings(key) for key in sorted(set(keys)) if len(key) >= _LEAST_KEY]
    return _cleaning(ways) if ways else str


def _cleaning(ways: list[Spellings]) -> Callable[[str], str]:
    def clean(text: str) -> str:
        for one in ways:
            text = one.replaced("[key]", text)
        return text

    return clean


def _headers(client: Any, kind: str) -> dict[str, str]:
    given = client.default_headers if kind == "official" else client.headers
    return {str(name): value for name, value in given.items() if isinstance(value, str)}

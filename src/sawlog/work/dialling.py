"""What the log says of where a request goes: the URL and the headers, and never a key.

A key that the client holds is known here for one purpose: to be taken out of what a provider or an
exception says back.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

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
    url = base + official_path(client, step.path) + _query(client, kind)

    def clean(text: str) -> str:
        # Looked up now: a client that asks for its key has it when the request has left.
        return without([*keys_of(client, _headers(client, kind)), *secrets_in(own, url)])(text)

    return dialled_as(library, url, own, keys_of(client, headers)), clean


def dialled_as(
    client: str, url: str, headers: Mapping[str, str], keys: Iterable[str] = ()
) -> Dialled:
    """What is said of where a request goes: nothing secret, and none of these keys."""
    known = [*keys, *secrets_in(headers, url)]
    shown = tuple((name, _plainly(known, value)) for name, value in shown_headers(headers))
    return Dialled(client, _plainly(known, shown_url(url)), shown)


def shown_url(url: str) -> str:
    """The URL without what may be a secret: user information and the values of its query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = "&".join(
        f"{name}=…" if mark else "…"
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
    """The keys that a client holds, and those that stand in its headers and its base URL."""
    held = [getattr(client, name, None) for name in _KEYS]
    # How httpx keeps a name and a password that it was given, and the cookies that it was told.
    basic = getattr(getattr(client, "auth", None), "_auth_header", None)
    cookies = [one.value for one in getattr(getattr(client, "cookies", None), "jar", ())]
    found = [value for value in (*held, *cookies) if isinstance(value, str)]
    said = {**headers, "authorization": basic} if isinstance(basic, str) else headers
    return [*found, *secrets_in(said, str(getattr(client, "base_url", "")))]


def secrets_in(headers: Mapping[str, str], url: str = "") -> list[str]:
    """The secrets that stand in headers and in a URL: whole values, and what is within them.

    That is what follows `Bearer` or the like, the name and password of `Basic`, the values of
    cookies; of a URL its user information and the values of its query, versions excepted.
    """
    found: dict[str, None] = {}
    for name, value in headers.items():
        if is_secret(name):
            found.update(dict.fromkeys((value, value.rpartition(" ")[2], *_within(name, value))))
    parts = urlsplit(url)
    query = parse_qsl(parts.query)
    # The version of an API stands there as well, and may be said back in any refusal.
    found.update(dict.fromkeys(value for name, value in query if "version" not in name.lower()))
    found.update(dict.fromkeys(unquote(one or "") for one in (parts.username, parts.password)))
    return [one for one in found if one]


def _within(name: str, value: str) -> list[str]:
    kind, _, said = value.partition(" ")
    if "cookie" in name.lower():
        return [one.partition("=")[2].strip() for one in value.split(";")]
    if kind.lower() != "basic":
        return []
    try:
        both = base64.b64decode(said, validate=True).decode("utf-8")
    except ValueError:
        return []
    return [both, *both.split(":", 1)]


def without(keys: Iterable[str]) -> Clean:
    """Takes these keys out of a text, however they are spelled in it."""
    long = tuple(sorted({key for key in keys if len(key) >= _LEAST_KEY}))
    return partial(_cleaned, long) if long else str


def _cleaned(keys: tuple[str, ...], text: str) -> str:
    for key in keys:
        text = _spellings(key).replaced("[key]", text)
    return text


@lru_cache(16)
def _spellings(key: str) -> Spellings:
    # Made when there is a text to look at: it takes a while, and most replies are no refusals.
    return Spellings(key)


def _plainly(keys: Iterable[str], text: str) -> str:
    """The text without these keys, as they are: what a client puts there itself, it spells so."""
    for key in keys:
        if len(key) >= _LEAST_KEY:
            text = text.replace(key, "[key]").replace(quote(key, safe=""), "[key]")
    return text


def _query(client: Any, kind: str) -> str:
    """What a client adds to each URL."""
    given = client.default_query if kind == "official" else client.params
    return "?" + urlencode(dict(given), doseq=True) if given else ""


def _headers(client: Any, kind: str) -> dict[str, str]:
    given = client.default_headers if kind == "official" else client.headers
    return {str(name): value for name, value in given.items() if isinstance(value, str)}

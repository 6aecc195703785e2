"""Which HTTP requests are exchanges with a model, and what of them is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from sawlog.recorder.recorder import Asked
from sawlog.work.dialling import dialled_as, secrets_in, without

# How the path of a request to a model ends, the API that it belongs to, and the path that the
# digest of a request is over.
_PATHS = (
    ("/chat/completions", "openai-chat", "/v1/chat/completions"),
    ("/responses", "openai-responses", "/v1/responses"),
    ("/messages", "anthropic", "/v1/messages"),
)
_DEEPSEEK = ("deepseek-chat", "/chat/completions")

_DECIDING = ("anthropic-version", "anthropic-beta", "openai-beta")
"""Headers that change what the model does."""


def asked_as(
    api: str, path: str, url: str, headers: Mapping[str, str], body: bytes, client: str
) -> Asked:
    """A request of that API to a model, as it is recorded; `path` is that of its digest."""
    given = {name.lower(): value for name, value in headers.items()}
    deciding = tuple(sorted((name, given[name]) for name in _DECIDING if name in given))
    clean = without(secrets_in(given, url))
    return Asked(api, "POST", path, deciding, body, dialled_as(client, url, given), clean)


def client_of(headers: Mapping[str, str]) -> str:
    """The client as it names itself in a request's headers, without its version."""
    return headers.get("user-agent", "").partition("/")[0].partition(" ")[0]


def api_of(method: str, url: str) -> tuple[str, str]:
    """The API that a request is of, and the path of its digest; both empty for another request."""
    if method.upper() != "POST":
        return "", ""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for end, api, digested in _PATHS:
        if path.endswith(end):
            if api == "openai-chat" and _is_deepseek(parts.hostname or "", path):
                return _DEEPSEEK
            return api, digested
    return "", ""


def _is_deepseek(host: str, path: str) -> bool:
    # Its API has no version in the path; a fake of it on loopback is known by that.
    return host.endswith("deepseek.com") or path == "/chat/completions"

"""Where requests may go: one mount for each provider, and nothing else.

A client is given the mount as its base URL; what stands behind it in a path is put behind the
provider's own base URL. A path without a mount, a whole URL, a tunnel and a name of another host
lead nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

import msgspec

from sawlog.recorder.requests import api_of
from sawlog.store.errors import ConfigError, quoted


class Provider(msgspec.Struct, frozen=True):
    """A provider by its name: the mount of its paths, its own base URL, and the environment
    variables that clients take a base URL from, the usual one first."""

    name: str
    mount: str
    base: str
    variables: tuple[str, ...]


PROVIDERS = (
    Provider(
        "anthropic",
        "/anthropic",
        "https://api.anthropic.com",
        ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE", "ANTHROPIC_API_URL"),
    ),
    Provider(
        "openai",
        "/openai/v1",
        "https://api.openai.com/v1",
        ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ),
    Provider(
        "deepseek",
        "/deepseek",
        "https://api.deepseek.com",
        ("DEEPSEEK_BASE_URL", "DEEPSEEK_API_BASE"),
    ),
)


class Upstream(msgspec.Struct, frozen=True):
    """A provider and where it is: `origin` is scheme and authority, `path` the base's path."""

    provider: Provider
    origin: str
    authority: str
    path: str


class Place(msgspec.Struct, frozen=True):
    """Where one request goes: the upstream, the target of the request line there, and the API and
    digest path of an exchange with a model; both empty for any other request."""

    upstream: Upstream
    target: str
    api: str
    path: str

    @property
    def url(self) -> str:
        """The whole URL."""
        return self.upstream.origin + self.target


class Elsewhere(Exception):
    """A request that is not passed on: `status` is what the client gets, the text says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def upstreams(given: Mapping[str, str]) -> tuple[Upstream, ...]:
    """The upstreams of all providers, at the base URLs that are `given` by name, else their own.

    Raises ConfigError for what is no base URL.
    """
    return tuple(_upstream(one, given.get(one.name) or one.base) for one in PROVIDERS)


def from_environment(environment: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The base URLs of providers by name: what is `given`, else what the environment names.

    Raises ConfigError when two variables of a provider name different places.
    """
    found = {name: base for name, base in given.items() if base}
    for provider in PROVIDERS:
        named = {one: environment[one] for one in provider.variables if environment.get(one)}
        if provider.name in found or not named:
            continue
        if len({base.rstrip("/") for base in named.values()}) > 1:
            raise ConfigError(
                f"{' and '.join(named)} name different places: unset all but one, or give "
                f"--{provider.name} URL"
            )
        found[provider.name] = next(iter(named.values()))
    return found


def variables(url: str) -> dict[str, str]:
    """The environment variables that lead clients to a proxy at that URL."""
    return {name: url + one.mount for one in PROVIDERS for name in one.variables}


def _upstream(provider: Provider, base: str) -> Upstream:
    parts = urlsplit(base)
    try:
        port = parts.port
    except ValueError:
        port = -1
    # The text itself is not repeated: it may hold a password.
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise ConfigError(
            f"the place of {provider.name} is no URL of a server: give one such as {provider.base}"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            f"the place of {provider.name} holds a user, a query or a fragment: give scheme, host "
            "and path alone; keys stay in the client's headers"
        )
    if not base.isascii() or any(c <= " " or c == "\x7f" for c in base):
        raise ConfigError(f"the place of {provider.name} holds a character that no URL has")
    origin = f"{parts.scheme}://{parts.netloc}"
    return Upstream(provider, origin, parts.netloc, parts.path.rstrip("/"))


def place(known: Iterable[Upstream], method: str, target: str) -> Place:
    """Where a request goes, by its method and the target of its request line.

    Raises Elsewhere for a whole URL, a tunnel, a path with dot segments and one without a mount.
    """
    if method == "CONNECT":
        raise Elsewhere(403, "this proxy makes no tunnels: give its URL to the client as base URL")
    if not target.startswith("/"):
        raise Elsewhere(
            403, "this proxy takes no whole URLs: give its URL to the client as base URL"
        )
    path, mark, query = target.partition("?")
    if any(one in (".", "..") for one in unquote(path).replace("\\", "/").split("/")):
        raise Elsewhere(400, "a path with dot segments is not passed on: write it without")
    for one in known:
        mount = one.provider.mount
        if path == mount or path.startswith(mount + "/"):
            there = (one.path + path[len(mount) :]) or "/"
            return Place(one, there + mark + query, *_api(one, method, there))
    mounts = ", ".join(one.mount for one in PROVIDERS)
    raise Elsewhere(404, f"no provider is at this path: base URLs end with one of {mounts}")


def _api(upstream: Upstream, method: str, path: str) -> tuple[str, str]:
    """The API and the path of its digest; the provider decides where the path alone is no help."""
    api, digested = api_of(method, upstream.origin + unquote(path))
    name = upstream.provider.name
    if name == "openai":
        if api == "anthropic":  # messages of a thread are no exchange
            return "", ""
        host = urlsplit(upstream.origin).hostname or ""
        if api == "deepseek-chat" and not host.endswith("deepseek.com"):
            return "openai-chat", "/v1/chat/completions"
    if name == "deepseek" and api == "openai-chat":
        return "deepseek-chat", "/chat/completions"
    return api, digested


def check_host(host: str, names: Iterable[str], local: str) -> None:
    """Raise Elsewhere unless a Host header names this proxy: by loopback, by the address that the
    connection came to (`local`), or by one of the `names` that it was given."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        name = ""
    if name and (name == "localhost" or name in (one.lower() for one in names)):
        return
    try:
        address = ip_address(name)
        if address.is_loopback or address == ip_address(local.partition("%")[0]):
            return
    except ValueError:
        pass
    raise Elsewhere(403, f"the header Host names {quoted(host)}, and this proxy is not there")

"""Call ids and tool names as they go over the wire, and the digest of a request.

An id or a name that its provider would refuse is mapped. What it becomes depends on itself and, for
ids, on the ids before it in the request, so a request that grows keeps those that it has.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache

from sawlog.builder.profiles import Alphabet
from sawlog.store.errors import ConfigError
from sawlog.store.text import raw_bytes


class Ids:
    """The call ids of one request."""

    def __init__(self, allowed: Alphabet) -> None:
        self._characters = allowed.characters
        self._length = allowed.length
        self._used: set[str] = set()

    def wire(self, id: str) -> str:
        """The id that a further call goes out under: its own, unless the provider refuses it."""
        wire = id
        if not 0 < len(id) <= self._length or id.strip(self._characters):
            wire = self._made(id, 0)
        number = 0
        while wire in self._used:
            number += 1
            wire = self._made(id, number)
        self._used.add(wire)
        return wire

    def is_used(self, id: str) -> bool:
        """True when something in the request has this id."""
        return id in self._used

    def take(self, id: str) -> bool:
        """Give the id to what cannot go out under another; False when it is used already."""
        if id in self._used:
            return False
        self._used.add(id)
        return True

    def _made(self, id: str, number: int) -> str:
        raw = raw_bytes(id)
        seed = b"sawlog/1 id" + number.to_bytes(4, "big") + raw
        digest = hashlib.sha256(seed).hexdigest()
        spells = not "call_".strip(self._characters)
        prefix = "call_" if spells and self._length > 16 else ""
        return (prefix + digest)[: min(self._length, len(prefix) + 32)]


def wire_name(name: str, allowed: Alphabet, namespace: str = "") -> str:
    """The name that a tool goes out under: its own, unless the provider refuses it.

    For an API without namespaces, the namespace is put before it. The name that the model calls is
    this one: who runs the tool compares it with the wire names of the tools on offer.
    """
    whole = f"{namespace}__{name}" if namespace else name
    return _wire_name(whole, allowed)


@cache
def _outside(characters: str) -> re.Pattern[str]:
    return re.compile(f"[^{re.escape(characters)}]")


def _wire_name(name: str, allowed: Alphabet) -> str:
    fitting = _outside(allowed.characters).sub("_", name)
    if "_" not in allowed.characters:
        fitting = fitting.replace("_", "")
    if name and fitting == name and len(name) <= allowed.length:
        return name
    digest = hashlib.sha256(b"sawlog/1 name" + raw_bytes(name)).hexdigest()[:8]
    joint = "_" if "_" in allowed.characters else ""
    return fitting[: allowed.length - len(joint) - 8] + joint + digest


def before_body(method: str, path: str, headers: Sequence[tuple[str, str]]) -> bytes:
    """What `provider_request_digest` is over in front of the body (docs/format.md, Packet)."""

    def field(text: str) -> bytes:
        raw = text.encode()
        return len(raw).to_bytes(4, "big") + raw

    parts = [b"sawlog/1 request", field(method), field(path), len(headers).to_bytes(4, "big")]
    for name, value in headers:
        parts += (field(name), field(value))
    return b"".join(parts)


_TO_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_HEADER_NAME = re.compile("[a-z0-9-]+")
_HEADER_VALUE = re.compile("[!-~](?:[ -~]*[!-~])?")


def headers_of(
    own: Iterable[tuple[str, str]], given: Iterable[tuple[str, str]], allowed: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """The profile's headers with the caller's in their place, by name.

    Raises ConfigError for a header that does not change what the model does: it would be part of
    the digest, and belongs to the client.
    """
    found = {name.translate(_TO_LOWER): value for name, value in own}
    seen: dict[str, str] = {}
    for name, value in given:
        low = name.translate(_TO_LOWER)
        if low not in allowed:
            listed = ", ".join(allowed) or "none"
            raise ConfigError(
                f"the header {name!r} is no part of this API's packets (those are: {listed}); "
                "set it on the client"
            )
        if seen.setdefault(low, value) != value:
            raise ConfigError(f"the header {low} is given twice; join the values with a comma")
    found.update(seen)
    for name, value in found.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ConfigError(f"{name!r}: {value!r} is no HTTP header")
    return tuple(sorted(found.items()))

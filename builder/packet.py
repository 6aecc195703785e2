"""The packet: ordered entries, the header they go out under, and what is missing.

Values only. `Entry` is one part as shown; a message is an entry with `first` and those after it
without. `semantic_packet_digest` is over the entries before any profile (docs/format.md, Packet).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from sawlog.store.events.base import Named
from sawlog.store.text import LIMIT


class Binding(msgspec.Struct, frozen=True, gc=False):
    """What the bound items of one step's reply are bound to.

    `prefix` is the digest that `packet.built` of that step holds (empty: not recorded, so it does
    not hold); `model` is the one served, `account` the organisation or the caller's label.
    """

    prefix: str
    api: str
    model: str
    account: str


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One part of a packet, as shown.

    The first eight fields are what the semantic digest covers; the rest is what renderers need.

    `kind` is the role and, where the part is no plain text, what it is: `system`, `developer`,
    `user`, `assistant`, `call`, `result`, `observation`, `notice`, `late`, `tool` (a schema);
    `user/media`, `assistant/bound`, `assistant/raw`, `assistant/incomplete`, `checkpoint/bound`,
    `assistant/withheld`, `result/media`, `result/raw`, …
    `authority` is `system`, `developer`, `user`, `assistant`, `tool` or `none`; `trust` is
    `trusted` or `untrusted`. `status` of a result is `ok`, `error`, or the kind of a synthetic one.
    `name` is the tool's for tools, calls and results, the media type for media.
    `text`: the text; a call's argument source; a tool's source (a JSON object with `name`,
    `description`, `parameters`); for bound and raw parts their source as received; for media
    `sha256:` and the digest, or the URL, or `file:` and the id.
    """

    first: bool
    section: str
    kind: str
    authority: str
    trust: str
    status: str
    name: str
    text: str
    # What follows is outside the digest.
    call_id: str = ""
    call_kind: str = "json"
    namespace: str = ""
    api: str = ""
    bound: str = ""
    readable: str = ""
    data: bytes | None = None
    step: int = 0
    digest: str = ""
    """SHA-256 of the text's raw bytes in hex, where it came from a blob, whose name that is."""
    made: Binding | None = None
    """What a bound item is bound to that is not of a step's reply; else the step says it."""

    @property
    def role(self) -> str:
        """The kind without what it says of the part."""
        kind = self.kind
        return kind.partition("/")[0] if "/" in kind else kind

    @property
    def part(self) -> str:
        """What the part is, when it is no plain text; else empty."""
        kind = self.kind
        return kind.partition("/")[2] if "/" in kind else ""


class Request(msgspec.Struct, frozen=True):
    """A request as rendered: what leaves, byte for byte.

    `chunks` joined are the body. `prefix` is the hex digest of what the next reply's bound items
    will be bound to. `digest` is provider_request_digest. `notes` name what the renderer left
    out, wrapped or repaired: (entry index, what, why).
    """

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    chunks: Sequence[bytes]
    size: int
    digest: str
    prefix: str
    notes: tuple[tuple[int, str, str], ...]

    @property
    def body(self) -> bytes:
        """The body in one piece."""
        return b"".join(self.chunks)


class Header(msgspec.Struct, frozen=True):
    """What a packet goes out under. `params` is the caller's JSON object, in their order."""

    api: str
    model: str
    params: str
    profile: Named
    renderer: Named


def entry_bytes(entry: Entry) -> bytes:
    """The bytes of an entry in the semantic digest: eight fields, each with a 4-byte length."""
    if entry.digest and len(entry.text) > LIMIT:
        text = b"sha256:" + entry.digest.encode()
    else:
        text = entry.text.encode("utf-8", "surrogatepass")
        if len(text) > LIMIT:
            text = b"sha256:" + hashlib.sha256(text).hexdigest().encode()
    name = entry.name.encode("utf-8", "surrogatepass")
    standing = _standing(
        entry.first, entry.section, entry.kind, entry.authority, entry.trust, entry.status
    )
    return b"".join(
        (standing, len(name).to_bytes(4, "big"), name, len(text).to_bytes(4, "big"), text)
    )


@lru_cache(256)
def _standing(first: bool, *fields: str) -> bytes:
    """The fields that many entries have in common."""
    raw = (b"first" if first else b"more", *(field.encode() for field in fields))
    return b"".join(len(field).to_bytes(4, "big") + field for field in raw)


def missing_entry(name: str) -> Entry:
    """The entry that a missing requirement is in the semantic digest."""
    return Entry(True, "missing", "missing", "none", "trusted", "", "", name)


def semantic_digest(entries: Iterable[Entry], missing: Sequence[str] = ()) -> str:
    """`semantic_packet_digest` in hex, computed in one go."""
    hasher = hashlib.sha256(b"sawlog/1 packet")
    for entry in entries:
        hasher.update(entry_bytes(entry))
    for name in missing:
        hasher.update(entry_bytes(missing_entry(name)))
    return hasher.hexdigest()

"""Replay: a recorded packet from its manifest alone, and what differs when it does not come out.

Replay needs no policy: the manifest, the frozen forms and the numbered renderer give the bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from sawlog.builder.assembly import Assembly
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.packet import Binding, Entry, Header, Request, entry_bytes
from sawlog.builder.profiles import Profile
from sawlog.builder.state import Ref
from sawlog.store.events.steps import PacketBuilt


class Replayed(msgspec.Struct, frozen=True):
    """A packet as it comes out again: entries, request, semantic digest."""

    refs: Sequence[Ref]
    entries: Sequence[Entry]
    request: Request
    semantic: str


class Difference(msgspec.Struct, frozen=True):
    """The first thing in which a path's packet is not the recorded one.

    `entry` is the place of the first entry that differs (-1: the entries are equal and the request
    is not). `expected` and `found` are hex digests, of the entry or of the request, with the
    lengths in bytes of what they are of.
    """

    step: int
    path: str
    what: str
    entry: int
    expected: str
    expected_size: int
    found: str
    found_size: int

    def __str__(self) -> str:
        where = f"entry {self.entry}" if self.entry >= 0 else self.what
        return (
            f"step {self.step} by path {self.path}: {where} is sha256:{self.found[:16]}… "
            f"({self.found_size} bytes), recorded was sha256:{self.expected[:16]}… "
            f"({self.expected_size} bytes)"
        )


def sent_under(packet: PacketBuilt, contents: Contents) -> Header:
    """The header that a packet was built under."""
    return Header(
        packet.api,
        text_of(packet.model, contents),
        text_of(packet.params, contents),
        packet.profile,
        packet.renderer,
    )


def replayed(
    packet: PacketBuilt,
    refs: Sequence[Ref],
    contents: Contents,
    profile: Profile,
    bindings: Callable[[int], Binding | None],
    assembly: Assembly | None = None,
) -> Replayed:
    """The packet whose entries are `refs`, as recorded.

    `assembly` is one that may hold a beginning of it already. Raises BlobMissing, UnknownNumber.
    """
    used = assembly or Assembly()
    used.extend(refs[len(used.refs) :], contents)
    # The profile brings its own headers; what else was recorded the caller had set.
    headers = tuple(header for header in packet.headers if header not in profile.headers)
    header = sent_under(packet, contents)
    request = used.request(header, headers, profile, bindings, prefixed=False)
    # Of the same bytes the prefix is the same, and others are no replay.
    request = replace(request, prefix=packet.prefix)
    return Replayed(used.refs, used.entries, request, used.semantic(packet.missing))


def compare(
    step: int, path: str, packet: PacketBuilt, expected: Replayed | None, found: Replayed
) -> Difference | None:
    """What of a replayed packet is not as `packet.built` says; None when all is.

    `expected` are the recorded entries where another path gave them, to name the first that
    differs.
    """
    if found.semantic == packet.semantic and found.request.digest == packet.request:
        return None
    if expected is not None:
        entry = first_difference(step, path, expected.entries, found.entries)
        if entry is not None:
            return entry
    if found.semantic != packet.semantic:
        size = sum(len(entry_bytes(entry)) for entry in found.entries)
        return Difference(step, path, "the packet", -1, packet.semantic, 0, found.semantic, size)
    return Difference(
        step,
        path,
        "the request",
        -1,
        packet.request,
        packet.size,
        found.request.digest,
        found.request.size,
    )


def first_difference(
    step: int, path: str, expected: Sequence[Entry], found: Sequence[Entry]
) -> Difference | None:
    """The first entry that differs between two packets, or None."""
    for at in range(max(len(expected), len(found))):
        old = entry_bytes(expected[at]) if at < len(expected) else b""
        new = entry_bytes(found[at]) if at < len(found) else b""
        if old != new:
            return Difference(
                step,
                path,
                "an entry",
                at,
                hashlib.sha256(old).hexdigest(),
                len(old),
                hashlib.sha256(new).hexdigest(),
                len(new),
            )
    return None

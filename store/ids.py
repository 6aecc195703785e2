"""Event and session ids: 128 bits, UUIDv7 by default, UUIDv5 for what must be found again.

Nothing here reaches a packet: ids order nothing and enter no digest but the chain.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid

# The namespace of all ids that sawlog derives from names. It is part of stored format 1.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "sawlog/1")


_RANDOM = 0x0FFF_3FFF_FFFF_FFFF_FFFF
_VERSION_7 = 0x7000_8000_0000_0000_0000

_AT_ONCE = 256
"""Pieces of 16 random bytes that are asked of the system at once: asking takes longer than each."""

_pieces: list[bytes] = []
# A forked child must not go on with what its parent uses, too.
os.register_at_fork(after_in_child=_pieces.clear)


def new_id() -> bytes:
    """A fresh UUIDv7: 48 bits of Unix milliseconds, 74 random bits (RFC 9562)."""
    millis = time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF
    random = int.from_bytes(new_salt(), "big") & _RANDOM
    return (millis << 80 | _VERSION_7 | random).to_bytes(16, "big")


def new_salt() -> bytes:
    """Sixteen random bytes, kept and erased with the payload that they cover."""
    try:
        return _pieces.pop()  # to one thread only, whoever else asks
    except IndexError:
        many = os.urandom(16 * _AT_ONCE)
    _pieces.extend([many[at : at + 16] for at in range(16, len(many), 16)])
    return many[:16]


def keyed_id(key: str) -> bytes:
    """The id that a caller's key gives, the same in every session, so that a fork knows it."""
    return _derived("key", key)


def foreign_id(session: str, record: str, part: str) -> bytes:
    """The id of an imported event: foreign session, record position or native id, and part."""
    return _derived("foreign", session, record, part)


def _derived(*names: str) -> bytes:
    # Each name carries its length, so that no two lists of names give one text.
    raw = b"".join(
        len(part).to_bytes(4, "big") + part
        for part in (name.encode("utf-8", "surrogatepass") for name in names)
    )
    # uuid5 takes text in older Pythons: hash by hand, by the same rule (RFC 9562, version 5).
    digest = bytearray(hashlib.sha1(NAMESPACE.bytes + raw, usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)

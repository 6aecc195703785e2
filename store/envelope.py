"""What every event carries: as a caller gives it, as append prepares it, as it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sawlog.store.text import Blob as Blob

if TYPE_CHECKING:
    from sawlog.store.events.base import Payload

IGNORABLE = 1
"""Flag bit 0: a fold that does not know the type may pass over the event."""

UNKNOWN_TIME = -(2**63)
"""The value of `occurred_at` where nobody knows when it happened."""


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as the caller gives it to append.

    `source` is the channel that loaded it. `key` gives an id that is the same in every session;
    with neither `id` nor `key` the id is a UUIDv7. `occurred_at` is in microseconds UTC; None: the
    time of the append. `blobs` are contents that the payload already names by digest.
    """

    payload: Payload
    source: str
    step: int | None = None
    id: bytes | None = None
    key: str | None = None
    occurred_at: int | None = None
    ignorable: bool = False
    blobs: tuple[Blob, ...] = ()

    @property
    def is_named(self) -> bool:
        """True when its id is the caller's, who may give it twice."""
        return self.id is not None or self.key is not None


class Prepared(msgspec.Struct, frozen=True):
    """An event ready to be linked and written: all but its place in the log.

    `cites` are the digests of all blobs that the payload names; `blobs` those that came with it.
    `step_given` and `occurred_given` say whether the caller named them, which decides what a
    repeated id must be equal in. `redacted` is the number of the rule set that changed it.
    """

    id: bytes
    type: str
    version: int
    flags: int
    step: int
    source: str
    occurred_at: int
    payload: bytes
    salt: bytes
    blobs: tuple[Blob, ...]
    cites: tuple[bytes, ...]
    step_given: bool
    occurred_given: bool
    open: bool
    redacted: int | None


class StoredEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event as it is stored. `payload` and `salt` are None when it was erased."""

    seq: int
    id: bytes
    type: str
    version: int
    flags: int
    step: int
    source: str
    occurred_at: int
    recorded_at: int
    fence: int
    salt: bytes | None
    commitment: bytes
    digest: bytes
    payload: bytes | None

    @property
    def ignorable(self) -> bool:
        """True when a fold that does not know the type may pass over it."""
        return bool(self.flags & IGNORABLE)


class Unproved(msgspec.Struct, frozen=True, gc=False):
    """A stored event as far as its content goes, without what proves its place in the chain.

    `payload` is None when it was erased. `cites` are the digests of the blobs that came with it or
    that it names, joined.
    """

    seq: int
    id: bytes
    type: str
    version: int
    flags: int
    step: int
    source: str
    occurred_at: int
    payload: bytes | None
    cites: bytes

    @classmethod
    def of(cls, stored: StoredEvent, cites: tuple[bytes, ...]) -> Unproved:
        """The same of an event that was read with its proof."""
        return cls(
            stored.seq, stored.id, stored.type, stored.version, stored.flags, stored.step,
            stored.source, stored.occurred_at, stored.payload, b"".join(cites),
        )  # fmt: skip

    @property
    def ignorable(self) -> bool:
        """True when a fold that does not know the type may pass over it."""
        return bool(self.flags & IGNORABLE)

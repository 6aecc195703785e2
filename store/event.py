"""An event as everything above the log reads it: the envelope and the decoded content."""

from __future__ import annotations

import msgspec

from sawlog.store.envelope import IGNORABLE, StoredEvent, Unproved
from sawlog.store.events.registry import Content, Registry


class Event(msgspec.Struct, frozen=True, gc=False):
    """A decoded event. `id` is 32 hex digits; times are microseconds UTC.

    `content` is the payload in its type's newest version, or Unknown, or Erased. `shown` says
    whether its parts can stand in a packet (the registry's frozen word on type and version).
    `resumes` is no part of it: what a fold goes on from after a rewind, where its reader gives it.
    """

    seq: int
    id: str
    type: str
    version: int
    source: str
    step: int
    occurred_at: int
    content: Content
    shown: bool
    ignorable: bool
    resumes: object = None


def decoded(stored: StoredEvent | Unproved, registry: Registry) -> Event:
    """The event that stored bytes say. Raises Damaged when they do not read."""
    type, version = stored.type, stored.version
    return Event(
        stored.seq, stored.id.hex(), type, version, stored.source, stored.step, stored.occurred_at,
        registry.decode(stored), registry.shown(type, version), bool(stored.flags & IGNORABLE),
    )  # fmt: skip

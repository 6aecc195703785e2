"""What all payloads share: their last two fields, and small values used by many."""

from __future__ import annotations

import msgspec

from sawlog.store.text import Text

EventId = str
"""An event named by its id: 32 hex digits."""


class Redacted(msgspec.Struct, frozen=True, omit_defaults=True):
    """What redaction replaced before the append: rule set, then (field, rule, count)."""

    number: int
    fields: tuple[tuple[str, str, int], ...] = ()


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of a foreign file that an event was made of.

    `position` is its place in the file (0 is the first record), `digest` the hex SHA-256 of its
    bytes, `line` its text.
    """

    format: str
    position: int
    digest: str
    line: Text = ""


class Payload(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The base of every payload: its fields come last in the stored bytes."""

    redacted: Redacted | None = None
    record: Record | None = None


class Named(msgspec.Struct, frozen=True, omit_defaults=True):
    """A numbered thing: policy, measure, profile, renderer, pairing."""

    name: str
    number: int = 1

    def __str__(self) -> str:
        return f"{self.name}@{self.number}"

"""The parts that messages and results are made of.

Parts are values: they know nothing of packets, providers' wires or storage. A part that only one
provider understands is kept as received, `source` being its JSON text.
"""

from __future__ import annotations

import msgspec

from sawlog.store.text import Text


class TextPart(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="t", tag="text"
):
    """Plain text."""

    text: Text


class MediaPart(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="t", tag="media"
):
    """An image or another medium: bytes (`blob`, hex digest), a URL, or a provider's file id."""

    media: str
    blob: str = ""
    url: Text = ""
    file: Text = ""
    name: Text = ""


class BoundPart(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="t", tag="bound"
):
    """Thinking, encrypted reasoning or a provider's compaction: exact, and bound to its context.

    `kind` is `thinking`, `redacted_thinking`, `reasoning`, `reasoning_content` or `compaction`;
    `unsigned_thinking`, which never goes back; or `text.FIELD`, `call.FIELD`, `message.FIELD`, a
    field of the text, call or message in front of it that has no word of its own here.
    `api` is the API whose item it is; `source` its JSON as received; `text` what a person may read.
    """

    kind: str
    api: str
    source: Text
    text: Text = ""


class RawPart(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="t", tag="raw"):
    """A part of one API that sawlog has no word for, `source` being its JSON as received."""

    api: str
    source: Text


class IncompletePart(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="t", tag="incomplete"
):
    """A call whose arguments never ended: it was no call, its text stays."""

    name: Text
    text: Text


class WithheldPart(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="t", tag="withheld"
):
    """What stood here held a secret: stored nowhere, never sent."""

    kind: str
    reason: str


Part = TextPart | MediaPart | BoundPart | RawPart | IncompletePart | WithheldPart

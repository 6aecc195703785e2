"""Text fields: a string, or an object where a string will not do (docs/format.md, Text).

A text that is not valid Unicode travels as base64 of its WTF-8 bytes; one above 4,096 raw bytes
is a blob. The same text always gives the same value, so texts compare without their contents.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

import msgspec

LIMIT = 4096
"""Raw bytes above which a text is a blob; part of format 1."""

WTF8 = "text/wtf-8"
UTF8 = "text/plain"


class TextObject(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A text that is no plain string.

    Either `wtf8` (base64 of WTF-8), or `blob` (hex SHA-256 of the raw bytes) with `size` in bytes
    and `media`; `head`, `tail` and `limit` (bytes) together ask for a preview.
    """

    wtf8: str = ""
    blob: str = ""
    size: int = 0
    media: str = ""
    head: str | None = None
    tail: str | None = None
    limit: int = 0

    @property
    def is_preview(self) -> bool:
        """True when packets show head and tail instead of the whole."""
        return self.limit > 0


Text = str | TextObject


class Blob(msgspec.Struct, frozen=True, gc=False):
    """A content named by the SHA-256 of its raw bytes."""

    digest: bytes
    data: bytes
    media: str


class BlobMissing(KeyError):
    """Raised when a content is needed whose blob the caller did not provide."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest


def raw_bytes(text: str) -> bytes:
    """The raw bytes of a text: UTF-8, or WTF-8 where it holds lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def seal(text: str) -> tuple[Text, Blob | None]:
    """The stored value of a text and the blob that it needs, if any."""
    if len(text) <= LIMIT and text.isascii():
        return text, None  # most texts are settled without encoding
    raw, media = _encoded(text)
    if len(raw) <= LIMIT:
        if media == UTF8:
            return text, None
        return TextObject(wtf8=base64.b64encode(raw).decode()), None
    blob = Blob(hashlib.sha256(raw).digest(), raw, media)
    return TextObject(blob=blob.digest.hex(), size=len(raw), media=media), blob


def _encoded(text: str) -> tuple[bytes, str]:
    """The raw bytes of a text, and the media type that says how they are to be read."""
    try:
        return text.encode(), UTF8
    except UnicodeEncodeError:
        return raw_bytes(text), WTF8


def preview(text: str, limit: int) -> tuple[Text, Blob | None]:
    """The stored value of a text that packets show in at most `limit` bytes, and its blob.

    A text within the limit is stored as any other. Above it the value carries the head and the
    tail that are shown; the notice between them is the form's and counts, too. `limit` is at
    least 512 bytes.
    """
    if limit < 512:
        raise ValueError("a preview limit below 512 bytes leaves no room for its notice")
    raw, media = _encoded(text)
    if len(raw) <= limit:
        return seal(text)
    room = limit - PREVIEW_NOTICE_ROOM
    head = _readable(raw[: _start(raw, room * 2 // 3, -1)])
    tail = _readable(raw[_start(raw, len(raw) - room // 3, 1) :])
    blob = Blob(hashlib.sha256(raw).digest(), raw, media)
    return (
        TextObject(
            blob=blob.digest.hex(),
            size=len(raw),
            media=media,
            head=head,
            tail=tail,
            limit=limit,
        ),
        blob,
    )


def _start(raw: bytes, at: int, step: int) -> int:
    """The nearest place in that direction where a character begins."""
    while 0 < at < len(raw) and raw[at] & 0xC0 == 0x80:
        at += step
    return at


def _readable(raw: bytes) -> str:
    """The text of whole characters; a lone surrogate, which JSON cannot hold, is U+FFFD."""
    text = raw.decode("utf-8", "surrogatepass")
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    return text


PREVIEW_NOTICE_ROOM = 192
"""Bytes of a preview's limit that are kept for the notice between head and tail."""


def plain(text: Text, blobs: Mapping[str, bytes]) -> str:
    """The text itself. Raises BlobMissing when `blobs` (hex digest to raw bytes) lacks it."""
    if isinstance(text, str):
        return text
    if text.blob:
        try:
            raw = blobs[text.blob]
        except KeyError:
            raise BlobMissing(text.blob) from None
        return raw.decode("utf-8", "surrogatepass")
    return base64.b64decode(text.wtf8).decode("utf-8", "surrogatepass")

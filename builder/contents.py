"""What the builder reads contents from: events by seq and blobs by digest, filled by the caller.

The builder does no I/O; what is absent is a KeyError here and `missing_blob` in the end.
"""

from __future__ import annotations

from typing import Protocol

from sawlog.store.event import Event
from sawlog.store.text import BlobMissing, Text, TextObject, plain


class Contents(Protocol):
    """Read-only contents of one session's window."""

    def event(self, seq: int) -> Event:
        """The event of that seq. Raises KeyError when the caller did not provide it."""
        ...

    def blob(self, digest: str) -> bytes:
        """The raw bytes of that hex digest. Raises KeyError when they are not there."""
        ...


class Held:
    """Contents held in two dicts."""

    def __init__(self, events: dict[int, Event], blobs: dict[str, bytes] | None = None) -> None:
        self.events = events
        self.blobs = blobs or {}

    def event(self, seq: int) -> Event:
        """The event of that seq."""
        return self.events[seq]

    def blob(self, digest: str) -> bytes:
        """The raw bytes of that digest."""
        return self.blobs[digest]


def text_of(text: Text, contents: Contents) -> str:
    """The whole text. Raises BlobMissing when its blob is not there."""
    if isinstance(text, str):
        return text
    if not text.blob:
        return plain(text, {})
    return plain(text, {text.blob: blob_of(text.blob, contents)})


def blob_of(digest: str, contents: Contents) -> bytes:
    """The raw bytes of a digest. Raises BlobMissing when they are not there."""
    try:
        return contents.blob(digest)
    except KeyError:
        raise BlobMissing(digest) from None


def preview_of(text: TextObject) -> str:
    """What a preview shows: head, a notice with the locator, tail; at most its limit in bytes."""
    head = text.head or ""
    tail = text.tail or ""
    left_out = text.size - len(head.encode()) - len(tail.encode())
    return (
        f"{head}\n[{left_out} bytes are left out here; the whole text is sha256:{text.blob}, "
        f"{text.size} bytes]\n{tail}"
    )

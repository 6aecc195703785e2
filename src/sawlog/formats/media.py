"""Images of foreign messages: data URLs become bytes, other URLs stay URLs."""

from __future__ import annotations

import base64
import binascii
import hashlib

from sawlog.store.content import MediaPart

Blobs = tuple[tuple[bytes, str], ...]
"""Contents that a payload names by digest: (raw bytes, media type)."""

ANY_IMAGE = "image/*"
"""The media type of an image that only a URL names."""


def image(url: str, name: str = "") -> tuple[MediaPart, Blobs]:
    """The part for an image URL, and the bytes that it names.

    A data URL becomes a blob when encoding its bytes gives the same URL again; any other stays
    the URL that it is, so that it can always be sent as it was.
    """
    head, comma, body = url.partition(",")
    media, _, encoding = head.removeprefix("data:").partition(";")
    if comma and head.startswith("data:") and encoding == "base64" and media:
        raw = _decoded(body)
        if raw is not None:
            part, blobs = content(raw, media, name)
            return part, blobs
        return MediaPart(media=media, url=url, name=name), ()
    return MediaPart(media=ANY_IMAGE, url=url, name=name), ()


def content(raw: bytes, media: str, name: str = "") -> tuple[MediaPart, Blobs]:
    """The part for bytes of a media type, and the bytes."""
    return MediaPart(media=media, blob=hashlib.sha256(raw).hexdigest(), name=name), ((raw, media),)


def _decoded(body: str) -> bytes | None:
    try:
        raw = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw).decode() == body else None

"""What images a provider takes: their media types, base64 and data URLs."""

from __future__ import annotations

import base64
import binascii
import re

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The image types that all four APIs accept."""

_DATA_URL = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


def base64_bytes(text: str) -> bytes | None:
    """The bytes that `text` encodes, None if it is empty or not base64."""
    try:
        return base64.b64decode(text, validate=True) or None
    except (binascii.Error, ValueError):  # ValueError: a character above ASCII
        return None


def data_url(url: str) -> tuple[str, str] | None:
    """Media type and base64 text of a data URL, None for anything else."""
    match = _DATA_URL.fullmatch(url)
    return (match[1], match[2]) if match else None


def image_type(data: bytes) -> str | None:
    """The media type that an image's first bytes show, None if they show none of IMAGE_TYPES."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media for magic, media in _MAGIC if data.startswith(magic)), None)

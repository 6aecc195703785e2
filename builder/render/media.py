"""Media: what of them a profile lets through, and from where."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import NamedTuple

from sawlog.builder.packet import Entry
from sawlog.builder.profiles import Medium
from sawlog.store.text import BlobMissing


class Shown(NamedTuple):
    """A medium to be sent: its shape and type, where it comes from (base64 text, URL, id), and the
    rule that lets it through."""

    shape: str
    type: str
    source: str
    value: str
    rule: Medium

    @property
    def url(self) -> str:
        """The medium as a URL, its data in it."""
        return f"data:{self.type};base64,{self.value}" if self.source == "data" else self.value


def shown(entry: Entry, place: str, rules: Sequence[Medium]) -> tuple[Shown | None, str]:
    """The medium of an entry as it can be sent in that place, and what was repaired.

    None: it cannot, and why. Raises BlobMissing when its bytes are wanted and not there.
    """
    kind, source, value = entry.name, "data", ""
    raw = entry.data
    if entry.text.startswith("file:"):
        source, value = "file", entry.text[5:]
    elif not entry.text.startswith("sha256:"):
        source, value = "url", entry.text
        inline = _DATA_URL.fullmatch(value)
        if inline is not None:
            if not _BASE64.fullmatch(inline[2]):
                return None, "not_base64"
            kind, source, raw = inline[1], "data", base64.b64decode(inline[2])
    repaired = ""
    if source == "data" and raw and kind.startswith("image/"):
        real = _type_of(raw)
        if real and real != kind:
            kind, repaired = real, "media_type"
    rule = next((rule for rule in rules if _takes(rule, kind, source, value, place)), None)
    if rule is None or raw == b"":
        return None, "medium"
    if source == "data":
        if raw is None:
            raise BlobMissing(entry.text.removeprefix("sha256:"))
        if rule.largest and len(raw) > rule.largest:
            return None, "too_large"
        value = base64.b64encode(raw).decode()
    return Shown(rule.shape, kind, source, value, rule), repaired


def _takes(rule: Medium, kind: str, source: str, value: str, place: str) -> bool:
    if source not in rule.sources or place not in rule.places:
        return False
    if source == "url" and not value.startswith(rule.schemes):
        return False
    # What only a URL or a file id names may have no better type.
    loose = source != "data" and rule.shape == "image" and kind in ("image", "image/*")
    return loose or kind in rule.types


_DATA_URL = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
# Written out, for what a release of Python takes for base64 has changed.
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)


def _type_of(data: bytes) -> str:
    """The media type that an image's first bytes show; empty when they show none."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return ""

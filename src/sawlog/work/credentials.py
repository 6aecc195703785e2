"""Secrets that tools get at run time, by handle: the log and the model never see a value.

What was handed out is known, and is taken out of every result before it is written, however a tool
or an exception spells it: see `sawlog.work.spellings`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from sawlog.store.content import (
    BoundPart,
    IncompletePart,
    MediaPart,
    Part,
    RawPart,
    TextPart,
    WithheldPart,
)
from sawlog.store.errors import CredentialUnavailable
from sawlog.store.text import Text
from sawlog.work.spellings import Spellings

Secrets = Mapping[str, str] | Callable[[str], str | None]
"""Values by handle: a mapping, or a function that gives None for what it does not know."""


class Credentials:
    """The secrets of one session, and those that were handed out. Threads may share it.

    What it hands out is `also` known there, for what is said of the session from beside it.
    """

    def __init__(self, secrets: Secrets | None = None, also: Credentials | None = None) -> None:
        self._also = also
        self._look_up: Callable[[str], object]
        if secrets is None:
            self._look_up = _nothing
        elif callable(secrets):
            self._look_up = secrets
        else:
            self._look_up = secrets.get
        self._handed: dict[str, tuple[str, Spellings]] = {}
        self._lock = threading.Lock()

    def secret(self, handle: str) -> str:
        """The value under a handle. Raises CredentialUnavailable, which names the handle alone."""
        try:
            value = self._look_up(handle)
        except Exception:
            # What a vault raises may hold what it was asked for or what it found.
            value = None
        if not isinstance(value, str) or not value:
            raise CredentialUnavailable(handle)
        self._know(value, handle)
        if self._also is not None:
            self._also._know(value, handle)
        return value

    def _know(self, value: str, handle: str) -> None:
        with self._lock:
            if value not in self._handed:
                self._handed[value] = _shown(handle), Spellings(value)

    def scrub(self, text: str) -> str:
        """The text with `[secret:HANDLE]` wherever a value that was handed out stood."""
        with self._lock:
            handed = sorted(self._handed.items(), key=_longest_first)
        for _, (shown, spellings) in handed:
            text = spellings.replaced(shown, text)
        return text

    def scrubbed(self, part: Part) -> Part:
        """The part with all its texts scrubbed. Texts in blobs and media bytes stay as they are."""
        match part:
            case TextPart():
                return replace(part, text=self._text(part.text))
            case MediaPart():
                return replace(
                    part,
                    url=self._text(part.url),
                    file=self._text(part.file),
                    name=self._text(part.name),
                )
            case BoundPart():
                return replace(part, source=self._text(part.source), text=self._text(part.text))
            case RawPart():
                return replace(part, source=self._text(part.source))
            case IncompletePart():
                return replace(part, name=self._text(part.name), text=self._text(part.text))
            case WithheldPart():
                return part

    def scrubbed_all(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        """The parts scrubbed. Texts side by side that make a secret together become one part."""
        out: list[Part] = []
        run: list[str] = []

        def end() -> None:
            if len(run) > 1:
                each = "".join(map(self.scrub, run))
                joined = self.scrub("".join(run))
                if joined != each:
                    out[-len(run) :] = [TextPart(joined)]
            run.clear()

        for part in parts:
            if not (isinstance(part, TextPart) and isinstance(part.text, str)):
                end()
            else:
                run.append(part.text)
            out.append(self.scrubbed(part))
        end()
        return tuple(out)

    def _text(self, text: Text) -> Text:
        return self.scrub(text) if isinstance(text, str) else text


def _nothing(handle: str) -> None:
    """No value, whatever the handle."""


def _shown(handle: str) -> str:
    """What stands in a value's place; it breaks no JSON and closes no bracket but its own."""
    plain = re.sub("[^A-Za-z0-9_./:@-]", "_", handle)
    return f"[secret:{plain}]"


def _longest_first(one: tuple[str, tuple[str, Spellings]]) -> tuple[int, str]:
    return -len(one[0]), one[0]

"""Secrets that tools get at run time, by handle: the log and the model never see a value.

What was handed out is known, and is taken out of every result before it is written, however a tool
or an exception spells it: as it is, escaped for JSON or by Python (also twice), for a URL, in
base64.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Mapping
from urllib.parse import quote

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

Secrets = Mapping[str, str] | Callable[[str], str | None]
"""Values by handle: a mapping, or a function that gives None for what it does not know."""


class Credentials:
    """The secrets of one session, and those that were handed out. Threads may share it."""

    def __init__(self, secrets: Secrets | None = None) -> None:
        self._look_up: Callable[[str], object]
        if secrets is None:
            self._look_up = _nothing
        elif callable(secrets):
            self._look_up = secrets
        else:
            self._look_up = secrets.get
        self._handed: dict[str, tuple[str, re.Pattern[str]]] = {}
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
        with self._lock:
            if value not in self._handed:
                self._handed[value] = _shown(handle), _spellings(value)
        return value

    def scrub(self, text: str) -> str:
        """The text with `[secret:HANDLE]` wherever a value that was handed out stood."""
        with self._lock:
            handed = sorted(self._handed.items(), key=_longest_first)
        for _, (shown, spellings) in handed:
            text = spellings.sub(shown, text)
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

    def _text(self, text: Text) -> Text:
        return self.scrub(text) if isinstance(text, str) else text


def _nothing(handle: str) -> None:
    """No value, whatever the handle."""


def _shown(handle: str) -> str:
    """What stands in a value's place; it breaks no JSON and closes no bracket but its own."""
    plain = re.sub("[^A-Za-z0-9_./:@-]", "_", handle)
    return f"[secret:{plain}]"


def _longest_first(one: tuple[str, tuple[str, re.Pattern[str]]]) -> tuple[int, str]:
    return -len(one[0]), one[0]


# --- how a value may be spelled -------------------------------------------------------------------

_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a", "\0": "0"}


def _spellings(value: str) -> re.Pattern[str]:
    raw = value.encode("utf-8", "surrogatepass")
    others = {quote(raw, safe=""), quote(raw), quote(raw, safe="").lower()}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        others.add(encode(raw).decode().rstrip("="))
    plain = "|".join(re.escape(one) for one in sorted(others, key=len, reverse=True) if one)
    return re.compile(f"{_escaped(value)}|(?:{plain})={{0,2}}")


def _escaped(value: str) -> str:
    """A pattern for the value as it is and escaped, any number of times, as JSON and Python do.

    Quantifiers give nothing back and begin where a run of backslashes begins, so that a text of
    backslashes costs no more than its length.
    """
    out: list[str] = []
    at = 0
    while at < len(value):
        start = "" if at else r"(?<!\\)"
        if value[at] != "\\":
            after_run = at > 0 and value[at - 1] == "\\"
            out.append(_character(value[at], "" if after_run else start + r"\\++"))
            at += 1
            continue
        end = at
        while end < len(value) and value[end] == "\\":
            end += 1
        # Escaping doubles them; as \u005c each takes the place of one.
        escaped = rf"(?:\\++(?:u005[cC]|x5[cC])){{{end - at}}}"
        out.append(rf"(?:{start}{escaped}|{start}\\{{{end - at},}}+)")
        at = end
    return "".join(out)


def _character(character: str, lead: str) -> str:
    """A pattern for one character; `lead` is what stands in front of an escape's letter."""
    code = ord(character)
    ways = [re.escape(character)]
    if character in "\"'/" and lead:
        ways.insert(0, f"{lead}{re.escape(character)}")
    if character in _SHORT:
        ways.append(f"{lead}{_SHORT[character]}")
    if code < 0x100:
        ways.append(f"{lead}x{_hex(code, 2)}")
    if code < 0x10000:
        ways.append(f"{lead}u{_hex(code, 4)}")
    else:
        high, low = 0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code - 0x10000 & 0x3FF)
        ways.append(rf"{lead}u{_hex(high, 4)}\\++u{_hex(low, 4)}")
    ways.append(f"{lead}U{_hex(code, 8)}")
    if code >= 0x80:
        raw = character.encode("utf-8", "surrogatepass")
        rest = "".join(rf"\\++x{_hex(byte, 2)}" for byte in raw[1:])
        ways.append(f"{lead}x{_hex(raw[0], 2)}{rest}")
    return f"(?:{'|'.join(ways)})"


def _hex(code: int, digits: int) -> str:
    """A hexadecimal number in either case."""
    text = f"{code:0{digits}x}"
    return "".join(f"[{digit}{digit.upper()}]" if digit > "9" else digit for digit in text)

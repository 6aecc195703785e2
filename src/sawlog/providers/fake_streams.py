"""What the fake provider's streams are made of: server-sent events, and where a text is split."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from sawlog.providers.fake_json import dump, encoded

# What is never split: an escape of JSON, two that are halves of one character, or such two halves.
_UNIT = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[^u]"
    r"|[\ud800-\udbff][\udc00-\udfff]|.",
    re.DOTALL,
)
_SIZES = (5, 3, 11, 2, 17, 1, 7)  # of pieces, in units, over and over
_FINE = 2000  # units of a text that is split so; a longer one is split in as many pieces


class Event(NamedTuple):
    """One event: its JSON, its name where the API names events, and the number of the call (0 is
    the first of the reply) whose arguments it brings."""

    data: str
    name: str | None = None
    call: int | None = None

    def sent(self) -> bytes:
        """The event as it stands in the stream."""
        name = f"event: {self.name}\n" if self.name else ""
        return encoded(f"{name}data: {self.data}\n\n")


class Piece(NamedTuple):
    """Bytes that are sent at once, `wait` seconds after those before them. It may have none."""

    data: bytes
    wait: float = 0.0


def named(name: str, fields: Mapping[str, object], call: int | None = None) -> Event:
    """An event whose name is also the `type` of its JSON."""
    return Event(dump({"type": name, **fields}, ascii=False), name, call)


def pieces(text: str) -> list[str]:
    """A text in pieces of uneven size, the same for the same text: at least two, where it has two
    units, and with a border before and behind its first character above ASCII."""
    units = _UNIT.findall(text)
    scale = len(units) // _FINE + 1
    above = next((at for at, unit in enumerate(units) if unit > "\x7f"), len(units))
    borders = {above, above + 1, max(1, len(units) // 2)}
    found: list[str] = []
    start = at = turn = 0
    while at < len(units):
        at += 1
        full = at - start == _SIZES[turn % len(_SIZES)] * scale
        if full or at in borders or at == len(units):
            found.append("".join(units[start:at]))
            start, turn = at, turn + 1
    return found

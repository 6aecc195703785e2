"""What a state keeps of the world beside the history: sections, files, items, the inbox.

Values only, told apart by seq; contents stay in the log. Their folds are `world`, `freshness`,
`offers` and `inbox`.
"""

from __future__ import annotations

import msgspec

from sawlog.store.text import Text


class Value(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a section of the world is now: part `part` of event `seq` says it.

    `digest` is the hex SHA-256 of its value's source; `unknown`: what was told before is not
    trusted any more.
    """

    name: str
    seq: int
    part: int
    digest: str
    removed: bool = False
    unknown: bool = False


class Told(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A section's text that stands in the packet: as a whole (base 0), or as a difference."""

    name: str
    seq: int
    part: int
    digest: str
    removed: bool = False
    base: int = 0
    base_part: int = 0


class Seen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event that shows text of a file, the version it was of, and whether that holds always."""

    seq: int
    version: str
    holds: bool = False


class File(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file as the log knows it: its newest version and state, said by event `seq`.

    `observed`: that event showed it anew, as a result does. `seen` are the events that show it.
    """

    path: str
    seq: int
    version: str
    absent: bool = False
    observed: bool = False
    seen: tuple[Seen, ...] = ()


class Offer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An item that was offered; `withdrawn` is the seq of the event that took it back.

    `saw` are path and version of the files that it was taken from.
    """

    seq: int
    channel: str
    source_id: Text
    parts: int
    required: bool = False
    withdrawn: int = 0
    saw: tuple[tuple[str, str], ...] = ()


class Pending(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message that waits in the inbox, named by the event that injected it."""

    seq: int
    id: str
    target: str
    wakes: bool

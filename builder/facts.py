"""What a state keeps of the world beside the history: sections, files, items, the inbox.

Values only, told apart by seq; contents stay in the log. Their folds are `world`, `freshness`,
`offers` and `inbox`.
"""

from __future__ import annotations

import msgspec

from sawlog.store.text import Text

GOAL = "goal"
"""The section of the world that tells the session's goal and completion condition."""


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


class Sight(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """That an event shows text of a file, as it was in a version (empty: nobody knows which).

    `since` is the seq before which it cannot have been looked at: the start of the call that read
    it, or the event itself.
    """

    path: str
    version: str
    since: int


class Seen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Texts of one version of a file: the seqs of the first and the last event that show one.

    `since` is that of the last one's sight.
    """

    version: str
    since: int
    first: int
    last: int


class File(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file as the log knows it: its newest version (empty: unknown) and state, said by `seq`.

    `heard` is the seq of the newest word on it, which may have said the same again. `open` are
    shown texts that no notice calls out of date, `told` the versions of those that one does.
    `gone`: the newest notice says that the file is.
    """

    path: str
    seq: int
    version: str
    absent: bool = False
    heard: int = 0
    open: tuple[Seen, ...] = ()
    told: tuple[str, ...] = ()
    gone: bool = False


class Offer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An item that was offered; `withdrawn` is the seq of the event that took it back.

    `after` is the packet that it was offered after. `saw` are the files that it was taken from.
    """

    seq: int
    channel: str
    source_id: Text
    parts: int
    required: bool = False
    withdrawn: int = 0
    after: int = 0
    saw: tuple[Sight, ...] = ()


class Pending(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message that waits in the inbox, named by the event that injected it."""

    seq: int
    id: str
    target: str
    wakes: bool

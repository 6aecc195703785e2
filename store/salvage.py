"""What can be saved of a damaged session: the longest good prefix, and word on all the rest.

A prefix is good as far as the chain, the commitments and the cited blobs hold without a gap. Other
sessions are not touched, and nothing is written: the prefix leaves as an export, which any store
takes in.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sawlog.store.checked import Check
from sawlog.store.exchange import begun
from sawlog.store.exported import last_line
from sawlog.store.log import Log, Session


class Rest(msgspec.Struct, frozen=True):
    """Something that is not as it was written.

    `seq` is the event's, 0 for the session's row in the directory. `what` says what is wrong.
    `readable`: the event itself reads and fits the one before it, wherever it stands.
    """

    seq: int
    what: str
    readable: bool


class Prefix:
    """The good prefix of a session as the lines of an export; iterate as often as needed."""

    def __init__(self, log: Log, session: bytes, last: int, digest: bytes) -> None:
        self._log = log
        self._session = session
        self._last = last
        self._digest = digest

    def __iter__(self) -> Iterator[bytes]:
        yield from begun(self._log, Check(self._log, self._session), self._last)
        yield last_line(self._last, self._digest)


class Salvaged(msgspec.Struct, frozen=True, kw_only=True):
    """What salvage found in a session.

    `good` are the lines of an export that ends at event `last_good`, where the chain's digest is
    `digest`. `rest` lists what is wrong, in order: each event behind the prefix, events within it
    whose rows need mending though their content is sound, and the row in the directory.
    """

    session: str
    name: str
    good: Prefix
    last_good: int
    digest: bytes
    rest: tuple[Rest, ...]


def salvage(log: Log, session: Session) -> Salvaged:
    """Read what can be read of a session. Writes nothing.

    Raises NoSession, and Damaged where the directory no longer says whose events are the session's.
    """
    check = Check(log, session)
    last_good, broken = 0, False
    rest: list[Rest] = []
    for place in check.places():
        broken = broken or bool(place.broken)
        if not broken:
            last_good = place.seq
        if place.why:
            readable = place.event is not None and place.linked
            rest.append(Rest(place.seq, place.why, readable))
    wrong = check.directory()
    if wrong:
        rest.append(Rest(0, wrong, True))
    return Salvaged(
        session=check.row.id.hex(),
        name=check.row.name or "",
        good=Prefix(log, check.row.id, last_good, check.digest),
        last_good=last_good,
        digest=check.digest,
        rest=tuple(rest),
    )

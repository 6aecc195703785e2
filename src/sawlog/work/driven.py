"""Who drives a session now: what that one began is under way, and nobody else's to end."""

from __future__ import annotations

import msgspec

from sawlog.store.directory import SessionRow
from sawlog.store.lease import is_live
from sawlog.store.log import Log


class Driven(msgspec.Struct, frozen=True):
    """Who drives a session: the live lease's number and owner, and which lease the reader has.

    `running` are the calls that the reader itself runs now.
    """

    fence: int = 0
    owner: str = ""
    mine: int = 0
    running: frozenset[str] = frozenset()

    @property
    def by_another(self) -> str:
        """The owner, when it is not the reader."""
        return self.owner if self.fence and self.fence != self.mine else ""

    def lives(self, fence: int) -> bool:
        """True when what was appended under that number is of the one who drives now."""
        return fence != 0 and fence == self.fence

    def runs(self, call: str, fence: int) -> bool:
        """True when that call, started under that number, may be running still."""
        return call in self.running or (bool(self.by_another) and self.lives(fence))


def driven(
    log: Log, row: SessionRow, mine: int = 0, running: frozenset[str] = frozenset()
) -> Driven:
    """Who drives the session of this row, by the clock that leases go by."""
    with log.database.read() as tx:
        now = tx.now(log.clock)
    if not is_live(row, now):
        return Driven(mine=mine, running=running)
    return Driven(row.fence, row.owner or "", mine, running)

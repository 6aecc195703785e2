"""Following a store: every event once, each session in seq order, all followers in one order.

The order is that of arrival. A position names the store's epoch, which a restore renews, and a
place within; whoever keeps the position of the last event that it finished goes on right behind it.
A writer that is still open delays the events after it and never makes one be skipped.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec

from sawlog.store import dictionaries, rows
from sawlog.store.database import Database, Place, Row
from sawlog.store.envelope import StoredEvent
from sawlog.store.errors import WrongPosition

_COLUMNS = f"{rows.COLUMNS}, s.id, s.tenant, s.sid"


class Position(msgspec.Struct, frozen=True):
    """A place in a store's order of arrival; good for this store until it is restored."""

    epoch: bytes
    place: Place

    def __str__(self) -> str:
        return ".".join([self.epoch.hex(), *map(str, self.place)])

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that `str` wrote. Raises WrongPosition for any other text."""
        epoch, *place = text.split(".")
        try:
            position = cls(bytes.fromhex(epoch), tuple(int(number) for number in place))
        except ValueError:
            position = None
        if position is None or len(position.epoch) != 16 or len(place) > 3:
            raise WrongPosition(f"{text!r} is no position of a follower")
        return position


class Followed(msgspec.Struct, frozen=True):
    """An event with its session and the position right behind it."""

    position: Position
    tenant: str
    session: bytes
    event: StoredEvent


class Batch(msgspec.Struct, frozen=True):
    """Some events, and the position to go on from, which may lie further than the last of them."""

    events: tuple[Followed, ...]
    position: Position


def batch(
    database: Database,
    position: Position | None = None,
    *,
    tenant: str | None = None,
    limit: int = 500,
) -> Batch:
    """At most `limit` events after a position, of one tenant or of all; None: from the start.

    Raises WrongPosition for a position of another store or from before a restore, and Damaged at
    a broken row.
    """
    with database.read() as tx:
        epoch = database.epoch_in(tx)
        if position is not None and position.epoch != epoch:
            raise WrongPosition(
                "this position was given by another store, or before this one was restored: "
                "follow it from the start"
            )
        after = position.place if position else ()
        horizon = tx.horizon()
        found = tx.changes(_COLUMNS, after, tenant, limit)
        by_session: dict[int, list[Row]] = {}
        for _, columns in found:
            by_session.setdefault(columns[18], []).append(columns)
        words = {
            sid: dictionaries.of_rows(tx, database.dictionaries, sid, some)
            for sid, some in by_session.items()
        }
    events = tuple(
        Followed(
            Position(epoch, place),
            columns[17],
            columns[16],
            rows.event_of(columns[:16], columns[16], words[columns[18]]),
        )
        for place, columns in found
    )
    if len(events) == limit:
        last = events[-1].position.place
    else:
        # All that has arrived was seen, so what is other tenants' need not be passed over again.
        last = max(after, horizon, *(each.position.place for each in events))
    return Batch(events, Position(epoch, last))


def follow(
    database: Database,
    position: Position | None = None,
    *,
    tenant: str | None = None,
    limit: int = 500,
    wait: float | None = None,
    stop: threading.Event | None = None,
) -> Iterator[Followed]:
    """The events after a position, in batches of `limit` behind the scenes.

    Ends when all that has arrived was given; with `wait` it looks again after so many seconds,
    until `stop` is set.
    """
    stop = stop or threading.Event()
    while not stop.is_set():
        some = batch(database, position, tenant=tenant, limit=limit)
        yield from some.events
        position = some.position
        if len(some.events) < limit:
            if wait is None:
                return
            stop.wait(wait)

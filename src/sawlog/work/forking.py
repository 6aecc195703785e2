"""Forks of a session: another one that shares its events up to some seq, and goes its own way.

No event is copied. What was open there is not the fork's to answer, its waiting messages and its
lease stay with the parent; step numbers go on.
"""

from __future__ import annotations

from sawlog.store.directory import SessionRow
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import Conflict, InvalidEvent, quoted
from sawlog.store.events.lifecycle import SessionForked
from sawlog.store.ids import keyed_id
from sawlog.store.log import Log


def fork(log: Log, parent: SessionRow, at: int, name: str | None) -> SessionRow:
    """A fork at event `at`, with its first event.

    Without a name it is called after its parent and the place. Raises InvalidEvent for a place that
    the parent does not have, Conflict when the name is taken.
    """
    if type(at) is not int:
        raise InvalidEvent(f"{quoted(at)} is no event: give its seq, a whole number", path="at")
    if not 0 <= at <= parent.head:
        raise InvalidEvent(
            f"{at} is no event of the session, which ends at {parent.head}", path="at"
        )
    if name is not None:
        child = log.fork(parent, at, name=name)
    else:
        child = _named_after(log, parent, at)
    log.append(child, [first_event(log, child)])
    return log.get(child)


def is_begun(row: SessionRow, head: int) -> bool:
    """False of a fork whose first event is missing, because a process ended in between."""
    return not row.ancestors or head > row.base


def first_event(log: Log, child: SessionRow) -> NewEvent:
    """The event that a fork begins with; it is in the log once."""
    parents = [row for row in log.sessions() if row.sid == child.parent]
    ids = [row.id for row in parents] or [log.lineage(child)[-2][0]]
    return NewEvent(
        payload=SessionForked(ids[0].hex(), child.base, child.digest.hex()),
        source="harness",
        id=keyed_id(f"session.forked {child.id.hex()}"),
    )


def _named_after(log: Log, parent: SessionRow, at: int) -> SessionRow:
    base = f"{parent.name or parent.id.hex()}~{at}"
    for number in range(1, 1000):
        try:
            return log.fork(parent, at, name=base if number == 1 else f"{base}.{number}")
        except Conflict:
            continue
    raise Conflict("there are many forks of this place already: give this one a name of its own")

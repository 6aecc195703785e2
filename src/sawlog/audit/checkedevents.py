"""A session's events as verify takes them: checked one by one, with their contents read ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from sawlog.audit.recorded import Recorded
from sawlog.builder.projector import FOLD
from sawlog.builder.snapshot import CODEC
from sawlog.store.checked import Check
from sawlog.store.errors import Damaged
from sawlog.store.event import Event, decoded
from sawlog.store.events.base import Payload
from sawlog.store.text import TextObject

_AHEAD = 16
"""Events that are read at once."""


def checked_events(session: Recorded) -> Iterator[Event]:
    """The session's events while they are as they were written, none of them believed before.

    The session's window holds the blobs that packets show of them. Raises Damaged at the first
    event that is not as it was written, and at the end for the directory's row.
    """
    check = Check(session.log, session.row)
    places = check.places()
    while some := list(islice(places, _AHEAD)):
        events: list[Event] = []
        wanted: dict[bytes, None] = {}
        cited: dict[int, bytes] = {}
        damaged: Damaged | None = None
        try:
            for place in some:
                if place.event is None or place.why:
                    raise Damaged(place.why, session=session.id, seq=place.seq)
                event = decoded(place.event, session.log.registry)
                if event.shown:
                    names = [*_to_show(event, place.names)] if place.names else []
                    wanted.update(dict.fromkeys(names))
                    cited[event.seq] = b"".join(names)
                events.append(event)
        except Damaged as error:
            damaged = error
        if wanted:
            found = check.taken(wanted)
            if len(found) < len(wanted):
                left = [digest for digest in wanted if digest not in found]
                found.update(session.log.blobs(session.row, left))
            session.window.hold((), ((digest.hex(), data) for digest, data in found.items()))
        session.window.hold_cited(cited)
        yield from events
        if damaged is not None:
            raise damaged
    wrong = check.directory()
    if wrong:
        raise Damaged(wrong, session=session.id)


def _to_show(event: Event, names: Iterable[bytes]) -> Iterator[bytes]:
    """The blobs that a packet needs of an event: not the line of a foreign record."""
    record = event.content.record if isinstance(event.content, Payload) else None
    line = record.line if record is not None else ""
    aside = line.blob if isinstance(line, TextObject) else ""
    return (name for name in names if name.hex() != aside)


def snapshots_of(session: Recorded) -> Iterator[tuple[int, bytes]]:
    """Places and digests of the sound snapshots of this fold that the store holds, newest first."""
    upto = session.row.head
    while upto:
        kept = session.log.snapshot_get(session.row, fold=FOLD, layout=CODEC, upto=upto)
        if kept is None:
            return
        yield kept.seq, kept.digest
        upto = kept.seq - 1

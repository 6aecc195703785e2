"""Writes the checkpoints of exported sessions again, from the files alone, purely.

`python checkpoint_digests.py FILE…` needs sawlog's values, builder and compaction, and so msgspec,
and nothing else. The sessions were compacted with no budget and no room for the user's messages.
For each checkpoint it prints the digest of the bytes that are stored and of those that come out
now, then what the next packet's history comes to.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import msgspec

from sawlog.builder.contents import Held
from sawlog.builder.forms import checkpoint_entries
from sawlog.builder.measure import measure_of
from sawlog.builder.projector import fold
from sawlog.builder.state import State
from sawlog.compaction.extractive import extract
from sawlog.compaction.facts import known
from sawlog.compaction.history import digest_of, history_of
from sawlog.compaction.past import Past, surviving
from sawlog.compaction.region import Region, choose
from sawlog.store.event import Event, decoded
from sawlog.store.events import CORE
from sawlog.store.events.base import Named
from sawlog.store.events.compaction import Checkpoint, CompactionCompleted, CompactionStarted
from sawlog.store.events.steps import PolicySet
from sawlog.store.exported import BLOB, EVENT, content_of, event_of


def lines_of(file: Path) -> list[str]:
    """A line for each checkpoint of a session, and one for the history behind all of it."""
    held, state = Held({}), State()
    past: list[Event] = []
    out: list[str] = []
    region: Region | None = None
    previous: tuple[Checkpoint | None, str, int] = None, "", 0
    for line in file.read_bytes().splitlines(keepends=True):
        if line.startswith(BLOB):
            content = content_of(line)
            held.blobs[content.digest.hex()] = content.data
        if not line.startswith(EVENT):
            continue
        stored = event_of(line)
        event = decoded(stored, CORE)
        held.events[event.seq] = event
        match event.content:
            case CompactionStarted():
                chosen = choose(history_of(state, _measure(state, held), held), held, keep_user=0)
                assert isinstance(chosen, Region)
                region = chosen
                out.append(f"{file.stem} region {event.content.region} {region.digest}")
            case Checkpoint() if region is not None:
                events = tuple(surviving(one for one in past if one.seq > previous[2]))
                started = event.content.started
                of = Past(state, region, events, held, started, previous[0], previous[1])
                made = msgspec.json.encode(_written(of, _measure(state, held), held))
                assert stored.payload is not None
                both = (hashlib.sha256(one).hexdigest() for one in (stored.payload, made))
                out.append(f"{file.stem} checkpoint {' '.join(both)}")
                previous = event.content, event.id, region.through
            case CompactionCompleted() if region is not None:
                region = None
            case _:
                pass
        past.append(event)
        state = fold(state, event)
    shown = history_of(state, _measure(state, held), held)
    return [*out, f"{file.stem} history {digest_of((*shown.head, *shown.entries))}"]


def _written(past: Past, measure: Named, held: Held) -> Checkpoint:
    most = max(1, past.region.units // 2)
    draft = extract(past, known(past, most, measure), most, measure)
    units = sum(map(measure_of(measure), checkpoint_entries(draft, held)))
    return msgspec.structs.replace(draft, units=units)


def _measure(state: State, held: Held) -> Named:
    policy = held.event(state.policy).content
    assert isinstance(policy, PolicySet)
    return policy.measure


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print("\n".join(lines_of(Path(name))))

"""What all tests of importers ask of a session that was read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from sawlog.formats.base import ForeignEvent, ForeignSession
from sawlog.store.codec import prepare
from sawlog.store.envelope import Blob, NewEvent
from sawlog.store.errors import FormatError
from sawlog.store.events import CORE
from sawlog.store.events.base import Payload
from sawlog.store.events.compaction import (
    CompactionCompleted1,
)
from sawlog.store.events.conversation import ToolFinished, ToolRequested
from sawlog.store.events.lifecycle import (
    ForeignRecord,
)

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "foreign"

Read = Callable[[Path], list[ForeignSession]]


def corpus(name: str) -> list[Path]:
    """The files of one folder of real transcripts, which may lie beside the checkout."""
    return sorted((ROOT.parent / "shared" / "corpus" / name).glob("*.json*"))


def corpus_params(name: str) -> list[object]:
    """A parameter for each real file, or one that is skipped and says why."""
    files = corpus(name)
    if files:
        return [pytest.param(path, id=path.name[:40]) for path in files]
    missing = pytest.mark.skip(reason=f"no real {name} transcripts beside the checkout")
    return [pytest.param(Path("none"), marks=missing)]


def events(session: ForeignSession) -> list[ForeignEvent]:
    """All events of a session in order."""
    return [event for record in session.records for event in record.events]


def bare(payload: Payload) -> Payload:
    """A payload without its record, for comparing."""
    return msgspec.structs.replace(payload, record=None)


def payloads(session: ForeignSession) -> list[Payload]:
    """All payloads of a session without their records."""
    return [bare(event.payload) for event in events(session)]


def check_session(session: ForeignSession) -> None:
    """Holds of every session, whatever the file: raises AssertionError."""
    all_events = events(session)
    ids = [event.id for event in all_events]
    assert len(set(ids)) == len(ids)
    known: dict[bytes, ForeignEvent] = {}
    at = {id: place for place, id in enumerate(ids)}
    step = 0
    for position, record in enumerate(session.records):
        assert record.position == position
        assert record.events, "a record without an event"
        for event in record.events:
            noted = event.payload.record
            assert noted is not None
            assert noted.format == session.format
            assert (noted.position, noted.digest) == (position, record.digest)
            line = noted.line
            assert isinstance(line, str)
            raw = line.encode("utf-8", "surrogateescape")
            assert hashlib.sha256(raw).hexdigest() == record.digest
            assert event.ignorable is isinstance(event.payload, ForeignRecord)
            payload = event.payload
            if isinstance(payload, ToolRequested) and event.step:
                assert event.step >= step
                step = event.step
            if isinstance(payload, ToolFinished) and payload.call:
                call = known[bytes.fromhex(payload.call)]
                assert isinstance(call.payload, ToolRequested)
                assert call.payload.call_id == payload.call_id
                assert event.step == call.step
            if isinstance(payload, CompactionCompleted1):
                assert all(bytes.fromhex(id) in known for id in payload.history)
            if event.rewind_to is not None:
                assert event.rewind_to == b"" or at[event.rewind_to] < at[event.id]
            known[event.id] = event
            check_storable(session, event)
    counts = session.counts
    assert counts.records == len(session.records)
    assert counts.events == len(all_events)
    assert counts.steps == max((event.step for event in all_events), default=0)
    steps = [event.step for event in all_events if event.step]
    assert sorted(set(steps)) == list(range(1, counts.steps + 1))


def check_storable(session: ForeignSession, event: ForeignEvent) -> None:
    """The store takes the event as it is: payload, blobs, id and times."""
    prepare(
        NewEvent(
            payload=event.payload,
            source=f"import:{session.format}",
            step=event.step,
            id=event.id,
            occurred_at=event.occurred_at,
            ignorable=event.ignorable,
            blobs=tuple(
                Blob(hashlib.sha256(raw).digest(), raw, media) for raw, media in event.blobs
            ),
        ),
        CORE,
        0,
        lambda: b"\0" * 16,
        lambda: b"\0" * 16,
    )


def check_prefixes(read: Read, path: Path, cuts: list[int], scratch: Path) -> None:
    """Reading the first bytes of a file gives the first records of the whole file's sessions.

    The copy keeps the file's name, which may be all that names the session.
    """
    raw = path.read_bytes()
    whole = {session.source_id: session for session in read(path)}
    copy = scratch / path.name
    for cut in cuts:
        copy.write_bytes(raw[:cut])
        try:
            cut_short = read(copy)
        except FormatError:
            # Nothing whole stands before the cut.
            assert b"\n" not in raw[:cut].strip(), cut
            continue
        for session in cut_short:
            full = whole[session.source_id]
            records = list(session.records)
            assert records == list(full.records)[: len(records)], cut

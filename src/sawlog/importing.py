"""Import: the records of foreign files into the sessions that their source ids name.

Records are compared in order, by digest, with those already stored. Same start: only the news is
added. No record in common: a later slice, a session of its own. A record that differs: a session
of its own that names the first one. Nothing is overwritten, so a newer importer changes nothing
that is stored.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import msgspec
from msgspec.structs import replace

from sawlog.agentlog import AgentLog
from sawlog.builder.policy import AS_RECORDED
from sawlog.builder.profiles import profile_for
from sawlog.builder.projector import FOLD
from sawlog.builder.render import renderer_for
from sawlog.formats.base import ForeignEvent, ForeignRecord, ForeignSession
from sawlog.formats.lines import check_head
from sawlog.store.directory import LONGEST_NAME, SessionRow
from sawlog.store.envelope import Blob, NewEvent
from sawlog.store.errors import ConfigError, Conflict, UnknownFormat
from sawlog.store.event import decoded
from sawlog.store.events.base import Payload
from sawlog.store.events.lifecycle import HistoryRewound, SessionCreated
from sawlog.store.events.steps import PolicySet
from sawlog.store.ids import foreign_id, new_id
from sawlog.store.log import Log

FORMATS = {
    "codex": "sawlog.formats.codex",
    "claude-code": "sawlog.formats.claude_code",
    "openai-chat": "sawlog.formats.openai_chat",
}
"""Formats by name, and the module that reads each."""

_BATCH_EVENTS = 400
_BATCH_BYTES = 8_000_000

Progress = Callable[[str, int, int], None]
"""Called with a file's name, events done and events in all."""


class Imported(msgspec.Struct, frozen=True):
    """What became of one session of a file.

    `session` is its id; `added` counts events new in the store; all other counts are of the file as
    read (see `formats.base.Counts`). `anomalies` are sentences.
    """

    session: str
    added: int
    events: int
    steps: int
    calls: int
    unanswered: int
    orphans: int
    opaque: int
    anomalies: tuple[str, ...]


def import_path(
    log: AgentLog,
    path: Path,
    format: str = "auto",
    progress: Progress = lambda name, done, all: None,
) -> list[Imported]:
    """Import a file, or all files of the format below a folder; the named file's session first.

    Raises UnknownFormat when a file is none of the formats or holds no whole record, TooLarge when
    it is above a bound, ConfigError for a format that does not exist.
    """
    out: list[Imported] = []
    for file in files_of(path, format):
        for session in read_file(file, format):
            out.append(import_session(log.store, session, progress))
    return out


def read_file(path: Path, format: str = "auto") -> list[ForeignSession]:
    """The sessions of one file, the named file's first; nothing is stored."""
    sessions: list[ForeignSession] = _reader(path, format).read(path)
    return sessions


def _reader(path: Path, format: str) -> ModuleType:
    if format != "auto":
        module = FORMATS.get(format)
        if module is None:
            raise ConfigError(f"there is no format {format!r}: use auto, {', '.join(FORMATS)}")
        return importlib.import_module(module)
    for name in FORMATS.values():
        found = importlib.import_module(name)
        if found.sniff(path):
            return found
    with path.open("rb") as file:
        check_head(file.read(4096), path)
    raise UnknownFormat(
        f"{path} is none of the formats that sawlog reads ({', '.join(FORMATS)}), or holds no "
        "whole record",
        path=str(path),
    )


def files_of(path: Path, format: str = "auto") -> Iterator[Path]:
    """The file itself, or the files of the format below a folder, in the order of their paths."""
    if not path.is_dir():
        yield path
        return
    found = 0
    for file in sorted(path.rglob("*")):
        if file.suffix not in (".jsonl", ".json") or not file.is_file():
            continue
        if _has_parent_file(file):
            continue  # read with the session that started it
        try:
            _reader(file, format)
        except UnknownFormat:
            continue
        if format != "auto" and not importlib.import_module(FORMATS[format]).sniff(file):
            continue
        found += 1
        yield file
    if not found:
        raise UnknownFormat(f"no file below {path} is of a format that sawlog reads")


def _has_parent_file(file: Path) -> bool:
    folder = file.parent
    if folder.name == "subagents":
        return folder.parent.with_suffix(".jsonl").is_file()
    if folder.name.endswith(".subagents"):
        return folder.with_suffix(".jsonl").is_file()
    return False


# --- one session -----------------------------------------------------------------------------


class _Stored(msgspec.Struct):
    """What a session already holds of a file: record digests in order, ids to seqs."""

    row: SessionRow
    records: list[str]
    places: dict[bytes, int]


def import_session(
    log: Log, session: ForeignSession, progress: Progress = lambda name, done, all: None
) -> Imported:
    """Add what is new of one foreign session to the session that it belongs to."""
    digests = [record.digest for record in session.records]
    source_id = _source_id(session)
    stored: _Stored | None = None
    first: _Stored | None = None
    for row in log.by_source(source_id):
        found = _read_stored(log, row)
        if _same_start(found.records, digests):
            stored = found
            break
        if first is None and not set(found.records).isdisjoint(digests):
            first = found
    if stored is None:
        stored = _new_session(log, session, source_id)
    before = stored.row.head
    _append(log, session, stored, first, digests, progress)
    counts = session.counts
    return Imported(
        session=stored.row.id.hex(),
        added=log.get(stored.row).head - before,
        events=counts.events,
        steps=counts.steps,
        calls=counts.calls,
        unanswered=counts.unanswered,
        orphans=counts.orphans,
        opaque=counts.opaque,
        anomalies=counts.anomalies,
    )


def _source_id(session: ForeignSession) -> str:
    """The directory's source id: the format and the foreign id, digested where it is too long."""
    text = f"{session.format}:{session.source_id}"
    if len(text) <= LONGEST_NAME and text.isprintable() and text.isascii():
        return text
    digest = hashlib.sha256(session.source_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{session.format}:sha256:{digest}"


def _read_stored(log: Log, row: SessionRow) -> _Stored:
    records: list[str] = []
    places: dict[bytes, int] = {}
    last = -1
    for stored in log.read(row):
        content = decoded(stored, log.registry).content
        places[stored.id] = stored.seq
        if isinstance(content, Payload) and content.record is not None:
            if content.record.position != last:
                last = content.record.position
                records.append(content.record.digest)
    return _Stored(row, records, places)


def _same_start(stored: Sequence[str], file: Sequence[str]) -> bool:
    shared = min(len(stored), len(file))
    return shared > 0 and stored[:shared] == file[:shared]


def _new_session(log: Log, session: ForeignSession, source_id: str) -> _Stored:
    if not session.records:
        raise UnknownFormat("the file holds no whole record")
    name = session.name if 0 < len(session.name) <= LONGEST_NAME else ""
    if name:
        try:
            row = log.session(name, id=new_id(), create=True, source_id=source_id)
            return _Stored(row, [], {})
        except Conflict:
            pass  # another session has the name: this one goes by its id
    return _Stored(log.session(create=True, source_id=source_id), [], {})


def _append(
    log: Log,
    session: ForeignSession,
    stored: _Stored,
    first: _Stored | None,
    digests: Sequence[str],
    progress: Progress,
) -> None:
    batch: list[NewEvent] = []
    size = 0
    head = stored.row.head
    total = session.counts.events
    if head == 0:
        batch = _opening(session, first, digests)

    def flush() -> None:
        nonlocal head, size
        if batch:
            done = log.append(stored.row, batch, expected_seq=head)
            head = done.head
            batch.clear()
            size = 0
            progress(session.name, head, total)

    for record in session.records[len(stored.records) :]:
        # A record's events go in together: a compaction is one batch or none.
        for event in record.events:
            seq = head + len(batch) + 1
            stored.places[event.id] = seq
            batch.append(_new_event(session, event, stored.places))
        size += _weight(record)
        if len(batch) >= _BATCH_EVENTS or size >= _BATCH_BYTES:
            flush()
    flush()


def _opening(
    session: ForeignSession, first: _Stored | None, digests: Sequence[str]
) -> list[NewEvent]:
    """The first two events: what the file is, and the rules that rebuild its steps for ever."""
    created = SessionCreated(
        name=session.name, format=session.format, source_id=session.source_id, parent=session.parent
    )
    if first is not None:
        at = 0
        shared = min(len(first.records), len(digests))
        while at < shared and first.records[at] == digests[at]:
            at += 1
        created = replace(created, differs_from=first.row.id.hex(), differs_at=at)
    profile, _ = profile_for(session.api, "")
    policy = PolicySet(
        policy=AS_RECORDED,
        fold=FOLD,
        profile=profile.named,
        renderer=renderer_for(session.api),
    )
    source = f"import:{session.format}"
    return [
        NewEvent(payload=payload, source=source, id=foreign_id(session.source_id, "session", part))
        for payload, part in ((created, "created"), (policy, "policy"))
    ]


def _new_event(session: ForeignSession, event: ForeignEvent, places: dict[bytes, int]) -> NewEvent:
    payload = event.payload
    if event.rewind_to is not None:
        # Behind the session's own first two events, when the whole file is rewound.
        to = places[event.rewind_to] if event.rewind_to else 2
        assert isinstance(payload, HistoryRewound)
        payload = replace(payload, to=to)
    return NewEvent(
        payload=payload,
        source=f"import:{session.format}",
        step=event.step,
        id=event.id,
        occurred_at=event.occurred_at,
        ignorable=event.ignorable,
        blobs=tuple(
            Blob(hashlib.sha256(data).digest(), data, media) for data, media in event.blobs
        ),
    )


def _weight(record: ForeignRecord) -> int:
    total = 0
    for event in record.events:
        line = event.payload.record
        if line is not None and isinstance(line.line, str):
            total += len(line.line)
    return total

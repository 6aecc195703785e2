"""Import: the records of foreign files into the sessions that their source ids name.

Records are compared in order, by digest, with those already stored. Same start: only the news is
added. No record in common: a later slice, a session of its own. A record that differs: a session
of its own that names the first one. Nothing is overwritten, so a newer importer changes nothing
that is stored.

A session that was carried on here has left its file: what the file says later is another branch,
and gets a session of its own that names the first one, too.
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
from sawlog.store.directory import SessionRow, is_name, source_name
from sawlog.store.envelope import UNKNOWN_TIME, Blob, NewEvent, StoredEvent
from sawlog.store.errors import ConfigError, Conflict, UnknownFormat
from sawlog.store.event import decoded
from sawlog.store.events.base import Payload
from sawlog.store.events.lifecycle import HistoryRewound1, SessionCreated
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
_OPENING = 2
"""Events in front of the first record's: what the session is, and its policy."""
_NAMES = 1000
"""Names that are tried before a session goes by its id alone."""

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


def import_session(
    log: Log, session: ForeignSession, progress: Progress = lambda name, done, all: None
) -> Imported:
    """Add what is new of one foreign session to the session that it belongs to.

    Raises UnknownFormat when it holds no record, Leased when another process drives that session.
    """
    if not session.records:
        raise UnknownFormat("the file holds no whole record")
    run = _Import(log, session, progress)
    row = run.placed()
    counts = session.counts
    return Imported(
        session=row.id.hex(),
        added=run.added,
        events=counts.events,
        steps=counts.steps,
        calls=counts.calls,
        unanswered=counts.unanswered,
        orphans=counts.orphans,
        opaque=counts.opaque,
        anomalies=counts.anomalies,
    )


class _Stored(msgspec.Struct):
    """What a session already holds of a file: record digests in order, ids to seqs.

    `gone_on`: it was carried on here, so that later records of the file are another branch.
    """

    row: SessionRow
    records: list[str]
    places: dict[bytes, int]
    gone_on: bool = False


class _Import:
    """The import of one foreign session; `added` counts the events that it appended."""

    def __init__(self, log: Log, session: ForeignSession, progress: Progress) -> None:
        self.added = 0
        self._log = log
        self._session = session
        self._progress = progress
        self._source_id = source_name(session.format, session.source_id)
        self._digests = [record.digest for record in session.records]

    def placed(self) -> SessionRow:
        """Append the news where they belong; gives the session."""
        before: list[tuple[bytes, int]] | None = None
        while True:
            rows = self._log.by_source(self._source_id)
            heads = [(row.id, row.head) for row in rows]
            try:
                return self._once(rows)
            except Conflict:
                # Another import of the file was quicker, or a note came in: look again, as long as
                # something moves.
                if heads == before:
                    raise
                before = heads

    def _once(self, rows: Sequence[SessionRow]) -> SessionRow:
        stored = [_read_stored(self._log, row) for row in rows]
        place = self._going_on(stored)
        if place is not None:
            self._append(place, [])
            return place.row
        # An import that was killed before its first batch leaves a session without events.
        place = next((one for one in stored if not one.row.head), None)
        if place is None:
            place = _Stored(self._new_row({one.row.id for one in stored}), [], {})
        alike = (one for one in stored if not set(one.records).isdisjoint(self._digests))
        self._append(place, self._opening(place.row, next(alike, None)))
        return place.row

    def _going_on(self, stored: Sequence[_Stored]) -> _Stored | None:
        """The session that holds the file, or the beginning of it; None when there is none."""
        alike = [one for one in stored if _same_start(one.records, self._digests)]
        for one in alike:
            if len(one.records) >= len(self._digests):
                return one
        # What was carried on here is followed by no more of the file: its calls, step numbers and
        # replies would mix with those that the session made of its own.
        left = [one for one in alike if not one.gone_on]
        return max(left, key=lambda one: len(one.records), default=None)

    def _new_row(self, known: set[bytes]) -> SessionRow:
        """A session under the proposed name, or with a number behind it where that is taken."""
        name = self._session.name
        for number in range(1, _NAMES + 1) if name and is_name(f"{name}-{_NAMES}") else ():
            wanted = name if number == 1 else f"{name}-{number}"
            try:
                return self._log.session(
                    wanted, id=new_id(), create=True, source_id=self._source_id
                )
            except Conflict:
                owner = self._log.session(wanted)
                if owner.source_id == self._source_id and owner.id not in known:
                    raise  # another import has just made it
        return self._log.session(create=True, source_id=self._source_id)

    def _append(self, place: _Stored, batch: list[NewEvent]) -> None:
        session = self._session
        head = place.row.head
        size = 0

        def flush() -> None:
            nonlocal head, size
            if batch:
                done = self._log.append(place.row, batch, expected_seq=head)
                head = done.head
                self.added += done.new
                batch.clear()
                size = 0
                self._progress(session.name, head, session.counts.events)

        for record in session.records[len(place.records) :]:
            # A record's events go in together: a compaction is one batch or none.
            for event in record.events:
                place.places[event.id] = head + len(batch) + 1
                batch.append(_new_event(session, event, place.places))
            size += _weight(record)
            if len(batch) >= _BATCH_EVENTS or size >= _BATCH_BYTES:
                flush()
        flush()

    def _opening(self, row: SessionRow, first: _Stored | None) -> list[NewEvent]:
        """The first two events: what the file is, and the rules that rebuild its steps for ever."""
        session = self._session
        created = SessionCreated(
            name=row.name or "",
            format=session.format,
            source_id=session.source_id,
            parent=session.parent,
        )
        if first is not None:
            shared = zip(first.records, self._digests, strict=False)
            at = next((at for at, (old, new) in enumerate(shared) if old != new), None)
            at = min(len(first.records), len(self._digests)) if at is None else at
            created = replace(created, differs_from=first.row.id.hex(), differs_at=at)
        profile, _ = profile_for(session.api, "")
        policy = PolicySet(
            policy=AS_RECORDED,
            fold=FOLD,
            profile=profile.named,
            renderer=renderer_for(session.api),
        )
        return [
            NewEvent(
                payload=payload,
                source=f"import:{session.format}",
                id=foreign_id(session.source_id, "session", part),
                # The time of the import is no time of what was imported: see as_of.
                occurred_at=UNKNOWN_TIME,
            )
            for payload, part in ((created, "created"), (policy, "policy"))
        ]


def _read_stored(log: Log, row: SessionRow) -> _Stored:
    found = _Stored(row, [], {})
    last = -1
    for stored in log.read(row):
        content = decoded(stored, log.registry).content
        found.places[stored.id] = stored.seq
        if not isinstance(content, Payload) or content.record is None:
            found.gone_on = found.gone_on or (stored.seq > _OPENING and _goes_on(log, stored))
        elif content.record.position != last:
            last = content.record.position
            found.records.append(content.record.digest)
    return found


def _goes_on(log: Log, event: StoredEvent) -> bool:
    """True of an event that carries the session on, for all that is no note from outside."""
    kind = log.registry.find(event.type, event.version)
    if event.ignorable or event.payload is None:
        return False
    return kind is None or kind.shown or not kind.open


def _same_start(stored: Sequence[str], file: Sequence[str]) -> bool:
    shared = min(len(stored), len(file))
    return shared > 0 and stored[:shared] == file[:shared]


def _new_event(session: ForeignSession, event: ForeignEvent, places: dict[bytes, int]) -> NewEvent:
    payload = event.payload
    if event.rewind_to is not None:
        # Behind the session's own first events, when the whole file is rewound.
        to = places[event.rewind_to] if event.rewind_to else _OPENING
        assert isinstance(payload, HistoryRewound1)
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

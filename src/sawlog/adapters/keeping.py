"""A session of the log that a framework keeps its messages in.

What the framework gives is a record: its exact source, and the ordinary events that it says. So the
framework reads back what it wrote, and everything else reads a session like any other. What is
taken back is rewound and stays in the log.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Unpack

import msgspec
from msgspec.structs import replace

from sawlog.adapters.place import Place
from sawlog.adapters.records import Batch, Entry
from sawlog.builder.contents import text_of
from sawlog.builder.policy import AS_RECORDED
from sawlog.builder.profiles import profile_for
from sawlog.builder.projector import FOLD
from sawlog.builder.render import renderer_for
from sawlog.formats.pairs import Pairs
from sawlog.store.codec import cites
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import ConfigError, Conflict, NoSession, quoted
from sawlog.store.event import Event, decoded
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import ToolFinished, ToolRequested
from sawlog.store.events.lifecycle import ForeignRecord, HistoryRewound, SessionCreated
from sawlog.store.events.steps import PolicySet
from sawlog.store.log import Log
from sawlog.work.opening import SessionOptions
from sawlog.work.session import Session
from sawlog.work.window import Window

_OPENING = 2
"""Events in front of the first record's: what the session is, and its policy."""


class Kept(msgspec.Struct, frozen=True):
    """A record as it is kept: its place among all that ever were, source, and first event."""

    position: int
    source: str
    seq: int
    kind: str


class Keeper:
    """One session, driven for a framework; see `Keeper.entered`.

    `format` is the framework's name, which the session says that it is of; `api` the API whose base
    profile and renderer rebuild its steps. Methods may be called from any thread.
    """

    def __init__(
        self, place: Place, name: str, *, format: str, api: str, **options: Unpack[SessionOptions]
    ) -> None:
        self.name = name
        self._place = place
        self._format = format
        self._api = api
        self._options = options
        self._lock = threading.RLock()
        self._session: Session | None = None
        self._kept: list[Kept] = []
        self._ever: list[Kept] = []
        self._calls: list[Event] = []
        self._pairs = Pairs()
        self._next = 0
        self._seen = 0
        self._holds = 0

    # --- life -------------------------------------------------------------------------------------

    def entered(self) -> Session:
        """The session, its lease taken; the first time it is made, and read.

        Raises Leased, naming the owner, while another process drives it; ConfigError for a session
        that is no such framework's.
        """
        with self._lock:
            if self._session is None:
                log = self._place.log
                row = log.store.session(self.name, create=True)
                if not row.head:
                    self._begin(log.store, row)
                session = log.session(self.name, **self._options)
                session.acquire()
                try:
                    self._check(log.store, row)
                    self._read(log.store, row)
                except BaseException:
                    session.release()
                    raise
                self._session = session
                self._place.drives(session)
            return self._session

    def release(self) -> None:
        """Give the lease back; what is called next takes it again. Twice is the same."""
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                self._place.leaves(session)
                session.release()

    def hold(self) -> None:
        """Take the lease, if this is the first to hold it."""
        with self._lock:
            self.entered()
            self._holds += 1

    def unhold(self) -> None:
        """Let go; who is the last to do so gives the lease back."""
        with self._lock:
            self._holds -= 1
            if not self._holds:
                self.release()

    @contextmanager
    def held(self) -> Generator[None]:
        """The lease, held for as long as the block takes."""
        self.hold()
        try:
            yield
        finally:
            self.unhold()

    # --- records ----------------------------------------------------------------------------------

    def kept(self) -> list[Kept]:
        """The records that stand, oldest first; the lease is taken for it."""
        with self._lock:
            self.entered()
            return list(self._kept)

    def look(self) -> list[Kept]:
        """All records that ever were, oldest first, for which no lease is needed.

        Empty when there is no such session. Raises ConfigError as `entered` does.
        """
        with self._lock:
            log = self._place.log.store
            if self._session is None:
                try:
                    row = log.session(self.name)
                except NoSession:
                    return []
                if row.head:
                    self._check(log, row)
                    self._read(log, row)
            return list(self._ever)

    def add(self, entries: Sequence[Entry]) -> list[Kept]:
        """Append records in one append: all of them are in the log afterwards, or none."""
        with self._lock:
            session = self.entered()
            batch = Batch(session, self._format, self._next, self._pairs)
            try:
                for entry in entries:
                    batch.entry(entry)
                batch.end()
                if not batch.events:
                    return []
                seqs = session.record(batch.events)
            except BaseException:
                # What was paired was not written, or may be: it is read again.
                self._forget()
                self.release()
                raise
            before = len(self._ever)
            for event in map(session.window.event, seqs):
                self._take(event, session.window, pair=False)
                self._seen = event.seq
            return self._ever[before:]

    def keep(self, count: int, reason: str) -> list[Kept]:
        """Go back to the first `count` records; gives those that no longer stand.

        Nothing is deleted: a rewind says what packets no longer show.
        """
        with self._lock:
            session = self.entered()
            gone = self._kept[count:]
            if gone:
                session.rewind(to=gone[0].seq - 1, reason=reason)
                log = self._place.log.store
                self._read(log, log.session(self.name))
            return gone

    def call(self, call_id: str) -> tuple[str, bool]:
        """The event of the newest call of that id that waits for its result, and whether it was
        started. Empty when there is none."""
        waiting = [one for one in self.entered().state.waiting if one.call_id == call_id]
        return (waiting[-1].id, waiting[-1].started) if waiting else ("", False)

    def note(self, payload: Payload) -> None:
        """Append an event that is no record of the framework's and shows nothing."""
        with self._lock:
            session = self.entered()
            new = session.new(payload, self._source, step=0)
            [self._seen] = session.record([new])

    # --- underneath -------------------------------------------------------------------------------

    def _begin(self, log: Log, row: SessionRow) -> None:
        """The first two events: whose session it is, and the rules that rebuild its steps."""
        profile, _ = profile_for(self._api, "")
        created = SessionCreated(name=self.name, format=self._format, source_id=self.name)
        policy = PolicySet(
            policy=AS_RECORDED,
            fold=FOLD,
            profile=profile.named,
            renderer=renderer_for(self._api),
        )
        source = self._source
        batch = [NewEvent(payload=created, source=source), NewEvent(payload=policy, source=source)]
        try:
            log.append(row, batch, expected_seq=0)
        except Conflict:
            return  # another process was first; what it made is looked at below

    @property
    def _source(self) -> str:
        return f"adapter:{self._format}"

    def _check(self, log: Log, row: SessionRow) -> None:
        for stored in log.read(row, upto=1):
            created = decoded(stored, log.registry).content
            if isinstance(created, SessionCreated) and created.format == self._format:
                return
        raise ConfigError(
            f"the session {quoted(self.name)} was not begun by {self._format}: give another name, "
            "or go on with it by what began it"
        )

    def _read(self, log: Log, row: SessionRow) -> None:
        """Read what came since the last time: rewinds take out, sources are whole."""
        window = Window(log, row)
        news: list[Event] = []
        for stored in log.read(row, after=self._seen):
            news.append(decoded(stored, log.registry))
        _hold_lines(log, row, window, news)
        for event in news:
            content = event.content
            if isinstance(content, HistoryRewound):
                self._kept = [one for one in self._kept if one.seq <= content.to]
                self._calls = [one for one in self._calls if one.seq <= content.to]
                self._pairs = _paired(self._calls)
            else:
                self._take(event, window)
            self._seen = event.seq

    def _take(self, event: Event, window: Window, *, pair: bool = True) -> None:
        """Take in an event of a record; `pair`: what it answers is not known yet."""
        content = event.content
        record = content.record if isinstance(content, Payload) else None
        if record is None or record.format != self._format:
            self._refuse_other(event)
            return
        if record.position >= self._next:
            self._next = record.position + 1
            kind = content.kind if isinstance(content, ForeignRecord) else ""
            kept = Kept(record.position, text_of(record.line, window), event.seq, str(kind))
            self._kept.append(kept)
            self._ever.append(kept)
        if isinstance(content, ToolRequested | ToolFinished):
            call_id = text_of(content.call_id, window)
            one = replace(event, content=replace(content, call_id=call_id))
            self._calls.append(one)
            if pair:
                _pair(self._pairs, one)

    def _forget(self) -> None:
        self._seen = self._next = 0
        self._kept, self._ever, self._calls = [], [], []
        self._pairs = Pairs()

    def _refuse_other(self, event: Event) -> None:
        """Raise ConfigError for history that the framework does not know of."""
        if event.shown and event.seq > _OPENING:
            raise ConfigError(
                f"event {event.seq} of the session {quoted(self.name)} was said past "
                f"{self._format}, which would not know of it: fork the session before it "
                "(`sawlog fork`) and go on there"
            )


def _hold_lines(log: Log, row: SessionRow, window: Window, events: Sequence[Event]) -> None:
    """Read the large sources of these events in one go."""
    wanted: dict[bytes, None] = {}
    for event in events:
        if isinstance(event.content, Payload) and event.content.record is not None:
            line = replace(ForeignRecord(), record=event.content.record)
            wanted.update(dict.fromkeys(cites(line)))
    if wanted:
        found = log.blobs(row, list(wanted))
        window.hold((), ((digest.hex(), data) for digest, data in found.items()))


def _paired(calls: Sequence[Event]) -> Pairs:
    pairs = Pairs()
    for event in calls:
        _pair(pairs, event)
    return pairs


def _pair(pairs: Pairs, event: Event) -> None:
    content = event.content
    if isinstance(content, ToolRequested):
        pairs.asked(str(content.call_id), bytes.fromhex(event.id), event.step)
    elif isinstance(content, ToolFinished):
        pairs.answered(content)

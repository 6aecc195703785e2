"""What stands behind a session at work: its lease, its folded state, its contents, its appends.

Nothing here knows of steps or tools. One lock orders all of it: tasks and threads of one handle
wait for each other, and what others append in between is read and folded.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from sawlog.builder.branching import attended, resuming, state_at
from sawlog.builder.projector import FOLD, fold
from sawlog.builder.snapshot import CODEC, decode, encode
from sawlog.builder.state import State
from sawlog.store.append import Build
from sawlog.store.codec import cites, sealed
from sawlog.store.content import MediaPart
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import UNKNOWN_TIME, Blob, NewEvent
from sawlog.store.errors import InvalidEvent, Leased, NotEntered, Refused, StepEnded, StoreError
from sawlog.store.event import Event, decoded
from sawlog.store.events.base import Payload
from sawlog.store.events.lifecycle import SessionCreated
from sawlog.store.ids import keyed_id, new_id
from sawlog.store.lease import Lease, Renewer
from sawlog.store.log import Log
from sawlog.work.forking import first_event, is_begun
from sawlog.work.places import Places
from sawlog.work.window import Window

_SNAPSHOT_EVERY = 256
"""Events after which a session leaves a snapshot, so that opening it reads a short tail."""

_SNAPSHOT_LEFT = 64
"""Events since the last snapshot from which on a session that is left leaves one, too."""

_HELD = 4_000
"""Events of what packets show that stay at hand, at most: a cut looks at all of them."""

_LOOK_AGAIN = 0.05
"""Seconds between two looks at a lease that is waited for."""


def check_readable(state: State) -> None:
    """Raise Refused (`blocked`) where an event that is not understood ends what can be read."""
    if state.blocked:
        raise Refused("blocked", f"nothing is decided blindly: {state.blocked}")


def _wanted(state: State) -> frozenset[int]:
    """The seqs of what the next packet is likely to show or to look at."""
    found = {state.policy, state.checkpoint, state.task, state.tools[0], state.sent_at}
    found.update(one.seq for one in state.news)
    for ref in state.sent:
        found.add(ref.seq)
        found.update(value for _, value in ref.args if isinstance(value, int))
    return frozenset(found)


class Driver:
    """The driver of one session. Every method takes the lock; `lock` holds it across several."""

    def __init__(
        self,
        log: Log,
        row: SessionRow,
        *,
        owner: str,
        ttl: float,
        wait: float = 0.0,
        make_id: Callable[[], bytes] = new_id,
    ) -> None:
        self.row = row
        self.wait = wait
        self.parent = ""
        """The id of the session that started this one, where one did."""
        self.lock = threading.RLock()
        self.window = Window(log, row)
        self._log = log
        self._owner = owner
        self._ttl = ttl
        self._make_id = make_id
        self._lease: Lease | None = None
        self._renewer: Renewer | None = None
        self._state: State | None = None
        self._head_digest = b""
        self._snapshot_at = 0
        self._media: dict[bytes, Blob] = {}

    # --- life -----------------------------------------------------------------------------------

    def acquire(self, wait: float) -> None:
        """Take the lease and read where the session stands; `wait` (seconds) for another's to end.

        Raises Leased, naming the owner, when another one drives it.
        """
        with self.lock:
            if self._lease is None:
                self._lease = self._acquired(wait)
                self._renewer = Renewer(self._log.leases, self._lease, self._ttl).start()
            try:
                state = self.load()
                if not is_begun(self.row, state.seq):
                    self.append([first_event(self._log, self._log.get(self.row))])
            except BaseException:
                # Nobody would give it back: a session that was not entered is not left either.
                self.release()
                raise

    def _acquired(self, wait: float) -> Lease:
        until = time.monotonic() + wait
        while True:
            try:
                return self._log.leases.acquire(self.row.id, self._owner, self._ttl)
            except Leased:
                if time.monotonic() >= until:
                    raise
            time.sleep(_LOOK_AGAIN)

    def drives(self, doing: str) -> None:
        """Raise NotEntered unless this handle has the lease.

        The log itself takes other appends without one while nobody drives the session; but two
        handles that make steps would abandon each other's.
        """
        with self.lock:
            if self._lease is None:
                name = self.row.name or self.row.id.hex()
                raise NotEntered(
                    f"{doing} needs the lease of the session {name!r}, and this handle has none: "
                    f"enter it first: with log.session({name!r}) as s"
                )

    @property
    def fence(self) -> int:
        """The number of the lease that this handle has; 0 without one."""
        lease = self._lease
        return lease.token if lease is not None else 0

    def release(self) -> None:
        """Give the lease back."""
        with self.lock:
            renewer, lease = self._renewer, self._lease
            self._renewer = self._lease = None
            if renewer is not None:
                renewer.stop()
            try:
                if lease is not None and self._tail >= _SNAPSHOT_LEFT:
                    self.snapshot()
            finally:
                if lease is not None:
                    self._log.leases.release(lease)

    # --- events ---------------------------------------------------------------------------------

    def new(
        self,
        payload: Payload,
        source: str,
        *,
        step: int | None = None,
        key: str | None = None,
        ignorable: bool = False,
        blobs: Sequence[Blob] = (),
    ) -> NewEvent:
        """An event ready to be appended, with the media that it cites."""
        stored, made = sealed(payload)
        given = {blob.digest: blob for blob in (*blobs, *made)}
        for digest in cites(stored) if self._media else ():
            if digest in self._media:
                given.setdefault(digest, self._media[digest])
        return NewEvent(
            payload=stored,
            source=source,
            step=step,
            id=keyed_id(key) if key is not None else self._make_id(),
            ignorable=ignorable,
            blobs=tuple(given.values()),
        )

    def media(self, data: bytes, media: str, name: str) -> MediaPart:
        """A part that shows these bytes; they go into the log with the event that cites them."""
        digest = hashlib.sha256(data).digest()
        with self.lock:
            self._media[digest] = Blob(digest, data, media)
        return MediaPart(media, blob=digest.hex(), name=name)

    def append(
        self,
        events: Sequence[NewEvent],
        *,
        expected_seq: int | None = None,
        of_step: int | None = None,
        build: Build | None = None,
    ) -> tuple[int, ...]:
        """Append and fold; gives the seqs. What was known already is not folded again.

        With `of_step` the events belong to that step, which must still be open: StepEnded is
        raised otherwise and nothing is written. `build` runs inside the append, see `Log.append`.
        Raises Refused (`blocked`) for what must follow a state that cannot be read any further.
        """
        with self.lock:
            state = self.load()
            if expected_seq is not None:
                check_readable(state)  # it would never be the head, however often this is tried
            if of_step is not None and state.open_step != of_step:
                raise StepEnded(
                    f"step {of_step} has its end in the log already: build the next one and send "
                    "that",
                    step=of_step,
                )
            made = self._unmade(state)
            if made:
                begun = SessionCreated(name=self.row.name or "", parent=self.parent)
                created = self.new(begun, "harness")
                events = [created, *events]
            done = self._log.append(
                self.row, events, expected_seq=expected_seq, lease=self._lease, build=build
            )
            for new in events:
                for blob in new.blobs:
                    self._media.pop(blob.digest, None)
            if build is None and done.new and done.seqs[0] == state.seq + 1:
                fresh = self.as_events(state, events, done.times)
                for event in fresh:
                    state = fold(state, event)
                self.window.hold(
                    fresh, ((blob.digest.hex(), blob.data) for new in events for blob in new.blobs)
                )
                self._state = state
                self._head_digest = done.digest
            else:
                self.catch_up()
            self._snapshot()
            return done.seqs[1:] if made else done.seqs

    @property
    def next_seq(self) -> int:
        """The seq that the next event gets, if nobody else appends."""
        with self.lock:
            state = self.load()
            return state.seq + (2 if self._unmade(state) else 1)

    def _unmade(self, state: State) -> bool:
        """True of a session whose first event, that it was made, comes with the next ones."""
        return state.seq == 0 and not self.row.ancestors

    def as_events(
        self, state: State, events: Sequence[NewEvent], times: Sequence[int] = ()
    ) -> list[Event]:
        """The events that an append at this state makes, without reading them back.

        `times` is when they occurred; before the append nobody knows.
        """
        return list(
            attended(self._as_events(state, events, times), self._resuming, state.settled_at)
        )

    def _as_events(
        self, state: State, events: Sequence[NewEvent], times: Sequence[int]
    ) -> list[Event]:
        out: list[Event] = []
        for at, new in enumerate(events):
            kind = self._log.registry.declared(type(new.payload))
            if new.id is None:
                raise InvalidEvent("an event of a session carries its id", path="id")
            out.append(
                Event(
                    seq=state.seq + 1 + at,
                    id=new.id.hex(),
                    type=kind.name,
                    version=kind.version,
                    source=new.source,
                    step=new.step or 0,
                    occurred_at=times[at] if times else UNKNOWN_TIME,
                    content=self._log.registry.newest(new.payload),
                    shown=kind.shown,
                    ignorable=new.ignorable,
                )
            )
        return out

    # --- the state ------------------------------------------------------------------------------

    def load(self) -> State:
        """The state, read from the newest snapshot and the events after it the first time."""
        with self.lock:
            if self._state is None:
                self._state = self._from_snapshot() or State()
                self.catch_up()
            return self._state

    def catch_up(self) -> State:
        """The state after what others have appended meanwhile, too."""
        with self.lock:
            state = self._state or State()
            digest = self._head_digest
            events: list[Event] = []

            def read() -> Iterator[Event]:
                nonlocal digest
                for stored in self._log.read(self.row, after=state.seq):
                    digest = stored.digest
                    yield decoded(stored, self._log.registry)

            for event in attended(read(), self._resuming, state.settled_at):
                state = fold(state, event)
                events.append(event)
            self.window.hold(events)
            self._head_digest = digest
            self._state = state
            return state

    def events(self, after: int, upto: int | None = None) -> Iterator[Event]:
        """The events after that seq, up to another, as the log holds them, in order."""
        for stored in self._log.read(self.row, after=after, upto=upto):
            yield decoded(stored, self._log.registry)

    def _resuming(self, rewind: Event) -> State:
        """The state that a rewind goes back to."""
        return resuming(rewind, self.state_at, self.events)

    def state_at(self, seq: int) -> State:
        """The state after that event, from the newest snapshot before it."""
        return state_at(seq, self._before, self.events)

    def place(self, step: int) -> int:
        """The seq of a step's packet; see `Places.place`. Raises NoStep."""
        return Places(self._log, self._log.get(self.row), self.window).place(step)

    def _before(self, seq: int) -> State:
        found = self._log.snapshot_get(self.row, fold=FOLD, layout=CODEC, upto=seq)
        return State() if found is None else decode(found.data)

    def _from_snapshot(self) -> State | None:
        found = self._log.snapshot_get(self.row, fold=FOLD, layout=CODEC)
        if found is None:
            return None
        self._snapshot_at = found.seq
        return decode(found.data)

    def _snapshot(self) -> None:
        # Right behind a packet, where what it showed need not be at hand for the next one's news.
        if self._tail >= _SNAPSHOT_EVERY and self._state is not None and not self._state.news:
            self.snapshot()

    @property
    def _tail(self) -> int:
        """Events that opening the session would fold."""
        return self._state.seq - self._snapshot_at if self._state is not None else 0

    def snapshot(self) -> None:
        """Leave a snapshot here, from which the session is opened and replayed.

        None is left of a blocked state: a release that knows more would not be blocked.
        """
        state = self.load()
        if state.blocked:
            return
        self.window.forget(_wanted(state), _HELD)
        try:
            self._log.snapshot_put(
                self.row,
                state.seq,
                self._head_digest,
                fold=FOLD,
                layout=CODEC,
                data=encode(state),
            )
        except StoreError:
            # The append before it stands and its caller must not believe otherwise. A snapshot is
            # derived: the next append tries again, and what is wrong with the store meets it, too.
            return
        self._snapshot_at = state.seq

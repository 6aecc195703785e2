"""Which session a request belongs to: the one whose history it goes on from, or a new one.

A program may hold several conversations through one client, one after the other or side by side.
A session is one ordered history, so each conversation has one of its own: the first is the one
that the caller named, the others are called after it, NAME/2, NAME/3 and so on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sawlog.builder.requests.cutting import Body
from sawlog.builder.requests.reading import read_body
from sawlog.recorder.exchange import Exchange
from sawlog.recorder.recorder import Asked, Recorder
from sawlog.store.errors import Leased, SawlogError
from sawlog.store.events.lifecycle import ForeignRecord
from sawlog.work.session import Session

_LOOK = 32
"""Conversations, the newest first, that a request is held against."""


class Conversations:
    """The conversations of one recording. Threads may share it.

    With `strict` a request whose record cannot be written is not sent; else it goes out, and the
    next event that can be written says that there is a gap.
    """

    def __init__(self, first: Session, *, strict: bool = True) -> None:
        self._first = first
        self._strict = strict
        self._lock = threading.Lock()
        self._recorders = [Recorder(first)]
        self._beside: list[Session] = []
        self._gaps = 0
        self._closed = False
        first.on_release(self.close)

    def sent(self, asked: Asked) -> Exchange | None:
        """Record a request that is about to leave; durable when this returns.

        None where it could not be recorded and is sent all the same.
        """
        body = read_body(asked.api, asked.body)
        try:
            with self._lock:
                recorder = self._recorder(asked, body)
                recorder.reserve()
            self._tell_gaps(recorder)
            return recorder.sent(asked, body)
        except SawlogError:
            if self._strict:
                raise
            with self._lock:
                self._gaps += 1
            return None

    def close(self) -> None:
        """End the recording: what is under way is logged as broken off, leases are given back."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for recorder in self._recorders:
                recorder.close()
            for session in self._beside:
                session.release()

    def _recorder(self, asked: Asked, body: Body | None) -> Recorder:
        idle = [one for one in self._recorders[-_LOOK:] if not one.busy]
        again = next((one for one in idle if one.waits_for(asked.body)), None)
        if again is not None:
            return again
        if body is not None:
            best = max(idle, key=lambda one: one.matches(body), default=None)
            if best is not None and best.matches(body):
                return best
        empty = next((one for one in idle if one.empty), None)
        return empty or self._new()

    def _new(self) -> Recorder:
        name = self._first.name or self._first.id
        while True:
            session = self._first.beside(f"{name}/{len(self._beside) + 2}")
            try:
                session.acquire()
            except Leased:
                session = self._first.beside(f"{name}/{len(self._beside) + 2}/{session.id[:8]}")
                session.acquire()
            self._beside.append(session)
            recorder = Recorder(session)
            self._recorders.append(recorder)
            if recorder.empty:
                return recorder

    def _tell_gaps(self, recorder: Recorder) -> None:
        with self._lock:
            gaps, self._gaps = self._gaps, 0
        if not gaps:
            return
        count = f"{gaps} request" + ("s" if gaps > 1 else "")
        gap = ForeignRecord(f"gap: {count} left without a record")
        session = recorder.session
        session.append(gap, source="recorder", ignorable=True)


Say = Callable[[Asked], Exchange | None]
"""What a transport calls before bytes leave; None: the exchange is not recorded."""

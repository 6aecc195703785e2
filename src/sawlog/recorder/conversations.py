"""Which session a request belongs to: the one whose history it goes on from, or a new one.

A program may hold several conversations through one client, one after the other or side by side.
A session is one ordered history, so each conversation has one of its own: the first is the one
that the caller named, the others are called after it, NAME/2, NAME/3 and so on.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import ExitStack

from sawlog.builder.requests.cutting import Body
from sawlog.builder.requests.reading import read_body
from sawlog.recorder.exchange import Exchange
from sawlog.recorder.mirror import items_of
from sawlog.recorder.recorder import Asked, Recorder
from sawlog.store.errors import Leased, NotEntered, SawlogError
from sawlog.store.events.lifecycle import ForeignRecord
from sawlog.work.session import Session

_LOOK = 64
"""Conversations, the last used first, that a request is held against. What was idle for longer is
let go: its session stays, and who goes on with it is recorded in another."""


class Conversations:
    """The conversations of one recording. Threads may share it.

    With `strict` a request whose record cannot be written is not sent; else it goes out, and the
    next event that can be written says that there is a gap.
    """

    def __init__(self, first: Session, *, strict: bool = True) -> None:
        self._first = first
        self._strict = strict
        self._lock = threading.Lock()
        self._recorders = [Recorder(first, strict=strict)]  # the last used one is the last
        self._read: Body | None = None
        self._made = 1
        self._gaps = 0
        self._closed = False
        first.on_release(self.close)

    def sent(self, asked: Asked) -> Exchange | None:
        """Record a request that is about to leave; durable when this returns.

        None where it could not be recorded and is sent all the same, and where a step of the
        session sends its own packet.
        """
        if self._first.is_sending(asked.body):
            return None  # a step of the session's own, which tells of its attempts itself
        # A conversation that goes on is read from where it differs.
        body = self._read = read_body(asked.api, asked.body, self._read)
        try:
            with self._lock:
                recorder = self._chosen(asked, body)
            try:
                self._tell_gaps(recorder.session)
                return recorder.sent(asked, body)
            finally:
                recorder.reserved = False
        except SawlogError:
            if self._strict:
                raise
            with self._lock:
                self._gaps += 1
            return None

    def _chosen(self, asked: Asked, body: Body | None) -> Recorder:
        if self._closed:
            raise NotEntered(
                "the recording of this session is over: enter it again and record a client there"
            )
        recorder = self._recorder(asked, body)
        recorder.reserved = True
        self._recorders.remove(recorder)
        self._recorders.append(recorder)
        self._let_go()
        return recorder

    def close(self) -> None:
        """End the recording: what is under way is logged as broken off, leases are given back."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        with ExitStack() as stack:
            # Each of them, whatever becomes of another: a lease that is kept keeps others out.
            for recorder in self._recorders:
                if recorder.session is not self._first:
                    stack.callback(recorder.session.release)
            for recorder in self._recorders:
                stack.callback(recorder.close)
            stack.callback(self._tell_last_gaps)

    def _tell_last_gaps(self) -> None:
        try:
            self._tell_gaps(self._first)
        except SawlogError:
            if self._strict:
                raise

    @property
    def busy(self) -> bool:
        """True while an exchange is under way in any of them."""
        with self._lock:
            return any(one.busy for one in self._recorders)

    @property
    def made(self) -> int:
        """How many conversations there were, the first among them."""
        return self._made

    def _recorder(self, asked: Asked, body: Body | None) -> Recorder:
        idle = [one for one in reversed(self._recorders) if not one.busy]
        digest = hashlib.sha256(asked.body).digest()
        again = next((one for one in idle if one.waits_for(digest)), None)
        if again is not None:
            return again
        if body is not None:
            ours = next((one for one in idle if one.has_built(asked, body)), None)
            best = ours or self._best(idle, body)
            if best is not None:
                return best
        fresh = next((one for one in idle if one.unanswered), None)
        return fresh or self._new(body)

    def _best(self, idle: list[Recorder], body: Body) -> Recorder | None:
        """The conversation that holds most of a request; None when none holds anything."""
        items = items_of(body)
        repeated = {one: one.repeated(items) for one in idle}
        most = max(repeated.values(), default=0)
        # Reading a long request against each conversation takes long: who was asked with the same
        # words so far comes first.
        for among in ([one for one in idle if repeated[one] == most] if most else [], idle):
            matches = {one: one.matches(body) for one in among}
            best = max(matches, key=lambda one: matches[one], default=None)
            if best is not None and matches[best]:
                return best
        return None

    def _let_go(self) -> None:
        """Give back what was idle for long; the session of the caller stays."""
        gone = [
            one
            for one in self._recorders[:-_LOOK]
            if not one.busy and one.session is not self._first
        ]
        for one in gone:
            self._recorders.remove(one)
            one.session.release()

    def _new(self, body: Body | None) -> Recorder:
        """The next conversation beside the first: one of an earlier run that the request goes on
        from, or one in which nothing was said."""
        name = self._first.name or self._first.id
        while True:
            self._made += 1
            session = self._first.beside(f"{name}/{self._made}")
            try:
                session.acquire()
            except Leased:
                session = self._first.beside(f"{name}/{self._made}/{session.id[:8]}")
                session.acquire()
            recorder = Recorder(session, strict=self._strict)
            self._recorders.append(recorder)
            if recorder.unanswered or (body is not None and recorder.matches(body)):
                return recorder

    def _tell_gaps(self, session: Session) -> None:
        with self._lock:
            gaps, self._gaps = self._gaps, 0
        if not gaps:
            return
        count = f"{gaps} request" + ("s" if gaps > 1 else "")
        gap = ForeignRecord(f"gap: {count} left without a record")
        try:
            session.append(gap, source="recorder", ignorable=True)
        except BaseException:
            with self._lock:
                self._gaps += gaps
            raise


Say = Callable[[Asked], Exchange | None]
"""What a transport calls before bytes leave; None: the exchange is not recorded."""

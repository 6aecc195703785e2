"""The log behind the proxy: which session an exchange goes to, and all writing off the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from sawlog.agentlog import AgentLog
from sawlog.recorder.conversations import Conversations
from sawlog.recorder.exchange import Exchange
from sawlog.recorder.recorder import Asked
from sawlog.store.errors import ConfigError, SawlogError, StoreError, quoted
from sawlog.work.offloop import OffLoop
from sawlog.work.session import Session

_LARGEST_NAME = 200
_OPEN = 64
"""Sessions of clients' choosing whose leases are held; what was idle for longest is let go."""


class Tally(msgspec.Struct):
    """What went through: requests that were `recorded`, those of them that `broke` off before the
    whole answer was there, and those that were `passed` on without a record. `sessions` are those
    of the conversations, `first` the name of the first that holds a request."""

    recorded: int
    broke: int
    passed: int
    sessions: int
    first: str


class Keeping:
    """The sessions of one proxy. `off_loop` runs in threads what the methods here do.

    With `strict` what cannot be recorded is not sent. `say` is told of what went wrong.
    """

    def __init__(
        self, log: AgentLog, first: str, *, strict: bool, say: Callable[[str], None]
    ) -> None:
        self.first = first
        self.strict = strict
        self.say = say
        # Few: they wait for one database, and each that computes delays the loop.
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="sawlog-proxy")
        self.off_loop = OffLoop(self._threads)
        self._log = log
        self._lock = threading.Lock()
        self._named: dict[str, tuple[Session, Conversations]] = {}  # the last used one is the last
        self._past = 0
        self._counting = threading.Lock()
        self._recorded = self._broke = self._passed = 0
        self._holds = ""  # the first session that a request was recorded in

    def open(self, name: str, wait: float = 0.0) -> Conversations:
        """The conversations of a session, new or continued, whose lease is held from here on.

        Raises Leased when another process drives it, ConfigError for what is no name.
        """
        check_name(name)
        with self._lock:
            found = self._named.pop(name, None)
            if found is None:
                session = self._log.session(name)
                session.acquire(wait=wait)
                found = session, Conversations(session, strict=self.strict)
            self._named[name] = found
            self._let_go()
            return found[1]

    def sent(self, name: str, asked: Asked) -> Exchange | None:
        """Record a request that is about to leave; durable when this returns.

        None where it is sent without a record, which only happens when that is not `strict`.
        """
        try:
            exchange = self.open(name).sent(asked)
        except SawlogError as error:
            if self.strict:
                raise
            self.say(f"a request leaves without a record: {error}")
            self.passed()
            return None
        if exchange is None:
            self.say("a request leaves without a record; the log will say that there is a gap")
            self.passed()
            return None
        with self._counting:
            self._recorded += 1
            if name == self.first or not self._holds:
                self._holds = name
        return exchange

    def passed(self) -> None:
        """Count a request that is passed on without a record."""
        with self._counting:
            self._passed += 1

    @property
    def tally(self) -> Tally:
        """What went through so far."""
        sessions = self._past + sum(one.made for _, one in list(self._named.values()))
        first = self._holds or self.first
        return Tally(self._recorded, self._broke, self._passed, sessions, first)

    def broken(self, exchange: Exchange, error: BaseException) -> None:
        """Log what had come of an exchange that broke off; what fails is told and not raised."""
        if exchange.done:
            return
        with self._counting:
            self._broke += 1
        try:
            exchange.broken(error)
        except SawlogError as trouble:
            self.say(f"an answer that broke off could not be recorded: {trouble}")

    def close(self) -> None:
        """End the recording: leases are given back."""
        with self._lock:
            for name in list(self._named):
                self._release(name)
        self._threads.shutdown()

    def _let_go(self) -> None:
        for name in list(self._named)[:-_OPEN]:
            if not self._named[name][1].busy:
                self._release(name)

    def _release(self, name: str) -> None:
        session, conversations = self._named.pop(name)
        self._past += conversations.made
        try:
            session.release()
        except StoreError as error:
            # The lease ends by itself.
            self.say(f"the lease of the session {quoted(name)} could not be given back: {error}")


def check_name(name: str) -> None:
    """Raise ConfigError for what is no session's name."""
    bad = any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in name)
    if not name or bad or len(name) > _LARGEST_NAME or name != name.strip():
        raise ConfigError(
            f"{quoted(name)} is no name of a session: give 1 to {_LARGEST_NAME} characters, none "
            "of them a control character"
        )

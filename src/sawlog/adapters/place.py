"""The log that an adapter works in, as it was given: opened here, or by the caller."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from sawlog.agentlog import AgentLog, open
from sawlog.store.errors import ConfigError, StoreError, quoted
from sawlog.work.offloop import OffLoop
from sawlog.work.session import Session

P = ParamSpec("P")
T = TypeVar("T")

Store = AgentLog | str | os.PathLike[str]
"""An open log, or where to open one: a file name or a URL, as `sawlog.open` takes it."""


class Closing:
    """What is closed when done, by itself or as a context manager."""

    def close(self) -> None:
        """Close it. Twice is the same."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Place:
    """A log for an adapter, and a thread for its blocking work; `close` it when done.

    A log that was given open stays open. Sessions that are driven when the process ends in peace
    give their leases back.
    """

    def __init__(self, store: Store, tenant: str = "default") -> None:
        if isinstance(store, AgentLog):
            if tenant != "default" and tenant != store.store.tenant:
                raise ConfigError(
                    f"the log is that of tenant {quoted(store.store.tenant)}: open it for "
                    f"{quoted(tenant)} instead"
                )
            self.log, own = store, None
        else:
            self.log = own = open(os.fspath(store), tenant)
        self._driven: set[Session] = set()
        # One: an adapter's calls stand in line for its session anyway.
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="sawlog-adapter")
        self._off_loop = OffLoop(self._threads)
        self._end = weakref.finalize(self, _leave, self._driven, own)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work off the loop. A cancelled caller still waits for it to end."""
        return await self._off_loop(work, *args, **kwargs)

    def drives(self, session: Session) -> None:
        """Take note of a session whose lease is held."""
        self._driven.add(session)

    def leaves(self, session: Session) -> None:
        """Forget it again."""
        self._driven.discard(session)

    def close(self) -> None:
        """Give all leases back and close the log, if it was opened here. Twice is the same."""
        self._threads.shutdown()
        self._end()


def _leave(driven: set[Session], own: AgentLog | None) -> None:
    for session in list(driven):
        # The lease ends by itself; the process, or what is closed beside it, goes on.
        with suppress(StoreError):
            session.release()
    driven.clear()
    if own is not None:
        own.close()

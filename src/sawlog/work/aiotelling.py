"""What an async session is told beside its conversation: the methods of `Session`, awaited."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sawlog.work.session import Session
from sawlog.work.tools import Declared

P = ParamSpec("P")
T = TypeVar("T")


class Runs(Protocol):
    """Runs blocking work where it does not keep the loop waiting."""

    def __call__(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Run it."""
        ...


class Awaits(Protocol):
    """What the methods below need of their session."""

    @property
    def _off_loop(self) -> Runs: ...

    @property
    def sync(self) -> Session:
        """The session underneath."""
        ...


def _awaited(
    method: Callable[Concatenate[Session, P], T],
) -> Callable[Concatenate[Awaits, P], Coroutine[Any, Any, T]]:
    """The same method for `await`: one code path, called off the loop."""
    name = method.__name__

    async def run(self: Awaits, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # By its name, so that a session of another class has its own.
        own: Callable[P, T] = getattr(self.sync, name)
        # This is the method's own body, written once for all of them.
        return await self._off_loop(own, *args, **kwargs)  # pyright: ignore[reportPrivateUsage]

    return update_wrapper(run, method)


class AsyncTelling:
    """The half of an async session that tells it of the world. See `AsyncSession`."""

    task = _awaited(Session.task)
    phase = _awaited(Session.phase)
    world = _awaited(Session.world)
    environment = _awaited(Session.environment)
    instructions = _awaited(Session.instructions)
    workspace = _awaited(Session.workspace)
    file_changed = _awaited(Session.file_changed)
    offer = _awaited(Session.offer)
    unavailable = _awaited(Session.unavailable)
    withdraw = _awaited(Session.withdraw)
    extract = _awaited(Session.extract)
    refer = _awaited(Session.refer)
    stored = _awaited(Session.stored)
    inject = _awaited(Session.inject)
    steer = _awaited(Session.steer)
    followup = _awaited(Session.followup)
    pending = _awaited(Session.pending)
    cancel = _awaited(Session.cancel)
    recover = _awaited(Session.recover)
    apply = _awaited(Session.apply)
    resolve = _awaited(Session.resolve)
    reconcile = _awaited(Session.reconcile)
    suspend = _awaited(Session.suspend)
    rewind = _awaited(Session.rewind)
    note = _awaited(Session.note)
    settle = _awaited(Session.settle)
    compact = _awaited(Session.compact)

    @property
    def read_output(self: Awaits) -> Declared:
        """A tool to offer, which reads any part of a text that packets show shortened."""
        return self.sync.read_output

"""Blocking work of a task, done off its event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OffLoop:
    """Runs blocking work in the threads of a log, which tools and other libraries do not share."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def __call__(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it. A cancelled caller still waits for it: an append that began is finished, and
        what it wrote is known."""
        run = partial(contextvars.copy_context().run, partial(work, *args, **kwargs))
        done: asyncio.Future[T] = asyncio.get_running_loop().run_in_executor(self._executor, run)
        return await finished(done)


async def finished(done: asyncio.Future[T]) -> T:
    """What a future gives. A cancelled caller waits for it all the same, and is cancelled then;
    what the work raised is the cause."""
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError as cancelled:
        while not done.done():
            try:
                await asyncio.wait([done])
            except asyncio.CancelledError:
                continue  # once is enough: it goes on below, when the work is done
        failed = None if done.cancelled() else done.exception()
        raise cancelled from failed

"""The async face: the same session, its blocking work in threads, so that the loop goes on.

One code path: every method is the sync one, called off the loop. Only the exchange with a
provider is awaited here. Tasks may share one session; appends queue on its lock.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from sawlog.call import Call
from sawlog.exchange import aexchange
from sawlog.session import Session
from sawlog.step import RETRIED, Reply, Step
from sawlog.store.errors import AttemptFailed
from sawlog.toolrun import ToolRun

T = TypeVar("T")


async def _off_loop(work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run blocking work in a thread. A cancelled caller still waits for it: an append that began
    is finished, and what it wrote is known."""
    task = asyncio.ensure_future(asyncio.to_thread(partial(work, *args, **kwargs)))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        raise


class AsyncSession:
    """A session for `async with`; the methods are those of `Session`."""

    def __init__(self, opened: Callable[[], Session]) -> None:
        self._opened = opened
        self._session: Session | None = None

    @property
    def sync(self) -> Session:
        """The session underneath. Raises RuntimeError before `async with`."""
        if self._session is None:
            raise RuntimeError("enter the session first: async with log.asession(…) as s")
        return self._session

    async def __aenter__(self) -> AsyncSession:
        self._session = await _off_loop(self._opened)
        await _off_loop(self._session.acquire)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await _off_loop(self.sync.release)

    async def system(self, text: str) -> None:
        """Set the system text; equal text appends nothing."""
        await _off_loop(self.sync.system, text)

    async def tools(self, tools: Sequence[Any]) -> None:
        """Offer these tools; equal tools append nothing."""
        await _off_loop(self.sync.tools, tools)

    async def user(self, content: Any, *, key: str | None = None) -> None:
        """Append a user message; with a key, once."""
        await _off_loop(self.sync.user, content, key=key)

    async def step(self, api: str, *, model: str, **options: Any) -> AsyncStep:
        """Build and log the next packet."""
        return AsyncStep(await _off_loop(self.sync.step, api, model=model, **options))

    def tool(
        self, call: Call, *, effect: str | None = None, timeout: float | None = None
    ) -> AsyncToolRun:
        """Run a call with `async with`; `timeout` (seconds) makes a slow one an error result."""
        return AsyncToolRun(self.sync.tool(call, effect=effect), timeout)

    async def ask(self, call: Call, question: str = "") -> str:
        """Ask for approval of a call; gives the id under which it is decided."""
        return await _off_loop(self.sync.ask, call, question)


class AsyncStep:
    """A step whose packet is in the log, to be sent from a task."""

    def __init__(self, step: Step) -> None:
        self.sync = step

    @property
    def body(self) -> bytes:
        """The body: exactly these bytes are what the log says was sent."""
        return self.sync.body

    async def send(self, client: Any, *, retries: int = 0, timeout: float | None = None) -> Reply:
        """Send the packet with an async client and log what comes back; see `Step.send`."""
        step = self.sync
        while True:
            await _off_loop(step.opened, type(client).__module__.partition(".")[0])
            try:
                raw = await aexchange(client, step, timeout)
            except BaseException as error:
                await _off_loop(step.lost, error)
                raise
            try:
                return await _off_loop(step.closed, raw, final=retries <= 0)
            except AttemptFailed as error:
                if retries <= 0 or error.kind not in RETRIED:
                    raise
                retries -= 1

    async def answer(self, body: Any, **options: Any) -> Reply:
        """Log a reply that the caller received by other means."""
        return await _off_loop(self.sync.answer, body, **options)


class AsyncToolRun:
    """A call being run in a task: started before, its result after, also when it is cancelled."""

    def __init__(self, run: ToolRun, timeout: float | None) -> None:
        self._run = run
        self._limit = timeout
        self._timeout: asyncio.Timeout | None = None

    @property
    def key(self) -> str:
        """A key for tools that can do an effect once."""
        return self._run.key

    async def __aenter__(self) -> AsyncToolRun:
        await _off_loop(self._run.start)
        if self._limit is not None:
            self._timeout = asyncio.timeout(self._limit)
            await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self._timeout is not None:
            try:
                await self._timeout.__aexit__(kind, error, trace)
            except TimeoutError:
                error = TimeoutError(f"the tool took longer than {self._limit} s")
        return bool(await _off_loop(self._run.__exit__, type(error), error, None))

    def result(self, value: Any, *, error: bool = False, limit: int | None = None) -> None:
        """Set the call's result; see `ToolRun.result`."""
        self._run.result(value, error=error, limit=limit)

    def saw(self, path: str, *, range: str = "", version: str = "") -> None:
        """Say what of the world the result shows."""
        self._run.saw(path, range=range, version=version)

    async def run(self) -> Any:
        """Run the declared function, awaited when it is async, else in a thread."""
        function, args = self._run.call.function(), self._run.call.args
        if inspect.iscoroutinefunction(function):
            return await function(**args)
        return await asyncio.to_thread(partial(function, **args))

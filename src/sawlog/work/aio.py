"""The async face: the same session, its blocking work in threads, so that the loop goes on.

One code path: every method is the sync one, called off the loop. Only the exchange with a
provider and waiting are awaited here. Tasks may share one session; appends queue on its lock.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from sawlog.builder.effects import SIDE_EFFECT
from sawlog.store.content import MediaPart, Part
from sawlog.store.errors import Leased
from sawlog.store.events.base import Payload
from sawlog.work.aioeffecting import AsyncRunEffect
from sawlog.work.aiostep import AsyncStep
from sawlog.work.aiotelling import AsyncTelling
from sawlog.work.call import Call
from sawlog.work.given import names
from sawlog.work.offloop import OffLoop
from sawlog.work.resolving import OneCall, call_of
from sawlog.work.seeing import MOST
from sawlog.work.session import ChildSession, Session
from sawlog.work.showing import As
from sawlog.work.toolrun import ToolRun
from sawlog.work.tools import own_tool

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_AGAIN = 0.05
"""Seconds between two looks at a lease that is waited for."""


class AsyncSession(AsyncTelling):
    """A session for `async with`; the methods are those of `Session`."""

    def __init__(self, opened: Callable[[], Session], off_loop: OffLoop) -> None:
        self._opened = opened
        self._off_loop = off_loop
        self._session: Session | None = None

    @property
    def sync(self) -> Session:
        """The session underneath. Raises RuntimeError before `async with`."""
        if self._session is None:
            raise RuntimeError("enter the session first: async with log.asession(…) as s")
        return self._session

    async def __aenter__(self) -> Self:
        self._session = session = await self._off_loop(self._opened)
        try:
            await self._acquire(session)
        except BaseException:
            # A session that was not entered is not left either: nobody else gives the lease back.
            await self._off_loop(session.release)
            raise
        return self

    async def _acquire(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + session.wait
        while True:
            try:
                return await self._off_loop(session.acquire, wait=0)
            except Leased:
                if loop.time() >= until:
                    raise
            # Not in a thread: those who wait must not keep the owner from its own.
            await asyncio.sleep(_LOOK_AGAIN)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._off_loop(self.sync.__exit__, kind, error, trace)

    async def system(self, text: str) -> None:
        """Set the system text; equal text appends nothing."""
        await self._off_loop(self.sync.system, text)

    async def tools(self, tools: Sequence[Any]) -> None:
        """Offer these tools; equal tools append nothing."""
        await self._off_loop(self.sync.tools, tools)

    async def user(self, content: str | Sequence[Part], *, key: str | None = None) -> None:
        """Append a user message; with a key, once."""
        await self._off_loop(self.sync.user, content, key=key)

    def media(self, data: bytes, media: str, *, name: str = "") -> MediaPart:
        """A part that shows these bytes, for a message or a tool's result."""
        return self.sync.media(data, media, name=name)

    async def append(self, payload: Payload, **options: Any) -> int:
        """Append any event and return its seq; see `Session.append`."""
        return await self._off_loop(self.sync.append, payload, **options)

    async def step(self, api: str, *, model: str, **options: Any) -> AsyncStep:
        """Build and log the next packet."""
        step = await self._off_loop(self.sync.step, api, model=model, **_sync_options(options))
        return AsyncStep(step, self._off_loop)

    def tool(
        self,
        call: Call,
        *,
        effect: str | None = None,
        again: bool = False,
        timeout: float | None = None,
    ) -> AsyncToolRun:
        """Run a call with `async with`; `timeout` (seconds) makes a slow one an error result."""
        run = self.sync.tool(call, effect=effect, again=again)
        return AsyncToolRun(run, timeout, self._off_loop)

    async def run(
        self, call: OneCall, using: Callable[[AsyncToolRun], Awaitable[Any]] | None = None
    ) -> AsyncToolRun:
        """Run a call of a declared tool, awaited or in a thread; see `Session.run`.

        `using` is given the run, awaited, instead of the declared function.
        """
        async with self.tool(call_of(call)) as run:
            value = await (run.run() if using is None else using(run))
            if value is not None or not run.status:
                run.result(value)
        return run

    async def open_calls(self) -> list[Call]:
        """The calls that have no result, in the order in which they were asked for."""
        return await self._off_loop(self.sync.open_calls)

    async def ask(self, call: Call, question: str = "") -> str:
        """Ask for approval of a call; gives the id under which it is decided."""
        return await self._off_loop(self.sync.ask, call, question)

    def child(
        self, name: str, task: str, *, required_for: Iterable[str] = (), inherit: bool = False
    ) -> AsyncChildSession:
        """A session of its own for a part of the work, for `async with`; see `Session.child`."""
        needs = names(required_for, "required_for")

        def opened() -> ChildSession:
            return self.sync.child(name, task, required_for=needs, inherit=inherit)

        return AsyncChildSession(opened, self._off_loop)


class AsyncChildSession(AsyncSession):
    """A session that works for another one. Made by `AsyncSession.child`."""

    async def handed_over(self) -> bool:
        """True when the parent has this child's hand-over."""
        return await self._off_loop(lambda: self._child.handed_over)

    @own_tool
    async def hand_over(
        self,
        result: str,
        evidence: list[str] | None = None,
        open_questions: list[str] | None = None,
    ) -> str:
        """Hand over what was found, once; also a tool to offer. See `ChildSession.hand_over`."""
        return await self._off_loop(self._child.hand_over, result, evidence, open_questions)

    @property
    def _child(self) -> ChildSession:
        session = self.sync
        assert isinstance(session, ChildSession)
        return session


def _sync_options(options: dict[str, Any]) -> dict[str, Any]:
    fallback = options.get("fallback_of")
    return {**options, "fallback_of": fallback.sync} if isinstance(fallback, AsyncStep) else options


class AsyncToolRun:
    """A call being run in a task: started before, its result after, also when it is cancelled."""

    def __init__(self, run: ToolRun, timeout: float | None, off_loop: OffLoop) -> None:
        self._run = run
        self._limit = timeout
        self._off_loop = off_loop
        self._timeout: asyncio.Timeout | None = None

    @property
    def key(self) -> str:
        """A key for tools that can do an effect once."""
        return self._run.key

    @property
    def call(self) -> Call:
        """The call."""
        return self._run.call

    @property
    def status(self) -> str:
        """That of the result: `ok`, `error` or `interrupted`; empty as long as there is none."""
        return self._run.status

    def effect(self, name: str, *, effect: str = SIDE_EFFECT, what: str = "") -> AsyncRunEffect:
        """One of several things that this run does, for `async with`; see `ToolRun.effect`."""
        return AsyncRunEffect(self._run.effect(name, effect=effect, what=what), self._off_loop)

    async def __aenter__(self) -> AsyncToolRun:
        try:
            await self._off_loop(self._run.start)
        except asyncio.CancelledError as error:
            if error.__cause__ is None:  # the start is in the log, and nothing was run
                self._run.failed(error)
                await self._off_loop(self._run.finish)
            raise
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
        told = None if error is None else type(error)
        return bool(await self._off_loop(self._run.__exit__, told, error, None))

    def result(
        self,
        value: Any,
        *,
        error: bool = False,
        limit: int | None = None,
        as_: As = "ends",
        against: str | None = None,
    ) -> None:
        """Set the call's result; see `ToolRun.result`."""
        self._run.result(value, error=error, limit=limit, as_=as_, against=against)

    def saw(
        self,
        path: str,
        *,
        range: str = "",
        version: str = "",
        content: str | bytes | None = None,
    ) -> None:
        """Say what of the world the result shows; `content` is the file's whole content."""
        self._run.saw(path, range=range, version=version, content=content)

    async def read(
        self,
        path: str,
        *,
        root: str | os.PathLike[str],
        start: int = 1,
        end: int = 0,
        most: int = MOST,
    ) -> str:
        """The text of a file's lines, read in a thread; see `ToolRun.read`."""
        return await asyncio.to_thread(
            self._run.read, path, root=root, start=start, end=end, most=most
        )

    async def secret(self, handle: str) -> str:
        """The value under a handle, looked up in a thread; see `ToolRun.secret`."""
        return await asyncio.to_thread(self._run.secret, handle)

    async def run(self) -> Any:
        """Run the declared function, awaited when it is async, else in a thread."""
        function, args = self._run.call.function(), self._run.call.args
        if inspect.iscoroutinefunction(function):
            return await function(**args)
        return await asyncio.to_thread(partial(function, **args))

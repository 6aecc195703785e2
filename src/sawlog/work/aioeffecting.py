"""An effect of a tool run in a task: said in the log before and after, off the loop."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from sawlog.work.aiotelling import Runs
from sawlog.work.effecting import RunEffect


class AsyncRunEffect:
    """One effect of a tool run, for `async with`. See `RunEffect`; made by `AsyncToolRun.effect`.

    A task that is cancelled while it acts leaves the effect unknown.
    """

    def __init__(self, effect: RunEffect, off_loop: Runs) -> None:
        self._effect = effect
        self._off_loop = off_loop

    @property
    def key(self) -> str:
        """A key for the other side to do it once: the same each time this call is run."""
        return self._effect.key

    @property
    def needed(self) -> bool:
        """True when it has to be done; False when an earlier run did it, or somebody said so."""
        return self._effect.needed

    @property
    def receipt(self) -> str:
        """What the other side gave for it, in this run or in an earlier one."""
        return self._effect.receipt

    def settle(self, receipt: str = "") -> None:
        """Say that it was done, and what the other side gave for it."""
        self._effect.settle(receipt)

    def failed(self, why: str = "") -> None:
        """Say that it was tried and changed nothing: it may be tried again."""
        self._effect.failed(why)

    async def __aenter__(self) -> Self:
        try:
            await self._off_loop(self._effect.start)
        except asyncio.CancelledError as error:
            if error.__cause__ is None:  # it is in the log that it is about to be done, and was not
                self._effect.failed("cancelled before it began")
                await self._off_loop(self._effect.finish)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._off_loop(self._effect.__exit__, kind, error, trace)

"""One run of a tool: its start is in the log before it acts, its result when it arrives."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from inspect import isawaitable, iscoroutine
from types import TracebackType
from typing import Any, Protocol, cast

from msgspec.structs import replace

from sawlog.builder.effects import SIDE_EFFECT
from sawlog.store.content import Part
from sawlog.store.envelope import Blob
from sawlog.store.errors import (
    CredentialUnavailable,
    InvalidEvent,
    SawlogError,
    StoreError,
    ToolError,
)
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.events.world import Saw
from sawlog.store.jsontext import source_of
from sawlog.work.call import Call
from sawlog.work.credentials import Credentials
from sawlog.work.effecting import KeepsEffects, RunEffect
from sawlog.work.seeing import MOST, read, saw
from sawlog.work.showing import As, asked_wrongly, shown


class Keeps(KeepsEffects, Protocol):
    """What a run needs of its session: to append the start and the result, and secrets."""

    @property
    def credentials(self) -> Credentials:
        """The secrets that its tools may have."""
        ...

    def started(self, call: Call, effect: str, again: bool) -> None:
        """Append the start of a call. Raises ToolError when it may not run."""
        ...

    def finished(self, call: Call, payload: ToolFinished, blobs: Sequence[Blob]) -> None:
        """Append the result of a call."""
        ...

    def ended(self, call: Call) -> None:
        """The run of a call is over, with a result or without."""
        ...


class ToolRun:
    """A call being run; a context manager.

    An exception inside becomes the call's error result and is not raised again, for the model is
    the one to deal with it; what is no `Exception` (an interrupt, a cancelled task) leaves an
    interrupted result and goes on. A ToolError or an error of the log is the agent's own: it goes
    on, and a call that has no result yet is left without one. `key` is the same each time this call
    is run.
    A call that was denied, waits for an approval or runs already is not entered: CallDenied or
    ToolError; nor is one that another run may have done: EffectUnknown.
    """

    def __init__(self, session: Keeps, call: Call, effect: str, again: bool = False) -> None:
        self._session = session
        self.call = call
        self._effect = effect
        self._again = again
        self._status = ""
        self._parts: tuple[Part, ...] = ()
        self._blobs: list[Blob] = []
        self._saw: list[Saw] = []
        self._given: tuple[Any, str, int | None, As, str | None] | None = None

    @property
    def key(self) -> str:
        """A key for tools that can do an effect once: the call's event id."""
        return self.call.event_id

    @property
    def status(self) -> str:
        """That of the result: `ok`, `error` or `interrupted`; empty as long as there is none."""
        return self._status

    def effect(self, name: str, *, effect: str = SIDE_EFFECT, what: str = "") -> RunEffect:
        """One of several things that this run does: `with` it, and do the thing inside.

        `name` tells it from the others of this call and is the same each time; `effect` is
        `side_effect` or `idempotent` (done once for one key); `what` says it in words, for people.
        Entering it raises EffectUnknown when an earlier run may have done it, ToolError before the
        run was started.
        """
        return RunEffect(self._session, self.call, name, effect, what)

    def __enter__(self) -> ToolRun:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            if error is not None and _is_the_agents(error):
                self._keep(error)
                return False
            if error is not None:
                self.failed(error)
            elif not self._status:
                self.result("")
            self.finish()
        finally:
            self._session.ended(self.call)
        return error is None or isinstance(error, Exception)

    def _keep(self, error: BaseException) -> None:
        """Append the result that was set before an error of the agent's own: it is known."""
        if not self._status:
            return
        try:
            self.finish()
        except SawlogError as trouble:
            error.add_note(f"and the result of the call could not be kept: {trouble}")

    def secret(self, handle: str) -> str:
        """The value under a handle, for this run alone: results show `[secret:HANDLE]` instead.

        Raises CredentialUnavailable when there is none, which becomes the call's error result.
        """
        value = self._session.credentials.secret(handle)
        if self._given is not None:
            self._set(*self._given)
        return value

    def start(self) -> None:
        """Append the start: durable when this returns. What `with` does on entry."""
        self._session.started(self.call, self._effect, self._again)

    def finish(self) -> None:
        """Append the result that was set. What `with` does on exit."""
        payload = ToolFinished(
            call=self.call.event_id,
            call_id=self.call.call_id,
            name=self.call.name,
            status=self._status,
            parts=self._parts,
            saw=tuple(self._scrubbed_saw()),
        )
        self._session.finished(self.call, payload, self._blobs)
        self._session.ended(self.call)

    def failed(self, error: BaseException) -> None:
        """Set the result that an exception makes."""
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, Exception):
            self.result(text, error=True)
        else:
            self._set(f"interrupted: {text}", "interrupted")

    def result(
        self,
        value: Any,
        *,
        error: bool = False,
        limit: int | None = None,
        as_: As = "ends",
        against: str | None = None,
    ) -> None:
        """Set the call's result.

        A string is the text; parts stay parts; None is an empty text; anything else is written as
        JSON. `limit` (bytes, 512 or more) is what packets show of a longer text; the whole stays in
        the log and is named beside it. `as_` says how: its `ends`, the lines around its first
        `error`, or as a `diff` to the text `against`, an earlier version of it; the two need 1,026
        bytes, and are shown by their ends with less. Raises ToolError for what is asked wrongly:
        the value is the call's result all the same, shown by its ends.
        """
        if isawaitable(value):
            if iscoroutine(value):
                value.close()  # it never began, and nobody will wait for it
            mistake = ToolError(
                "the result was not awaited: await it, as in run.result(await run.read(…))"
            )
            self._mistaken(mistake)
            raise mistake
        try:
            self._set(value, "error" if error else "ok", limit, as_, against)
        except InvalidEvent as unwritable:
            self.failed(unwritable)
            raise
        wrong = asked_wrongly(limit, as_, against)
        if wrong:
            raise ToolError(f"{wrong}; the result is kept, shown by its ends")

    def _mistaken(self, mistake: ToolError) -> None:
        """Set a result for a run that its own code uses wrongly: nobody else will say what was."""
        if not self._status:
            self._set(f"the tool's own code is mistaken: {mistake}", "error")

    def _set(
        self,
        value: Any,
        status: str,
        limit: int | None = None,
        as_: As = "ends",
        against: str | None = None,
    ) -> None:
        credentials = self._session.credentials
        parts, blobs = shown_as(value, credentials, limit, as_, self._before(against))
        self._given = value, status, limit, as_, against
        self._parts, self._blobs, self._status = parts, blobs, status

    def _before(self, against: object) -> str | None:
        """The earlier version as results show it; None for what is none."""
        scrub = self._session.credentials.scrub
        return scrub(against) if isinstance(against, str) else None

    def saw(
        self,
        path: str,
        *,
        range: str = "",
        version: str = "",
        root: str | os.PathLike[str] | None = None,
        content: str | bytes | None = None,
    ) -> None:
        """Say what of the world the result shows: a path, a range in it, its content digest.

        The digest is computed of `content`, the file's whole content as it was read, or of the
        file as it is in `root` now; there the path is kept relative to the root.
        """
        try:
            seen = saw(path, range=range, version=version, root=root, content=content)
        except ToolError as mistake:
            self._mistaken(mistake)
            raise
        self._saw.append(seen)

    def read(
        self,
        path: str,
        *,
        root: str | os.PathLike[str],
        start: int = 1,
        end: int = 0,
        most: int = MOST,
    ) -> str:
        """The text of a file's lines, for a result, and that it was seen in the version it has.

        Lines count from 1, `end` 0 is the last one; at most `most` bytes are given, and a notice
        says what is left out. No path leads out of the root. What is not there is an error result
        that the model can mend.
        """
        try:
            found = read(path, root, start=start, end=end, most=most)
        except ToolError as mistake:
            self._mistaken(mistake)
            raise
        self._saw.append(found.saw)
        return found.text

    def _scrubbed_saw(self) -> Iterator[Saw]:
        scrub = self._session.credentials.scrub
        for one in self._saw:
            path = scrub(one.path) if isinstance(one.path, str) else one.path
            yield replace(one, path=path, range=scrub(one.range), version=scrub(one.version))


def shown_as(
    value: Any,
    credentials: Credentials,
    limit: int | None = None,
    as_: As = "ends",
    before: str | None = None,
) -> tuple[tuple[Part, ...], list[Blob]]:
    """A value as the parts of a result, without secrets, and the contents that they cite.

    Raises InvalidEvent for what JSON cannot write.
    """
    parts = credentials.scrubbed_all(_parts(value))
    if parts:
        return parts, []
    plain: str
    if value is None:
        plain = ""
    elif isinstance(value, str):
        plain = value
    elif isinstance(value, bytes):
        plain = value.decode("utf-8", "surrogateescape")
    else:
        plain = source_of(value, "result")
    return shown(credentials.scrub(plain), limit, as_, before)


def _is_the_agents(error: BaseException) -> bool:
    """True for errors that no model can mend. What cannot be written as a result is the tool's,
    and a secret that nobody gives is a limit of the tool that the model has to know."""
    if isinstance(error, InvalidEvent | CredentialUnavailable):
        return False
    return isinstance(error, ToolError | StoreError)


def _parts(value: Any) -> tuple[Part, ...]:
    """The parts that a result is made of; () when it is something else."""
    if isinstance(value, Part):
        return (value,)
    if not isinstance(value, list | tuple):
        return ()
    items = tuple(cast("Sequence[Any]", value))
    return items if all(isinstance(item, Part) for item in items) else ()

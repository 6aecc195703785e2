"""One run of a tool: its start is in the log before it acts, its result when it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, cast

from sawlog.call import Call
from sawlog.store.content import Part, TextPart
from sawlog.store.envelope import Blob
from sawlog.store.errors import InvalidEvent, StoreError, ToolError
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.events.world import Saw
from sawlog.store.jsontext import source_of
from sawlog.store.text import Text, preview


class Keeps(Protocol):
    """What a run needs of its session: to append the start and the result."""

    def started(self, call: Call, effect: str) -> None:
        """Append the start of a call."""
        ...

    def finished(self, call: Call, payload: ToolFinished, blobs: Sequence[Blob]) -> None:
        """Append the result of a call."""
        ...


class ToolRun:
    """A call being run; a context manager.

    An exception inside becomes the call's error result and is not raised again, for the model is
    the one to deal with it; what is no `Exception` (an interrupt, a cancelled task) leaves an
    interrupted result and goes on. A ToolError or an error of the log is the agent's own: it goes
    on, and the call is left without a result. `key` is the same each time this call is run.
    """

    def __init__(self, session: Keeps, call: Call, effect: str) -> None:
        self._session = session
        self.call = call
        self._effect = effect
        self._status = ""
        self._parts: tuple[Part, ...] = ()
        self._blobs: list[Blob] = []
        self._saw: list[Saw] = []

    @property
    def key(self) -> str:
        """A key for tools that can do an effect once: the call's event id."""
        return self.call.event_id

    def __enter__(self) -> ToolRun:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if _is_the_agents(error):
            return False
        if error is not None:
            self.failed(error)
        elif not self._status:
            self.result("")
        self.finish()
        return error is None or isinstance(error, Exception)

    def start(self) -> None:
        """Append the start: durable when this returns. What `with` does on entry."""
        self._session.started(self.call, self._effect)

    def finish(self) -> None:
        """Append the result that was set. What `with` does on exit."""
        payload = ToolFinished(
            call=self.call.event_id,
            call_id=self.call.call_id,
            name=self.call.name,
            status=self._status,
            parts=self._parts,
            saw=tuple(self._saw),
        )
        self._session.finished(self.call, payload, self._blobs)

    def failed(self, error: BaseException) -> None:
        """Set the result that an exception makes."""
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, Exception):
            self.result(text, error=True)
        else:
            self._set(f"interrupted: {text}", "interrupted", None)

    def result(self, value: Any, *, error: bool = False, limit: int | None = None) -> None:
        """Set the call's result.

        A string is the text; parts stay parts; None is an empty text; anything else is written as
        JSON. `limit` (bytes) shows packets a preview of a longer text; the whole stays in the log.
        """
        self._set(value, "error" if error else "ok", limit)

    def _set(self, value: Any, status: str, limit: int | None) -> None:
        self._status = status
        self._blobs = []
        parts = _parts(value)
        if parts:
            self._parts = parts
            return
        plain: str
        if value is None:
            plain = ""
        elif isinstance(value, str):
            plain = value
        elif isinstance(value, bytes):
            plain = value.decode("utf-8", "surrogateescape")
        else:
            plain = source_of(value, "result")
        text: Text = plain
        if limit is not None:
            text, blob = preview(plain, limit)
            if blob is not None:
                self._blobs.append(blob)
        self._parts = (TextPart(text),)

    def saw(self, path: str, *, range: str = "", version: str = "") -> None:
        """Say what of the world the result shows: a path, a range in it, its content digest."""
        self._saw.append(Saw(path, range, version))


def _is_the_agents(error: BaseException | None) -> bool:
    """True for errors that no model can mend. What cannot be written as a result is the tool's."""
    if isinstance(error, InvalidEvent):
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

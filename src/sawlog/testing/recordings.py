"""A recorded session as what a client asked and what it got, attempt by attempt."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sawlog.agentlog import open as open_log
from sawlog.audit.recorded import Recorded
from sawlog.builder.contents import text_of
from sawlog.builder.requests.reading import read_body
from sawlog.providers.strict.reading import as_object, parse
from sawlog.store.content import BoundPart, IncompletePart, Part, RawPart, TextPart
from sawlog.store.errors import ConfigError, SawlogError
from sawlog.store.event import Event
from sawlog.store.events.conversation import MessageAssistant, ToolRequested
from sawlog.store.events.steps import (
    AttemptAnswered,
    AttemptLost,
    AttemptRefused,
    AttemptRunning,
    AttemptSent,
    PacketBuilt,
    PacketRecorded,
)
from sawlog.store.exchange import is_export, lines_of, load
from sawlog.store.text import Text
from sawlog.testing.rebuilding import Called, Piece, Said, events_of
from sawlog.work.window import Window

Source = Recorded | str | os.PathLike[str]
"""A recorded session as `log.read` gives it, or the name of a file that holds its export."""

_IDS = {"anthropic": "request-id", "deepseek-chat": "x-ds-trace-id"}
_ACCOUNTS = {"anthropic": "anthropic-organization-id"}


class Answer(msgspec.Struct, frozen=True):
    """What goes back for a request: status, headers, and the body in the pieces that it comes in.

    With `drops` the connection breaks behind them; status 0: it breaks before anything comes.
    """

    status: int
    headers: dict[str, str]
    pieces: tuple[bytes, ...] = ()
    drops: bool = False


class Exchange(msgspec.Struct, frozen=True):
    """One recorded attempt: the request's bytes, and what came. None: the log ends before it."""

    step: int
    api: str
    body: bytes
    answer: Answer | None


class Recording(msgspec.Struct, frozen=True):
    """The exchanges of one session, in order; `name` is what messages call it."""

    name: str
    exchanges: tuple[Exchange, ...]


def recording_of(source: Source | Sequence[Source]) -> list[Recording]:
    """What a session, or a file and those of the conversations beside it, holds; or several.

    Raises ConfigError where there is no such file or no request in it, UnknownFormat and Damaged
    for a file that is no whole export.
    """
    if isinstance(source, Recorded):
        return [_read(source, source.name or source.id)]
    if isinstance(source, list | tuple):
        many: Sequence[Source] = source
        return [recording for one in many for recording in recording_of(one)]
    if not isinstance(source, str | os.PathLike):
        raise ConfigError(
            f"{type(source).__name__} is no recording: give log.read(NAME), or the file that "
            "`sawlog export` wrote"
        )
    return [_of_file(path) for path in files_of(Path(source))]


def files_of(path: Path) -> list[Path]:
    """The file, and those beside it: x.jsonl, x.2.jsonl, x.3.jsonl and so on."""
    if not path.is_file():
        raise ConfigError(
            f"{path}: there is no such file; record a session and write it with "
            "`sawlog export SESSION -o FILE`"
        )
    return [path, *_beside(path)]


def beside(path: Path, number: int) -> Path:
    """The file of the conversation of that number; that of the first is the path itself."""
    return path if number == 1 else path.with_name(f"{path.stem}.{number}{path.suffix}")


def _beside(path: Path) -> Iterator[Path]:
    number = 2
    while (other := beside(path, number)).is_file() and exported(other):
        yield other
        number += 1


def exported(path: Path) -> bool:
    """True of a file that says that it is an export."""
    with path.open("rb") as opened:
        return is_export(opened.read(64))


def _of_file(path: Path) -> Recording:
    with tempfile.TemporaryDirectory(prefix="sawlog-") as folder:
        with open_log(str(Path(folder) / "replay.db")) as log, path.open("rb") as opened:
            try:
                row = load(log.store, lines_of(opened))
            except SawlogError as error:
                error.args = (f"{path}: {error}", *error.args[1:])
                raise
            return _read(Recorded(log.store, row), path.name)


def _read(session: Recorded, name: str) -> Recording:
    exchanges = tuple(_Reading(session).exchanges())
    if not exchanges:
        why = "no request in it was sent"
        if session.format:
            why = f"it was imported from {session.format}, which shows no requests"
        raise ConfigError(f"{name} cannot be replayed: {why}")
    return Recording(name, exchanges)


class _Reading:
    """One pass over a session's events."""

    def __init__(self, session: Recorded) -> None:
        self._session = session
        self._window = session.window
        self._bodies: dict[int, bytes] = {}
        self._outcome: Event | None = None
        self._pieces: list[Piece] = []
        self._streams = False
        self._api = ""

    def exchanges(self) -> Iterator[Exchange]:
        """The attempts in the order in which they were sent."""
        step = 0
        for event in self._session.as_stored():
            match event.content:
                case PacketBuilt() | PacketRecorded():
                    self._api = event.content.api
                case AttemptSent():
                    if step:
                        yield self._exchange(step)
                    step = event.step
                    self._outcome, self._pieces = None, []
                case AttemptAnswered() | AttemptRefused() | AttemptLost() | AttemptRunning():
                    if event.step == step:
                        self._outcome = event
                case MessageAssistant() | ToolRequested() if event.step == step:
                    self._pieces += _pieces(event.content, self._window)
                case _:
                    pass
        if step:
            yield self._exchange(step)

    def _exchange(self, step: int) -> Exchange:
        packet = self._session.packet_event(step)
        assert packet is not None
        content: Any = packet.content
        api = str(content.api)
        body = self._bodies.get(step)
        if body is None:
            self._bodies = {step: self._session.packet(step).body}
            body = self._bodies[step]
        return Exchange(step, api, body, self._answer(api, body))

    def _answer(self, api: str, body: bytes) -> Answer | None:
        event = self._outcome
        if event is None:
            return None
        match event.content:
            case AttemptAnswered():
                return self._answered(api, event.content, event)
            case AttemptRefused():
                return self._refused(api, event.content, body)
            case AttemptRunning():
                handle = self._text(event.content.handle)
                running = msgspec.json.encode(
                    {"id": handle, "object": "response", "status": "queued", "output": []}
                )
                return Answer(200, {"content-type": "application/json"}, (running,))
            case _:
                return Answer(0, {})

    def _answered(self, api: str, content: AttemptAnswered, event: Event) -> Answer:
        headers = self._ids(api, content.request_id, content.account)
        if content.assembler is None:
            whole = self._text(content.body).encode("utf-8", "surrogateescape")
            return Answer(content.status, {**headers, "content-type": "application/json"}, (whole,))
        said = Said(
            api=api,
            id=self._text(content.response_id),
            model=self._text(content.model),
            stop=self._text(content.stop_reason),
            usage=self._text(content.usage),
            pieces=self._pieces,
            at=event.occurred_at // 1_000_000,
            edits=self._text(content.edits),
            interrupted=content.interrupted,
        )
        pieces = tuple(one.sent() for one in events_of(said))
        return Answer(200, {**headers, **_STREAM}, pieces, content.interrupted)

    def _refused(self, api: str, content: AttemptRefused, request: bytes) -> Answer:
        body = self._text(content.body).encode("utf-8", "surrogateescape")
        headers = self._ids(api, content.request_id, "")
        asked = read_body(api, request)
        if 200 <= content.status < 300 and asked is not None and asked.streams:
            event = _error_event(body)
            if event is not None:
                return Answer(content.status, {**headers, **_STREAM}, (event,))
        # There is nobody to spare, so a client that waits for its next try waits no longer.
        headers |= {"content-type": "application/json", "retry-after-ms": "1"}
        return Answer(content.status, headers, (body,))

    def _ids(self, api: str, request_id: Text, account: Text) -> dict[str, str]:
        said = {
            _IDS.get(api, "x-request-id"): self._text(request_id),
            _ACCOUNTS.get(api, "openai-organization"): self._text(account),
        }
        return {name: value for name, value in said.items() if value}

    def _text(self, text: Text) -> str:
        return text_of(text, self._window)


_STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def _error_event(body: bytes) -> bytes | None:
    """What a stream refused with as the event that it was; None for a body that is none."""
    try:
        said = as_object(parse(body.decode("utf-8", "surrogateescape")))
    except ValueError:
        return None
    if said is None:
        return None
    if said.get("object") == "response":
        failed = b'{"type":"response.failed","sequence_number":0,"response":'
        return b"event: response.failed\ndata: " + failed + _line(body) + b"}\n\n"
    kind = said.get("type")
    name = f"event: {kind}\n".encode() if isinstance(kind, str) else b""
    return name + b"data: " + _line(body) + b"\n\n"


def _line(body: bytes) -> bytes:
    return b" ".join(body.split(b"\n"))


def _pieces(content: MessageAssistant | ToolRequested, window: Window) -> list[Piece]:
    if isinstance(content, ToolRequested):
        return [
            Called(
                id=text_of(content.call_id, window),
                name=text_of(content.name, window),
                arguments=text_of(content.arguments, window),
                kind=content.kind,
                namespace=text_of(content.namespace, window),
                item=text_of(content.item, window),
            )
        ]
    return [piece for part in content.parts if (piece := _piece(part, window)) is not None]


def _piece(part: Part, window: Window) -> Piece | None:
    match part:
        case TextPart():
            return TextPart(text_of(part.text, window))
        case BoundPart():
            return BoundPart(part.kind, part.api, text_of(part.source, window))
        case RawPart():
            return RawPart(part.api, text_of(part.source, window))
        case IncompletePart():
            return IncompletePart(text_of(part.name, window), text_of(part.text, window))
        case _:
            return None  # a reply has no media, and what was withheld is nowhere

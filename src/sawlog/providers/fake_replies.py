"""What the fake provider is told to answer, in words that belong to no API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sawlog.providers.strict.reading import JsonObject


class ScriptError(ValueError):
    """A script that cannot be played: the file is wrong, a reply does not fit the API, or no reply
    is left. The message says what to change."""


@dataclass(frozen=True)
class Text:
    """A run of text."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """What the model thought; the fake signs or seals it. `redacted` hides the text itself, where
    the API knows that (Anthropic); Chat Completions of OpenAI show no thinking at all."""

    text: str
    redacted: bool = False


@dataclass(frozen=True)
class Call:
    """A call of a tool. `arguments` are JSON text, passed on as it is (for Anthropic it must be an
    object), or an object. Without an `id` the fake makes one. `custom` is a tool of OpenAI's that
    takes free text, which `arguments` then are."""

    name: str
    arguments: str | Mapping[str, object] = "{}"
    id: str | None = None
    custom: bool = False

    @property
    def source(self) -> str:
        """The arguments as text."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Raw:
    """A block (Anthropic) or an item (Responses) in the API's own JSON, such as a provider-run
    call. Chat Completions have no place for it."""

    value: Mapping[str, object]


Part = Text | Thinking | Call | Raw


@dataclass(frozen=True)
class Reply:
    """A whole reply: thinking, text and calls in this order, or `parts` in any other.

    `stop` is the API's own word for why it ended (default: the call, else the end of the turn).
    `model` is the served model (default: the one asked for). `raw` is a whole body instead of all
    this, sent as it is.
    """

    text: str = ""
    thinking: str | None = None
    calls: Sequence[Call] = ()
    stop: str | None = None
    raw: bytes | str | None = None
    parts: Sequence[Part] | None = None
    model: str | None = None

    def in_order(self) -> list[Part]:
        """The parts as the model gave them."""
        if self.parts is not None:
            return list(self.parts)
        thinking = [] if self.thinking is None else [Thinking(self.thinking)]
        return [*thinking, *([Text(self.text)] if self.text else []), *self.calls]


@dataclass(frozen=True)
class HttpError:
    """An error answer in the API's shape; type and message default to what fits the status.
    `body` is a whole body instead of that shape."""

    status: int
    message: str | None = None
    type: str | None = None
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None


@dataclass(frozen=True)
class Hang:
    """No answer for so many seconds, then `reply`, or the connection is dropped."""

    seconds: float
    reply: Reply | None = None


@dataclass(frozen=True)
class Drop:
    """A dropped connection: at once, or after the first `sent` bytes of the body of `reply`."""

    reply: Reply | None = None
    sent: int = 0


Step = Reply | HttpError | Hang | Drop
Script = Sequence[Step] | Callable[[str, JsonObject, int], Step]
"""The answers in order, or what gives the answer to (api, request, number of accepted requests
before it). Refused requests take none."""


def tool_use_failed(message: str, failed_generation: str) -> HttpError:
    """How Groq answers when the model's own call is invalid: the reply is only in the error."""
    error = {
        "message": message,
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": failed_generation,
    }
    return HttpError(400, body=json.dumps({"error": error}).encode("ascii"))


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    text: str | None = None
    thinking: str | None = None
    redacted: bool = False
    call: str | None = None
    arguments: str | dict[str, Any] = "{}"
    id: str | None = None
    custom: bool = False
    raw: dict[str, Any] | None = None


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: str | dict[str, Any] = "{}"
    id: str | None = None
    custom: bool = False


class _Error(msgspec.Struct, forbid_unknown_fields=True):
    status: int
    message: str | None = None
    type: str | None = None
    code: str | None = None
    headers: dict[str, str] = {}


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""
    thinking: str | None = None
    calls: list[_Call] = []
    stop: str | None = None
    raw: str | None = None
    parts: list[_Part] | None = None
    model: str | None = None
    error: _Error | None = None
    hang: float | None = None
    drop: bool = False


def read_script(path: Path) -> list[Step]:
    """The answers that a JSON file lists. Each is an object with the fields of Reply (a part has
    one of `text`, `thinking`, `call` with `arguments`, `raw`), or has `error` (the fields of
    HttpError), `hang` (seconds) or `drop` (true). Raises ScriptError naming the place."""
    try:
        steps = msgspec.json.decode(path.read_bytes(), type=list[_Step])
    except OSError as error:
        raise ScriptError(f"cannot read the script {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:  # invalid JSON, or not of this form
        raise ScriptError(f"the script {path} is not a list of answers: {error}") from error
    return [_step(number, step) for number, step in enumerate(steps)]


def _step(number: int, step: _Step) -> Step:
    if step.error is not None:
        error = step.error
        return HttpError(error.status, error.message, error.type, None, error.code, error.headers)
    if step.hang is not None:
        return Hang(step.hang)
    if step.drop:
        return Drop()
    parts = None if step.parts is None else [_part(number, part) for part in step.parts]
    calls = [Call(call.name, call.arguments, call.id, call.custom) for call in step.calls]
    return Reply(step.text, step.thinking, calls, step.stop, step.raw, parts, step.model)


def _part(number: int, part: _Part) -> Part:
    if part.text is not None:
        return Text(part.text)
    if part.thinking is not None:
        return Thinking(part.thinking, part.redacted)
    if part.call is not None:
        return Call(part.call, part.arguments, part.id, part.custom)
    if part.raw is not None:
        return Raw(part.raw)
    raise ScriptError(
        f"answer {number} of the script has an empty part; give it text, thinking, call or raw"
    )

"""What the fake provider is told to answer, in words that belong to no API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sawlog.providers.fake_faults import Fault
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
    With the word for the output limit the arguments of the last call may be cut anywhere; a whole
    reply of Anthropic's then has none of them. `model` is the served model (default: the one asked
    for). `raw` is a whole body instead of all this, sent as it is; to a request that streams, a
    body of its API comes as its events, and any other text as it is.
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
    """No answer, not even its headers, for so many seconds; then `reply`, or the connection is
    dropped."""

    seconds: float
    reply: Reply | None = None


@dataclass(frozen=True)
class Drop:
    """A dropped connection: at once, or after the first `sent` bytes of the body of `reply` or of
    its stream."""

    reply: Reply | None = None
    sent: int = 0


@dataclass(frozen=True)
class Streamed:
    """A reply to a request that streams, in which something goes wrong: `faults` where each says,
    silence for `wait` seconds between headers and first event, or chunks of `chunk` bytes wherever
    that cuts (default: one for each event). Without faults a plain Reply does: what it says is
    streamed when the request asks for a stream."""

    reply: Reply
    faults: Sequence[Fault] = ()
    wait: float = 0.0
    chunk: int | None = None


Step = Reply | HttpError | Hang | Drop | Streamed
Script = Sequence[Step] | Callable[[str, JsonObject, int], Step]
"""The answers in order, or what gives the answer to (api, request, number of accepted requests
before it). Refused requests take none."""


def storm(count: int, retry_after: int | None = None, status: int = 429) -> list[HttpError]:
    """As many errors in a row, each with a `retry-after` of so many seconds if one is given."""
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return [HttpError(status, headers=headers)] * count


def tool_use_failed(message: str, failed_generation: str) -> HttpError:
    """How Groq answers when the model's own call is invalid: the reply is only in the error."""
    error = {
        "message": message,
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": failed_generation,
    }
    return HttpError(400, body=json.dumps({"error": error}).encode("ascii"))

"""What a reply is made of, in words that belong to no API, and how its parts are gathered."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sawlog.builder.replies.source import ascii_low
from sawlog.store.content import Part
from sawlog.store.events.base import Named
from sawlog.store.events.conversation import ToolRequested


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply.

    `parts_and_calls` is its content in order: a run of parts becomes one `message.assistant`, a
    call one `tool.requested`. `usage` is the source of the provider's object, empty when it gave
    none; `stop_reason` its own word; `account` the organisation that the reply names. `text` is the
    plain text of all parts joined, for callers. `paused`: the turn goes on when this reply goes
    back as it is. `refusal` is why the model or its filter declined, empty when it did not. `edits`
    is the source of what the provider says to have edited of the context, empty for nothing. `body`
    is what arrived, as text; empty for a stream, whose `assembler` is named. `interrupted`: the
    stream broke off and this is what there was; `fault` is then the provider's own error that broke
    it, or that its events stopped making sense, and None when the line or the caller ended it.
    """

    request_id: str
    response_id: str
    model: str
    account: str
    stop_reason: str
    usage: str
    parts_and_calls: tuple[tuple[Part, ...] | ToolRequested, ...]
    text: str
    paused: bool
    refusal: str
    body: str
    edits: str = ""
    assembler: Named | None = None
    interrupted: bool = False
    fault: RefusedReply | None = None

    @property
    def calls(self) -> tuple[ToolRequested, ...]:
        """The calls that the client runs, in order."""
        return tuple(one for one in self.parts_and_calls if isinstance(one, ToolRequested))


class RefusedReply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is no reply.

    `kind` is `auth` (key, permission, money), `rate_limit`, `overload`, `timeout`,
    `context_overflow`, `refused_content`, `invalid_request`, `provider_error`, or `malformed` (no
    reply of this API, or the provider threw the model's own words away). `status` is the HTTP
    status, also when the error stood in a body with 200; `message` the provider's own words.
    """

    kind: str
    status: int
    request_id: str
    message: str
    body: str


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """The provider works on it still; `handle` is what to ask for the reply with."""

    status: int
    request_id: str
    handle: str
    body: str


class Malformed(Exception):
    """Raised inside this package when a body is no reply of its API; the message says why."""


class Received(msgspec.Struct, frozen=True):
    """What arrived: header names in ASCII lower case, the body as text.

    `unended` are the positions of the blocks, calls or items that a broken stream left unfinished;
    None for a whole reply, which does not say.
    """

    api: str
    status: int
    headers: Mapping[str, str]
    body: str
    unended: frozenset[int] | None = None

    def left_open(self, at: int) -> bool:
        """Whether a broken stream left the block, call or item at this position unfinished."""
        return self.unended is not None and at in self.unended

    @property
    def request_id(self) -> str:
        """The provider's id of the exchange, or nothing."""
        return next((self.headers[name] for name in _REQUEST_IDS if self.headers.get(name)), "")

    @property
    def account(self) -> str:
        """The organisation that the reply names, or nothing."""
        return next((self.headers[name] for name in _ACCOUNTS if self.headers.get(name)), "")


_REQUEST_IDS = ("request-id", "x-request-id", "apim-request-id", "x-ds-trace-id")
_ACCOUNTS = ("anthropic-organization-id", "openai-organization")


def received(api: str, status: int, headers: Mapping[str, str], body: bytes) -> Received:
    """What arrived, with header names in lower case and the body as text.

    Bytes that are no UTF-8 become lone surrogates U+DC80 to U+DCFF.
    """
    names = {ascii_low(name): value for name, value in headers.items()}
    return Received(api, status, names, body.decode("utf-8", "surrogateescape"))


class Assembly:
    """Gathers the parts and calls of one reply in their order."""

    def __init__(self) -> None:
        self._done: list[tuple[Part, ...] | ToolRequested] = []
        self._run: list[Part] = []
        self._texts: list[str] = []
        self.refusals: list[str] = []

    def part(self, part: Part, text: str = "") -> None:
        """Add a part; `text` is what of it is plain text for a caller."""
        self._run.append(part)
        if text:
            self._texts.append(text)

    def call(self, call: ToolRequested) -> None:
        """Add a call, which ends the run of parts before it."""
        self._close()
        self._done.append(call)

    def done(self) -> tuple[tuple[Part, ...] | ToolRequested, ...]:
        """All of it, the last run closed."""
        self._close()
        return tuple(self._done)

    def text(self) -> str:
        """The plain text, joined."""
        return "".join(self._texts)

    def _close(self) -> None:
        if self._run:
            self._done.append(tuple(self._run))
            self._run.clear()

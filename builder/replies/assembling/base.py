"""What all assemblers share: reading the events, and knowing when to stop.

An assembler keeps the text of a reply and not its events. What it makes is spelled with the strings
as they arrived: two deltas are joined inside their quotes, escapes and all, so that nothing is
decoded and written anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec

from sawlog.builder.replies.answer import Malformed
from sawlog.builder.replies.source import is_empty, text_of
from sawlog.builder.replies.sse import Event, Events
from sawlog.store import jsonslices
from sawlog.store.events.base import Named

_SPACE = " \t\r\n"
_SHOWN = 80


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """The whole reply that a stream amounts to, as far as it came.

    `body` is the JSON text that the API would have given for it; empty as long as no reply had
    begun. `ended`: the API's own end was seen. `unended` are the positions in `body` of blocks
    (Anthropic), calls (Chat) or items (Responses) that had begun and had not ended. `fault` is the
    source of an error that came in mid-stream, `malformed` says why an event could not be read;
    both are empty for none, and nothing behind either counts. `closed`: the stream was over, not
    left by its reader. `named` is the assembler that made it.
    """

    api: str
    named: Named
    body: str
    ended: bool
    closed: bool
    unended: frozenset[int] = frozenset()
    fault: str = ""
    malformed: str = ""


class Built(msgspec.Struct, frozen=True):
    """What an API's assembler has so far: the body, empty for none, and what is not finished."""

    body: str
    unended: frozenset[int] = frozenset()


class Assembler(ABC):
    """Puts one streamed reply of an API together. Pure; nothing that arrives makes it raise."""

    api: ClassVar[str]
    named: ClassVar[Named]

    def __init__(self) -> None:
        self._events = Events()
        self._over = False
        self._done = False  # `[DONE]` was seen, which some servers send behind the last event
        self._fault = ""
        self._malformed = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream, cut anywhere, their content encoding undone."""
        for event in self._events.feed(data):
            if self._over:
                return
            self._take(event)

    @property
    @abstractmethod
    def ended(self) -> bool:
        """True when the API's own end was seen and nothing of the reply can be missing."""

    @property
    def over(self) -> bool:
        """True when nothing that may follow counts: the end was said, or a fault."""
        return self._over or self.ended

    def result(self, *, closed: bool) -> Assembled:
        """What there is. `closed`: the stream is over, so what it left without an end counts too.

        With `closed` false more may be fed afterwards.
        """
        if closed:
            for event in self._events.close():
                if not self._over:
                    self._take(event, rest=True)
        built = self._built()
        return Assembled(
            api=self.api,
            named=self.named,
            body=built.body,
            ended=self.ended or (closed and not self._broken and self._finished()),
            closed=closed,
            unended=built.unended,
            fault=self._fault,
            malformed=self._malformed,
        )

    @abstractmethod
    def _event(self, kind: str, members: dict[str, str]) -> None:
        """Take an event: its type and its fields. Raises Malformed when it cannot be placed."""

    @abstractmethod
    def _built(self) -> Built:
        """The reply so far."""

    def _finished(self) -> bool:
        """True when a stream that is over now was whole, though its end was not said."""
        return False

    @property
    def _broken(self) -> bool:
        return bool(self._fault or self._malformed)

    def _take(self, event: Event, *, rest: bool = False) -> None:
        """Take an event; the `rest` of a stream may be cut off, which is no fault of its own."""
        data = event.data.strip(_SPACE)
        if not data:
            return
        if data.startswith("[DONE]"):
            self._over = self._done = True
            return
        try:
            members = _members(data)
            if members is None:
                if rest:
                    return
                if event.event != "error":
                    shown = data[:_SHOWN]
                    raise Malformed(f"an event of the stream is no JSON object: {shown!a}")
                members = {}
            said = text_of(members.get("type"))
            kind = said or event.event
            if kind == "error" or (not said and not is_empty(members.get("error"))):
                self._fault, self._over = data, True
            else:
                self._event(kind, members)
        except Malformed as error:
            self._malformed, self._over = str(error), True
        except RecursionError:
            self._malformed, self._over = "an event of the stream is nested too deeply", True


def _members(data: str) -> dict[str, str] | None:
    """The fields of an event's data, or None when it is no JSON object or was no UTF-8."""
    try:
        data.encode()  # bytes that were no UTF-8 stand in it as lone surrogates
        return jsonslices.fields(data)
    except ValueError:
        return None

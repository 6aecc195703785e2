"""What the model answered, as a caller's loop gets it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import msgspec

from sawlog.work.call import Call
from sawlog.work.verdicts import Denied


class ToolCalls(tuple[Call, ...]):
    """The calls of a reply that may run.

    It is true when the model asked for any call, also when none of them may run: a loop that ends
    without calls goes on then, and the next packet tells the model what was denied.
    """

    asked: bool

    def __new__(cls, calls: Iterable[Call] = (), *, asked: bool = False) -> Self:
        made = super().__new__(cls, calls)
        made.asked = asked or len(made) > 0
        return made

    def __bool__(self) -> bool:
        return self.asked


class Reply(msgspec.Struct, frozen=True):
    """What the model answered: text, calls to run, and the provider's own words about it.

    `denied` are the calls that do not run, each with its reason; the model is told in the next
    packet. `body` is the reply as received; empty for a stream. `interrupted`: the stream was cut
    off, and this is what had come. `refusal` is why the model or its filter declined, empty when it
    did not: such a turn stays in the log and is shown to no model again, so the next step asks
    anew, say another model with `fallback_of`, or after another message of the user's.
    """

    text: str
    tool_calls: ToolCalls
    stop_reason: str
    usage: str
    response_id: str
    request_id: str
    body: bytes
    denied: tuple[Denied, ...] = ()
    interrupted: bool = False
    refusal: str = ""

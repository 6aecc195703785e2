"""What may go wrong in a stream: the faults that a script names, and the place of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class At:
    """A place in a stream: behind so many `events` or `bytes`, or in the middle of the arguments of
    the call with this number (0 is the reply's first). One of the three is given."""

    events: int | None = None
    bytes: int | None = None
    call: int | None = None


@dataclass(frozen=True)
class Stall:
    """Silence for so many seconds; then the stream goes on."""

    at: At
    seconds: float


@dataclass(frozen=True)
class Cut:
    """The connection drops."""

    at: At


@dataclass(frozen=True)
class ErrorEvent:
    """An error in the API's own words, which ends the stream: the event `error` of Anthropic and
    Responses, an object with `error` in Chat. `failed` is Responses' other way: the response itself
    ends as failed. What is not given says that the provider is overloaded."""

    at: At
    message: str | None = None
    type: str | None = None
    code: str | None = None
    failed: bool = False


@dataclass(frozen=True)
class Garbage:
    """An event whose data is no JSON, under the name of the event that would come next; then the
    stream goes on."""

    at: At
    data: str = '{"type": '


Fault = Stall | Cut | ErrorEvent | Garbage

"""A stream as it leaves: which bytes at once, after which silence, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, zip_longest
from typing import NamedTuple, assert_never

from sawlog.providers.fake_faults import At, Cut, ErrorEvent, Fault, Garbage, Stall
from sawlog.providers.fake_replies import ScriptError
from sawlog.providers.fake_streams import Event, Piece, named
from sawlog.providers.fake_streams_responses import started
from sawlog.providers.strict.reading import JsonObject
from sawlog.providers.strict.refusal import error_body

_OVERLOADED = "The fake provider was told to be overloaded."


class Broken(NamedTuple):
    """What an error in a stream is made from: the API, the whole body, the request's id."""

    api: str
    body: JsonObject
    request_id: str


def leaves(
    events: Sequence[Event], faults: Sequence[Fault], reply: Broken
) -> tuple[list[Piece], bool]:
    """The pieces of a stream, one for each event where nothing is wrong, and whether the connection
    drops behind them. Raises ScriptError for a place that is not in the stream."""
    sent = [event.sent() for event in events]
    borders = [0, *accumulate(map(len, sent))]  # borders[n] is behind n events
    whole = b"".join(sent)
    placed: dict[int, list[Fault]] = {}
    for fault in faults:
        place = _place(fault.at, events, borders)
        if isinstance(fault, ErrorEvent | Garbage) and place not in borders:
            raise ScriptError(f"byte {place} is inside an event, and an event cannot stand there")
        placed.setdefault(place, []).append(fault)
    pieces: list[Piece] = []
    wait = 0.0
    cuts = sorted({*borders, *placed})
    for start, end in zip_longest(cuts, cuts[1:]):
        behind = sum(border <= start for border in borders[1:]) if start in placed else 0
        for fault in placed.get(start, ()):
            match fault:
                case Stall():
                    wait += fault.seconds
                case Cut():
                    return [*pieces, Piece(b"", wait)], True
                case ErrorEvent():
                    error = _error(fault, reply, behind)
                    return [*pieces, Piece(error.sent(), wait)], False
                case Garbage():
                    name = events[min(behind, len(events) - 1)].name
                    pieces.append(Piece(Event(fault.data, name).sent(), wait))
                    wait = 0.0
                case _:
                    assert_never(fault)
        if end is not None:
            pieces.append(Piece(whole[start:end], wait))
            wait = 0.0
    return [*pieces, Piece(b"", wait)] if wait else pieces, False


def in_chunks(pieces: Sequence[Piece], size: int) -> list[Piece]:
    """The same bytes after the same silences, `size` at a time, wherever that cuts."""
    chunks: list[Piece] = []
    held = b""
    wait = 0.0
    for piece in [*pieces, Piece(b"", -1.0)]:
        if piece.wait:
            if held or wait:
                chunks.append(Piece(held[:size], wait))
            chunks += [Piece(held[at : at + size]) for at in range(size, len(held), size)]
            held, wait = b"", piece.wait
        held += piece.data
    return chunks


def _place(at: At, events: Sequence[Event], borders: list[int]) -> int:
    """The number of bytes in front of a place."""
    match (at.events, at.bytes, at.call):
        case (int(count), None, None) if 0 <= count < len(borders):
            return borders[count]
        case (None, int(count), None) if 0 <= count <= borders[-1]:
            return count
        case (None, None, int(call)):
            brought = [number for number, event in enumerate(events) if event.call == call]
            if not brought:
                raise ScriptError(f"no arguments of a call {call} are in this stream; calls are "
                                  "counted from 0")  # fmt: skip
            half = len(brought) // 2
            # A call that comes in one event has no middle: then in front of it.
            return borders[brought[half - 1] + 1] if half else borders[brought[0]]
        case _:
            raise ScriptError(
                f"{at} is no place in a stream of {len(events)} events and {borders[-1]} bytes; "
                "give one of events, bytes and call"
            )


def _error(fault: ErrorEvent, reply: Broken, number: int) -> Event:
    message = fault.message or _OVERLOADED
    if fault.failed and reply.api != "openai-responses":
        raise ScriptError(f"{reply.api} has no failed response; only Responses tell of one")
    if reply.api == "anthropic":
        kind = fault.type or "overloaded_error"
        body = error_body(reply.api, kind, message, None, fault.code, reply.request_id)
        return Event(body.decode("utf-8"), "error")
    if reply.api != "openai-responses":
        body = error_body(reply.api, fault.type or "server_error", message, None, fault.code, "")
        return Event(body.decode("utf-8"))
    code = fault.code or fault.type or "server_is_overloaded"
    if not fault.failed:
        error: JsonObject = {"code": code, "message": message, "param": None}
        return named("error", {**error, "sequence_number": number})
    failed = started(reply.body) | {"status": "failed", "error": {"code": code, "message": message}}
    return named("response.failed", {"response": failed, "sequence_number": number})

"""A recorded body as spans: what the log has of it already is named, the rest stands literally.

A body is cut into pieces; each piece is one span or a few. The list of a body is the spans that it
is made of, each by the event that holds it and its place there. The next body keeps runs of that
list, so that a growing conversation costs what is new; after some links a list is written whole, as
runs of the events that hold its spans.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from sawlog.builder.requests.cutting import Body
from sawlog.store.errors import BuildError
from sawlog.store.events.steps import Again, Keep, Literal, PacketRecorded, Quote

LINKS = 32
"""Links to earlier lists after which one is written whole."""

LEAST = 40
"""Characters of a text from which on it is quoted."""

_GAP = 2  # characters between two parts that are not worth a span of their own

Place = tuple[int, int]
"""A span: the seq of its `packet.recorded` and its index in that event's own list."""

Known = Mapping[str, tuple[int, int]]
"""Texts that events hold: text to (seq, part)."""

Lengths = Mapping[str, Sequence[int]]

Span = Keep | Literal | Quote | Again

# Possessive: a text of 50 MB would need gigabytes of what might be tried again.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class BadSpans(BuildError):
    """Raised when the spans of a recorded body lead nowhere."""


class Listed(msgspec.Struct, frozen=True):
    """The last recorded body of a session: its event, its list, its pieces and their spans.

    `links` counts the lists that this one leans on, one after the other. `pieces` are (digest of
    the text, index of its first span, count) in order.
    """

    seq: int
    links: int
    places: tuple[Place, ...]
    pieces: tuple[tuple[bytes, int, int], ...]


def texts_of(body: Body) -> list[str]:
    """The body's pieces of text, in order; joined they are the body."""
    texts: list[str] = []
    at = 0
    for piece in body.pieces:
        if piece.start - at > _GAP:
            texts.append(body.text[at : piece.start])
            at = piece.start
        texts.append(body.text[at : piece.end])
        at = piece.end
    if at < len(body.text):
        texts.append(body.text[at:])
    return texts


def written(
    texts: Sequence[str], seq: int, before: Listed | None, known: Known
) -> tuple[tuple[Span, ...], int, Listed]:
    """The spans of a body that stands at `seq`, their base, and its list for the next one.

    `before` is the last recorded body of the session, `known` what new texts may be quoted from.
    """
    base = before if before is not None and before.links < LINKS else None
    old: dict[bytes, tuple[int, int]] = {}
    for digest, first, count in before.pieces if before is not None else ():
        old.setdefault(digest, (first, count))
    lengths = _lengths(known)
    spans: list[Span] = []
    places: list[Place] = []
    pieces: list[tuple[bytes, int, int]] = []
    for text in texts:
        digest = _digest(text)
        found = old.get(digest)
        first = len(places)
        if found is not None and before is not None:
            start, count = found
            kept = before.places[start : start + count]
            if base is not None:
                _keep(spans, start, start + count)
            else:
                for place in kept:
                    _again(spans, place)
            places.extend(kept)
        else:
            for span in _new(text, known, lengths):
                places.append((seq, len(spans)))
                spans.append(span)
        pieces.append((digest, first, len(places) - first))
    links = 0 if base is None else base.links + 1
    listed = Listed(seq, links, tuple(places), tuple(pieces))
    return tuple(spans), 0 if base is None else base.seq, listed


def places_of(seq: int, packet: Callable[[int], PacketRecorded]) -> tuple[tuple[Place, ...], int]:
    """The list of the recorded body at `seq`, and how many lists it leans on.

    Raises BadSpans when it leads nowhere.
    """
    chain: list[tuple[int, PacketRecorded]] = []
    at = seq
    while at:
        if chain and at >= chain[-1][0]:
            raise BadSpans(f"the recorded body at event {chain[-1][0]} leans on event {at}")
        chain.append((at, packet(at)))
        at = chain[-1][1].base
    places: tuple[Place, ...] = ()
    for at, one in reversed(chain):
        places = grown(at, one, places)
    return places, len(chain) - 1


def listed(seq: int, body: Body, packet: Callable[[int], PacketRecorded], text: TextAt) -> Listed:
    """The recorded body at `seq` as the next one continues it, read from the log."""
    places, links = places_of(seq, packet)
    pieces: list[tuple[bytes, int, int]] = []
    at = 0
    for piece in texts_of(body):
        first, length = at, 0
        while length < len(piece) and at < len(places):
            length += len(text(places[at]))
            at += 1
        pieces.append((_digest(piece), first, at - first))
    return Listed(seq, links, places, tuple(pieces))


TextAt = Callable[[Place], str]
"""Gives the text of one span."""


def spelled(span: Literal | Quote, text: str) -> str:
    """A span's text in the body; `text` is what the literal holds or the quote names."""
    if isinstance(span, Literal) or span.spelling == "raw":
        return text
    return _string(text, ascii=span.spelling == "ascii")


def _string(text: str, *, ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def grown(seq: int, packet: PacketRecorded, base: Sequence[Place]) -> tuple[Place, ...]:
    """The list of the recorded body at `seq`, that of its base given. Raises BadSpans."""
    places: list[Place] = []
    for at, span in enumerate(packet.spans):
        match span:
            case Keep(i, j):
                if not 0 <= i <= j <= len(base):
                    raise BadSpans(f"span {at} of event {seq} keeps {i} to {j} of {len(base)}")
                places.extend(base[i:j])
            case Again(other, i, j):
                if not 0 < other < seq or i < 0:
                    raise BadSpans(f"span {at} of event {seq} repeats event {other}")
                places.extend((other, index) for index in range(i, j))
            case _:
                places.append((seq, at))
    return tuple(places)


def _keep(spans: list[Span], i: int, j: int) -> None:
    last = spans[-1] if spans else None
    if isinstance(last, Keep) and last.j == i:
        spans[-1] = Keep(last.i, j)
    else:
        spans.append(Keep(i, j))


def _again(spans: list[Span], place: Place) -> None:
    seq, index = place
    last = spans[-1] if spans else None
    if isinstance(last, Again) and (last.seq, last.j) == place:
        spans[-1] = Again(seq, last.i, index + 1)
    else:
        spans.append(Again(seq, index, index + 1))


def _new(text: str, known: Known, lengths: Lengths) -> list[Literal | Quote]:
    """The spans of a text that stands in no earlier body: quotes of events, and the rest."""
    spans: list[Literal | Quote] = []
    at = 0
    for start, end, quote in _quotes(text, known, lengths):
        if start < at:
            continue
        if start > at:
            spans.append(Literal(text[at:start]))
        spans.append(quote)
        at = end
    if at < len(text) or not spans:
        spans.append(Literal(text[at:]))
    return spans


def _lengths(known: Known) -> Lengths:
    """The known texts that stand in a body as they are: JSON, such as arguments that are an object.

    Their lengths by their first characters, so that a body is looked through once for all of them.
    """
    found: dict[str, dict[int, None]] = {}
    for said in known:
        if len(said) >= LEAST and said[:1] == "{":
            found.setdefault(said[:LEAST], {})[len(said)] = None
    return {begins: tuple(lengths) for begins, lengths in found.items()}


def _quotes(text: str, known: Known, lengths: Lengths) -> list[tuple[int, int, Quote]]:
    """Where the text repeats what an event holds, in order."""
    if not known:
        return []
    found: list[tuple[int, int, Quote]] = []
    for match in _STRING.finditer(text):
        token = match.group()
        if len(token) < LEAST + 2:
            continue
        try:
            said = json.loads(token)
        except ValueError:
            continue
        place = known.get(said)
        if place is None:
            continue
        for spelling in ("utf-8", "ascii"):
            if _string(said, ascii=spelling == "ascii") == token:
                found.append((match.start(), match.end(), Quote(*place, spelling)))
                break
    seen: set[str] = set()
    at = text.find("{") if lengths else -1
    while at >= 0:
        for length in lengths.get(text[at : at + LEAST], ()):
            said = text[at : at + length]
            if said in known and said not in seen:
                seen.add(said)
                found.append((at, at + length, Quote(*known[said], "raw")))
        at = text.find("{", at + 1)
    return sorted(found, key=lambda one: (one[0], -one[1]))

"""A recorded body read back from the log: its bytes, span by span, and what they are made of."""

from __future__ import annotations

from sawlog.builder.contents import Contents, text_of
from sawlog.builder.requests.cutting import Body, body_of_text, cut, text_of_body
from sawlog.builder.requests.quoting import quoted
from sawlog.builder.requests.spans import (
    BadSpans,
    Listed,
    Place,
    grown,
    listed,
    places_of,
    spelled,
)
from sawlog.store.events.steps import Literal, PacketRecorded, Quote

_HOLD = 32 * 1024 * 1024
"""Characters of spans that are kept at hand."""


def recorded_body(seq: int, contents: Contents) -> bytes:
    """The bytes of the request recorded at `seq`.

    Raises BadSpans when its spans lead nowhere, BlobMissing when a content is not there.
    """
    return Bodies(contents).body(seq)


def body_at(seq: int, contents: Contents) -> tuple[Body | None, Listed | None]:
    """The request recorded at `seq` as it is cut, and its list; None for what is no JSON object."""
    bodies = Bodies(contents)
    body = read_body(bodies.packet(seq).api, bodies.body(seq))
    if body is None:
        return None, None
    return body, listed(seq, body, bodies.packet, bodies.text)


def read_body(api: str, body: bytes, before: Body | None = None) -> Body | None:
    """A body as it is cut; None for what is no JSON object.

    `before` is one that it may go on from, which saves reading what they have in common.
    """
    try:
        return cut(api, text_of_body(body), before)
    except (ValueError, RecursionError):
        return None


class Bodies:
    """Reads recorded bodies one after the other, what they have in common once."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._texts: dict[Place, str] = {}
        self._held = 0
        self._last: tuple[int, tuple[Place, ...]] = 0, ()

    def body(self, seq: int) -> bytes:
        """The bytes of the request recorded at `seq`. Raises BadSpans, BlobMissing."""
        at, places = self._last
        if at and self.packet(seq).base == at:
            places = grown(seq, self.packet(seq), places)
        else:
            places, _ = places_of(seq, self.packet)
        self._last = seq, places
        return body_of_text("".join(map(self.text, places)))

    def packet(self, seq: int) -> PacketRecorded:
        """The recorded request of that event. Raises BadSpans for another event."""
        try:
            content = self._contents.event(seq).content
        except KeyError:
            content = None
        if not isinstance(content, PacketRecorded):
            raise BadSpans(f"event {seq} is no recorded request")
        return content

    def text(self, place: Place) -> str:
        """The text of a span."""
        found = self._texts.get(place)
        if found is None:
            found = self._spelled(place)
            self._held += len(found)
            if self._held > _HOLD:
                self._texts.clear()
                self._held = len(found)
            self._texts[place] = found
        return found

    def _spelled(self, place: Place) -> str:
        seq, index = place
        spans = self.packet(seq).spans
        span = spans[index] if index < len(spans) else None
        if isinstance(span, Literal):
            return spelled(span, text_of(span.text, self._contents))
        if not isinstance(span, Quote):
            raise BadSpans(f"span {index} of event {seq} holds no text of its own")
        try:
            text = quoted(self._contents.event(span.seq), span.part)
        except KeyError:
            raise BadSpans(
                f"span {index} of event {seq} quotes part {span.part} of event {span.seq}, "
                "which is not there"
            ) from None
        return spelled(span, text_of(text, self._contents))

"""A recorded body read back from the log: its bytes, span by span, and what they are made of."""

from __future__ import annotations

from sawlog.builder.contents import Contents, text_of
from sawlog.builder.requests.cutting import Body, body_of_text, cut, text_of_body
from sawlog.builder.requests.quoting import quoted
from sawlog.builder.requests.spans import BadSpans, Listed, Place, listed, places_of, spelled
from sawlog.store.events.steps import Literal, PacketRecorded, Quote


def recorded_body(seq: int, contents: Contents) -> bytes:
    """The bytes of the request recorded at `seq`.

    Raises BadSpans when its spans lead nowhere, BlobMissing when a content is not there.
    """
    return body_of_text(_text_at(seq, contents))


def body_at(seq: int, contents: Contents) -> tuple[Body | None, Listed | None]:
    """The request recorded at `seq` as it is cut, and its list; None for what is no JSON object."""
    text = _text_at(seq, contents)
    try:
        body = cut(_packet(seq, contents).api, text)
    except (ValueError, RecursionError):
        return None, None
    spans = _Spans(contents)
    return body, listed(seq, body, spans.packet, spans.text)


def read_body(api: str, body: bytes) -> Body | None:
    """A body as it is cut; None for what is no JSON object."""
    try:
        return cut(api, text_of_body(body))
    except (ValueError, RecursionError):
        return None


def _text_at(seq: int, contents: Contents) -> str:
    spans = _Spans(contents)
    places, _ = places_of(seq, spans.packet)
    return "".join(map(spans.text, places))


def _packet(seq: int, contents: Contents) -> PacketRecorded:
    try:
        content = contents.event(seq).content
    except KeyError:
        content = None
    if not isinstance(content, PacketRecorded):
        raise BadSpans(f"event {seq} is no recorded request")
    return content


class _Spans:
    """Reads spans, each once."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._read: dict[Place, str] = {}

    def packet(self, seq: int) -> PacketRecorded:
        """The recorded request of that event. Raises BadSpans for another event."""
        return _packet(seq, self._contents)

    def text(self, place: Place) -> str:
        """The text of a span."""
        found = self._read.get(place)
        if found is None:
            found = self._read[place] = self._spelled(place)
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

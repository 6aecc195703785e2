"""Streams of OpenAI's Responses API.

The last event holds the whole response, which is the body as it came. Of a stream that broke off
before it, the body is the newest response that was seen, with the items in place of its output:
those that ended as their last event gave them, the others from their start and their deltas.
"""

from __future__ import annotations

from typing import ClassVar

from sawlog.builder.replies.assembling.base import Assembler, Built
from sawlog.builder.replies.assembling.pieces import Pieces, inner, joined, number, written
from sawlog.builder.replies.source import elements
from sawlog.store.events.base import Named

_ENDS = (
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
)
_BEGINS = ("response.created", "response.queued", "response.in_progress")

# Text inside a part of an item, by the event less its `.delta` or `.done`: the item's list, the
# field that says which part, the part's field, and the type of the part.
_TEXTS = {
    "response.output_text": ("content", "content_index", "text", "output_text"),
    "response.refusal": ("content", "content_index", "refusal", "refusal"),
    "response.reasoning_text": ("content", "content_index", "text", "reasoning_text"),
    "response.reasoning_summary_text": ("summary", "summary_index", "text", "summary_text"),
}
_PARTS = {
    "response.content_part": ("content", "content_index"),
    "response.reasoning_summary_part": ("summary", "summary_index"),
}
_FIELDS = {
    "response.function_call_arguments": "arguments",
    "response.mcp_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
    "response.code_interpreter_call_code": "code",
}


class _Part:
    """A part of an item that is being written."""

    def __init__(self, source: str) -> None:
        self._start = source
        self._texts: dict[str, Pieces] = {}
        self._annotations: list[str] = []

    def join(self, name: str, source: str | None) -> None:
        if name not in self._texts:
            self._texts[name] = Pieces(inner(self._start).get(name, '""'))
        self._texts[name].add(source)

    def put(self, name: str, source: str) -> None:
        self._texts[name] = Pieces(source)

    def annotate(self, source: str) -> None:
        self._annotations.append(source)

    def source(self) -> str:
        if not self._texts and not self._annotations:
            return self._start
        members = inner(self._start)
        members |= {name: pieces.source() for name, pieces in self._texts.items()}
        if self._annotations:
            given = elements(members.get("annotations")) or []
            members["annotations"] = joined([*given, *self._annotations])
        return written(members)


class _Item:
    """An item of the output: what it began with, and what came since."""

    def __init__(self, source: str) -> None:
        self.done = False
        self._source = source
        self._values: dict[str, Pieces] = {}
        self._lists: dict[str, dict[int, _Part]] = {}

    def end(self, source: str) -> None:
        self.done = True
        self._source = source
        self._values.clear()
        self._lists.clear()

    def part(self, name: str, index: int, kind: str) -> _Part:
        parts = self._parts(name)
        if index not in parts:
            parts[index] = _Part(f'{{"type":"{kind}"}}')
        return parts[index]

    def put_part(self, name: str, index: int, source: str) -> None:
        self._parts(name)[index] = _Part(source)

    def join(self, name: str, source: str | None) -> None:
        if name not in self._values:
            self._values[name] = Pieces(inner(self._source).get(name, '""'))
        self._values[name].add(source)

    def put(self, name: str, source: str) -> None:
        self._values[name] = Pieces(source)

    def source(self) -> str:
        if not self._values and not self._lists:
            return self._source
        members = inner(self._source)
        members |= {name: pieces.source() for name, pieces in self._values.items()}
        for name, parts in self._lists.items():
            members[name] = joined(parts[at].source() for at in sorted(parts))
        return written(members)

    def _parts(self, name: str) -> dict[int, _Part]:
        if name not in self._lists:
            given = elements(inner(self._source).get(name)) or []
            self._lists[name] = {at: _Part(source) for at, source in enumerate(given)}
        return self._lists[name]


class ResponsesAssembler(Assembler):
    """Assembler `openai-responses-sse@1`; it ends with the event that holds the whole response."""

    api: ClassVar[str] = "openai-responses"
    named: ClassVar[Named] = Named("openai-responses-sse", 1)

    def __init__(self) -> None:
        super().__init__()
        self._response = ""
        self._items: dict[int, _Item] = {}
        self._ended = False

    @property
    def ended(self) -> bool:
        """True when the response was completed, incomplete, failed or cancelled."""
        return self._ended

    def _event(self, kind: str, members: dict[str, str]) -> None:
        if kind in _ENDS or kind in _BEGINS:
            if inner(members.get("response")):
                self._response = members["response"]
                self._ended = self._over = kind in _ENDS
            return
        at = number(members.get("output_index"))
        if at is None:
            return
        if kind in ("response.output_item.added", "response.output_item.done"):
            self._item_event(kind, at, members.get("item", ""))
        elif at in self._items and not self._items[at].done:
            # Without its beginning a delta has no place; a whole item or response still may come.
            self._inner(kind, self._items[at], members)

    def _item_event(self, kind: str, at: int, source: str) -> None:
        if not inner(source):
            return
        if kind == "response.output_item.added":
            self._items[at] = _Item(source)
            return
        if at not in self._items:
            self._items[at] = _Item(source)
        self._items[at].end(source)

    def _inner(self, kind: str, item: _Item, members: dict[str, str]) -> None:
        stem, _, verb = kind.rpartition(".")
        if stem in _FIELDS:
            name = _FIELDS[stem]
            if verb == "delta":
                item.join(name, members.get("delta"))
            elif verb == "done" and members.get(name, "").startswith('"'):
                item.put(name, members[name])
        elif stem in _TEXTS:
            where, which, name, part = _TEXTS[stem]
            index = number(members.get(which))
            if index is None:
                return
            if verb == "delta":
                item.part(where, index, part).join(name, members.get("delta"))
            elif verb == "done" and members.get(name, "").startswith('"'):
                item.part(where, index, part).put(name, members[name])
        elif stem in _PARTS:
            where, which = _PARTS[stem]
            index = number(members.get(which))
            if index is not None and inner(members.get("part")):
                item.put_part(where, index, members["part"])
        elif kind == "response.output_text.annotation.added" and "annotation" in members:
            index = number(members.get("content_index"))
            if index is not None:
                item.part("content", index, "output_text").annotate(members["annotation"])

    def _built(self) -> Built:
        if not self._response and not self._items:
            return Built("")
        order = sorted(self._items)
        if self._ended:
            body = inner(self._response)
            given = elements(body.get("output"))
            if given or (given is not None and not order):
                return Built(self._response)
        else:
            # As the API says of a reply that did not come to its end.
            body = {**inner(self._response), "status": '"incomplete"'}
        body["output"] = joined(self._items[at].source() for at in order)
        unended = frozenset(at for at, index in enumerate(order) if not self._items[index].done)
        return Built(written(body), unended)

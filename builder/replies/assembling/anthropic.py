"""Streams of Anthropic's Messages API.

`message_start` gives the message, whose blocks come one after another: a start, deltas, a stop.
`message_delta` says how it ended. A delta changes the field that it is made for (`text_delta` the
`text`, `input_json_delta` the `input`) in a block that began with that field; all other fields are
as the start gave them, and so is a block that is not known.

The `input` of a call is the text of its pieces, which the API does not check. One that is no JSON
object, or had not come to its end, stands in the body as a string that holds the text; the reader
of whole replies knows it so.
"""

from __future__ import annotations

from typing import ClassVar

from sawlog.builder.replies.answer import Malformed
from sawlog.builder.replies.assembling.base import Assembler, Built
from sawlog.builder.replies.assembling.pieces import (
    Pieces,
    inner,
    joined,
    number,
    object_text,
    written,
)
from sawlog.builder.replies.source import elements, text_of
from sawlog.store.events.base import Named
from sawlog.store.jsonslices import string

# Pieces of a string, by the type of their delta: the field of the delta and of the block.
_JOINED = {"text_delta": "text", "thinking_delta": "thinking"}


class _Block:
    """A block of the content: the source it began with, and what the deltas said since."""

    def __init__(self, source: str) -> None:
        self.start = source
        self.members = inner(source)
        self.ended = False
        self._pieces: dict[str, Pieces] = {}
        self._input = Pieces()
        self._citations: list[str] = []
        self._changed = False

    def add(self, delta: dict[str, str]) -> None:
        kind = text_of(delta.get("type"))
        self._changed = True
        if kind in _JOINED:
            self._join(_JOINED[kind], delta)
        elif kind == "input_json_delta":
            self._input.add(delta.get("partial_json"))
        elif kind == "citations_delta" and "citation" in delta:
            self._citations.append(delta["citation"])
        elif kind == "signature_delta" and "signature" in delta:
            self.members["signature"] = delta["signature"]
        elif kind == "compaction_delta":
            self.members |= {name: value for name, value in delta.items() if name != "type"}

    def source(self) -> str:
        if not self._changed:
            return self.start
        members = dict(self.members)
        members |= {name: pieces.source() for name, pieces in self._pieces.items()}
        if "input" in members:
            members["input"] = self._whole_input(members["input"])
        if self._citations:
            given = elements(members.get("citations")) or []
            members["citations"] = joined([*given, *self._citations])
        # Field by field, so that a block without news in it keeps the source it came with.
        return self.start if members == inner(self.start) else written(members)

    def _join(self, name: str, delta: dict[str, str]) -> None:
        pieces = self._pieces.get(name)
        if pieces is None:
            start = self.members.get(name, "")
            if not start.startswith('"'):
                return
            pieces = self._pieces[name] = Pieces(start)
        pieces.add(delta.get(name))

    def _whole_input(self, start: str) -> str:
        source = self._input.source()
        text = string(source) or ""
        if not text:
            return start
        return text if object_text(text) else source


class AnthropicAssembler(Assembler):
    """Assembler `anthropic-sse@1`; it ends with `message_stop`."""

    api: ClassVar[str] = "anthropic"
    named: ClassVar[Named] = Named("anthropic-sse", 1)

    def __init__(self) -> None:
        super().__init__()
        self._message: dict[str, str] | None = None
        self._usage: dict[str, str] = {}
        self._usage_changed = False
        self._blocks: dict[int, _Block] = {}
        self._stopped = False

    @property
    def ended(self) -> bool:
        """True when `message_stop` was seen."""
        return self._stopped

    def _event(self, kind: str, members: dict[str, str]) -> None:
        match kind:
            case "message_start":
                self._message = inner(members.get("message"))
                self._usage = inner(self._message.get("usage"))
            case "content_block_start":
                self._start(members)
            case "content_block_delta":
                self._block(members).add(inner(members.get("delta")))
            case "content_block_stop":
                self._block(members).ended = True
            case "message_delta":
                self._overlay(members)
            case "message_stop":
                self._stopped = self._over = True
            case _:
                pass  # a ping, or what is not known yet

    def _begun(self) -> dict[str, str]:
        if self._message is None:
            raise Malformed("the stream has no `message_start` before its content")
        return self._message

    def _start(self, members: dict[str, str]) -> None:
        message = self._begun()
        source = members.get("content_block", "")
        at = number(members.get("index"))
        if at is None or not inner(source):
            raise Malformed("a `content_block_start` of the stream has no index or no block")
        block = self._blocks[at] = _Block(source)
        if text_of(block.members.get("type")) == "fallback":
            # Another model took over; a whole reply names the one that served it.
            served = inner(block.members.get("to")).get("model")
            if served is not None:
                message["model"] = served

    def _block(self, members: dict[str, str]) -> _Block:
        self._begun()
        at = number(members.get("index"))
        block = None if at is None else self._blocks.get(at)
        if block is None:
            raise Malformed("an event of the stream goes on with a block that never began")
        return block

    def _overlay(self, members: dict[str, str]) -> None:
        """Lay what is said at the end over what the start said; null takes nothing away."""
        message = self._begun()
        usage = inner(members.get("usage"))
        self._usage_changed = self._usage_changed or bool(usage)
        for new, old in ((usage, self._usage), (inner(members.get("delta")), message)):
            for name, value in new.items():
                if value != "null" or name not in old:
                    old[name] = value
        for name, value in members.items():
            if name not in ("type", "delta", "usage") and value != "null":
                message[name] = value

    def _built(self) -> Built:
        if self._message is None:
            return Built("")
        blocks = [self._blocks[at] for at in sorted(self._blocks)]
        body = dict(self._message)
        body["content"] = joined(block.source() for block in blocks)
        if self._usage_changed:
            body["usage"] = written(self._usage)
        unended = frozenset(at for at, block in enumerate(blocks) if not block.ended)
        return Built(written(body), unended)

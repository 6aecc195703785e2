"""Streams of Chat Completions, as OpenAI, DeepSeek and those who follow them give them.

Each chunk holds a delta for one or more choices. Text, reasoning and arguments are joined, calls
merged by index; fields that are not known are merged by the same rules (`pieces`). Ids, models and
times of chunks are the first that say something, usage and all else of a chunk the last.
"""

from __future__ import annotations

from typing import ClassVar

from sawlog.builder.replies.assembling.base import Assembler, Built
from sawlog.builder.replies.assembling.pieces import (
    Listing,
    Members,
    inner,
    joined,
    number,
    written,
)
from sawlog.builder.replies.source import closes, elements, is_empty
from sawlog.store.events.base import Named
from sawlog.store.jsonslices import string

_FIRST = ("id", "created", "model")
_LEFT_OUT = ("choices", "object", "obfuscation")


class _Choice:
    """One choice: its message from deltas, and its other fields."""

    def __init__(self) -> None:
        self.message = Members()
        self._logprobs = Members()
        self._fields: dict[str, str] = {"index": "0"}

    def add(self, members: dict[str, str]) -> None:
        for name, value in members.items():
            if name == "delta":
                if len(value) > 2:
                    self.message.add(inner(value))
            elif name == "logprobs" and value != "null":
                self._logprobs.add(inner(value))
            elif name != "message" and (value != "null" or name not in self._fields):
                self._fields[name] = value

    @property
    def finished(self) -> bool:
        return not is_empty(self._fields.get("finish_reason"))

    def source(self) -> str:
        message = self.message.source() if self.message else '{"role":"assistant"}'
        members = {"message": message, **self._fields}
        if self._logprobs:
            members["logprobs"] = self._logprobs.source()
        return written(members)


class ChatAssembler(Assembler):
    """Assembler `openai-chat-sse@1`.

    It ends with `[DONE]`, or with a reason to finish when the stream closes behind it.
    """

    api: ClassVar[str] = "openai-chat"
    named: ClassVar[Named] = Named("openai-chat-sse", 1)

    def __init__(self) -> None:
        super().__init__()
        self._fields: dict[str, str] = {}
        self._choices: dict[int, _Choice] = {}
        self._began = False

    @property
    def ended(self) -> bool:
        """True when `[DONE]` was seen."""
        return self._done and self._began

    def _finished(self) -> bool:
        return bool(self._choices) and all(one.finished for one in self._choices.values())

    def _event(self, kind: str, members: dict[str, str]) -> None:
        self._began = True
        for name, value in members.items():
            if name in _LEFT_OUT:
                continue
            old = self._fields.get(name)
            if old == value:
                continue  # most fields of most chunks
            said = is_empty(old) if name in _FIRST else value != "null"
            if said or old is None:
                self._fields[name] = value
        for source in elements(members.get("choices")) or []:
            choice = inner(source)
            at = number(choice.get("index")) or 0
            if at not in self._choices:
                self._choices[at] = _Choice()
            self._choices[at].add(choice)

    def _built(self) -> Built:
        if not self._began:
            return Built("")
        choices = [self._choices[at] for at in sorted(self._choices)] or [_Choice()]
        body = {"object": '"chat.completion"', **self._fields}
        body["choices"] = joined(choice.source() for choice in choices)
        first = choices[0]
        calls = first.message.listing("tool_calls")
        broken = calls is not None and not first.finished and not self._done
        return Built(written(body), _unended(calls) if calls and broken else frozenset())


def _unended(calls: Listing) -> frozenset[int]:
    """The calls that had not ended: the last one, and of those before it what shows no end.

    A call ends when the next one begins; but some servers send the arguments of all in turns.
    """
    last = calls.last()
    sources = elements(calls.source()) or []
    return frozenset(
        at for at, one in enumerate(sources) if at == last or _shows_no_end(inner(one), calls)
    )


def _shows_no_end(call: dict[str, str], calls: Listing) -> bool:
    if "custom" in call:
        # Free text shows no end.
        return calls.in_turns or is_empty(inner(call["custom"]).get("input"))
    given = inner(call.get("function")).get("arguments", "null")
    return not closes(given if (text := string(given)) is None else text)


class DeepSeekAssembler(ChatAssembler):
    """Assembler `deepseek-chat-sse@1`."""

    api: ClassVar[str] = "deepseek-chat"
    named: ClassVar[Named] = Named("deepseek-chat-sse", 1)

"""A request's body, cut at the borders of its messages, items, tools and system texts.

Only the borders count here: what a part says is read by whoever makes events of it. A body that
goes on from an earlier one is read from where it differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from sawlog.store.jsonslices import SCANNER, skip_space, source_at, string

_PARTS: Mapping[str, Mapping[str, str]] = {
    "anthropic": {"system": "system", "tools": "tool", "messages": "item"},
    "openai-chat": {"tools": "tool", "functions": "tool", "messages": "item"},
    "deepseek-chat": {"tools": "tool", "messages": "item"},
    "openai-responses": {"instructions": "system", "tools": "tool", "input": "item"},
}
"""Members whose elements are parts, by API; a value that is no list is one part."""


_DEEPEST = 128
# A string or a bracket; possessive, so that a long text needs no stack.
_MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{\]}]', re.DOTALL)


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A part of a body: `kind` is `system`, `tool` or `item`, start and end count characters."""

    kind: str
    member: str
    start: int
    end: int


class Member(msgspec.Struct, frozen=True, gc=False):
    """A member of a body that is no list of parts: where its key, its value and its end stand."""

    key: int
    start: int
    end: int


class Body(msgspec.Struct, frozen=True):
    """A body as text, its parts in order, and its other members."""

    api: str
    text: str
    pieces: tuple[Piece, ...]
    members: Mapping[str, Member]

    def source(self, piece: Piece) -> str:
        """The JSON text of a part."""
        return self.text[piece.start : piece.end]

    def member(self, name: str) -> str | None:
        """The JSON text of a member that is no list of parts; None when it is not there."""
        found = self.members.get(name)
        return None if found is None else self.text[found.start : found.end]

    @property
    def model(self) -> str:
        """The model that is asked; empty when none is named."""
        return string(self.member("model")) or ""

    @property
    def params(self) -> str:
        """What is neither model nor parts, as a JSON object in the order of the body."""
        said = sorted((one.key, one.end) for name, one in self.members.items() if name != "model")
        return "{" + ",".join(self.text[key:end] for key, end in said) + "}"

    @property
    def handle(self) -> str:
        """What of the provider's keeping it goes on from: the id of a response or a conversation.

        Such a request tells what is new and leaves out the history. Empty for one that does not.
        """
        for name in ("previous_response_id", "conversation"):
            found = self.members.get(name)
            source = "" if found is None else self.text[found.start : found.end]
            said = string(source) or string(source_at(source, "id"))
            if said:
                return said
        return ""

    @property
    def streams(self) -> bool:
        """True when it asks for a stream of events."""
        return self.member("stream") == "true"


def text_of_body(body: bytes) -> str:
    """The body as text; bytes that are no UTF-8 become lone surrogates U+DC80 to U+DCFF."""
    return body.decode("utf-8", "surrogateescape")


def body_of_text(text: str) -> bytes:
    """The bytes of such a text."""
    return text.encode("utf-8", "surrogateescape")


def cut(api: str, text: str, before: Body | None = None) -> Body:
    """The parts of a body. `before` is one that it may begin like: what is equal is not read again.

    Raises ValueError when the text is no JSON object, or a value in it nests deeper than 128,
    RecursionError when Python itself can go no deeper.
    """
    walk = _Walk(api, text)
    if before is not None and before.api == api:
        walk.resume(before)
    walk.run()
    return Body(api, text, tuple(walk.pieces), walk.members)


class _Walk:
    """One pass over a body's members; it can begin in the middle of a list."""

    def __init__(self, api: str, text: str) -> None:
        self._text = text
        self._parts = _PARTS.get(api, {})
        self._at = 0
        self._inside = ""
        self.pieces: list[Piece] = []
        self.members: dict[str, Member] = {}

    def resume(self, before: Body) -> None:
        """Take over what an earlier body has in common with this one, up to a part in a list."""
        same = _common(self._text, before.text)
        kept = [piece for piece in before.pieces if piece.end < same]
        # A value that is no list ends with its member, and the walk goes on in lists alone.
        while kept and not self._in_list(before, kept[-1]):
            kept.pop()
        if not kept:
            return
        self.pieces = kept
        self._at = kept[-1].end
        self._inside = kept[-1].member
        self.members = {
            name: place for name, place in before.members.items() if place.end <= self._at
        }

    def _in_list(self, before: Body, piece: Piece) -> bool:
        return before.text[skip_back(before.text, piece.start)] in "[,"

    def run(self) -> None:
        if self._inside:
            self._list(self._inside, begun=True)
        else:
            self._at = skip_space(self._text)
            self._expect("{")
            self._at = skip_space(self._text, self._at)
            if self._text[self._at : self._at + 1] == "}":
                self._at += 1
                return self._end()
            self._member()
        while self._more("}"):
            self._member()
        self._end()

    def _member(self) -> None:
        start = skip_space(self._text, self._at)
        key, at = SCANNER.raw_decode(self._text, start)
        if not isinstance(key, str):
            raise ValueError(f"no key at character {start}")
        self._at = skip_space(self._text, at)
        self._expect(":")
        self._at = skip_space(self._text, self._at)
        kind = self._parts.get(key)
        if kind is None:
            value = self._at
            self._value(value)
            self.members[key] = Member(start, value, self._at)
        elif self._text[self._at : self._at + 1] == "[":
            self._at += 1
            self._list(key, begun=False)
        else:
            self._piece(kind, key)

    def _list(self, member: str, *, begun: bool) -> None:
        if not begun:
            self._at = skip_space(self._text, self._at)
            if self._text[self._at : self._at + 1] == "]":
                self._at += 1
                return
            self._piece(self._parts[member], member)
        while self._more("]"):
            self._piece(self._parts[member], member)

    def _piece(self, kind: str, member: str) -> None:
        start = skip_space(self._text, self._at)
        self._value(start)
        self.pieces.append(Piece(kind, member, start, self._at))

    def _value(self, start: int) -> None:
        """Step over a value that others can read, too, however deep they are called themselves."""
        _, self._at = SCANNER.raw_decode(self._text, start)
        opened = self._text.count("[", start, self._at) + self._text.count("{", start, self._at)
        if opened > _DEEPEST and _depth(self._text, start, self._at) > _DEEPEST:
            raise ValueError(f"the value at character {start} nests deeper than {_DEEPEST}")

    def _more(self, bracket: str) -> bool:
        """Step over what follows a value: a comma (True) or the bracket that closes."""
        self._at = skip_space(self._text, self._at)
        found = self._text[self._at : self._at + 1]
        if found not in (",", bracket) or not found:
            raise ValueError(f"no comma at character {self._at}")
        self._at += 1
        return found == ","

    def _expect(self, mark: str) -> None:
        if self._text[self._at : self._at + 1] != mark:
            raise ValueError(f"no {mark!r} at character {self._at}")
        self._at += 1

    def _end(self) -> None:
        if skip_space(self._text, self._at) != len(self._text):
            raise ValueError(f"more text follows at character {self._at}")


def _depth(text: str, start: int, end: int) -> int:
    """How deep the lists and objects of a JSON value stand in each other."""
    depth = deepest = 0
    for mark in _MARKS.finditer(text, start, end):
        if mark[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark[0] in "]}":
            depth -= 1
    return deepest


def skip_back(text: str, at: int) -> int:
    """The index of the last character before `at` that is no JSON whitespace."""
    at -= 1
    while at > 0 and text[at] in " \t\n\r":
        at -= 1
    return max(at, 0)


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    # Comparing slices costs next to nothing beside reading their JSON.
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low

"""JSON put together from sources: strings joined inside their quotes, objects merged by field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from sawlog.builder.replies.source import elements, is_empty, is_object
from sawlog.store import jsonslices

_ONCE = frozenset({"id", "type", "index", "role", "name", "format"})
"""Fields that a server may repeat in every delta: they are said once and never joined."""

_DEEP = 3
"""How many objects inside each other are merged: message, call, function."""


class Pieces:
    """A string that comes in pieces."""

    __slots__ = ("_inner",)

    def __init__(self, source: str = '""') -> None:
        self._inner: list[str] = []
        self.add(source)

    def add(self, source: str | None) -> None:
        """Add the next piece, the source of a string; anything else adds nothing."""
        if source is not None and source.startswith('"') and len(source) > 2:
            self._inner.append(source[1:-1])

    def source(self) -> str:
        """The source of the whole string."""
        return f'"{"".join(self._inner)}"'


class Members:
    """An object that comes as deltas.

    Strings of a field are joined, objects merged, lists continued; of anything else, and of null,
    the last that says something counts. What came in one piece keeps its source.
    """

    def __init__(self, source: str | None = None, deep: int = _DEEP) -> None:
        self._deep = deep
        self._only: str | None = None
        self._values: dict[str, str | Pieces | Members | Listing] = {}
        if source is not None:
            self.add(inner(source))
            self._only = source

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, members: Mapping[str, str]) -> None:
        """Merge the next delta."""
        self._only = None
        for name, source in members.items():
            old = self._values.get(name)
            if old is None or old == "null":
                self._values[name] = self._begun(name, source)
            elif source == "null":
                continue
            elif name in _ONCE:
                if isinstance(old, str) and is_empty(old):
                    self._values[name] = source
            elif isinstance(old, Pieces) and source[0] == '"':
                old.add(source)
            elif isinstance(old, Members) and source[0] == "{":
                old.add(inner(source))
            elif isinstance(old, Listing) and source[0] == "[":
                old.add(source)
            elif name == "content" and isinstance(old, Listing) and source[0] == '"':
                old.add(joined([_text_part(source)]))
            else:
                text = old.source() if name == "content" and isinstance(old, Pieces) else '""'
                self._values[name] = self._begun(name, source)
                listing = self._values[name]
                if isinstance(listing, Listing) and text != '""':
                    listing.put_first(_text_part(text))

    def get(self, name: str) -> str | None:
        """The source of a field, or None."""
        value = self._values.get(name)
        return value if value is None or isinstance(value, str) else value.source()

    def listing(self, name: str) -> Listing | None:
        """The list of a field, or None."""
        value = self._values.get(name)
        return value if isinstance(value, Listing) else None

    def source(self, without: str = "") -> str:
        """The source of the object; a field that is `without` is left out."""
        if self._only is not None and without not in self._values:
            return self._only
        return written(
            {
                name: value if isinstance(value, str) else value.source()
                for name, value in self._values.items()
                if name != without
            }
        )

    def _begun(self, name: str, source: str) -> str | Pieces | Members | Listing:
        if name in _ONCE or not self._deep:
            return source
        match source[0]:
            case '"':
                return Pieces(source)
            case "{":
                return Members(source, self._deep - 1)
            case "[":
                return Listing(source, self._deep - 1, calls=name == "tool_calls")
            case _:
                return source


class Listing:
    """A list that comes as deltas: objects with an index are merged by it, others follow.

    Of `calls` the index is left out at the end, for a whole reply has none; a delta without one
    goes on with the last call, unless it says its own name.
    """

    def __init__(self, source: str, deep: int, *, calls: bool) -> None:
        self._deep = deep
        self._calls = calls
        self._entries: list[str | Members] = []
        self._indexes: list[int | None] = []
        self._at: dict[int, int] = {}
        self._last = -1
        self.in_turns = False
        """Whether an element was gone on with after the next one had begun."""
        self.add(source)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, source: str) -> None:
        """Go on with the elements of a list."""
        for element in elements(source) or []:
            members = inner(element)
            index = number(members.get("index"))
            if index is not None:
                at = self._at.get(index)
            else:
                goes_on = self._calls and self._entries and not _named(members)
                at = self._last if goes_on else None
            entry = None if at is None else self._entries[at]
            if at is None or not isinstance(entry, Members) or self._another(entry, members):
                self._put(index, element, bool(members))
            else:
                self.in_turns = self.in_turns or at != len(self._entries) - 1
                self._last = at
                entry.add(members)

    def put_first(self, element: str) -> None:
        """Put an element in front of all that have come."""
        self._entries.insert(0, element)
        self._indexes.insert(0, None)
        self._at = {index: at + 1 for index, at in self._at.items()}
        self._last += 1

    def last(self) -> int:
        """The position, in the list as it is written, of the element that came last."""
        return self._order().index(self._last) if self._entries else -1

    def source(self) -> str:
        """The source of the list."""
        without = "index" if self._calls else ""
        entries = [self._entries[at] for at in self._order()]
        return joined(one if isinstance(one, str) else one.source(without) for one in entries)

    def _order(self) -> list[int]:
        """The order of the indexes where all have one, else that of arrival."""
        order = list(range(len(self._entries)))
        indexes = [index for index in self._indexes if index is not None]
        if len(indexes) == len(order):
            order.sort(key=indexes.__getitem__)
        return order

    def _another(self, entry: Members, members: Mapping[str, str]) -> bool:
        """Whether an index is used again: some servers give all parallel calls the same one."""
        new, old = members.get("id"), entry.get("id")
        if not self._calls or is_empty(new) or is_empty(old) or new == old:
            return False
        return _named(members)

    def _put(self, index: int | None, element: str, merges: bool) -> None:
        self._last = len(self._entries)
        if index is not None:
            self._at[index] = self._last
        mergeable = merges and (self._calls or index is not None)
        self._entries.append(Members(element, self._deep) if mergeable else element)
        self._indexes.append(index)


def inner(source: str | None) -> dict[str, str]:
    """The fields of an object that was cut out of checked JSON; empty when it is no object."""
    return jsonslices.fields(source) if source and source[0] == "{" else {}


def number(source: str | None) -> int | None:
    """The whole number that a source of up to nine digits says, or None."""
    if not source or len(source) > 9 or not all("0" <= char <= "9" for char in source):
        return None
    return int(source)


def written(members: Mapping[str, str]) -> str:
    """The source of an object with these fields, without spaces."""
    return "{" + ",".join(f"{_key(name)}:{source}" for name, source in members.items()) + "}"


def joined(sources: Iterable[str]) -> str:
    """The source of a list of these elements, without spaces."""
    return f"[{','.join(sources)}]"


def object_text(text: str) -> bool:
    """True when a text is a JSON object from its first character to its last."""
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        return is_object(text)
    except RecursionError:
        return False


def _key(name: str) -> str:
    # In ASCII, for a key may hold half of a character, which no text can.
    return json.dumps(name)


def _text_part(source: str) -> str:
    return f'{{"type":"text","text":{source}}}'


def _named(members: Mapping[str, str]) -> bool:
    return any(
        not is_empty(inner(members.get(form)).get("name")) for form in ("function", "custom")
    )

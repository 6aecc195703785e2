"""Lists and indexes that grow at their end and keep every older view.

A state is a value, and folding k events into it must cost O(k), not a copy of the session. A view
shares its items with older and newer views of the same line and only knows how long it is. The
newest view of a line grows in place; growing an older view copies, for another line begins there.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Two threads may fold the same old state. The lock is held for one comparison and one append.
_GROWING = threading.Lock()


class Vec(Sequence[T]):
    """A persistent list: `append` and `extend` give a longer view, this one stays as it is."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items: list[T] = list(items)
        self._length = len(self._items)

    @classmethod
    def _view(cls, items: list[T], length: int) -> Vec[T]:
        view: Vec[T] = cls.__new__(cls)
        view._items = items
        view._length = length
        return view

    def append(self, item: T) -> Vec[T]:
        """A view with one more item."""
        return self.extend((item,))

    def extend(self, more: Sequence[T]) -> Vec[T]:
        """A view with these items behind."""
        if not more:
            return self
        with _GROWING:
            if len(self._items) == self._length:
                self._items.extend(more)
                return self._view(self._items, self._length + len(more))
        items = self._items[: self._length]
        items.extend(more)
        return self._view(items, len(items))

    def upto(self, length: int) -> Vec[T]:
        """The view of the first `length` items."""
        return self._view(self._items, min(length, self._length))

    def grew_from(self, older: Vec[T]) -> bool:
        """True when `older` is a shorter or equal view of this very line."""
        return self._items is older._items and older._length <= self._length

    def between(self, start: int, stop: int) -> list[T]:
        """The items start to stop-1 as a list."""
        return self._items[start : min(stop, self._length)]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._length)
            if step < 0:  # then a stop of -1 means before the first, and not the last
                return [self._items[place] for place in range(start, stop, step)]
            return self._items[start:stop:step]
        if at < 0:
            at += self._length
        if not 0 <= at < self._length:
            raise IndexError(at)
        return self._items[at]

    def __iter__(self) -> Iterator[T]:
        items = self._items
        for at in range(self._length):
            yield items[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vec):
            return NotImplemented
        return self[:] == other[:]  # pyright: ignore[reportUnknownVariableType]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vec({self[:]!r})"


class Index(Generic[K, V]):
    """A persistent map from keys to values; a key set again has its newest value."""

    __slots__ = ("_entries", "_places")

    def __init__(self, entries: Iterable[tuple[K, V]] = ()) -> None:
        self._entries: Vec[tuple[K, V]] = Vec(entries)
        self._places: dict[K, list[int]] = {}
        for at, (key, _) in enumerate(self._entries):
            self._places.setdefault(key, []).append(at)

    def set(self, key: K, value: V) -> Index[K, V]:
        """A map in which the key has this value."""
        longer = self._entries.append((key, value))
        if not longer.grew_from(self._entries):
            return Index(longer)
        new = self.__class__.__new__(self.__class__)
        new._entries = longer
        new._places = self._places
        self._places.setdefault(key, []).append(len(longer) - 1)
        return new

    def get(self, key: K) -> V | None:
        """The newest value of the key in this view, or None."""
        for at in reversed(self._places.get(key, ())):
            if at < len(self._entries):
                return self._entries[at][1]
        return None

    def items(self) -> Vec[tuple[K, V]]:
        """All entries, oldest first, set-again ones included."""
        return self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Index):
            return NotImplemented
        return self._entries == other._entries  # pyright: ignore[reportUnknownMemberType]

    __hash__ = None  # type: ignore[assignment]

"""What verify finds to differ, path by path, and a comparison of lists that grow."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from sawlog.builder.replay import Difference
from sawlog.builder.state import Ref
from sawlog.builder.vec import Vec

T = TypeVar("T")


class Differences:
    """The differences found so far, and what became of the paths that have any."""

    def __init__(self) -> None:
        self.found: list[Difference] = []
        self.paths: dict[str, str] = {}

    def refs_differ(
        self, step: int, path: str, expected: Sequence[Ref], found: Sequence[Ref]
    ) -> None:
        at = 0
        while at < min(len(expected), len(found)) and expected[at] == found[at]:
            at += 1
        old = msgspec.json.encode(expected[at]) if at < len(expected) else b""
        new = msgspec.json.encode(found[at]) if at < len(found) else b""
        self.add(Difference(step, path, "an entry", at, _hex(old), len(old), _hex(new), len(new)))

    def differs(self, step: int, path: str, what: str, expected: str) -> None:
        self.add(Difference(step, path, what, -1, expected, 0, "", 0))

    def add(self, difference: Difference) -> None:
        self.paths[difference.path] = "differs"
        self.found.append(difference)


class Alike(Generic[T]):
    """Compares two lists that grow, each time from where they were found equal before."""

    def __init__(self) -> None:
        self._one: Vec[T] = Vec()
        self._other: Vec[T] = Vec()

    def alike(self, one: Vec[T], other: Vec[T]) -> bool:
        """True when both hold the same."""
        start = 0
        if one.grew_from(self._one) and other.grew_from(self._other):
            start = len(self._one)
        if one.between(start, len(one)) != other.between(start, len(other)):
            return False
        self._one, self._other = one, other
        return True


def _hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

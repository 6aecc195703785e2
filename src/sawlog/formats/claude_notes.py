"""What was odd about a transcript: each oddity once, with the records where it was seen."""

from __future__ import annotations

_NAMED = 5


class Notes:
    """Collects oddities; `sentences` gives one for each kind, in the order first seen."""

    def __init__(self) -> None:
        self._seen: dict[str, list[int]] = {}
        self._plain: list[str] = []

    def add(self, what: str, position: int) -> None:
        """Note that `what` holds of the record at `position`."""
        self._seen.setdefault(what, []).append(position)

    def say(self, sentence: str) -> None:
        """Note something that is of no one record."""
        self._plain.append(sentence)

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each kind of oddity."""
        return (*self._plain, *(f"{what} ({_where(at)})" for what, at in self._seen.items()))


def _where(positions: list[int]) -> str:
    if len(positions) == 1:
        return f"record {positions[0]}"
    named = ", ".join(str(at) for at in positions[:_NAMED])
    more = len(positions) - _NAMED
    return f"records {named} and {more} more" if more > 0 else f"records {named}"

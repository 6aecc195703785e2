"""All that checkpoints stand for, searched: what was said and done, whether a line cites it or not.

`k2` with a pattern lists the places in what checkpoint 2 and those before it cover; `k2@17` is one
of them, whole. What packets do not show by itself, such as an item that was left out, is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sawlog.store.errors import InvalidArguments
from sawlog.store.event import Event
from sawlog.store.events.compaction import CompactionCompleted
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.store.events.world import ObservationRecorded
from sawlog.work.citations import WHOLE, checkpoint_of, shown_whole
from sawlog.work.outputs import BOUND
from sawlog.work.window import Window

HITS = 20
"""Events that one search lists: the newest first."""

_SIDE = 120
_FORGET_EVERY = 100

_NAMES: dict[type, str] = {
    MessageUser: "user",
    MessageAssistant: "assistant",
    MessageSystem: "system",
    ToolRequested: "call",
    ToolFinished: "result",
    ObservationRecorded: "observation",
}

Events = Callable[[int, int], Iterator[Event]]
"""Reads the events of the branch behind one seq, up to another."""


class Search:
    """Searches what the checkpoints of one branch stand for.

    `newest` is the seq of its newest checkpoint; `contents` are of the search alone, which lets go
    of what it read.
    """

    def __init__(
        self,
        newest: int,
        contents: Window,
        events: Events,
        by_id: Callable[[str], Event | None],
    ) -> None:
        self._newest = newest
        self._contents = contents
        self._events = events
        self._by_id = by_id

    def listed(self, name: str, pattern: str, start: int) -> str:
        """The events that hold a plain text, from the `start`th on, each with its first place.

        Raises InvalidArguments when there is no such checkpoint, and when nothing is looked for.
        """
        number, _, through = self._place(name)
        if not pattern:
            raise InvalidArguments(
                f"{name} is all that checkpoint {number} stands for: give a pattern, a plain text "
                "to look for in it"
            )
        if len(pattern.encode("utf-8", "surrogatepass")) > BOUND // 8:
            raise InvalidArguments(f"a pattern has at most {BOUND // 8} bytes")
        found: list[int] = []
        rewinds: list[tuple[int, int]] = []
        for event in self._events(0, through):
            if isinstance(event.content, HistoryRewound):
                rewinds.append((event.seq, event.content.to))
            elif is_said(event) and pattern in self._shown(event):
                found.append(event.seq)
            if event.seq % _FORGET_EVERY == 0:
                self._contents.forget()
        gone = _taken_back(rewinds)
        found = [seq for seq in reversed(found) if not any(seq in each for each in gone)]
        lines: list[str] = []
        room = BOUND
        for seq in found[start : start + HITS]:
            event = self._event(seq)
            text = self._shown(event)
            line = f"k{number}@{seq} {_NAMES[type(event.content)]}: {_around(text, pattern)}"
            data = line.encode("utf-8", "surrogatepass")
            room -= len(data)
            if room < 0 and lines:
                break
            lines.append(data.decode("utf-8", "replace"))
        left = start + len(lines)
        more = f"; go on with start={left}" if left < len(found) else ""
        hold = "event of {} holds" if len(found) == 1 else "events of {} hold"
        told = f"[{len(found)} {hold.format(name)} the pattern, the newest first{more}]"
        return "\n".join((told, *lines))

    def text(self, name: str) -> str:
        """The event that a search named, whole. Raises InvalidArguments."""
        number, seq, through = self._place(name)
        if 0 < seq <= through:
            rewinds = [
                (event.seq, event.content.to)
                for event in self._events(seq, through)
                if isinstance(event.content, HistoryRewound)
            ]
            event = self._event(seq)
            if is_said(event) and not any(seq in each for each in _taken_back(rewinds)):
                return self._shown(event)
        raise InvalidArguments(
            f"{name} names nothing that checkpoint {number} stands for: look for a text in it with "
            f"ref=k{number} and a pattern"
        )

    def _place(self, name: str) -> tuple[int, int, int]:
        """The checkpoint's number, the event that is named (0: none), how far the range reaches."""
        found = WHOLE.fullmatch(name)
        number = int(found[1]) if found else 0
        event = checkpoint_of(number, self._newest, self._contents, self._by_id)
        ended = self._event(event.seq + 1).content if event is not None else None
        if found is None or not isinstance(ended, CompactionCompleted):
            raise InvalidArguments(f"this session has no checkpoint {name[:100]!r}")
        return number, int(found[2] or 0), ended.through

    def _shown(self, event: Event) -> str:
        self._contents.hold((event,))
        return shown_whole(event, self._contents)

    def _event(self, seq: int) -> Event:
        [event] = self._events(seq - 1, seq)
        return event


def is_said(event: Event) -> bool:
    """True of what was said and done: messages, calls, results, observations."""
    return type(event.content) in _NAMES and not getattr(event.content, "copy", False)


def _taken_back(rewinds: list[tuple[int, int]]) -> list[range]:
    """The seqs that rewinds took back; one that was taken back itself did nothing."""
    gone: list[range] = []
    for seq, to in reversed(rewinds):
        if not any(seq in each for each in gone):
            gone.append(range(to + 1, seq))
    return gone


def _around(text: str, pattern: str) -> str:
    """The line of a text's first place of a pattern, shortened; further places are counted."""
    at = text.find(pattern)
    first = max(text.rfind("\n", 0, at) + 1, at - _SIDE)
    end = text.find("\n", at + len(pattern))
    last = min(len(text) if end < 0 else end, at + len(pattern) + _SIDE)
    line = " ".join(text[first:last].replace("\r", "\n").split("\n"))
    more = text.count(pattern) - 1
    return f"{'…' if first else ''}{line}{'…' if last < len(text) else ''}" + (
        f" ({more} more)" if more else ""
    )

"""How records name their predecessors: repeated records, real rewinds, parents that are missing.

The parent chain runs through every record that has a uuid, and almost no branch of it is a choice
of the user. Proven is a rewind only by two prompts with one parent: then all since the first is
dead. Everything else keeps file order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sawlog.formats.claude_notes import Notes
from sawlog.formats.lines import Line
from sawlog.formats.values import as_object
from sawlog.store.jsonslices import SCANNER


class Links:
    """Remembers uuids, parents and prompts of one conversation."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._lines: dict[str, str] = {}
        self._unseen: list[tuple[int, str]] = []
        self._before: dict[str, bytes] = {}
        self._harness: set[str] = set()

    def holds(self, uuid: str) -> bool:
        """True when a record of that uuid was read."""
        return uuid in self._lines

    def seen(self, line: Line, value: dict[str, Any]) -> None:
        """Take note of a record, whatever became of it."""
        parent = value.get("parentUuid")
        if isinstance(parent, str) and parent not in self._lines:
            self._unseen.append((line.position, parent))
        uuid = value.get("uuid")
        if isinstance(uuid, str):
            self._lines.setdefault(uuid, line.text)

    def is_echo(self, line: Line, value: dict[str, Any]) -> bool:
        """True when an earlier record has this one's uuid and the same message content.

        A resumed session may write its last record once more, with another branch or stop reason.
        """
        uuid = value.get("uuid")
        earlier = self._lines.get(uuid) if isinstance(uuid, str) else None
        if earlier is None or "message" not in value:
            return False
        same = _content(SCANNER.raw_decode(earlier)[0]) == _content(value)
        what = "is an echo" if same else "has other contents and counts, too"
        self._notes.add(f"a record repeats the uuid of an earlier one: it {what}", line.position)
        return same

    def prompt(self, position: int, value: dict[str, Any], last: bytes) -> bytes | None:
        """The event to go back to when this prompt proves a rewind, or None.

        `last` is the id of the event before the prompt's own, empty when there is none.
        """
        parent = value.get("parentUuid")
        if not isinstance(parent, str):
            return None
        if parent in self._before:
            return self._before[parent]
        self._before[parent] = last
        if parent in self._harness:
            self._notes.add(
                "a prompt shares its parent with a text of the harness (a local command): "
                "no rewind, both stay",
                position,
            )
        return None

    def harness_text(self, value: dict[str, Any]) -> None:
        """Take note of a user record that no person typed."""
        parent = value.get("parentUuid")
        if isinstance(parent, str):
            self._harness.add(parent)

    def finish(self, elsewhere: Callable[[str], bool]) -> None:
        """Note what parents did not stand before their children, at the end of the file.

        `elsewhere` is true of a uuid that another conversation holds.
        """
        for position, parent in self._unseen:
            if parent in self._lines:
                self._notes.add("a record stands before its parent; file order is kept", position)
            elif not elsewhere(parent):
                self._notes.add("a record's parent is not in the file", position)


def _content(value: dict[str, Any]) -> object:
    return as_object(value.get("message")).get("content")

"""Claude Code compactions: what a boundary says and which events continue after it.

A boundary record comes first and the summary record after it. Until the summary is read the model
still has the old history, and a file may end in between; so everything happens at the summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sawlog.formats.claude_notes import Notes
from sawlog.formats.values import as_list, as_object, as_text


class Boundary(msgspec.Struct, frozen=True):
    """A compact_boundary record: what its metadata says about what stays.

    `uuids` are the preserved records in order, None where the file names only the ends `head` and
    `tail` of a stretch, or nothing. `anchor` is the record after which they stand.
    """

    position: int
    uuid: str
    trigger: str
    anchor: str
    uuids: tuple[str, ...] | None
    head: str
    tail: str


def read_boundary(value: dict[str, Any], position: int) -> Boundary:
    """What a compact_boundary record says; whatever it lacks is empty."""
    metadata = as_object(value.get("compactMetadata"))
    messages = as_object(metadata.get("preservedMessages"))
    segment = as_object(metadata.get("preservedSegment"))
    uuids = as_list(messages.get("uuids"))
    return Boundary(
        position=position,
        uuid=as_text(value.get("uuid")),
        trigger=as_text(metadata.get("trigger")),
        anchor=as_text(messages.get("anchorUuid")) or as_text(segment.get("anchorUuid")),
        uuids=None if uuids is None else tuple(as_text(one) for one in uuids),
        head=as_text(segment.get("headUuid")),
        tail=as_text(segment.get("tailUuid")),
    )


def continuing(
    boundary: Boundary | None,
    summary: str,
    uuid: str,
    shown: Mapping[str, tuple[str, ...]],
    notes: Notes,
) -> tuple[str, ...]:
    """The ids of the events that continue after a compaction, in order.

    `summary` is the summary event's id and `uuid` its record's; `shown` gives for each earlier
    record of the conversation, in file order, the ids of the events that the model saw.
    """
    if boundary is None:
        return (summary,)
    kept = dict.fromkeys(
        id for one in _preserved(boundary, shown, notes) for id in shown.get(one, ())
    )
    # The anchor is the record after which the preserved ones stand: the summary, or the boundary
    # itself when the summary is of what followed them.
    if boundary.anchor == boundary.uuid and boundary.uuid:
        return (*kept, summary)
    if kept and boundary.anchor != uuid:
        notes.add(
            "a compaction's preserved records name an anchor that is not its summary; "
            "they stand behind it",
            boundary.position,
        )
    return (summary, *kept)


def _preserved(
    boundary: Boundary, shown: Mapping[str, tuple[str, ...]], notes: Notes
) -> Iterable[str]:
    if boundary.uuids is not None:
        missing = sum(one not in shown for one in boundary.uuids)
        if missing:
            notes.add(
                f"a compaction preserves {missing} records that the file does not hold before it",
                boundary.position,
            )
        return boundary.uuids
    if not boundary.head and not boundary.tail:
        return ()
    order = list(shown)
    if boundary.head not in shown or boundary.tail not in shown:
        notes.add(
            "a compaction preserves a stretch whose ends the file does not hold before it",
            boundary.position,
        )
        return ()
    return order[order.index(boundary.head) : order.index(boundary.tail) + 1]

"""What a Codex rollout shows of its history at each point, and how a compaction replaces it.

The surface is the list of items that the model's next request holds: what was recorded since the
last compaction or rollback, or what a compaction put in its place.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from typing import Any, cast

import msgspec

from sawlog.formats.batch import Batch
from sawlog.formats.codex_items import API, ASIDE, Item, item_of
from sawlog.store.content import BoundPart, RawPart, TextPart
from sawlog.store.events.compaction import (
    CompactionCompleted1,
    CompactionStarted1,
)
from sawlog.store.events.conversation import MessageAssistant, MessageSystem, MessageUser
from sawlog.store.jsonslices import elements, fields

CONTEXT, USER, OTHER = "context", "user", "other"


class Shown(msgspec.Struct, frozen=True):
    """An item on the surface.

    `digest` is over its JSON text, `id` its event's, `before` that of the event before it (empty:
    none), `place` counts the session's events. `turn`: it starts a user turn. `role` is `context`
    (instructions and texts of the harness), `user` or `other`.
    """

    digest: bytes
    id: bytes
    before: bytes
    place: int
    turn: bool
    role: str


def shown(item: Item, source: str, id: bytes, before: bytes, place: int) -> Shown:
    """The surface entry of an item whose event was just made."""
    payload = item.payload
    role = OTHER
    if isinstance(payload, MessageSystem):
        role = CONTEXT
    elif isinstance(payload, MessageUser):
        role = USER if item.turn else CONTEXT if payload.origin == "harness" else OTHER
    return Shown(_digest(source), id, before, place, item.turn, role)


def rolled_back(surface: list[Shown], turns: int) -> int | None:
    """Where the last `turns` user turns begin on the surface; None when it has no user turn.

    More turns than there are take all, and leave what stood before the first.
    """
    starts = [at for at, one in enumerate(surface) if one.turn]
    if not starts:
        return None
    return starts[max(0, len(starts) - turns)]


def compact(
    batch: Batch, value: dict[str, Any], source: str, surface: list[Shown], place: int
) -> tuple[list[Shown], list[str]]:
    """Add the events of a `compacted` record; gives the surface from there on, and oddities.

    `source` is the record's payload as JSON text, `place` the number of events before the batch.
    """
    batch.add(CompactionStarted1(foreign=True))
    message = value.get("message")
    summary = message if isinstance(message, str) else ""
    replacement = value.get("replacement_history")
    odd: list[str] = []
    opaque = ""
    if isinstance(replacement, list):
        texts = elements(fields(source)["replacement_history"])
        kept, opaque, odd = _replaced(
            batch, cast(list[object], replacement), texts, summary, surface, place
        )
    else:
        kept = _remembered(batch, summary, surface, place)
    batch.add(
        CompactionCompleted1(
            foreign=True,
            history=tuple(one.id.hex() for one in kept),
            summary=summary,
            opaque=opaque,
            unknown=not summary and not opaque,
        )
    )
    return kept, odd


def _replaced(
    batch: Batch,
    items: list[object],
    texts: list[str],
    summary: str,
    surface: list[Shown],
    place: int,
) -> tuple[list[Shown], str, list[str]]:
    # The history is exactly the file's list. An item that is still shown stays the event that it
    # is; the others are copies, for the file says nothing of where they come from.
    unused: dict[bytes, deque[Shown]] = defaultdict(deque)
    for one in surface:
        unused[one.digest].append(one)
    kept: list[Shown] = []
    opaque = ""
    odd: list[str] = []
    for value, text in zip(items, texts, strict=True):
        same = unused.get(_digest(text))
        if same:
            kept.append(same.popleft())
            continue
        item = item_of(cast(dict[str, Any], value), text, copy=True) if _is_object(value) else None
        if item is None:
            odd.append("a replaced history holds an item of an unknown kind")
            item = Item(ASIDE, MessageAssistant(parts=(RawPart(API, text),), copy=True))
        elif item.odd:
            odd.append(item.odd)
        if summary and _says(item, summary):
            payload = msgspec.structs.replace(item.payload, origin="summary")
            item = Item(item.place, payload, item.blobs)
        if _is_compaction(item):
            opaque = text
        before = batch.last
        id = batch.add(item.payload, blobs=item.blobs, copy=True)
        kept.append(shown(item, text, id, before, place + len(batch.events) - 1))
    return kept, opaque, odd


def _remembered(batch: Batch, summary: str, surface: list[Shown], place: int) -> list[Shown]:
    # Before there was a list, the harness built the history anew: the initial context, what the
    # user said, the summary.
    kept: list[Shown] = []
    for one in surface:
        if one.role != CONTEXT:
            break
        kept.append(one)
    kept.extend(one for one in surface if one.role == USER)
    if summary:
        before = batch.last
        payload = MessageUser(parts=(TextPart(summary),), copy=True, origin="summary")
        id = batch.add(payload, copy=True)
        at = place + len(batch.events) - 1
        kept.append(Shown(_digest(summary), id, before, at, False, OTHER))
    return kept


def _says(item: Item, summary: str) -> bool:
    payload = item.payload
    return isinstance(payload, MessageUser) and payload.parts == (TextPart(summary),)


def _is_compaction(item: Item) -> bool:
    payload = item.payload
    return isinstance(payload, MessageAssistant) and any(
        isinstance(part, BoundPart) and part.kind == "compaction" for part in payload.parts
    )


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

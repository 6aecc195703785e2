"""What an importer gives: the records of one foreign session, each with the events it makes.

An importer is a pure reader: it reads a path and knows no database. What it yields for the first
n records of a file never depends on what follows, so a file read in pieces gives the same events.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sawlog.store.events.base import Payload


class ForeignEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a record, ready but for its place in the log.

    `id` is `ids.foreign_id(source id, record position, part)`. `occurred_at` is microseconds UTC or
    UNKNOWN_TIME. `rewind_to`: the payload is a HistoryRewound1 whose `to` is the seq of the event
    with this id; empty bytes: the seq of the session's last event before the first record's.
    """

    payload: Payload
    id: bytes
    step: int = 0
    occurred_at: int
    ignorable: bool = False
    rewind_to: bytes | None = None
    blobs: tuple[tuple[bytes, str], ...] = ()
    """Contents that the payload names by digest (media): (raw bytes, media type)."""


class ForeignRecord(msgspec.Struct, frozen=True):
    """One record of a file: its place, the hex SHA-256 of its bytes, its events (one or more)."""

    position: int
    digest: str
    events: tuple[ForeignEvent, ...]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds, as read to its end.

    `events` counts the events that its records make; `calls` tool calls that expect a result;
    `unanswered` those without one anywhere in the file; `orphans` results without a call;
    `opaque` bound or raw parts that nobody can read; `anomalies` one sentence each.
    """

    records: int
    events: int
    steps: int
    calls: int
    unanswered: int
    orphans: int
    opaque: int
    anomalies: tuple[str, ...] = ()


class ForeignSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a foreign file.

    `format` is `codex`, `claude-code` or `openai-chat`; `source_id` the foreign session's own id,
    the thing that a later, longer file has in common with this one; `name` a proposal; `parent` the
    source id of the session that started it, or empty. `api` is the file's API, whose base profile
    and renderer rebuild its steps. `window` is the model's window where the file names it (tokens,
    0: not named).
    """

    format: str
    source_id: str
    name: str
    api: str
    window: int = 0
    parent: str = ""
    records: Sequence[ForeignRecord]
    counts: Counts

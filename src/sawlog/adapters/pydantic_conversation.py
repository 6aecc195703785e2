"""A conversation of Pydantic AI as its session's records tell it: entries, branches, its record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from pydantic import TypeAdapter

from sawlog.adapters.keeping import Keeper, Kept
from sawlog.adapters.missing import missing
from sawlog.formats.values import as_object, as_text

try:
    from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
except ImportError:
    raise missing("pydantic-ai-slim", "pydantic-ai") from None

RECORD, DELETED = "conversation", "conversation.deleted"
RECORDS: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class Home(msgspec.Struct):
    """A conversation: its session, and its entries by id, of every branch, as they were read.

    `live` are the messages of a run and the ids of the entries that they were kept as.
    """

    keeper: Keeper
    entries: dict[str, ConversationEntry] = {}
    record: ConversationRecord | None = None
    read: int = 0
    live: list[tuple[ModelMessage, str]] = []


_UNSETTLED = 2
"""Messages at the end that may still change in place while a run goes on."""


def entries_of(
    home: Home, stands: Sequence[ConversationEntry], messages: Sequence[ModelMessage]
) -> list[ConversationEntry]:
    """The entries that these messages begin with, by what they say in JSON."""
    line: list[ConversationEntry] = []
    for at, (entry, message) in enumerate(zip(stands, messages, strict=False)):
        known = home.live[at] if at < len(home.live) - _UNSETTLED else None
        settled = known is not None and known[0] is message and known[1] == entry.id
        if not settled and dumped(entry.message) != dumped(message):
            break
        line.append(entry)
    return line


def branches_of(
    old: ConversationRecord | None,
    stands: Sequence[ConversationEntry],
    line: Sequence[ConversationEntry],
) -> list[str]:
    """The ends of the branches that were left, with the one that these entries leave."""
    left = list(old.branches) if old is not None else []
    if stands and stands[-1].id not in {entry.id for entry in line}:
        left = [*(one for one in left if one != stands[-1].id), stands[-1].id]
    return left


def copied(record: ConversationRecord | None) -> Any:
    """A record of the caller's own, which may be changed; None of None."""
    return None if record is None else RECORDS.validate_json(RECORDS.dump_json(record))


def dumped(message: ModelMessage) -> dict[str, Any]:
    """A message as JSON has it."""
    [value] = json.loads(ModelMessagesTypeAdapter.dump_json([message]))
    return cast(dict[str, Any], value)


def id_of(one: Kept) -> str:
    """The id of the entry that a record keeps."""
    return as_text(as_object(json.loads(one.source)).get("id"))


def instructions_of(messages: Sequence[ModelMessage]) -> str:
    """The instructions of the newest request that has any."""
    for message in reversed(messages):
        found = getattr(message, "instructions", None)
        if isinstance(found, str) and found:
            return found
    return ""


def take(home: Home, ever: Sequence[Kept]) -> None:
    """Read what came since: entries of every branch, and the newest record."""
    for one in ever[home.read :]:
        if one.kind == DELETED:
            home.record = None
        elif one.kind == RECORD:
            home.record = RECORDS.validate_json(one.source)
        else:
            value = json.loads(one.source)
            [message] = ModelMessagesTypeAdapter.validate_python([value["message"]])
            id = value["id"]
            if id not in home.entries:
                home.entries[id] = ConversationEntry(
                    id=id, parent_id=value["parent_id"], message=message
                )
    home.read = len(ever)

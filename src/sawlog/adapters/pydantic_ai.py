"""Conversations of Pydantic AI (extra `pydantic-ai`), kept in the log.

    store = SawlogConversationStore("agent.db")
    agent = Agent("openai:gpt-5.5", capabilities=[store.keeps_runs()])

    conversation = await store.load("fix-refund") or Conversation(conversation_id="fix-refund")
    result = await agent.run("The refund test fails.", conversation=conversation)

With `keeps_runs` a run is in the log as it goes: each request before it leaves, each reply before
its tools run, the start of each tool. Without it the store is one like any other, and `save` saves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Unpack

from sawlog.adapters.keeping import Keeper
from sawlog.adapters.missing import missing
from sawlog.adapters.place import Closing, Place, Store
from sawlog.adapters.pydantic_conversation import (
    DELETED,
    RECORD,
    RECORDS,
    Home,
    branches_of,
    copied,
    dumped,
    entries_of,
    id_of,
    instructions_of,
    take,
)
from sawlog.adapters.pydantic_messages import said_of
from sawlog.adapters.records import Entry
from sawlog.formats.values import as_text
from sawlog.store.errors import ConfigError, EffectUnknown, quoted
from sawlog.store.events.conversation import ToolStarted
from sawlog.store.jsontext import source_of
from sawlog.work.opening import SessionOptions

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessage
except ImportError:
    raise missing("pydantic-ai-slim", "pydantic-ai") from None

__all__ = ["FORMAT", "KeepsRuns", "SawlogConversationStore"]

FORMAT = "pydantic-ai"


class SawlogConversationStore(Closing, ConversationStore):
    """A conversation store of Pydantic AI: each conversation is a session of the log, by its id.

    `store` is an open log, or where to open one; further options are those of `AgentLog.session`,
    where `wait` (10 seconds if it is not given) is how long a save waits for another process.
    Nothing is deleted: a branch that is left, and a conversation that is deleted, is rewound and
    stays in the log; a fork repeats the messages that it keeps in a session of its own.
    """

    def __init__(
        self, store: Store, *, tenant: str = "default", **options: Unpack[SessionOptions]
    ) -> None:
        self._place = Place(store, tenant)
        self._options: SessionOptions = {"wait": 10.0, **options}
        self._homes: dict[str, Home] = {}

    def keeps_runs(self, *, again: Collection[str] = ()) -> KeepsRuns:
        """A capability for agents whose runs are to be in the log as they go.

        `again` names the tools that may be run again when a run died while they ran.
        """
        return KeepsRuns(self, again)

    def close(self) -> None:
        """Give back what is held, and close the log if it was opened here."""
        self._place.close()

    # --- the primitives of Pydantic AI ------------------------------------------------------------

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, or None."""
        return await self._place.run(lambda: copied(self._looked(conversation_id).record))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """The records of a scope, or of all, the newest first."""
        return await self._place.run(self._read_records, scope, limit)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record with its new entries. Raises ConversationConflict."""
        await self._place.run(self._write, record, tuple(new_entries), expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Take a conversation back; its entries stay in the log. Raises ConversationConflict."""
        await self._place.run(self._delete, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry of that id, wherever it is. Raises LookupError."""
        return await self._place.run(self._entry, entry_id)

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """The entries up to one, oldest first."""
        return await self._place.run(self._history, head_id, limit)

    # --- underneath: what blocks ------------------------------------------------------------------

    def home(self, conversation_id: str) -> Home:
        """The session of a conversation, which need not be there yet."""
        home = self._homes.get(conversation_id)
        if home is None:
            keeper = Keeper(
                self._place, conversation_id, format=FORMAT, api="openai-chat", **self._options
            )
            home = self._homes[conversation_id] = Home(keeper)
        return home

    def _looked(self, conversation_id: str) -> Home:
        home = self.home(conversation_id)
        take(home, home.keeper.look())
        return home

    def _read_records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        found: list[ConversationRecord] = []
        for home in self._all():
            if home.record is not None and scope in (None, home.record.scope):
                found.append(copied(home.record))
        found.sort(key=lambda record: record.updated_at, reverse=True)
        return found[:limit]

    def _all(self) -> list[Home]:
        """Every conversation of the log. Sessions that others began are passed over."""
        homes: list[Home] = []
        for row in self._place.log.sessions():
            if row.name:
                try:
                    homes.append(self._looked(row.name))
                except ConfigError:
                    del self._homes[row.name]
        return homes

    def _entry(self, entry_id: str) -> ConversationEntry:
        for home in self._homes.values():
            if entry_id in home.entries:
                return home.entries[entry_id]
        for home in self._all():
            if entry_id in home.entries:
                return home.entries[entry_id]
        raise LookupError(f"no conversation of this log has an entry {entry_id!r}")

    def _history(self, head_id: str | None, limit: int | None) -> list[ConversationEntry]:
        entries: list[ConversationEntry] = []
        while head_id is not None and (limit is None or len(entries) < limit):
            entries.append(self._entry(head_id))
            head_id = entries[-1].parent_id
        entries.reverse()
        return entries

    def _write(
        self,
        record: ConversationRecord,
        new: Sequence[ConversationEntry],
        expected: str | None,
    ) -> None:
        home = self.home(record.conversation_id)
        with home.keeper.held():
            self._expect(home, expected)
            fresh = {entry.id: entry for entry in new}
            line: list[ConversationEntry] = []
            at = record.head_id
            while at is not None:
                try:
                    line.append(fresh[at] if at in fresh else self._entry(at))
                except LookupError:
                    raise ConversationConflict(record.conversation_id) from None
                at = line[-1].parent_id
            self.lay(home, line[::-1], record)

    def _delete(self, conversation_id: str, expected: str) -> None:
        home = self.home(conversation_id)
        with home.keeper.held():
            self._expect(home, expected)
            home.keeper.add([Entry("{}", kind=DELETED)])
            home.keeper.keep(0, "the conversation was deleted")
            take(home, home.keeper.look())

    def _expect(self, home: Home, expected: str | None) -> None:
        take(home, home.keeper.look())
        stored = home.record.revision if home.record is not None else None
        if stored != expected:
            raise ConversationConflict(home.keeper.name)

    def lay(
        self, home: Home, line: Sequence[ConversationEntry], record: ConversationRecord
    ) -> None:
        """Make these entries what stands, and keep the record; the session is held."""
        kept = home.keeper.kept()
        stands = [(at, id_of(one)) for at, one in enumerate(kept) if not one.kind]
        shared = 0
        for (_, id), entry in zip(stands, line, strict=False):
            if id != entry.id:
                break
            shared += 1
        if shared < len(stands):
            home.keeper.keep(stands[shared][0], "the conversation branched off")
        before = instructions_of([entry.message for entry in line[:shared]])
        made: list[Entry] = []
        for entry in line[shared:]:
            message = dumped(entry.message)
            said = said_of(message, before)
            before = as_text(message.get("instructions")) or before
            value = {"id": entry.id, "parent_id": entry.parent_id, "message": message}
            made.append(
                Entry(source_of(value), said, kind="message" if not said else "", ends=True)
            )
        kept_record = RECORDS.dump_json(record).decode()
        home.keeper.add([*made, Entry(kept_record, kind=RECORD)])
        take(home, home.keeper.look())


class KeepsRuns(AbstractCapability[Any]):
    """Keeps each run of an agent in the log as it goes. Made by `keeps_runs`.

    A run holds the lease of its conversation: another process gets Leased before its model is
    asked. Raises ConversationConflict for a run that was given another history than what stands,
    and EffectUnknown where a tool that was started and never ended would be run again.
    """

    def __init__(self, store: SawlogConversationStore, again: Collection[str]) -> None:
        self._store = store
        self._again = frozenset(again)

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        """Hold the conversation for as long as the run takes."""
        id = _conversation(ctx)
        place, keeper = self._store._place, self._store.home(id).keeper  # pyright: ignore[reportPrivateUsage]
        await place.run(self._begin, id, list(ctx.messages))
        try:
            return await handler()
        finally:
            await place.run(keeper.unhold)

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """The request is durable before it leaves."""
        await self._save(ctx)
        return request_context

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """The reply is durable before its tools run."""
        await self._save(ctx)
        return result

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any
    ) -> Any:
        """The start is durable before the tool's side effect."""
        place = self._store._place  # pyright: ignore[reportPrivateUsage]
        await place.run(self._start, _conversation(ctx), call.tool_call_id, call.tool_name)
        return args

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        """What the run waits for is in the log with its end."""
        ended = result.conversation
        place = self._store._place  # pyright: ignore[reportPrivateUsage]
        id, waits = _conversation(ctx), ended.deferred_tool_requests
        await place.run(self._keep, id, list(ended.messages), ended.usage, waits)
        return result

    async def _save(self, ctx: RunContext[Any]) -> None:
        place = self._store._place  # pyright: ignore[reportPrivateUsage]
        await place.run(self._keep, _conversation(ctx), list(ctx.messages), ctx.usage, None)

    # --- underneath: what blocks ------------------------------------------------------------------

    def _begin(self, id: str, given: list[ModelMessage]) -> None:
        home = self._store.home(id)
        home.keeper.hold()
        try:
            stands = self._stands(home)
            if len(entries_of(home, stands, given)) < len(stands):
                raise ConversationConflict(id)
        except BaseException:
            home.keeper.unhold()
            raise

    def _stands(self, home: Home) -> list[ConversationEntry]:
        take(home, home.keeper.look())
        head = home.record.head_id if home.record is not None else None
        return self._store._history(head, None)  # pyright: ignore[reportPrivateUsage]

    def _keep(self, id: str, messages: list[ModelMessage], usage: Any, waits: Any) -> None:
        home = self._store.home(id)
        old = home.record
        stands = self._stands(home)
        line = entries_of(home, stands, messages)
        if len(line) == len(stands) == len(messages) and old is not None:
            if old.usage == usage and old.deferred_tool_requests == waits:
                return
        for message in messages[len(line) :]:
            parent = line[-1].id if line else None
            line.append(ConversationEntry(parent_id=parent, message=message))
        record = ConversationRecord(
            conversation_id=id,
            head_id=line[-1].id if line else None,
            usage=usage,
            deferred_tool_requests=waits,
            scope=old.scope if old is not None else None,
            forked_from=old.forked_from if old is not None else None,
            forked_at=old.forked_at if old is not None else None,
            branches=branches_of(old, stands, line),
        )
        self._store.lay(home, line, record)
        home.live = [(one, entry.id) for one, entry in zip(messages, line, strict=True)]

    def _start(self, id: str, call_id: str, name: str) -> None:
        keeper = self._store.home(id).keeper
        event, started = keeper.call(call_id)
        if started and name not in self._again:
            raise EffectUnknown(
                f"the call {quoted(call_id)} of {name} was started before and nobody knows how it "
                f"ended: look, and give its result to the run, or let the tool run again with "
                f"keeps_runs(again=[{name!r}])",
                key=call_id,
            )
        keeper.note(ToolStarted(call=event, call_id=call_id))


def _conversation(ctx: RunContext[Any]) -> str:
    assert ctx.conversation_id is not None, "every run belongs to a conversation"
    return ctx.conversation_id

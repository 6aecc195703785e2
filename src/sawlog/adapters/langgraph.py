"""A checkpointer of LangGraph (extra `langgraph`) that keeps threads in the log.

    graph = builder.compile(checkpointer=SawlogSaver("agent.db"))
    graph.invoke(state, {"configurable": {"thread_id": "fix-refund"}})

Each thread is a session by its id. Checkpoints and pending writes come out as they went in; and the
messages of the graph are ordinary events, so that `sawlog show`, `packet` and `handoff` read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Unpack, cast

from sawlog.adapters.keeping import Keeper
from sawlog.adapters.langchain_messages import said_of
from sawlog.adapters.langgraph_thread import (
    DELETED,
    DROPPED,
    POINT,
    WRITES,
    Thread,
    Typed,
    Value,
    take,
    text_of,
)
from sawlog.adapters.missing import missing
from sawlog.adapters.place import Closing, Place, Store
from sawlog.adapters.records import Entry
from sawlog.formats.values import as_list
from sawlog.store.errors import ConfigError
from sawlog.store.jsontext import source_of
from sawlog.work.opening import SessionOptions

try:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
        writes_sort_key,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
except ImportError:
    raise missing("langgraph", "langgraph") from None

__all__ = ["FORMAT", "SawlogSaver"]

FORMAT = "langgraph"


class SawlogSaver(Closing, BaseCheckpointSaver[str]):
    """A checkpointer over an open log, or over where to open one.

    `messages` is the channel whose messages are shown as events. A write takes the session's lease
    for as long as it takes; `wait` (10 seconds if it is not given) is how long it waits for another
    process. Further options are those of `AgentLog.session`. Nothing is deleted: what a thread
    drops is given no more, and stays in the log. A list is stored once and then by what is new.
    """

    def __init__(
        self,
        store: Store,
        *,
        tenant: str = "default",
        messages: str = "messages",
        serde: SerializerProtocol | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        super().__init__(serde=serde)
        self._place = Place(store, tenant)
        self._messages = messages
        self._options: SessionOptions = {"wait": 10.0, **options}
        self._threads: dict[str, Thread] = {}

    def close(self) -> None:
        """Close the log, if it was opened here."""
        self._place.close()

    # --- what LangGraph asks for ------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or the newest of its thread; None: there is none."""
        thread_id, ns = _place_of(config)
        thread = self._looked(thread_id)
        id = get_checkpoint_id(config) or max((i for n, i in thread.points if n == ns), default="")
        return self._tuple(thread_id, thread, ns, id) if (ns, id) in thread.points else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, or of all, each namespace's newest first."""
        ns = _given(config).get("checkpoint_ns") if config else None
        only = get_checkpoint_id(config) if config else None
        until = get_checkpoint_id(before) if before else None
        given = 0
        for name, thread in self._named(config):
            # Namespaces in the order of their first checkpoint, each newest first.
            spaces = dict.fromkeys(space for space, _ in thread.points)
            for space in spaces:
                if ns is not None and space != ns:
                    continue
                for id in sorted((i for n, i in thread.points if n == space), reverse=True):
                    if (only and id != only) or (until and id >= until):
                        continue
                    metadata = self.serde.loads_typed(thread.points[space, id].metadata)
                    if filter and any(metadata.get(key) != filter[key] for key in filter):
                        continue
                    if limit is not None and given >= limit:
                        return
                    given += 1
                    yield self._tuple(name, thread, space, id)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint: it is durable when this returns."""
        thread_id, ns = _place_of(config)
        bare: dict[str, Any] = {**checkpoint}
        values: dict[str, Any] = bare.pop("channel_values")
        said = self._messages_of(values) if self._messages in new_versions and not ns else None
        thread = self._thread(thread_id)
        with thread.keeper.held():
            take(thread, thread.keeper.look())
            record = {
                "ns": ns,
                "id": checkpoint["id"],
                "parent": get_checkpoint_id(config),
                "checkpoint": text_of(self.serde.dumps_typed(bare)),
                "metadata": text_of(
                    self.serde.dumps_typed(get_checkpoint_metadata(config, metadata))
                ),
                "values": {
                    name: self._news(thread, ns, name, values, version)
                    for name, version in new_versions.items()
                },
            }
            shown = self._shown(thread.keeper, said)
            thread.keeper.add([*shown, Entry(source_of(record), kind=POINT)])
            take(thread, thread.keeper.look())
        return _config(thread_id, ns, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote, beside the checkpoint that it ran on."""
        thread_id, ns = _place_of(config)
        record = {
            "ns": ns,
            "id": _given(config)["checkpoint_id"],
            "task": task_id,
            "path": task_path,
            "writes": [
                [WRITES_IDX_MAP.get(channel, at), channel, *text_of(self.serde.dumps_typed(value))]
                for at, (channel, value) in enumerate(writes)
            ],
        }
        thread = self._thread(thread_id)
        thread.keeper.look()
        with thread.keeper.held():
            thread.keeper.add([Entry(source_of(record), kind=WRITES)])

    def delete_thread(self, thread_id: str) -> None:
        """Give no more of a thread: its session is rewound, and stays in the log."""
        thread = self._looked(thread_id)
        if thread.read:
            with thread.keeper.held():
                thread.keeper.add([Entry("{}", kind=DELETED)])
                thread.keeper.keep(0, "the thread was deleted")

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Give no more of the checkpoints of these runs, and of what was written beside them."""
        gone = frozenset(run_ids)
        for _, thread in self._named(None):
            dropped = [
                place
                for place, point in thread.points.items()
                if self.serde.loads_typed(point.metadata).get("run_id") in gone
            ]
            if dropped:
                with thread.keeper.held():
                    thread.keeper.add([Entry(source_of(dropped), kind=DROPPED)])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Repeat a thread in another session: checkpoints, writes, and the newest messages."""
        source, target = self._looked(source_thread_id), self._thread(target_thread_id)
        ever = source.keeper.look()
        began = max((at + 1 for at, one in enumerate(ever) if one.kind == DELETED), default=0)
        with target.keeper.held():
            copied = [Entry(one.source, kind=one.kind) for one in ever[began:] if one.kind]
            newest = self.get_tuple(_config(source_thread_id, "", None))
            said = self._messages_of(newest.checkpoint["channel_values"]) if newest else None
            shown = self._shown(target.keeper, said)
            target.keeper.add([*copied, *shown])

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`, off the loop."""
        return await self._place.run(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`, off the loop."""

        def found() -> Sequence[CheckpointTuple]:
            return tuple(self.list(config, filter=filter, before=before, limit=limit))

        for one in await self._place.run(found):
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`, off the loop."""
        return await self._place.run(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """As `put_writes`, off the loop."""
        await self._place.run(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`, off the loop."""
        await self._place.run(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`, off the loop."""
        await self._place.run(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`, off the loop."""
        await self._place.run(self.copy_thread, source_thread_id, target_thread_id)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """The version after one, in an order that texts have, too."""
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:032}"

    # --- threads ----------------------------------------------------------------------------------

    def _thread(self, thread_id: str) -> Thread:
        thread = self._threads.get(thread_id)
        if thread is None:
            # Chat messages are the nearest that an API has to what a graph passes around.
            keeper = Keeper(
                self._place, thread_id, format=FORMAT, api="openai-chat", **self._options
            )
            thread = self._threads[thread_id] = Thread(keeper)
        return thread

    def _looked(self, thread_id: str) -> Thread:
        thread = self._thread(thread_id)
        take(thread, thread.keeper.look())
        return thread

    def _named(self, config: RunnableConfig | None) -> Iterator[tuple[str, Thread]]:
        """The thread of a config, or every one of the log; sessions of others are passed over."""
        if config is not None:
            name = _place_of(config)[0]
            yield name, self._looked(name)
            return
        for row in self._place.log.sessions():
            if row.name:
                try:
                    yield row.name, self._looked(row.name)
                except ConfigError:
                    del self._threads[row.name]

    def _tuple(self, thread_id: str, thread: Thread, ns: str, id: str) -> CheckpointTuple:
        point = thread.points[ns, id]
        checkpoint = cast(Checkpoint, self.serde.loads_typed(point.checkpoint))
        values: dict[str, Any] = {}
        for name, version in checkpoint["channel_versions"].items():
            value = thread.values.get((ns, name, version))
            if value is None or value.empty:
                continue
            loaded = [self.serde.loads_typed(item) for item in value.items]
            values[name] = loaded if value.many else loaded[0]
        stored = thread.writes.get((ns, id), {})
        order = sorted(stored, key=lambda key: writes_sort_key(stored[key][2], *key))
        return CheckpointTuple(
            config=_config(thread_id, ns, id),
            checkpoint={**checkpoint, "channel_values": values},
            metadata=self.serde.loads_typed(point.metadata),
            parent_config=_config(thread_id, ns, point.parent) if point.parent else None,
            pending_writes=[
                (task, stored[task, at][0], self.serde.loads_typed(stored[task, at][1]))
                for task, at in order
            ],
        )

    # --- what is new ------------------------------------------------------------------------------

    def _news(
        self,
        thread: Thread,
        ns: str,
        name: str,
        values: dict[str, Any],
        version: str | int | float,
    ) -> dict[str, Any]:
        """A channel's new value as it is stored; a list by what its newest one has not."""
        if name not in values:
            return {"version": version}
        value = values[name]
        if not _is_list(value):
            return {"version": version, "one": text_of(self.serde.dumps_typed(value))}
        items = [self.serde.dumps_typed(item) for item in as_list(value) or []]
        base = thread.newest.get((ns, name))
        old = thread.values[ns, name, base] if base is not None else Value()
        keep = 0
        for mine, known in zip(items, old.items if old.many else (), strict=False):
            if mine != known:
                break
            keep += 1
        new = [text_of(item) for item in items[keep:]]
        return {"version": version, "of": base if keep else None, "keep": keep, "new": new}

    def _messages_of(self, values: dict[str, Any]) -> Sequence[BaseMessage] | None:
        """The messages of a state; None when its channel holds something else, or nothing."""
        found = as_list(values.get(self._messages))
        if found is None or not all(isinstance(one, BaseMessage) for one in found):
            return None
        return found

    def _shown(self, keeper: Keeper, messages: Sequence[BaseMessage] | None) -> tuple[Entry, ...]:
        """The records of messages that do not stand yet; those that were replaced are rewound.

        None: nothing is said of messages, and what stands stays.
        """
        if messages is None:
            return ()
        names = [_name(self.serde.dumps_typed(message)) for message in messages]
        kept = keeper.kept()
        stands = [(at, one.source) for at, one in enumerate(kept) if not one.kind]
        shared = 0
        for (_, source), name in zip(stands, names, strict=False):
            if source != name:
                break
            shared += 1
        if shared < len(stands):
            keeper.keep(stands[shared][0], "the graph's messages were replaced")
        pairs = zip(messages[shared:], names[shared:], strict=True)
        return tuple(Entry(name, said_of(message), ends=True) for message, name in pairs)


def _is_list(value: object) -> bool:
    # A list alone, for a kind of list of somebody's own is to come back as it was.
    return type(value) is list


def _given(config: RunnableConfig) -> dict[str, Any]:
    return config.get("configurable") or {}


def _place_of(config: RunnableConfig) -> tuple[str, str]:
    given = _given(config)
    if not given.get("thread_id"):
        raise ConfigError(
            "a thread is named in the config: {'configurable': {'thread_id': 'fix-refund'}}"
        )
    return str(given["thread_id"]), given.get("checkpoint_ns", "")


def _config(thread_id: str, ns: str, id: str | None) -> RunnableConfig:
    place: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": ns}
    if id is not None:
        place["checkpoint_id"] = id
    return {"configurable": place}


def _name(typed: Typed) -> str:
    digest = hashlib.sha256(typed[0].encode() + b"\0" + typed[1]).hexdigest()
    return source_of({"message": digest})

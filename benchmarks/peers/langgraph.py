"""LangGraph: a compiled loop of an agent and its tools, with the SQLite checkpointer.

A unit is a super-step: the model's message, or all results of a step. It is durable when the next
one begins (`durability="sync"`). No model and no tool runs: the nodes give what the workload says.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypedDict

from benchmarks.workload import Part, Steps

PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite")
_USER, _NODE = "user", "node"


class Driver:
    """One thread of a graph with the default channel, which stores the whole list each time."""

    delta = False
    seeds_history = False

    async def open(self, folder: str) -> None:
        """Compile the graph over a new connection."""
        saver: Any = import_module("langgraph.checkpoint.sqlite")
        self._db = sqlite3.connect(Path(folder) / "store.db", check_same_thread=False)
        self._ends = False
        self._now: Any = None
        self._turn: Any = None
        self._config: Any = {"configurable": {"thread_id": "bench"}, "recursion_limit": 100_000}
        self._graph = self._compiled(saver.SqliteSaver(self._db))

    async def close(self) -> None:
        """End the turn and close."""
        self._settle()
        self._db.close()

    def units(self, step: Sequence[Part]) -> list[tuple[str, Any, bool]]:
        """The user's message, the model's, the results; the last also ends a turn of 20 steps."""
        messages: Any = import_module("langchain_core.messages")
        made: list[tuple[str, Any, bool]] = []
        text = ""
        calls: list[Any] = []
        results: list[Any] = []
        world: dict[str, Any] = {}
        for part in step:
            match part["kind"]:
                case "user":
                    said = messages.HumanMessage(part["text"], id=f"u{part['step']}")
                    made.append((_USER, said, False))
                case "assistant":
                    text = part["text"]
                case "tool_call":
                    arguments = json.loads(part["args"])
                    call = {"id": part["call_id"], "name": part["name"], "args": arguments}
                    calls.append({**call, "type": "tool_call"})
                case "tool_result":
                    id, call_id = f"t{part['call_id']}", part["call_id"]
                    result = messages.ToolMessage(
                        part["text"], tool_call_id=call_id, name=part["name"], id=id
                    )
                    results.append(result)
                case _:
                    world = part["value"]
        number = step[0]["step"]
        reply = messages.AIMessage(text, tool_calls=calls, id=f"a{number}")
        news: dict[str, Any] = {"messages": results}
        if world:
            news["world"] = world
        last = (number + 1) % 20 == 0
        return [*made, (_NODE, {"messages": [reply]}, False), (_NODE, news, last)]

    async def append(self, unit: tuple[str, Any, bool]) -> None:
        """One super-step."""
        kind, value, last = unit
        if kind == _USER:
            self._settle()
            self._turn = self._stream([value])
            return
        if self._turn is None:
            self._turn = self._stream([])
        self._now, self._ends = value, last
        next(self._turn)
        if last:
            self._settle()

    async def batch(self, units: list[tuple[str, Any, bool]]) -> None:
        """It has no batch: one super-step after the other."""
        for unit in units:
            await self.append(unit)

    async def seed(self, steps: Steps) -> None:
        """One checkpoint that holds all; the delta channel has to take every super-step."""
        if self.delta:
            for step in steps:
                await self.batch(self.units(step))
            self._settle()
            return
        messages: list[Any] = []
        world: Any = {}
        for step in steps:
            for kind, value, _ in self.units(step):
                messages += [value] if kind == _USER else value["messages"]
                world = value.get("world", world) if kind == _NODE else world
        self._ends = True
        state = {"messages": messages, "world": world}
        self._graph.update_state(self._config, state, as_node="tools")
        self._ends = False

    async def load(self) -> object:
        """The newest state's messages."""
        return self._graph.get_state(self._config).values.get("messages", [])

    async def rebuild(self) -> object:
        """The same: what a node is given."""
        return await self.load()

    def _compiled(self, saver: Any) -> Any:
        graph: Any = import_module("langgraph.graph")
        message: Any = import_module("langgraph.graph.message")
        channel: Any = message.add_messages
        if self.delta:
            channels: Any = import_module("langgraph.channels.delta")
            channel = channels.DeltaChannel(message._messages_delta_reducer)
        # Both channels are named by an annotation, which is a value here.
        items: Any = list
        fields: Any = {"messages": Annotated[items, channel], "world": dict}
        make: Any = TypedDict
        State: Any = make("State", fields)
        made = graph.StateGraph(State)

        def node(state: Any) -> Any:
            return self._now

        def after_tools(state: Any) -> Any:
            return graph.END if self._ends else "agent"

        for name in ("agent", "tools"):
            made.add_node(name, node)
        made.add_edge(graph.START, "agent")
        made.add_edge("agent", "tools")
        made.add_conditional_edges("tools", after_tools, ["agent", graph.END])
        return made.compile(checkpointer=saver)

    def _stream(self, messages: list[Any]) -> Any:
        return self._graph.stream(
            {"messages": messages}, self._config, stream_mode="updates", durability="sync"
        )

    def _settle(self) -> None:
        """Let a turn that ends go to its end; leave one that stands in the middle."""
        turn, self._turn = self._turn, None
        if turn is not None and self._ends:
            for _ in turn:
                pass
        elif turn is not None:
            turn.close()
        self._ends = False

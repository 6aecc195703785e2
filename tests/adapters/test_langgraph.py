"""Threads of LangGraph in the log: its own conformance suite, and a graph that is killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

import sawlog
from sawlog.providers.fake import Call, Reply
from sawlog.providers.strict import check
from tests.adapters.children import Child, sound

pytest.importorskip("langgraph", reason="the extra langgraph is not installed")

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.conformance import (  # pyright: ignore[reportMissingTypeStubs]
    checkpointer_test,
    validate,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import (  # pyright: ignore[reportMissingTypeStubs]
    END,
    START,
    StateGraph,
    add_messages,
)

from sawlog.adapters.langgraph import SawlogSaver

# A graph with a tool, as the package's own pages have it, but for the line with the checkpointer.
EXAMPLE = """
import json, sys
import openai
from langchain_core.messages import AIMessage, HumanMessage, convert_to_openai_messages
from langchain_core.tools import tool
from langgraph.graph import MessagesState, StateGraph, START
from langgraph.prebuilt import ToolNode, tools_condition
from sawlog.adapters.langgraph import SawlogSaver

client = openai.OpenAI(max_retries=0)

@tool
def roll(sides: int) -> str:
    "Roll a die."
    print("rolled", flush=True)
    return f"a four of {sides}"

TOOLS = [{"type": "function", "function": {"name": "roll", "description": "Roll a die.",
    "parameters": {"type": "object", "properties": {"sides": {"type": "integer"}}}}}]

def model(state: MessagesState):
    messages = convert_to_openai_messages(state["messages"])
    for message in messages:
        message.pop("name", None)
    reply = client.chat.completions.create(model="gpt-5.5", messages=messages, tools=TOOLS)
    said = reply.choices[0].message
    calls = [{"name": c.function.name, "args": json.loads(c.function.arguments), "id": c.id}
             for c in said.tool_calls or []]
    return {"messages": [AIMessage(said.content or "", tool_calls=calls)]}

builder = StateGraph(MessagesState)
builder.add_node("model", model)
builder.add_node("tools", ToolNode([roll]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition)
builder.add_edge("tools", "model")

graph = builder.compile(checkpointer=SawlogSaver(sys.argv[1], ttl=0.3))
config = {"configurable": {"thread_id": "game"}}
given = {"messages": [HumanMessage(sys.argv[2])]} if sys.argv[2:] else None
print(graph.invoke(given, config, durability="sync")["messages"][-1].content)
"""


class State(TypedDict):
    """What the small graph passes around."""

    messages: Annotated[list[AnyMessage], add_messages]
    count: int


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SawlogSaver]:
    """A checkpointer over a log of its own."""
    with SawlogSaver(tmp_path / "agent.db") as saver:
        yield saver


def says(*messages: AnyMessage) -> Any:
    """A node that says one message after the other, one for each of its turns."""
    left = list(messages)

    def node(state: State) -> dict[str, Any]:
        return {"messages": [left.pop(0)], "count": state.get("count", 0) + 1}

    return node


def graph_of(saver: Any, *messages: AnyMessage) -> Any:
    """A graph of one node."""
    builder = StateGraph(State)
    builder.add_node("node", says(*messages))  # pyright: ignore[reportUnknownMemberType]
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile(checkpointer=saver)  # pyright: ignore[reportUnknownMemberType]


def at(thread: str) -> RunnableConfig:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread}}


def ask(graph: Any, text: str, thread: str = "task") -> None:
    """One run of a graph."""
    graph.invoke({"messages": [HumanMessage(text)]}, at(thread))


def history(graph: Any, thread: str = "task") -> list[Any]:
    """Everything that a thread's history says, but for ids and times, newest first."""
    return [
        (
            [(m.type, m.content) for m in state.values.get("messages", [])],
            state.next,
            state.metadata,
        )
        for state in graph.get_state_history(at(thread))
    ]


def test_it_conforms_to_what_langgraph_asks_of_a_checkpointer(tmp_path: Path) -> None:
    made = iter(range(1000))

    @checkpointer_test(name="SawlogSaver")
    async def saver() -> AsyncGenerator[SawlogSaver]:
        with SawlogSaver(tmp_path / f"{next(made)}.db") as saver:
            yield saver

    report = asyncio.run(validate(saver))
    failed = {name: found.failures for name, found in report.results.items() if found.failures}
    assert failed == {} and report.passed_all_base()
    passed = {name for name, found in report.results.items() if found.passed}
    assert passed == {
        "put",
        "put_writes",
        "get_tuple",
        "list",
        "delete_thread",
        "delete_for_runs",
        "copy_thread",
    }
    for number in range(next(made)):
        with sawlog.open(str(tmp_path / f"{number}.db")) as log:
            assert all(log.read(row.id.hex()).verify().sound for row in log.sessions())


def test_a_thread_says_what_it_says_in_memory_also_in_another_process(tmp_path: Path) -> None:
    replies = [AIMessage("One.", id="a1"), AIMessage("Two.", id="a2")]
    told: list[Any] = []
    for saver in (InMemorySaver(), SawlogSaver(tmp_path / "agent.db")):
        graph = graph_of(saver, *replies)
        ask(graph, "first")
        ask(graph, "second")
        told.append(history(graph))
    assert told[0] == told[1] and len(told[0]) == 6
    with SawlogSaver(tmp_path / "agent.db") as saver:
        assert history(graph_of(saver)) == told[0]


def test_messages_are_events_and_a_call_is_handed_on(saver: SawlogSaver, tmp_path: Path) -> None:
    call = AIMessage(
        [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "c1"}],
        tool_calls=[{"name": "look", "args": {"at": "b"}, "id": "c1"}],
    )
    graph = graph_of(saver, call, ToolMessage("cat " * 3000, tool_call_id="c1"), AIMessage("Cat."))
    seen = [{"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}]
    first = [SystemMessage("You look."), HumanMessage(["What is it?", *seen])]
    graph.invoke({"messages": first}, at("task"))
    for _ in range(2):
        graph.invoke({"messages": []}, at("task"))
    saver.close()
    recorded = sound(tmp_path / "agent.db", "task")
    shown = [event.type for event in recorded.as_stored() if event.type != "foreign.record"]
    assert shown[2:] == [
        "message.system",
        "message.user",
        "message.assistant",
        "tool.requested",
        "step.completed",
        "tool.finished",
        "message.assistant",
        "step.completed",
    ]
    handed = recorded.handoff(
        provider="anthropic", model="claude-opus-5-5", say="Sure?", max_tokens=100
    )
    check("anthropic", handed.request.body, dict(handed.request.headers))
    assert recorded.steps[2].why("cat cat")


def test_a_graph_that_goes_back_rewinds_what_is_shown(saver: SawlogSaver, tmp_path: Path) -> None:
    graph = graph_of(saver, AIMessage("One."), AIMessage("Two."), AIMessage("Another."))
    ask(graph, "first")
    ask(graph, "second")
    earlier = next(
        state
        for state in graph.get_state_history(at("task"))
        if [m.content for m in state.values.get("messages", [])] == ["first", "One."]
    )
    graph.invoke({"messages": [HumanMessage("other")]}, earlier.config)
    assert history(graph)[0][0][1:] == [("ai", "One."), ("human", "other"), ("ai", "Another.")]
    graph.update_state(at("task"), {"messages": [RemoveMessage(history_id(graph, 0))]})
    saver.close()
    recorded = sound(tmp_path / "agent.db", "task")
    handed = recorded.handoff(provider="openai-chat", model="gpt-5.5", say="Go on.").request.body
    assert b"Another." in handed and b"second" not in handed and b"first" not in handed


def history_id(graph: Any, number: int) -> str:
    """The id of a message that stands."""
    return str(graph.get_state(at("task")).values["messages"][number].id)


def test_a_long_list_is_stored_once(saver: SawlogSaver, tmp_path: Path) -> None:
    """Law 12: what a checkpoint costs does not grow with the messages before it."""
    text = "x" * 2000
    replies = [AIMessage(f"{number} {text}") for number in range(30)]
    graph = graph_of(saver, *replies)
    sizes: list[int] = []
    for number in range(30):
        ask(graph, f"question {number}")
        lines = [one.source for one in saver._looked("task").keeper.look()]  # pyright: ignore[reportPrivateUsage]
        sizes.append(sum(map(len, lines)))
    first, last = sizes[2] - sizes[1], sizes[29] - sizes[28]
    assert last < first * 1.5


def test_two_processes_may_write_to_a_thread(saver: SawlogSaver, tmp_path: Path) -> None:
    """Each sees what the other wrote, and neither write is lost."""
    with SawlogSaver(tmp_path / "agent.db") as other:
        ask(graph_of(saver, AIMessage("One.")), "first")
        ask(graph_of(other, AIMessage("Two.")), "second")
        graph = graph_of(saver, AIMessage("Three."))
        ask(graph, "third")
        assert [one for _, one in history(graph)[0][0]] == [
            "first",
            "One.",
            "second",
            "Two.",
            "third",
            "Three.",
        ]


def test_threads_of_a_process_do_not_meet(saver: SawlogSaver) -> None:
    def run(name: str) -> None:
        graph = graph_of(saver, *(AIMessage(f"{name} {n}") for n in range(5)))
        for number in range(5):
            ask(graph, f"{name} asks {number}", name)

    workers = [threading.Thread(target=run, args=(f"t{n}",)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for number in range(4):
        said = history(graph_of(saver), f"t{number}")[0][0]
        assert len(said) == 10 and all(text.startswith(f"t{number} ") for _, text in said)


def test_a_graph_that_was_killed_goes_on_from_the_store(tmp_path: Path) -> None:
    """Killed while the model thinks: the tool is not run again, the same request goes out."""
    store = tmp_path / "agent.db"
    roll = Reply("I roll.", calls=[Call("roll", {"sides": 6})])
    first = Child(EXAMPLE, str(store), "Roll.", answers=[roll, None])
    assert first.killed and first.out == "rolled\n"
    before = [event.type for event in sound(store, "game").as_stored()]
    assert before.count("tool.finished") == 1
    second = Child(EXAMPLE, str(store), answers=[Reply("A four.")])
    assert second.out == "A four.\n"
    assert json.loads(first.bodies[1]) == json.loads(second.bodies[0])
    assert [step.outcome for step in sound(store, "game").steps] == ["completed"] * 2


def test_sessions_of_others_are_passed_over_and_not_taken(tmp_path: Path) -> None:
    with sawlog.open(str(tmp_path / "agent.db")) as log:
        with log.session("mine") as s:
            s.user("go")
        with SawlogSaver(log) as saver:
            found: Sequence[Any] = list(saver.list(None))
            assert found == []
            with pytest.raises(sawlog.errors.ConfigError, match="not begun by langgraph"):
                saver.get_tuple(at("mine"))
            with pytest.raises(sawlog.errors.ConfigError, match="named in the config"):
                saver.get_tuple({"configurable": {}})


def test_without_the_package_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['langgraph'] = sys.modules['langchain_core'] = None\n"
    code += "import sawlog.adapters.langgraph"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.returncode == 1 and "pip install 'sawlog[langgraph]'" in done.stderr

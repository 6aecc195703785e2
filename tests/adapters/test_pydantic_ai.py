"""Conversations of Pydantic AI in the log: kept as they go, and taken up where they stand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import sawlog
from sawlog.providers.fake import Call, FakeProvider, Reply
from sawlog.providers.strict import check
from tests.adapters.children import Child, sound

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from pydantic_ai import Agent, BinaryContent, ImageUrl, ModelRequest, ModelResponse, TextPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    SystemPromptPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from sawlog.adapters.pydantic_ai import SawlogConversationStore

# An agent with a tool, as the package's own pages have it, but for the lines with the store.
EXAMPLE = """
import asyncio, sys
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from sawlog.adapters.pydantic_ai import SawlogConversationStore

store = SawlogConversationStore(sys.argv[1], ttl=0.3)
again = sys.argv[3:]
agent = Agent(
    "openai-chat:gpt-5.5",
    instructions="Be brief.",
    capabilities=[store.keeps_runs(again=again)],
)

@agent.tool_plain
def roll(sides: int) -> str:
    "Roll a die."
    print("rolled", flush=True)
    if sides == 13:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    return f"a four of {sides}"

async def main():
    conversation = await store.load("game") or Conversation(conversation_id="game")
    result = await agent.run(sys.argv[2] or None, conversation=conversation)
    print(result.output)

asyncio.run(main())
"""

MESSAGES: list[ModelMessage] = [
    ModelRequest(
        [
            SystemPromptPart("You look at pictures."),
            UserPromptPart(
                [
                    "What is this? \u00e9",
                    ImageUrl("https://a.test/b.png"),
                    BinaryContent(b"\xff\xfe\x00png", media_type="image/png"),
                ]
            ),
        ],
        instructions="Be brief.",
        metadata={"n": -0.5},
    ),
    ModelResponse(
        [
            ThinkingPart("hm", signature="sig", provider_name="anthropic"),
            TextPart("I look."),
            ToolCallPart("look", {"at": "b"}, "call_1"),
            ToolCallPart("look", '{"at": "c"}', "call_2"),
        ],
        model_name="m",
    ),
    ModelRequest(
        [
            ToolReturnPart("look", {"seen": "cat " * 3000}, "call_1"),
            ToolReturnPart("look", "no such thing", "call_2", outcome="retried"),
        ],
        instructions="Be brief.",
    ),
    ModelResponse([TextPart("A cat.")], model_name="m"),
]


ANOTHER_WAY = ModelResponse([TextPart("Another way.")])
FORKED = ModelResponse([TextPart("A fork.")])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SawlogConversationStore]:
    """A store over a log of its own."""
    with SawlogConversationStore(tmp_path / "agent.db") as store:
        yield store


@contextlib.asynccontextmanager
async def agent(fake: FakeProvider, store: SawlogConversationStore) -> AsyncGenerator[Agent]:
    """An agent with a tool, whose runs are kept."""
    url = fake.base_url("openai-chat")
    async with openai.AsyncOpenAI(api_key="any", base_url=url, max_retries=0) as client:
        made = Agent(
            OpenAIChatModel("gpt-5.5", provider=OpenAIProvider(openai_client=client)),
            instructions="Be brief.",
            capabilities=[store.keeps_runs()],
        )

        @made.tool_plain
        def roll(sides: int) -> str:  # pyright: ignore[reportUnusedFunction]
            """Roll a die."""
            if sides < 0:
                raise RuntimeError("the die rolled off the table")
            return f"a four of {sides}"

        yield made


async def roll_anew(fake: FakeProvider, store: SawlogConversationStore) -> str:
    """One run of the agent in a conversation that is not there yet."""
    async with agent(fake, store) as player:
        conversation = Conversation(conversation_id="game")
        return (await player.run("Roll.", conversation=conversation)).output


def dumped(messages: list[ModelMessage]) -> Any:
    """Messages as the package's own adapter writes them."""
    return json.loads(ModelMessagesTypeAdapter.dump_json(messages))


async def saved(store: ConversationStore, id: str, *messages: ModelMessage) -> Conversation:
    """A conversation with these messages added to what stands, saved."""
    conversation = await store.load(id) or Conversation(conversation_id=id)
    conversation.messages.extend(messages)
    await store.save(conversation)
    return conversation


async def life_of(store: ConversationStore) -> list[Any]:
    """What a store says of itself through a life of saves, branches, forks and deletes."""
    told: list[Any] = []

    async def tell(id: str) -> None:
        found = await store.load(id)
        told.append(None if found is None else dumped(found.messages))

    await tell("a")
    first = await saved(store, "a", *MESSAGES[:2])
    await saved(store, "a", *MESSAGES[2:])
    await tell("a")
    last = await store.load("a", limit=1)
    told.append(last and dumped(last.messages))
    try:
        await store.save(Conversation(conversation_id="a", messages=MESSAGES[:1]))
    except ConversationConflict as error:
        told.append(error.conversation_id)
    first.messages.append(MESSAGES[3])
    try:
        await store.save(first)
    except ConversationConflict as error:
        told.append(error.conversation_id)
    now = await store.load("a")
    assert now is not None
    entries = await store.load_entries("a") or []
    branch = await store.branch("a", at=1, expected_revision=now.revision)
    branch.messages.append(ANOTHER_WAY)
    await store.save(branch)
    await tell("a")
    fork = await store.fork("a", from_entry=entries[2].id, new_conversation_id="b", scope="mine")
    told.append(dumped(fork.messages))
    await saved(store, "b", FORKED)
    back = await store.load("a")
    assert back is not None
    await store.branch("a", from_entry=entries[3].id, expected_revision=back.revision)
    await tell("a")
    await tell("b")
    told.append([(one.conversation_id, one.scope) for one in await store.list_conversations()])
    told.append(len(await store.list_conversations(scope="mine", limit=5)))
    told.append(await store.load("b", scope="yours"))
    await store.delete("a")
    await tell("a")
    await tell("b")
    await saved(store, "a", MESSAGES[0])
    await tell("a")
    with pytest.raises(LookupError):
        await store.read_entry("nowhere")
    return told


def test_it_keeps_what_the_packages_own_store_keeps(tmp_path: Path) -> None:
    """The same life, told by the store in memory and by one that is opened anew at each call."""
    path = tmp_path / "agent.db"
    expected = asyncio.run(life_of(InMemoryConversationStore()))
    assert len(expected) == 15
    with SawlogConversationStore(path) as store:
        assert asyncio.run(life_of(store)) == expected
    for name in ("a", "b"):
        sound(path, name)
    with SawlogConversationStore(path) as store:
        found = asyncio.run(store.load("b"))
        assert found is not None and len(found.messages) == 4
        assert dumped(found.messages[:3]) == dumped(MESSAGES[:3])


def test_a_message_is_ordinary_events(store: SawlogConversationStore, tmp_path: Path) -> None:
    asyncio.run(saved(store, "a", *MESSAGES))
    recorded = sound(tmp_path / "agent.db", "a")
    types = [event.type for event in recorded.as_stored()]
    assert types == [
        "session.created",
        "policy.set",
        "message.system",
        "message.system",
        "message.user",
        "message.assistant",
        "tool.requested",
        "tool.requested",
        "step.completed",
        "tool.finished",
        "tool.finished",
        "message.assistant",
        "step.completed",
        "foreign.record",
    ]
    entries = recorded.steps[2].packet.entries
    assert [(e.call_id, e.status) for e in entries if e.kind == "result"] == [
        ("call_1", "ok"),
        ("call_2", "error"),
    ]
    handed = recorded.handoff(
        provider="anthropic", model="claude-opus-5-5", say="Sure?", max_tokens=100
    )
    check("anthropic", handed.request.body, dict(handed.request.headers))
    assert recorded.steps[2].why("no such thing")


def test_a_run_is_kept_as_it_goes(store: SawlogConversationStore, tmp_path: Path) -> None:
    script = [
        Reply("I roll.", calls=[Call("roll", {"sides": 6})]),
        Reply("A four."),
        Reply("It was a four."),
    ]

    async def work() -> None:
        async with agent(fake, store) as player:
            result = await player.run("Roll.", conversation=Conversation(conversation_id="game"))
            assert result.output == "A four."
            found = await store.load("game")
            assert found is not None and dumped(found.messages) == dumped(result.all_messages())
            assert found.usage == result.conversation.usage and found.usage.tool_calls == 1
            # What the run gave back goes on as well as what is loaded.
            result = await player.run("Which?", conversation=result.conversation)
            found = await store.load("game")
            assert found is not None and dumped(found.messages) == dumped(result.all_messages())
            with pytest.raises(ConversationConflict):
                await player.run("And?", conversation=Conversation(conversation_id="game"))

    with FakeProvider(script) as fake:
        asyncio.run(work())
    recorded = sound(tmp_path / "agent.db", "game")
    shown = [event.type for event in recorded.as_stored() if event.type != "foreign.record"]
    assert shown[2:] == [
        "message.system",
        "message.user",
        "message.assistant",
        "tool.requested",
        "step.completed",
        "tool.started",
        "tool.finished",
        "message.assistant",
        "step.completed",
        "message.user",
        "message.assistant",
        "step.completed",
    ]


def test_a_run_holds_its_conversation(store: SawlogConversationStore, tmp_path: Path) -> None:
    with SawlogConversationStore(tmp_path / "agent.db", wait=0.0) as other:

        def ask(api: str, request: Any, number: int) -> Reply:
            with pytest.raises(sawlog.errors.Leased):
                asyncio.run(saved(other, "game", MESSAGES[0]))
            return Reply("Here.")

        with FakeProvider(ask) as fake:
            asyncio.run(roll_anew(fake, store))
        asyncio.run(saved(other, "game", MESSAGES[0]))


def test_a_run_that_failed_leaves_what_was_said(store: SawlogConversationStore) -> None:
    with FakeProvider([Reply(calls=[Call("roll", {"sides": -1})])]) as fake:
        with pytest.raises(RuntimeError, match="off the table"):
            asyncio.run(roll_anew(fake, store))
    found = asyncio.run(store.load("game"))
    assert found is not None and len(found.messages) == 2


def test_an_agent_that_was_killed_goes_on_from_the_store(tmp_path: Path) -> None:
    """Killed while the model thinks: the request is in the log, and is sent again."""
    path = tmp_path / "agent.db"
    roll = Reply("I roll.", calls=[Call("roll", {"sides": 6})])
    first = Child(EXAMPLE, str(path), "Roll.", answers=[roll, None])
    assert first.killed and first.out == "rolled\n"
    before = sound(path, "game")
    finished = [event for event in before.as_stored() if event.type == "tool.finished"]
    assert len(finished) == 1
    second = Child(EXAMPLE, str(path), "", answers=[Reply("A four.")])
    assert second.out == "A four.\n", "the tool is not run again"
    sent = [json.loads(body)["messages"] for body in (first.bodies[1], second.bodies[0])]
    assert sent[0] == sent[1]
    assert [step.outcome for step in sound(path, "game").steps] == ["completed"] * 2


def test_a_tool_that_was_killed_is_not_run_again_by_inference(tmp_path: Path) -> None:
    """Killed while the tool runs: who goes on is told, and says whether it may run again."""
    path = tmp_path / "agent.db"
    roll = Reply("I roll.", calls=[Call("roll", {"sides": 13})])
    first = Child(EXAMPLE, str(path), "Roll.", answers=[roll])
    assert first.killed
    plan = sound(path, "game").recover()
    assert [call.name for call in plan.unknown] == ["roll"]
    code = EXAMPLE.replace("sides == 13", "False")
    with pytest.raises(AssertionError, match=r"was started before .* keeps_runs\(again=\['roll'\]"):
        Child(code, str(path), "", answers=[])
    second = Child(code, str(path), "", "roll", answers=[Reply("A four.")])
    assert second.out == "rolled\nA four.\n"
    assert not sound(path, "game").recover().unknown


def test_sessions_of_others_are_passed_over_and_not_taken(tmp_path: Path) -> None:
    with sawlog.open(str(tmp_path / "agent.db")) as log:
        with log.session("mine") as s:
            s.user("go")
        with SawlogConversationStore(log) as store:
            assert asyncio.run(store.list_conversations()) == []
            with pytest.raises(sawlog.errors.ConfigError, match="not begun by pydantic-ai"):
                asyncio.run(store.load("mine"))
        assert log.read("mine").verify().sound


def test_without_the_package_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['pydantic_ai'] = None; import sawlog.adapters.pydantic_ai"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.returncode == 1 and "pip install 'sawlog[pydantic-ai]'" in done.stderr

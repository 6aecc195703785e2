"""Sessions of the OpenAI Agents SDK in the log: what goes in comes out, and is a session."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sawlog
from sawlog.providers.fake import Call, FakeProvider, Reply
from sawlog.providers.strict import check
from sawlog.store.events.conversation import MessageUser
from tests.adapters.children import Child, sound
from tests.session.agents import opened

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool
from agents.memory import Session, SessionSettings

from sawlog.adapters.openai_agents import SawlogSession

# As the SDK's own page on sessions has it, but for the line that makes the session.
EXAMPLE = """
import asyncio, sys
from agents import Agent, Runner
from sawlog.adapters.openai_agents import SawlogSession

async def main():
    agent = Agent(name="Assistant", instructions="Reply very concisely.")
    session = SawlogSession("conversation_123", sys.argv[1], ttl=0.3, wait=20)
    for question in sys.argv[2:]:
        result = await Runner.run(agent, question, session=session)
        print(result.final_output)

asyncio.run(main())
"""

ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Weather in Rome? \u00e9\U0001f327"},
    {"role": "user", "content": [{"type": "input_text", "text": "see"}], "extra": {"n": -0.5}},
    {
        "role": "user",
        "content": [{"type": "input_image", "detail": "auto", "image_url": "https://a.test/b.png"}],
    },
    {"type": "message", "role": "developer", "content": "Be brief."},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gAAA",
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "weather",
        "arguments": '{"city": "Rome"}',
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "sunny " * 2000},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
    {"type": "mcp_approval_request", "id": "mcpr_1", "name": "x", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    {"type": "computer_call_output", "call_id": "call_9", "output": {"type": "screenshot"}},
    {"role": "user", "content": "<skill>not the harness</skill>"},
]


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SawlogSession]:
    """A session over a store of its own."""
    with SawlogSession("task", tmp_path / "agent.db") as session:
        yield session


def agent(client: openai.AsyncOpenAI) -> Agent[Any]:
    """An agent with a tool, whose reasoning is in its items."""
    return Agent(
        name="Guide",
        instructions="Be brief.",
        tools=[weather],
        model=OpenAIResponsesModel("gpt-5.5", client),
        model_settings=ModelSettings(store=False, response_include=["reasoning.encrypted_content"]),
    )


async def ask(fake: FakeProvider, session: SawlogSession, question: str) -> str:
    """One run of the agent."""
    url = fake.base_url("openai-responses")
    async with openai.AsyncOpenAI(api_key="any", base_url=url, max_retries=0) as client:
        result = await Runner.run(agent(client), question, session=session)
    return str(result.final_output)


def items(session: SawlogSession, limit: int | None = None) -> list[Any]:
    """The items of a session."""
    return cast(list[Any], asyncio.run(session.get_items(limit)))


def add(session: SawlogSession, *items: dict[str, Any]) -> None:
    """Add items in one go."""
    asyncio.run(session.add_items(cast(Any, list(items))))


def test_it_is_a_session_of_the_sdk(session: SawlogSession) -> None:
    assert isinstance(session, Session)
    assert session.session_id == "task" and session.session_settings is None


def test_items_come_out_as_they_went_in_also_in_another_process(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with SawlogSession("task", store) as session:
        add(session, *ITEMS[:5])
        add(session, *ITEMS[5:])
        assert items(session) == ITEMS
    with SawlogSession("task", store) as session:
        assert items(session) == ITEMS
        # Key order, too: what a provider binds to bytes is not to be sorted on the way.
        assert json.dumps(items(session)) == json.dumps(ITEMS)
        assert items(session, 2) == ITEMS[-2:] and items(session, 0) == []
    settings = SessionSettings(limit=3)
    with SawlogSession("task", store, session_settings=settings) as session:
        assert items(session) == ITEMS[-3:] and items(session, 1) == ITEMS[-1:]
    recorded = sound(store, "task")
    users = [e.content for e in recorded.as_stored() if isinstance(e.content, MessageUser)]
    assert len(users) == 4 and {one.origin for one in users} == {""}
    shown = recorded.steps[3].packet.entries
    assert [entry.kind for entry in shown].count("call") == 1
    assert any(entry.kind == "result" and entry.text.startswith("sunny ") for entry in shown)


def test_a_run_is_a_session_that_sawlog_reads_and_hands_on(
    session: SawlogSession, tmp_path: Path
) -> None:
    """The agent works, its packets come out, and another provider takes what continues it."""
    script = [
        Reply(thinking="Which?", text="I look.", calls=[Call("weather", {"city": "Rome"})]),
        Reply("It is sunny."),
        Reply("You asked for Rome."),
    ]
    with FakeProvider(script) as fake:
        assert asyncio.run(ask(fake, session, "Weather in Rome?")) == "It is sunny."
        assert asyncio.run(ask(fake, session, "Which city?")) == "You asked for Rome."
        sent = [json.loads(body)["input"] for body in fake.bodies()]
    kept = items(session)
    assert sent[2] == kept[:7] and kept[0] == {"content": "Weather in Rome?", "role": "user"}
    session.close()
    recorded = sound(tmp_path / "agent.db", "task")
    assert recorded.format == "openai-agents"
    assert [step.outcome for step in recorded.steps] == ["completed"] * 3
    texts = [entry.text for entry in recorded.steps[3].packet.entries]
    assert any("sunny in Rome" in text for text in texts)
    assert recorded.steps[3].why("sunny in Rome")
    assert recorded.steps[1].packet.missing == (
        "system_text",
        "tool_schemas",
        "request_parameters",
        "model",
    )
    handed = recorded.handoff(
        provider="anthropic", model="claude-opus-5-5", say="Go on.", max_tokens=100
    )
    check("anthropic", handed.request.body, dict(handed.request.headers))


def test_what_is_popped_or_cleared_stays_in_the_log(session: SawlogSession, tmp_path: Path) -> None:
    add(session, *ITEMS[:8])
    for gone in (ITEMS[7], ITEMS[6], ITEMS[5]):
        assert asyncio.run(session.pop_item()) == gone
    assert items(session) == ITEMS[:5]
    add(session, *ITEMS[5:8])
    assert items(session) == ITEMS[:8]
    asyncio.run(session.clear_session())
    assert items(session) == [] and asyncio.run(session.pop_item()) is None
    asyncio.run(session.clear_session())
    add(session, {"role": "user", "content": "anew"})
    assert len(items(session)) == 1
    session.close()
    recorded = sound(tmp_path / "agent.db", "task")
    types = [event.type for event in recorded.as_stored()]
    assert types.count("history.rewound") == 4 and types.count("tool.requested") == 2
    handed = recorded.handoff(provider="openai", model="gpt-5.5").request.body
    assert b"anew" in handed and b"Rome" not in handed


@settings(max_examples=40)
@given(
    st.lists(
        st.one_of(
            st.lists(st.sampled_from(ITEMS), max_size=4),
            st.sampled_from(["pop", "clear", "reopen"]),
        ),
        max_size=12,
    )
)
def test_any_use_of_it_is_that_of_a_list(
    tmp_path_factory: pytest.TempPathFactory, moves: list[list[dict[str, Any]] | str]
) -> None:
    """Law 6: whatever is added and taken back, the log verifies and gives back what stands."""
    store = tmp_path_factory.mktemp("any") / "agent.db"
    session = SawlogSession("task", store)
    expected: list[dict[str, Any]] = []
    for move in moves:
        if isinstance(move, list):
            add(session, *move)
            expected += move
        elif move == "pop":
            gone = expected.pop() if expected else None
            assert asyncio.run(session.pop_item()) == gone
        elif move == "clear":
            asyncio.run(session.clear_session())
            expected.clear()
        else:
            session.close()
            session = SawlogSession("task", store)
        assert items(session) == expected
    items(session)
    session.close()
    sound(store, "task")


def test_an_agent_that_was_killed_goes_on_from_the_store(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    ask = ["What city is the Golden Gate Bridge in?", "What state is it in?"]
    first = Child(EXAMPLE, str(store), *ask, answers=[Reply("San Francisco"), None])
    assert first.killed
    before = sound(store, "conversation_123")
    assert [event.type for event in before.as_stored()][2:] == [
        "message.user",
        "message.assistant",
        "step.completed",
        "message.user",
    ]
    second = Child(EXAMPLE, str(store), "Once more?", answers=[Reply("California")])
    assert second.out == "California\n"
    said = [item["content"] for item in json.loads(second.bodies[0])["input"]]
    assert said[0] == ask[0] and said[1][0]["text"] == "San Francisco"
    assert said[2:] == [ask[1], "Once more?"]
    # The program ended without closing anything, and its lease is free all the same.
    with SawlogSession("conversation_123", store) as session:
        assert len(items(session)) == 5
    assert len(sound(store, "conversation_123").steps) == 2


def test_a_second_process_is_told_who_drives_before_its_model_is_asked(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with SawlogSession("task", store, owner="the first") as session, FakeProvider([]) as fake:
        add(session, ITEMS[0])
        with SawlogSession("task", store) as other:
            with pytest.raises(sawlog.errors.Leased, match="the first"):
                asyncio.run(ask(fake, other, "May I?"))
            session.close()
            assert items(other) == ITEMS[:1]
        assert fake.requests == []


def test_an_open_log_stays_open(tmp_path: Path) -> None:
    with opened(str(tmp_path / "agent.db")) as log:
        for number in range(2):
            with SawlogSession("task", log) as session:
                add(session, ITEMS[0])
                assert len(items(session)) == number + 1
        assert [row.name for row in log.sessions()] == ["task"]


def test_each_kind_of_store_keeps_items(store_url: str) -> None:
    with opened(store_url) as log:
        with SawlogSession("task", log) as session:
            add(session, *ITEMS)
            assert asyncio.run(session.pop_item()) == ITEMS[-1]
        with SawlogSession("task", log) as session:
            assert items(session) == ITEMS[:-1]
        assert log.read("task").verify().sound


def test_a_session_of_something_else_is_refused(tmp_path: Path) -> None:
    with opened(str(tmp_path / "agent.db")) as log:
        with log.session("mine") as s:
            s.user("go")
        with pytest.raises(sawlog.errors.ConfigError, match="not begun by openai-agents"):
            items(SawlogSession("mine", log))
        with SawlogSession("task", log) as session:
            add(session, ITEMS[0])
        with log.session("task") as s:
            s.user("past the SDK")
        with pytest.raises(sawlog.errors.ConfigError, match="event 4 .* was said past"):
            items(SawlogSession("task", log))


def test_what_is_no_item_is_named_and_nothing_is_added(session: SawlogSession) -> None:
    with pytest.raises(sawlog.errors.InvalidEvent, match=r"items\[1\]: str is no item"):
        asyncio.run(session.add_items(cast(Any, [ITEMS[0], "text"])))
    with pytest.raises(sawlog.errors.InvalidEvent, match=r"items\[0\].n: nan is no JSON number"):
        add(session, {"role": "user", "content": "x", "n": float("nan")})
    assert items(session) == []


def test_without_the_package_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['agents'] = None; import sawlog.adapters.openai_agents"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.returncode == 1 and "pip install 'sawlog[openai-agents]'" in done.stderr

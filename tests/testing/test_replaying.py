"""Recorded sessions in a model's place: what official clients ask is held to the record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anthropic
import httpx
import httpx2
import openai
import pytest

import sawlog
from sawlog.providers.fake import Call, Drop, FakeProvider, HttpError, Reply, Script
from sawlog.store.exchange import export
from sawlog.testing import RequestBeyond, RequestDiffers, StepsLeft
from tests.testing.agents import AGENTS, MODEL, Agent, chat, messages

OFF = "http://127.0.0.1:9"  # nobody listens there

SCRIPT = [
    Reply("I look.", "Which file?", [Call("read", {"path": "a.py", "lines": [1, 2.5]})]),
    Reply("Grüße: all is well."),
]


@pytest.fixture(params=list(AGENTS))
def agent(request: pytest.FixtureRequest) -> Agent:
    return cast(Agent, AGENTS[request.param])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[sawlog.AgentLog]:
    with sawlog.open(str(tmp_path / "agent.db")) as opened:
        yield opened


def recorded(log: sawlog.AgentLog, agent: Agent, script: Script = SCRIPT, **more: Any) -> list[Any]:
    """Record an agent against the strict fake in the session `task`; gives what it was told."""
    with FakeProvider(script) as fake, sawlog.recording(log, "task"):
        return agent(fake.url, **more)


def exported(log: sawlog.AgentLog, path: Path, name: str = "task") -> Path:
    path.write_bytes(b"".join(export(log.store, log.find(name))))
    return path


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_agent_is_told_the_same_again(
    log: sawlog.AgentLog, agent: Agent, stream: bool, tmp_path: Path
) -> None:
    """From the log and from a file, with nobody on the network."""
    said = recorded(log, agent, stream=stream)
    with sawlog.replaying(log.read("task")):
        again = agent(OFF, stream=stream)
    assert told(again) == told(said)
    with sawlog.replaying(exported(log, tmp_path / "task.jsonl")):
        assert agent(OFF, stream=stream) == again
    if not stream:
        assert again == said


def told(said: Any) -> Any:
    """What was said, without what a log keeps nothing of: ids of Responses messages."""
    if isinstance(said, list):
        values: list[Any] = said  # pyright: ignore[reportUnknownVariableType]
        return [told(one) for one in values]
    if isinstance(said, dict):
        members: dict[str, Any] = said  # pyright: ignore[reportUnknownVariableType]
        return {
            name: told(one)
            for name, one in members.items()
            if not (name == "id" and members.get("type") == "message")
        }
    return said


def test_a_changed_prompt_fails_at_its_item(log: sawlog.AgentLog, agent: Agent) -> None:
    """Through the client's own retries and an agent's `except Exception`."""
    recorded(log, agent)
    with pytest.raises(RequestDiffers) as caught, sawlog.replaying(log.read("task")):
        try:
            agent(OFF, ask="Is b.py well?")
        except Exception:
            pytest.fail("a client made an ordinary error of it")
    failure = caught.value
    assert failure.step == 1
    assert failure.item in ("messages[0]", "messages[1]", "input[0]")
    assert (failure.expected, failure.came) == ("Is a.py well?", "Is b.py well?")
    assert "'Is a.py well?'" in str(failure) and "step 1 of task" in str(failure)


def test_a_changed_tool_and_a_parameter_are_named(log: sawlog.AgentLog) -> None:
    def ask(url: str, tool: str, **more: Any) -> list[Any]:
        with anthropic.Anthropic(api_key="k", base_url=url) as client:
            tools: Any = [{"name": "read", "description": tool, "input_schema": {"type": "object"}}]
            client.messages.create(
                model=MODEL, max_tokens=99, tools=tools,
                messages=[{"role": "user", "content": "Hi."}], **more,
            )  # fmt: skip
        return []

    recorded(log, ask, [Reply("Hello.")], tool="Read a file.")
    session = log.read("task")
    with pytest.raises(RequestDiffers) as caught, sawlog.replaying(session):
        ask(OFF, "Read one file.")
    assert caught.value.item == "tools[0]" and caught.value.index == 1
    assert '- "description": "Read a file.",' in str(caught.value)
    assert '+ "description": "Read one file.",' in str(caught.value)
    with pytest.raises(RequestDiffers) as other, sawlog.replaying(session):
        ask(OFF, "Read a file.", stop_sequences=["END"])
    assert other.value.item == "stop_sequences" and other.value.expected is None
    with sawlog.replaying(session, ignore=["stop_sequences"]):
        ask(OFF, "Read a file.", stop_sequences=["END"])


def test_one_request_too_many_and_too_few(log: sawlog.AgentLog) -> None:
    recorded(log, chat)
    session = log.read("task")
    with pytest.raises(RequestBeyond, match="ends after 2 requests"), sawlog.replaying(session):
        chat(OFF)
        with openai.OpenAI(api_key="k", base_url=OFF) as client:
            client.chat.completions.create(
                model="gpt-x", messages=[{"role": "user", "content": "And now?"}]
            )
    with pytest.raises(StepsLeft, match="2 of 2 recorded") as caught, sawlog.replaying(session):
        pass
    assert caught.value.left == 2 and isinstance(caught.value, sawlog.SawlogError)
    with pytest.raises(RequestBeyond, match="GET http"), sawlog.replaying(session):
        openai.OpenAI(api_key="k", base_url=OFF).models.list()


def test_an_agent_that_swallows_everything_fails_all_the_same(log: sawlog.AgentLog) -> None:
    recorded(log, chat)
    with pytest.raises(RequestDiffers), sawlog.replaying(log.read("task")):
        try:
            chat(OFF, ask="Is b.py well?")
        except BaseException:
            pass
    with pytest.raises(RequestDiffers) as caught, sawlog.replaying(log.read("task")):
        try:
            chat(OFF, ask="Is b.py well?")
        except BaseException:
            raise LookupError("no answer") from None
    assert caught.value.__notes__ == ["and the program went on to LookupError: no answer"]


def test_refusals_and_broken_lines_come_again(log: sawlog.AgentLog) -> None:
    """The client's own tries meet what they met; with none it is told the refusal."""
    script: Script = [HttpError(429), Drop(), *SCRIPT]
    said = recorded(log, chat, script)
    session = log.read("task")
    with sawlog.replaying(session):
        assert chat(OFF) == said
    with pytest.raises(openai.RateLimitError), sawlog.replaying(session):
        chat(OFF, max_retries=0)


def test_a_client_alone_is_answered(log: sawlog.AgentLog) -> None:
    recorded(log, messages)
    client = anthropic.Anthropic(api_key="k", base_url=OFF)
    assert sawlog.replay(client, session=log.read("task")) is client
    with client, pytest.raises(RequestDiffers):
        client.messages.create(
            model=MODEL, max_tokens=1, messages=[{"role": "user", "content": "Hi."}]
        )


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_clients_of_both_libraries_are_answered(log: sawlog.AgentLog, library: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi."}]}

    def ask(url: str) -> list[Any]:
        with library.Client(base_url=url) as client:
            return [client.post("/v1/chat/completions", json=body).json()]

    said = recorded(log, ask, [Reply("Hello.")])
    with sawlog.replaying(log.read("task")):
        assert ask(OFF) == said
    with library.Client(base_url=OFF) as client:
        sawlog.replay(client, session=log.read("task"))
        # Spelled otherwise, and in another order of members.
        content = json.dumps(dict(reversed(body.items())), indent=2)
        assert client.post("/v1/chat/completions", content=content).json() == said[0]

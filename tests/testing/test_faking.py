"""`sawlog.fake`: a provider on loopback, of a script or of a recording; and the page on testing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import sawlog
from sawlog.providers.fake import FakeProvider, Reply
from sawlog.testing import RequestDiffers, StepsLeft
from tests.testing.agents import chat, messages
from tests.testing.test_replaying import SCRIPT, exported, recorded

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[sawlog.AgentLog]:
    with sawlog.open(str(tmp_path / "agent.db")) as opened:
        yield opened


def test_a_script_is_played_strictly(tmp_path: Path) -> None:
    """A list, or a file with one."""
    with sawlog.fake(SCRIPT) as provider:
        assert isinstance(provider, FakeProvider)
        said = chat(provider.url)
    path = tmp_path / "script.json"
    path.write_text(json.dumps([{"text": "Hello."}]), encoding="utf-8")
    with sawlog.fake(path) as provider, pytest.raises(openai.BadRequestError, match="tool"):
        with openai.OpenAI(api_key="k", base_url=provider.base_url("openai-chat")) as client:
            client.chat.completions.create(
                model="gpt-x", messages=[{"role": "tool", "tool_call_id": "a", "content": "b"}]
            )
    assert said[1]["content"] == "Grüße: all is well."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_recording_is_played_over_http(
    log: sawlog.AgentLog, stream: bool, tmp_path: Path
) -> None:
    said = recorded(log, messages, stream=stream)
    with sawlog.fake(log.read("task")) as provider:
        assert messages(provider.url, stream=stream) == said
    with sawlog.fake(exported(log, tmp_path / "task.jsonl")) as provider:
        assert messages(provider.url, stream=stream) == said


def test_a_difference_is_told_and_raised(log: sawlog.AgentLog) -> None:
    """The client gets a refusal that it does not retry, the block the failure itself."""
    recorded(log, chat)
    with pytest.raises(RequestDiffers) as caught, sawlog.fake(log.read("task")) as provider:
        with pytest.raises(openai.BadRequestError, match=r"messages\[1\] \(user\) differs"):
            chat(provider.url, ask="Is b.py well?")
        assert len(provider.requests) == 1
    assert caught.value.came == "Is b.py well?"
    with pytest.raises(StepsLeft, match="2 of 2"), sawlog.fake(log.read("task")):
        pass


def test_what_is_no_recording_is_said(log: sawlog.AgentLog, tmp_path: Path) -> None:
    nothing: Any = 7
    for source, mend in (
        (tmp_path / "none.jsonl", "sawlog export SESSION"),
        (nothing, r"give log.read\(NAME\)"),
    ):
        with pytest.raises(sawlog.errors.ConfigError, match=mend), sawlog.replaying(source):
            pass
    with log.session("bare") as s:
        s.user("Hi.")
    with pytest.raises(sawlog.errors.ConfigError, match="no request in it was sent"):
        with sawlog.replaying(log.read("bare")):
            pass


def test_the_page_on_testing_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {})
    said = re.findall(r"# (1 \| .*)", "\n".join(blocks))
    assert len(blocks) == 4 and capsys.readouterr().out.splitlines() == said


def test_a_session_that_sawlog_built_is_replayed(log: sawlog.AgentLog) -> None:
    """Whole and streamed, through the same steps: exactly the packets that were built."""

    def agent(log: sawlog.AgentLog, name: str, url: str) -> list[str]:
        with log.session(name) as s, openai.OpenAI(api_key="k", base_url=f"{url}/v1") as client:
            s.system("Be brief.")
            s.user("Hi.", key="task")
            first = s.step("openai-chat", model="gpt-x").send(client).text
            s.user("And now?")
            step = s.step("openai-chat", model="gpt-x", stream=True)
            for _ in step.stream(client):
                pass
            assert step.reply is not None
            return [first, step.reply.text]

    with FakeProvider([Reply("Hello."), Reply("Grüße.")]) as fake:
        assert agent(log, "built", fake.url) == ["Hello.", "Grüße."]
    with sawlog.replaying(log.read("built")):
        assert agent(log, "again", "http://127.0.0.1:9") == ["Hello.", "Grüße."]
    first, again = log.read("built"), log.read("again")
    assert [one.packet.body for one in again.steps] == [one.packet.body for one in first.steps]

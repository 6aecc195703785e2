"""What a session is opened with: each option counts, or is refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.policy import Rules
from sawlog.store.errors import ConfigError, InvalidPolicy
from sawlog.store.events.steps import PacketBuilt
from tests.session.agents import next_step, sound, talker, types
from tests.session.test_own_policy import CHEAPEST

CHANGED = CHEAPEST.replace("units = 64", "units = 80")


def policies(log: AgentLog) -> set[str]:
    events = log.read("task").events()
    return {str(e.content.policy) for e in events if isinstance(e.content, PacketBuilt)}


def test_a_session_that_is_read_takes_no_options(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("hello")
    reads: Any = log.session
    with pytest.raises(TypeError, match="takes no options, and 'window' is one"):
        reads("task", read_only=True, window=5)
    assert len(reads("task", read_only=True).steps) == 0
    writes: Any = log.asession
    with pytest.raises(TypeError, match=r"read one with log.read"):
        writes("task", read_only=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": -1}, "window=-1 is no number of units"),
        ({"reserve": -5}, "reserve=-5 is no number of units"),
        ({"window": "5"}, "window='5'"),
        ({"window": True}, "window=True"),
        ({"rules": Rules(reserve=-5)}, "reserve=-5"),
        ({"rules": Rules(), "window": 5}, "rules stand for window, too"),
        ({"ttl": 0}, "ttl=0 is no number of seconds"),
        ({"wait": -1}, "wait=-1 is no number of seconds"),
        ({"policy": {"name": "x"}}, "dict is no policy.*sawlog.policy_from"),
        ({"policy": "nowhere.toml"}, "'nowhere.toml' cannot be read"),
        ({"policy": Path("nowhere")}, "'nowhere' cannot be read"),
    ],
)
def test_an_option_that_means_nothing_is_refused_by_its_name(
    log: AgentLog, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        log.session("task", **options)
    assert log.sessions() == []


@pytest.mark.parametrize("kind", [str, Path])
def test_a_policy_is_given_by_the_file_of_its_document(
    log: AgentLog, tmp_path: Path, kind: type
) -> None:
    file = tmp_path / "cheapest.toml"
    file.write_text(CHEAPEST)
    with log.session("task", policy=kind(file)) as s:
        s.user("hello")
        next_step(s, "openai-chat").send(talker())
    assert policies(log) == {"cheapest@3"}
    sound(log, "task")


def test_a_file_that_says_no_policy_is_named(log: AgentLog, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('name = "x"\nnumber = 1\nstages = [{stage = "nonsense"}]\n')
    with pytest.raises(InvalidPolicy, match=r"stages\[0\]") as refused:
        log.session("task", policy=file)
    assert refused.value.__notes__ == [f"in the policy {str(file)!r}"]


def test_a_changed_policy_is_a_new_number(log: AgentLog) -> None:
    """A name and a number mean one policy, in one session above all."""
    first, changed = map(sawlog.policy_from_toml, (CHEAPEST, CHANGED))
    for _ in range(2):
        with log.session("task", policy=first) as s:
            s.user("hello")
            next_step(s, "openai-chat").send(talker())
    with log.session("task", policy=changed) as s:
        s.user("on")
        before = types(s, log)
        with pytest.raises(ConfigError, match="another policy cheapest@3.*number = 4"):
            next_step(s, "openai-chat")
        assert types(s, log) == before
    newer = sawlog.policy_from_toml(CHANGED.replace("number = 3", "number = 4"))
    with log.session("task", policy=newer) as s:
        next_step(s, "openai-chat").send(talker())
    assert policies(log) == {"cheapest@3", "cheapest@4"}
    sound(log, "task")

"""Profiles at work: of a family, of a file, strict, with cache marks, across an upgrade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sawlog.agentlog import AgentLog
from sawlog.audit.prefixes import stability
from sawlog.builder import profiles
from sawlog.builder.profiledoc import toml_of
from sawlog.builder.profiles import PROFILES, profile_for
from sawlog.builder.render.marks import MARK
from sawlog.providers.fake import Call, FakeProvider, Reply
from sawlog.store.errors import ConfigError
from sawlog.store.events.steps import PacketBuilt, PolicySet
from sawlog.work.session import Session
from tests.session.agents import client_of, provided, read_file, run_tests, sound

OPUS = "claude-opus-5-5"


def turn(s: Session, client: Any, api: str = "anthropic", model: str = OPUS, **options: Any) -> Any:
    """A step, its calls run; gives the step."""
    if api == "anthropic":
        options["max_tokens"] = 2000
    step = s.step(api, model=model, **options)
    for call in step.send(client).tool_calls:
        with s.tool(call) as run:
            run.result(call.run())
    return step


def names(log: AgentLog) -> list[tuple[str, str]]:
    """Profile and renderer of each packet."""
    packets = [e.content for e in log.read("task").events() if isinstance(e.content, PacketBuilt)]
    return [(str(packet.profile), str(packet.renderer)) for packet in packets]


def policies(log: AgentLog) -> list[PolicySet]:
    """The policies that the session recorded."""
    return [e.content for e in log.read("task").events() if isinstance(e.content, PolicySet)]


# --- strict ---------------------------------------------------------------------------------------


def test_a_strict_session_refuses_an_unknown_model_before_anything_is_logged(log: AgentLog) -> None:
    with (
        log.session("task", strict_profiles=True) as s,
        provided("anthropic", [Reply("ok")]) as (
            _,
            client,
        ),
    ):
        s.user("go")
        head = log.find("task").head
        with pytest.raises(ConfigError, match="no profile of its own for 'claude-9' .*drop strict"):
            s.step("anthropic", model="claude-9", max_tokens=9)
        assert log.find("task").head == head
        turn(s, client)
    assert names(log) == [("anthropic/opus-5.5@2026-11@1", "anthropic@1")]
    assert policies(log)[-1].window == 1_000_000


def test_an_unknown_model_gets_the_base_profile_and_the_packet_says_so(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        s.step("anthropic", model="claude-9", max_tokens=9)
    assert names(log) == [("anthropic/base@1", "anthropic@1")]
    assert policies(log)[-1].window == 0


# --- a file of the caller's own -------------------------------------------------------------------


def test_a_profile_of_a_file_goes_whole_into_the_log(log: AgentLog, tmp_path: Path) -> None:
    mine = replace(profile_for("openai-chat", "")[0], name="mine", models=("mine-1",), window=9_000)
    file = tmp_path / "mine.toml"
    file.write_text(toml_of(mine))
    for given in (file, str(file)):
        with provided("openai-chat", [Reply("ok")] * 2) as (_, client):
            with log.session("task", profile=given, strict_profiles=True) as s:
                s.user("go")
                turn(s, client, "openai-chat", "mine-1")
            with log.session("task") as s:
                s.user("go")
                turn(s, client, "openai-chat", "mine-1", profile=given)
    file.unlink()
    assert names(log) == [("mine@1", "openai-chat@1")] * 4
    [policy] = policies(log)
    assert (policy.profile_text, policy.window) == (mine.text, 9_000)
    events = list(log.read("task").events())
    kinds = [type(one.content) for one in events]
    assert kinds.index(PolicySet) < kinds.index(PacketBuilt)
    sound(log, "task")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nowhere.toml", "the profile 'nowhere.toml' cannot be read: it is not there"),
        ("anthropic/base", "'anthropic/base' is no profile: give the path of a TOML file"),
        (7, "7 is no profile"),
    ],
)
def test_what_is_no_profile_is_refused(log: AgentLog, given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        log.session("task", profile=given)
    with log.session("task") as s:
        s.user("go")
        with pytest.raises(ConfigError, match=message):
            s.step("openai-chat", model="m", profile=given)
    wrong: Any = {"strict_profiles": "yes"}
    with pytest.raises(ConfigError, match="strict_profiles='yes' is neither True nor False"):
        log.session("task", **wrong)


def test_a_broken_file_is_named(log: AgentLog, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("nmae = 1")
    with pytest.raises(ConfigError, match="nmae is no field") as refused:
        log.session("task", profile=file)
    assert "mine.toml" in refused.value.__notes__[0]


# --- cache marks ----------------------------------------------------------------------------------


def calls(api: str, request: object, number: int) -> Reply:
    """Thinks and calls."""
    return Reply(f"turn {number}", f"thought {number}", [Call("read_file", {"path": f"{number}"})])


def test_marks_come_and_go_and_break_nothing(log: AgentLog) -> None:
    """Thinking that is bound to its prefix goes back either way, and no prefix counts as broken."""
    with FakeProvider(calls) as fake, client_of("anthropic", fake) as client:
        with log.session("task") as s:
            s.system("be kind")
            s.tools([read_file])
            s.user("go")
            for at in range(12):
                step = turn(s, client, cache_marks=at % 3 != 0)
                assert (MARK in step.body) == (at % 3 != 0)
                assert not step.packet.trace.breaks
                left_out = [v for v in step.packet.trace.verdicts if v.stage == "render"]
                assert left_out == []
        assert [one.refusal for one in fake.requests if one.refusal] == []
        bodies = [one.body for one in fake.requests]
    assert {renderer for _, renderer in names(log)} == {"anthropic@1", "anthropic@2"}
    recorded = sound(log, "task")
    assert [step.packet.body for step in recorded.steps] == bodies
    assert all(body.count(b"thought") == at for at, body in enumerate(bodies))
    found = stability(recorded)
    assert found.kept == found.size - 2 * len(found.steps)  # but for the brackets that end it
    assert found.causes == {}


def test_a_session_sets_marks_wherever_a_profile_has_a_rule(log: AgentLog) -> None:
    with log.session("task", cache_marks=True) as s:
        s.user("go")
        assert s.step("anthropic", model=OPUS, max_tokens=9).body.count(MARK) == 1
        assert s.step("anthropic", model="claude-9", max_tokens=9).body.count(MARK) == 0
        assert MARK not in s.step("openai", model="gpt-6-sol").body
        with pytest.raises(ConfigError, match="names no rule for cache marks"):
            s.step("openai", model="gpt-6-sol", cache_marks=True)
    sound(log, "task")


# --- other families -------------------------------------------------------------------------------


def test_gemini_gets_its_signatures_back_and_the_placeholder_for_others(log: AgentLog) -> None:
    call = Reply("", calls=[Call("read_file", {"path": "a"}), Call("run_tests")])
    with FakeProvider([call] * 3) as fake, client_of("openai-chat", fake) as client:
        with log.session("task") as s:
            s.tools([read_file, run_tests])
            s.user("go")
            for model in ("gpt-5.4", "gemini-3-flash-preview", "gemini-3-flash-preview"):
                turn(s, client, "openai-chat", model)
            last = s.step("openai-chat", model="gemini-3-flash-preview")
            back = s.step("openai-chat", model="gpt-5.4")
        assert [one.refusal for one in fake.requests if one.refusal] == []
    said = [m for m in json.loads(last.body)["messages"] if m["role"] == "assistant"]
    extras = [[one.get("extra_content") for one in m["tool_calls"]] for m in said]
    first = json.loads(profile_for("openai-chat", "gemini-3-flash-preview")[0].placeholder)
    assert extras[0] == [first, None]
    assert all(mine not in (None, first) and none is None for mine, none in extras[1:])
    assert b"extra_content" not in back.body
    told = [v.reason for v in back.packet.trace.verdicts if v.stage == "render"]
    assert told == ["left_out: not_sent"] * 2
    sound(log, "task")


def test_a_session_from_before_its_family_had_a_profile_goes_on(
    log: AgentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade: old packets replay under the base, new ones go out under the family's own, and
    what was thought before still goes back."""
    with FakeProvider(calls) as fake, client_of("anthropic", fake) as client:
        with monkeypatch.context() as before:
            before.setattr(profiles, "PROFILES", PROFILES[:4])
            with log.session("task") as s:
                s.tools([read_file])
                s.user("go")
                turn(s, client)
        with log.session("task") as s:
            s.tools([read_file])
            step = turn(s, client, cache_marks=True)
            assert not step.packet.trace.breaks
        assert [one.refusal for one in fake.requests if one.refusal] == []
        assert b"thought 0" in step.body
    assert names(log) == [
        ("anthropic/base@1", "anthropic@1"),
        ("anthropic/opus-5.5@2026-11@1", "anthropic@2"),
    ]
    sound(log, "task")

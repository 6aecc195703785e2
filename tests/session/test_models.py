"""What a step goes out under: models and tools that change, profiles of one's own, the window."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sawlog.agentlog import AgentLog
from sawlog.builder import profiles
from sawlog.builder.profiles import Profile, profile_for
from sawlog.providers.fake import Call, FakeProvider, Reply
from sawlog.providers.strict import check
from sawlog.store.errors import ConfigError, Refused
from sawlog.store.events.lifecycle import ForeignRecord
from sawlog.store.events.steps import PacketBuilt, PolicySet
from sawlog.work.session import Session
from tests.session.agents import (
    APIS,
    TOOLS,
    client_of,
    finished,
    next_step,
    one,
    opened,
    params,
    provided,
    python,
    read_file,
    run_tests,
    sound,
    talker,
    types,
)

apis = pytest.mark.parametrize("api", APIS)


def own(api: str, **changes: Any) -> Profile:
    """A profile of the caller's own, made of the API's base profile."""
    base, _ = profile_for(api, "test-model")
    made: Profile = replace(base, name=f"{api}/own", models=("test-model",), **changes)
    return made


def policies(log: AgentLog) -> list[PolicySet]:
    """The policies that the session recorded."""
    return [e.content for e in log.read("task").events() if isinstance(e.content, PolicySet)]


# --- profiles -------------------------------------------------------------------------------------


@apis
def test_an_own_profile_goes_into_the_log_and_replay_reads_it_from_there(
    log: AgentLog, api: str
) -> None:
    profile = own(api, wrapper="as_written")
    with provided(api, [Reply("one"), Reply("two")]) as (fake, client):
        with log.session("task", profile=profile) as s:
            s.user("go")
            next_step(s, api, strict=True).send(client)
            s.user("more")
            next_step(s, api, strict=True).send(client)
        bodies = fake.bodies(api)
    [policy] = policies(log)
    assert (policy.profile_text, policy.profile) == (profile.text, profile.named)
    code = """
import sys
import sawlog
with sawlog.open(sys.argv[1], read_only=True) as log:
    recorded = log.read("task")
    report = recorded.verify()
    assert report.sound, report
    for step in recorded.steps:
        assert step.packet.header.profile.name.endswith("/own")
        sys.stdout.write(step.packet.body.hex() + "\\n")
"""
    printed = finished(python(code, str(log.store.database.url))).split()
    assert [bytes.fromhex(line) for line in printed] == bodies


def test_each_own_profile_stands_by_its_digest_and_once_in_a_row(log: AgentLog) -> None:
    """Two texts under one name and number are two profiles; each step is replayed under its own."""
    first, second = own("openai-chat"), own("openai-chat", incomplete="drop")
    with log.session("task") as s:
        for profile in (first, first, second, None, first):
            s.user("go")
            next_step(s, "openai-chat", profile=profile).send(talker())
    assert [policy.profile_text for policy in policies(log)] == [
        first.text, second.text, "", first.text,
    ]  # fmt: skip
    recorded = sound(log, "task")
    packets = [e.content for e in recorded.events() if isinstance(e.content, PacketBuilt)]
    digests = [packet.profile_digest for packet in packets]
    assert digests == [first.digest, first.digest, second.digest, "", first.digest]


def test_case_28_an_upgrade_leaves_old_steps_as_they_were(
    log: AgentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release brings another number of a profile beside the old one; new steps go out under it,
    old ones are replayed under theirs, and verify holds them all."""
    with log.session("task", gateway=None) as s:
        call = one(s, arguments="no object")
        with s.tool(call) as run:
            run.result("so")
        before = next_step(s, "anthropic")
        assert b'{"raw":"no object"}' in before.body
    newer = replace(profile_for("anthropic", "m")[0], number=2, wrapper="written")
    monkeypatch.setattr(profiles, "PROFILES", (newer, *profiles.PROFILES))
    with log.session("task") as s:
        after = next_step(s, "anthropic")
        assert b'{"written":"no object"}' in after.body
        assert str(after.packet.header.profile) == "anthropic/base@2"
    recorded = sound(log, "task")
    assert recorded.steps[2].packet.body == before.body
    assert recorded.steps[3].packet.body == after.body
    assert policies(log)[-1].profile_text == ""


def test_a_profile_is_for_one_api(log: AgentLog) -> None:
    """A session's own profile does not bend the steps of another API."""
    with log.session("task", profile=own("anthropic")) as s:
        s.user("go")
        step = next_step(s, "openai-chat")
        assert str(step.packet.header.profile) == "openai-chat/base@1"


def test_strict_refuses_a_model_without_a_profile_of_its_own(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        head = log.find("task").head
        with pytest.raises(ConfigError, match="no profile of its own for 'test-model'"):
            next_step(s, "anthropic", strict=True)
        assert log.find("task").head == head
        step = next_step(s, "anthropic", strict=True, profile=own("anthropic"))
        assert step.packet.header.profile.name == "anthropic/own"


def test_what_means_nothing_is_refused_before_anything_is_written(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        head = log.find("task").head
        with pytest.raises(ConfigError, match="there is no API 'gemini'"):
            s.step("gemini", model="m")
        with pytest.raises(ConfigError, match="not both"):
            s.step("openai-chat", model="m", params="{}", top_p=1)
        assert log.find("task").head == head


# --- models and tools that change -----------------------------------------------------------------


def test_case_27_a_packet_goes_out_under_the_header_of_its_step(log: AgentLog) -> None:
    with log.session("task") as s:
        s.system("be kind")
        s.tools([read_file])
        s.user("go")
        s.step("openai-chat", model="small").send(talker())
        s.tools([read_file, run_tests])
        s.user("more")
        s.step("openai-chat", model="large", temperature=0).send(talker())
        s.user("again")
        s.step("openai-chat", model="small").send(talker())
    bodies = [json.loads(step.packet.body) for step in sound(log, "task").steps]
    assert [body["model"] for body in bodies] == ["small", "large", "small"]
    assert [len(body["tools"]) for body in bodies] == [1, 2, 2]
    assert [body.get("temperature") for body in bodies] == [None, 0, None]
    assert bodies[1]["messages"][:2] == bodies[0]["messages"]
    assert bodies[2]["messages"][:4] == bodies[1]["messages"]
    trace = log.read("task").steps[2].diff(1)
    assert [change.op for change in trace] == ["changed", "changed", "added", "added"]


def test_every_api_goes_on_where_another_stopped(log: AgentLog) -> None:
    """One session, four providers in turn, twice around; each takes what the others left."""
    turns = APIS * 2

    def answers(api: str, request: object, number: int) -> Reply:
        thinking = None if api == "openai-chat" else f"thought {number}"
        return Reply(f"turn {number}", thinking, [Call("read_file", {"path": f"{number}"})])

    with FakeProvider(answers) as fake, log.session("task") as s:
        s.tools(TOOLS)
        s.user("go")
        for api in turns:
            with client_of(api, fake) as client:
                for call in next_step(s, api).send(client).tool_calls:
                    with s.tool(call) as run:
                        run.result(call.run())
        assert not [request.refusal for request in fake.requests if request.refusal]
        bodies = [request.body for request in fake.requests]
    recorded = sound(log, "task")
    assert [step.packet.body for step in recorded.steps] == bodies


def thoughts(body: bytes) -> list[str]:
    """The thinking in a request to Anthropic."""
    return [
        block["thinking"]
        for message in json.loads(body)["messages"]
        for block in message["content"]
        if isinstance(message["content"], list) and block.get("type") == "thinking"
    ]


def test_thinking_returns_when_its_reader_does(log: AgentLog) -> None:
    """It stays out for another model and another API, and goes back where its binding holds."""
    call = Call("read_file", {"path": "a"})
    replies = [Reply("I look.", "hard to say", [call]), *[Reply("well")] * 5]
    with FakeProvider(replies) as fake, client_of("anthropic", fake) as client:
        with log.session("task") as s:
            s.tools([read_file])
            s.user("go")
            for asked in s.step("anthropic", model="deep", max_tokens=99).send(client).tool_calls:
                with s.tool(asked) as run:
                    run.result(asked.run())
            quick = s.step("anthropic", model="quick", max_tokens=99)
            quick.send(client)
            s.user("and you?")
            with client_of("openai-chat", fake) as other:
                next_step(s, "openai-chat").send(other)
            s.user("back again")
            back = s.step("anthropic", model="deep", max_tokens=99)
            back.send(client)
            s.tools([read_file, run_tests])
            s.user("with more tools")
            changed = s.step("anthropic", model="deep", max_tokens=99)
            changed.send(client)
        assert not [request.refusal for request in fake.requests if request.refusal]
        bodies = [request.body for request in fake.requests if request.api == "anthropic"]
    assert [thoughts(body) for body in bodies] == [[], [], ["hard to say"], []]
    assert b"hard to say" not in fake.bodies("openai-chat")[0]
    for step, why in ((quick, "other_model"), (back, ""), (changed, "binding_broken")):
        left_out = [v for v in step.packet.trace.verdicts if v.reason.startswith("left_out")]
        assert [v.reason for v in left_out] == ([f"left_out: {why}"] if why else [])
        assert all(v.stage == "render" and v.outcome == "dropped" for v in left_out)
    [broke] = changed.packet.trace.breaks
    assert (broke.cause, broke.bound) == ("header_changed", 1)
    sound(log, "task")


# --- what no packet depends on --------------------------------------------------------------------


def two_steps(log: AgentLog, name: str, noise: Callable[[Session], object]) -> list[bytes]:
    """The bodies of two steps with a call between, with noise at every place."""
    replies = [Reply("ok", calls=[Call("read_file", {"path": "a"})])]
    with provided("anthropic", replies) as (_, client), log.session(name) as s:
        noise(s)
        s.tools(TOOLS)
        noise(s)
        s.user("go")
        noise(s)
        step = next_step(s, "anthropic")
        noise(s)
        [call] = step.send(client).tool_calls
        noise(s)
        with s.tool(call) as run:
            noise(s)
            run.result("text")
        noise(s)
        bodies = [step.body, next_step(s, "anthropic").body]
    sound(log, name)
    return bodies


def test_case_26_events_that_no_model_sees_change_nothing(log: AgentLog) -> None:
    quiet = two_steps(log, "quiet", lambda s: None)
    noisy = two_steps(log, "noisy", lambda s: s.append(ForeignRecord("noise"), ignorable=True))
    assert noisy == quiet


def test_case_30_the_time_is_recorded_and_never_falls(tmp_path: Path) -> None:
    times = [1_000]
    with opened(str(tmp_path / "timed.db"), clock=lambda: times[-1]) as log:
        with log.session("task") as s:
            for time in (5_000, 9_000, 7_000, 7_000, 20_000):
                times.append(time)
                s.user("go")
                next_step(s, "openai-chat").send(talker())
        recorded = sound(log, "task")
        events = list(recorded.events())
    packets = [e.content for e in events if isinstance(e.content, PacketBuilt)]
    assert [packet.as_of for packet in packets] == [5_000, 9_000, 9_000, 9_000, 20_000]


# --- the window -----------------------------------------------------------------------------------


def test_a_session_far_longer_than_its_window_is_cut_in_blocks(any_log: AgentLog) -> None:
    log = any_log
    window, reserve = 1500, 200

    def answers(api: str, request: object, number: int) -> Reply:
        return Reply(f"turn {number}", calls=[Call("read_file", {"path": "x" * 200})])

    with FakeProvider(answers) as fake, client_of("anthropic", fake) as client:
        with log.session("task", window=window, reserve=reserve) as s:
            s.system("be kind")
            s.tools([read_file])
            s.user("go")
            steps: list[Any] = []
            for _ in range(60):
                steps.append(next_step(s, "anthropic"))
                for call in steps[-1].send(client).tool_calls:
                    with s.tool(call) as run:
                        run.result(call.run())
        assert not [request.refusal for request in fake.requests if request.refusal]
        bodies = [request.body for request in fake.requests]
    built = [step.packet for step in steps]
    assert all(sum(dict(packet.counts).values()) <= window - reserve for packet in built)
    cuts = [at for at, packet in enumerate(built) if packet.trace.breaks]
    assert len(cuts) >= 3
    for at, (before, after) in enumerate(itertools.pairwise(built), 1):
        grown = after.entries[: len(before.entries)] == before.entries[:]
        assert grown is (at not in cuts)
    for at in cuts:
        assert [one.cause for one in built[at].trace.breaks] == ["block_cut"]
        fixed, history = (dict(built[at].counts)[zone] for zone in ("fixed", "history"))
        assert history <= 0.6 * (window - reserve - fixed) + 40  # and its notice
    recorded = sound(log, "task")
    assert [step.packet.body for step in recorded.steps] == bodies
    with log.session("task", window=window, reserve=reserve) as s:
        assert next_step(s, "anthropic").number == 61
    sound(log, "task")


def test_the_window_is_the_models_when_the_caller_gives_none(log: AgentLog) -> None:
    with log.session("task", profile=own("openai-chat", window=700)) as s:
        for n in range(12):
            s.user(f"{n} " + "x" * 300)
            step = next_step(s, "openai-chat")
            step.send(talker())
            assert sum(dict(step.packet.counts).values()) <= 700
    assert {policy.window for policy in policies(log)} == {700}
    sound(log, "task")


def test_what_cannot_fit_is_refused_by_name_and_a_larger_window_mends_it(log: AgentLog) -> None:
    with log.session("task", window=500, reserve=100) as s:
        s.user("x" * 3000)
        with pytest.raises(Refused) as refused:
            next_step(s, "openai-chat")
        assert refused.value.reason == "cannot_fit"
        assert "a larger window" in refused.value.needs
    with log.session("task", window=5000) as s:
        assert next_step(s, "openai-chat").send(talker()).text == "ok"
    assert types(log.read("task"))[1:4] == ["message.user", "policy.set", "packet.built"]


@apis
def test_case_64_thinking_and_its_loop_leave_together(log: AgentLog, api: str) -> None:
    """Cuts fall inside a long loop that thinks; no call stands without what it came with."""

    def answers(kind: str, request: object, number: int) -> Reply:
        thinking = None if api == "openai-chat" else f"thought {number} " + "y" * 300
        return Reply("", thinking, [Call("read_file", {"path": f"{number}"})])

    extra: dict[str, Any] = {}
    if api == "anthropic":
        extra = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4000}
    with provided(api, answers) as (fake, client), log.session("task", window=900) as s:
        s.tools([read_file])
        s.user("go")
        for _ in range(25):
            step = s.step(api, model="m", **{**params(api), **extra})
            check(api, step.body, step.headers)
            for call in step.send(client).tool_calls:
                with s.tool(call) as run:
                    run.result(call.run())
        assert not [request.refusal for request in fake.requests if request.refusal]
    recorded = sound(log, "task")
    assert len(recorded.steps) == 25

"""The loop of the README, with official clients against the strict fake, for every API."""

from __future__ import annotations

import json

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Reply
from sawlog.store.content import TextPart
from sawlog.store.errors import Conflict, Refused
from sawlog.store.events.conversation import MessageUser, ToolFinished
from tests.session.agents import (
    APIS,
    SYSTEM,
    TOOLS,
    fix,
    loop,
    next_step,
    opened,
    provided,
    read_file,
    run_tests,
    script,
    sound,
    talker,
    types,
)

apis = pytest.mark.parametrize("api", APIS)


@apis
def test_the_loop_runs_to_its_end_and_every_packet_comes_out_as_it_was_sent(
    any_log: AgentLog, api: str
) -> None:
    log = any_log
    with provided(api, fix(api)) as (fake, client):
        with log.session("task") as s:
            replies = script(s, api, client)
        assert [len(reply.tool_calls) for reply in replies] == [2, 1, 0]
        assert replies[-1].text == "Done."
        recorded = sound(log, "task")
        assert [step.packet.body for step in recorded.steps] == fake.bodies(api)
        assert not any(request.refusal for request in fake.requests)
    assert [step.outcome for step in recorded.steps] == ["completed"] * 3
    assert all(step.verify() and step.sent == "exact" for step in recorded.steps)


def test_what_a_loop_leaves_in_the_log(log: AgentLog) -> None:
    with provided("anthropic", fix("anthropic")) as (_, client), log.session("task") as s:
        script(s, "anthropic", client)
    start = ["session.created", "message.system", "tools.changed", "message.user", "policy.set"]
    done = ["step.completed", "measure.recorded"]
    call = ["tool.started", "tool.finished"]
    assert types(log.read("task")) == [
        *start,
        *["packet.built", "attempt.sent", "attempt.answered"],
        *["message.assistant", "tool.requested", "tool.requested"],
        *done,
        *call,
        *call,
        *["packet.built", "attempt.sent", "attempt.answered"],
        *["message.assistant", "tool.requested"],
        *done,
        *call,
        *["packet.built", "attempt.sent", "attempt.answered"],
        *["message.assistant", *done],
    ]


def test_an_exception_is_the_calls_error_result(log: AgentLog) -> None:
    with provided("anthropic", fix("anthropic")) as (_, client), log.session("task") as s:
        script(s, "anthropic", client)
    results = [e.content for e in log.read("task").events() if isinstance(e.content, ToolFinished)]
    assert [(r.status, r.parts) for r in results] == [
        ("ok", (TextPart("text of a.py"),)),
        ("ok", (TextPart('{"only":"","failed":0}'),)),
        ("error", (TextPart("ValueError: no disk"),)),
    ]


@apis
def test_the_same_script_run_again_appends_nothing_new_and_goes_on(log: AgentLog, api: str) -> None:
    """System, tools and a keyed message are there once, however often the script runs."""
    replies = [*fix(api), Reply("Once more.")]
    with provided(api, replies) as (fake, client):
        with log.session("task") as s:
            script(s, api, client)
        head = log.find("task").head
        with log.session("task") as s, pytest.raises(Refused) as refused:
            script(s, api, client)
        assert refused.value.reason == "nothing_to_send"
        assert log.find("task").head == head
        with log.session("task") as s:
            s.system(SYSTEM)
            s.tools(TOOLS)
            s.user("refund_should_reject_expired_order fails", key="task")
            assert log.find("task").head == head
            s.user("And now?", key="then")
            assert [reply.text for reply in loop(s, api, client)] == ["Once more."]
        # message, packet, sent, answered, text, completed, measure
        assert log.find("task").head == head + 7
        first, last = fake.bodies(api)[-2:]
        assert last.startswith(first[: first.rindex(b"]")][:-1])
    sound(log, "task")


def test_a_key_names_one_content(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("one", key="k")
        s.user("one", key="k")
        with pytest.raises(Conflict, match="an id names one event"):
            s.user("two", key="k")
        s.user("two", key="l")
    said = [e.content for e in log.read("task").events() if isinstance(e.content, MessageUser)]
    assert [message.parts for message in said] == [(TextPart("one"),), (TextPart("two"),)]


def test_other_tools_and_other_system_texts_are_appended_once_each(log: AgentLog) -> None:
    def run(system: str, tools: list[object]) -> list[str]:
        before = log.find("task").head if log.store.find("task") else 0
        with log.session("task") as s:
            s.system(system)
            s.tools(tools)
            s.user("go", key="go")
        return [event.type for event in log.read("task").events(before)]

    def step() -> None:
        with log.session("task") as s:
            next_step(s, "openai-chat").send(talker())
            s.user("more")

    started = ["session.created", "message.system", "tools.changed", "message.user"]
    assert run("be kind", [read_file]) == started
    assert run("be kind", [read_file]) == []
    step()
    assert run("be brief", [read_file, run_tests]) == ["message.system", "tools.changed"]
    assert run("be brief", [read_file, run_tests]) == []
    step()
    assert run("be brief", [read_file, run_tests]) == []
    assert run("be kind", [run_tests]) == ["message.system", "tools.changed"]
    assert run("be kind", [run_tests]) == []
    step()
    assert run("be kind", [run_tests]) == []
    assert run("be kind", []) == ["tools.changed"]
    assert run("be kind", []) == []


def test_a_long_system_text_set_again_is_one_system_text(store_url: str) -> None:
    """Also in another handle on the store, which knows it by its blob alone."""
    long = "x" * 5000
    with opened(store_url) as log, log.session("task") as s:
        s.system(long)
        s.system(long)
        assert len(s.state.system) == 1
    with sawlog.open(store_url) as log:
        with log.session("task") as s:
            s.system(long)
            assert len(s.state.system) == 1
            s.system(long + "x")
        assert types(log.read("task")) == ["session.created", *2 * ["message.system"]]


def test_a_step_with_nothing_to_send_is_refused_by_name(log: AgentLog) -> None:
    with log.session("task") as s:
        for said in ("nothing", "system", "tools"):
            if said == "system":
                s.system(SYSTEM)
            elif said == "tools":
                s.tools(TOOLS)
            with pytest.raises(Refused) as refused:
                next_step(s, "openai-chat")
            assert refused.value.reason == "nothing_to_send"
    assert types(log.read("task")) == ["session.created", "message.system", "tools.changed"]


def test_parameters_go_out_as_they_were_given(log: AgentLog) -> None:
    with provided("anthropic", [Reply("a"), Reply("b")]) as (fake, client):
        with log.session("task") as s:
            s.user("hello")
            s.step("anthropic", model="m", top_k=3, max_tokens=9, temperature=0.5).send(client)
            s.user("hello again")
            s.step("anthropic", model="m", params='{"max_tokens": 100, "temperature": 1e0}').send(
                client
            )
        one, two = fake.bodies()
    assert list(json.loads(one))[:3] == ["top_k", "max_tokens", "temperature"]
    assert b'"max_tokens": 100, "temperature": 1e0' in two


@apis
def test_a_packet_is_in_the_log_before_its_request_leaves(log: AgentLog, api: str) -> None:
    """Law 9, as the provider sees it: when a request arrives, its packet and sending are there."""
    seen: list[list[str]] = []

    def answers(kind: str, request: object, number: int) -> Reply:
        seen.append(types(log.read("task")))
        return fix(api)[number]

    with provided(api, answers) as (_, client), log.session("task") as s:
        script(s, api, client)
    assert [events[-2:] for events in seen] == [["packet.built", "attempt.sent"]] * 3

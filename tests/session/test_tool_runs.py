"""Running calls: the start before, the result after, each once; and what may not be written."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call as Asked
from sawlog.providers.fake import FakeProvider, Reply
from sawlog.providers.strict import check
from sawlog.store.content import TextPart
from sawlog.store.errors import (
    Busy,
    Conflict,
    EffectUnknown,
    InvalidArguments,
    InvalidEvent,
    ToolError,
)
from sawlog.store.events.base import Named
from sawlog.store.events.conversation import ToolFinished, ToolRequested, ToolStarted
from sawlog.work.call import Call
from tests.session.agents import (
    APIS,
    TOOLS,
    asked,
    client_of,
    loop,
    next_step,
    one,
    provided,
    read_file,
    results,
    sound,
    told,
    types,
)

apis = pytest.mark.parametrize("api", APIS)


# --- starts and results ---------------------------------------------------------------------------


def test_the_start_is_durable_before_the_tool_acts_and_the_result_after(log: AgentLog) -> None:
    seen: list[str] = []

    def act() -> str:
        """Act."""
        seen.extend(types(log.read("task"))[-1:])
        return "acted"

    tools = [sawlog.tool(act, effect="idempotent")]
    with log.session("task") as s:
        call = one(s, "act", {}, tools=tools)
        with s.tool(call) as run:
            assert run.key == call.event_id
            run.result(call.run())
    assert seen == ["tool.started"]
    [started] = [e for e in log.read("task").events() if isinstance(e.content, ToolStarted)]
    assert started.content == ToolStarted(
        call=call.event_id,
        effect="idempotent",
        key=call.event_id,
        allowed_by=Named("strict", 1),
        reason="side_effect_requires_approval: this session asks for no approvals",
    )
    assert (started.step, started.source) == (1, "harness")
    [finished] = [e for e in log.read("task").events() if isinstance(e.content, ToolFinished)]
    assert finished.source == "tool:act"
    assert told(log) == [("ok", "acted")]


def test_the_effect_is_the_callers_then_the_tools_then_the_worst(log: AgentLog) -> None:
    with log.session("task", gateway=None) as s:
        calls = asked(s, *[Asked("read_file", {"path": "a"})] * 2, Asked("other"))
        with s.tool(calls[0], effect="read_only"):
            pass
        for call in calls[1:]:
            with s.tool(call):
                pass
    starts = [e.content for e in log.read("task").events() if isinstance(e.content, ToolStarted)]
    assert [start.effect for start in starts] == ["read_only", "side_effect", "side_effect"]
    assert told(log) == [("ok", "")] * 3


VALUES: list[tuple[Any, str]] = [
    ("text", "text"),
    (None, ""),
    (b"bytes", "bytes"),
    ({"a": [1, None, True, "ü"]}, '{"a":[1,null,true,"ü"]}'),
    ([], "[]"),
    ((), "[]"),
    (["a", "b"], '["a","b"]'),
    (7, "7"),
    (1.5, "1.5"),
    (TextPart("part"), "part"),
    ([TextPart("part")], "part"),
    ("\x00\x1b[0m", "\x00\x1b[0m"),
]


@pytest.mark.parametrize(("value", "text"), VALUES, ids=repr)
def test_a_result_of_any_kind_is_text(log: AgentLog, value: Any, text: str) -> None:
    with log.session("task") as s, s.tool(one(s)) as run:
        run.result(value)
    assert told(log) == [("ok", text)]


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, {"a": {2, 3}}, object], ids=repr)
def test_what_json_cannot_say_is_an_error_result_that_names_the_place(
    log: AgentLog, value: Any
) -> None:
    with log.session("task") as s, s.tool(one(s)) as run:
        run.result(value)
    [(status, text)] = told(log)
    assert status == "error" and text.startswith("InvalidEvent: result")


def test_the_last_word_counts_and_an_exception_is_the_last_one(log: AgentLog) -> None:
    with log.session("task") as s:
        first, second, third = asked(s, *[Asked("read_file", {"path": "a"})] * 3)
        with s.tool(first) as run:
            run.result("half")
            run.result("whole", error=True)
        with s.tool(second) as run:
            run.result("fine")
            raise OSError("after all not")
        with s.tool(third) as run:
            raise ValueError
    assert told(log) == [
        ("error", "whole"),
        ("error", "OSError: after all not"),
        ("error", "ValueError"),
    ]


def test_an_interrupt_leaves_an_interrupted_result_and_goes_on(log: AgentLog) -> None:
    with log.session("task") as s, pytest.raises(KeyboardInterrupt), s.tool(one(s)):
        raise KeyboardInterrupt
    assert told(log) == [("interrupted", "interrupted: KeyboardInterrupt")]


def test_what_a_tool_saw_of_the_world_stands_with_its_result(log: AgentLog) -> None:
    with log.session("task") as s, s.tool(one(s)) as run:
        run.saw("a.py", range="1-20", version="00ff")
        run.saw("b.py")
        run.result("text")
    [result] = results(log)
    assert [(saw.path, saw.range, saw.version) for saw in result.saw] == [
        ("a.py", "1-20", "00ff"),
        ("b.py", "", ""),
    ]


# --- what may not be written ----------------------------------------------------------------------


def test_case_9_a_result_without_a_call_is_a_typed_error_and_nothing_is_written(
    log: AgentLog,
) -> None:
    with log.session("task") as s:
        call = one(s)
        with s.tool(call) as run:
            run.result("once")
        head = log.find("task").head
        made_up = Call(s, "0" * 32, "call_9", "read_file", "{}", 1)
        for wrong in (call, made_up):
            with pytest.raises(ToolError, match="no open call"), s.tool(wrong):
                raise AssertionError("it was not started")
            with pytest.raises(ToolError, match="no open call"):
                s.ask(wrong)
        assert log.find("task").head == head
    assert told(log) == [("ok", "once")]


def test_a_call_of_another_session_is_none_of_this_one(log: AgentLog) -> None:
    with log.session("other") as other:
        call = one(other)
        with log.session("task") as s:
            s.user("go")
            with pytest.raises(ToolError, match="no open call"), s.tool(call):
                pass
        with other.tool(call) as run:
            run.result("here")
    assert types(log.read("task")) == ["session.created", "message.user"]


def test_a_result_that_came_by_another_way_meanwhile_is_the_only_one(log: AgentLog) -> None:
    with log.session("task") as s:
        call = one(s)
        run = s.tool(call)
        run.start()
        s.append(ToolFinished(call.event_id, call.call_id, "read_file", parts=(TextPart("first"),)))
        run.result("second")
        with pytest.raises(ToolError, match="its result already"):
            run.finish()
    assert told(log) == [("ok", "first")]


def test_a_name_that_no_tool_has_is_the_models_to_mend(log: AgentLog) -> None:
    """The loop goes on: the model is told which tools there are."""
    script = [Reply(calls=[Asked("rm_rf", {"path": "/"})]), Reply("Sorry.")]
    with provided("openai-chat", script) as (fake, client), log.session("task", gateway=None) as s:
        s.tools(TOOLS)
        s.user("go")
        assert [reply.text for reply in loop(s, "openai-chat", client)] == ["", "Sorry."]
        assert (
            b"there is no tool 'rm_rf'; the tools are read_file, run_tests, breaks"
            in (fake.bodies()[1])
        )
    assert told(log)[0][0] == "error"


def test_arguments_that_do_not_fit_are_the_models_to_mend(log: AgentLog) -> None:
    with log.session("task", gateway=None) as s:
        for arguments in ('{"path":1', "[]", '{"path":[1]}', "{}", '{"path":"a","more":1}'):
            call = one(s, arguments=arguments)
            assert call.arguments == arguments
            with pytest.raises(InvalidArguments):
                call.run()
            with s.tool(call) as run:
                run.result(call.run())
    assert [status for status, _ in told(log)] == ["error"] * 5


def test_a_tool_without_a_function_is_the_agents_own_fault(log: AgentLog) -> None:
    """It goes on as ToolError, and the call stays open: nothing was run, nothing is made up."""
    bare: dict[str, Any] = {"name": "bare", "parameters": {"type": "object", "properties": {}}}
    with log.session("task") as s:
        call = one(s, "bare", {}, tools=[bare])
        assert call.args == {}
        with pytest.raises(ToolError, match="no function for the tool 'bare'"), s.tool(call) as run:
            run.result(call.run())
    assert results(log) == []
    with log.session("task") as s:
        [again] = s.open_calls()
        assert again.arguments == "{}"
        with pytest.raises(ToolError, match="no function for the tool 'bare'"):
            again.run()
        # This handle does not know that nothing was run: it is a decision to run it now.
        with pytest.raises(EffectUnknown, match="nobody knows whether it was done"), s.tool(again):
            raise AssertionError
        with s.tool(again, again=True) as run:
            run.result("by hand")
    assert told(log) == [("ok", "by hand")]


def test_an_error_of_the_log_in_a_tool_goes_on(log: AgentLog) -> None:
    """Law 9: an append that fails stops the step; it is no word for the model."""

    def fails(error: Exception) -> Callable[[], None]:
        def fail() -> None:
            raise error

        return fail

    with log.session("task") as s:
        for error in (Busy("locked"), Conflict("moved")):
            call = one(s)
            with pytest.raises(type(error)), s.tool(call):
                fails(error)()
        with s.tool(one(s)):
            raise InvalidEvent("NaN")
    assert [status for status, _ in told(log)] == ["error"]


# --- case 16 --------------------------------------------------------------------------------------

ODD = [
    '{"path": "a", }',
    "",
    "not json",
    '["a"]',
    '{"path":"\\ud800"}',
    '{"a":1e400}',
    "1",
    "é\x00",
]


@apis
@pytest.mark.parametrize("source", ODD)
def test_case_16_arguments_that_are_no_json_keep_every_byte(
    log: AgentLog, api: str, source: str
) -> None:
    """What the model wrote stands in the log; every provider takes the history that holds it."""
    with log.session("task", gateway=None) as s:
        call = one(s, arguments=source)
        with s.tool(call) as run:
            run.result(call.run())
        built = next_step(s, api)
        body = built.body
    stored = [e.content for e in log.read("task").events() if isinstance(e.content, ToolRequested)]
    assert [content.arguments for content in stored] == [source]
    check(api, body, built.headers)
    notes = [v.reason for v in built.packet.trace.verdicts if v.stage == "render"]
    whole = _is_object(source)
    if api == "anthropic":
        assert ("raw" in json.dumps(json.loads(body)["messages"][1])) is not whole
        assert any(note.startswith("wrapped") for note in notes) is not whole
    sound(log, "task")


def _is_object(source: str) -> bool:
    try:
        return isinstance(json.loads(source), dict)
    except ValueError:
        return False


# --- many threads on one handle -------------------------------------------------------------------


def test_threads_share_one_handle_and_never_conflict_among_themselves(any_log: AgentLog) -> None:
    log = any_log
    with FakeProvider(
        [Reply(calls=[Asked("read_file", {"path": f"{n}"}) for n in range(24)])] * 2 + [Reply("ok")]
    ) as fake:
        with client_of("anthropic", fake) as client, log.session("task") as s:
            s.tools(TOOLS)
            s.user("go")

            def act(call: Call) -> None:
                with s.tool(call) as run:
                    run.result(read_file(**call.args))

            while calls := next_step(s, "anthropic").send(client).tool_calls:
                with ThreadPoolExecutor(8) as pool:
                    list(pool.map(act, calls))
    recorded = sound(log, "task")
    assert len(recorded.steps) == 3
    shown = [e.text for e in recorded.steps[3].packet.entries if e.kind == "result"]
    assert shown == [f"text of {n}" for n in range(24)] * 2

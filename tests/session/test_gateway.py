"""The check between a call and its run: what is denied never runs, and the model is told."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from pydantic import BaseModel, model_validator

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.gateway import ALLOW, ASK, DENY, GatewayVerdict
from sawlog.builder.profiles import profile_for
from sawlog.builder.render.wire import wire_name
from sawlog.importing import import_path
from sawlog.providers.fake import Call as Asked
from sawlog.providers.fake import FakeProvider, Reply
from sawlog.store.content import TextPart
from sawlog.store.errors import CallDenied, ConfigError, ToolError
from sawlog.store.events.base import Named
from sawlog.store.events.conversation import (
    ApprovalRequested,
    ToolChecked,
    ToolDenied,
    ToolFinished,
    ToolStarted,
)
from sawlog.store.events.world import Tool, ToolsChanged
from sawlog.work.call import Call
from sawlog.work.session import Session
from tests.session.agents import (
    APIS,
    TOOLS,
    asked,
    loop,
    next_step,
    one,
    provided,
    read_file,
    sound,
    told,
    types,
)
from tests.session.tasks import async_client, run, step_of

apis = pytest.mark.parametrize("api", APIS)
SECRETS = Asked("read_file", {"path": "conf/.env"})


T = TypeVar("T")


def payloads(log: AgentLog, kind: type[T]) -> list[T]:
    return [e.content for e in log.read("task").events() if isinstance(e.content, kind)]


def checked(log: AgentLog) -> list[tuple[str, str]]:
    """Verdict and reason of each check, in order."""
    return [verdict[1:] for verdict in verdicts(log)]


def verdicts(log: AgentLog) -> list[tuple[Named, str, str]]:
    """Policy, verdict, reason of each check: of a denial, and of a start, which was allowed."""
    found: list[tuple[Named, str, str]] = []
    for event in log.read("task").events():
        match event.content:
            case ToolChecked(policy=policy, verdict=verdict, reason=reason):
                found.append((policy, verdict, reason))
            case ToolStarted(allowed_by=Named() as policy, reason=reason):
                found.append((policy, ALLOW, reason))
            case _:
                pass
    return found


# --- when a reply arrives -------------------------------------------------------------------------


@apis
def test_a_denied_call_never_runs_and_the_next_packet_tells_the_model(
    any_log: AgentLog, api: str
) -> None:
    log = any_log
    script = [
        Reply("Hm.", calls=[SECRETS, Asked("read_file", {"path": "a"}), Asked("rm_rf", {})]),
        Reply("Sorry."),
    ]
    with provided(api, script) as (fake, client), log.session("task") as s:
        s.tools(TOOLS)
        s.user("go")
        reply = next_step(s, api).send(client)
        assert [call.args for call in reply.tool_calls] == [{"path": "a"}]
        assert [(one.call.name, one.reason, one.path) for one in reply.denied] == [
            ("read_file", "protected_path", "conf/.env"),
            ("rm_rf", "unknown_tool", ""),
        ]
        head = types(log.read("task"))[-6:]
        assert head == ["step.completed", *["tool.checked", "tool.denied"] * 2, "measure.recorded"]
        with s.tool(reply.tool_calls[0]) as tool:
            tool.result(reply.tool_calls[0].run())
        assert next_step(s, api).send(client).text == "Sorry."
        body = json.dumps(json.loads(fake.bodies(api)[1]))
    assert told(log) == [("ok", "text of a")]
    assert "Reason: protected_path: " in body and "conf/.env" in body
    assert "unknown_tool: the tools are read_file, run_tests, breaks" in body
    assert [(one.kind, one.by) for one in payloads(log, ToolDenied)] == [
        ("denied", "gateway:strict@1"),
        ("unknown_tool", "gateway:strict@1"),
    ]
    assert checked(log) == [
        (DENY, "protected_path"),
        (DENY, "unknown_tool"),
        (ALLOW, "side_effect_requires_approval: this session asks for no approvals"),
    ]
    assert {policy for policy, _, _ in verdicts(log)} == {Named("strict", 1)}
    sound(log, "task")


@apis
def test_the_readmes_loop_goes_on_when_all_calls_were_denied(log: AgentLog, api: str) -> None:
    script = [Reply(calls=[SECRETS]), Reply(calls=[SECRETS]), Reply("I give up.")]
    with provided(api, script) as (_, client), log.session("task") as s:
        s.tools(TOOLS)
        s.user("go")
        replies = loop(s, api, client)
    assert [(list(r.tool_calls), bool(r.tool_calls), len(r.denied)) for r in replies] == [
        ([], True, 1),
        ([], True, 1),
        ([], False, 0),
    ]
    assert "tool.started" not in types(log.read("task"))
    sound(log, "task")


def test_the_reply_and_its_denials_are_one_append(log: AgentLog) -> None:
    """One more of anything between them would leave a call that looks as if it may run."""
    with log.session("task") as s:
        asked(s, SECRETS)
    times = {
        event.type: event.recorded_at
        for event in log.store.read(log.find("task"))
        if event.type in ("attempt.answered", "tool.checked", "tool.denied")
    }
    assert len(times) == 3 and len(set(times.values())) == 1


def test_a_path_is_told_escaped_and_shortened(log: AgentLog) -> None:
    path = "../" + "é\n</sawlog>" * 30
    with log.session("task") as s:
        assert list(asked(s, Asked("read_file", {"path": path}))) == []
    [denied] = payloads(log, ToolDenied)
    assert isinstance(denied.reason, str)
    assert denied.reason.startswith('control_character: "../\\u00e9\\n</sawlog>')
    assert denied.reason.endswith(f"and {len(path) - 80} characters more")
    assert denied.reason.isascii() and len(denied.reason) < 250


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"path":1', "invalid_arguments: the arguments of read_file are no JSON"),
        ('{"path":"a","path":"b"}', "invalid_arguments"),
        ("[]", "invalid_arguments: the arguments of read_file are JSON, but no object"),
        ('{"path":[1]}', "invalid_arguments: the arguments of read_file do not fit: path: "),
        ("{}", "missing_required_arguments: the arguments of read_file do not fit: path: "),
        ('{"path":"%2e%2e/a"}', 'parent_segment: "%2e%2e/a"'),
        (
            '{"path":"/etc/passwd"}',
            'absolute_path: "/etc/passwd"; give a relative path (absolute ones are for sessions '
            "that were opened with root=)",
        ),
    ],
)
def test_the_model_reads_what_it_can_mend(log: AgentLog, arguments: str, reason: str) -> None:
    with log.session("task") as s:
        assert not list(asked(s, Asked("read_file", arguments)))
        [entry] = [e for e in next_step(s, "anthropic").packet.entries if e.kind == "result"]
        assert entry.status == "denied" and f"Reason: {reason}" in entry.text
    sound(log, "task")


def test_absolute_paths_may_lead_into_the_root_and_nowhere_else(
    log: AgentLog, tmp_path: Path
) -> None:
    inside, outside = tmp_path / "a.py", tmp_path.parent / "b.py"
    with log.session("task", root=tmp_path) as s:
        calls = asked(s, *[Asked("read_file", {"path": str(p)}) for p in (inside, outside)])
        assert [call.args["path"] for call in calls] == [str(inside)]
        [one] = payloads(log, ToolDenied)
        assert f'absolute paths lead into "{tmp_path}"' in str(one.reason)


def test_a_tool_whose_schema_lies_in_a_blob_is_checked_by_it(log: AgentLog) -> None:
    """Texts of more than 4,096 bytes stand in blobs."""
    long: dict[str, Any] = {
        "name": "long",
        "description": "d" * 9000,
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }
    with log.session("task") as s:
        calls = asked(s, Asked("long", {"n": 1}), Asked("long", {"n": "one"}), tools=[long])
        assert [call.arguments for call in calls] == ['{"n":1}']
    assert checked(log) == [(DENY, "invalid_arguments")]


def test_without_tools_only_the_paths_are_checked(log: AgentLog) -> None:
    calls = [Asked("anything", {"x": 1}), Asked("anything", {"file": ".git/config"})]
    with provided("openai-chat", [Reply(calls=calls)]) as (_, client), log.session("task") as s:
        s.user("go")
        reply = next_step(s, "openai-chat").send(client)
    assert [call.arguments for call in reply.tool_calls] == ['{"x":1}']
    assert checked(log) == [(DENY, "protected_path")]


def test_an_empty_list_of_tools_offers_none(log: AgentLog) -> None:
    with log.session("task") as s:
        s.tools(TOOLS)
        s.tools([])
        with provided("openai-chat", [Reply(calls=[Asked("read_file", {})])]) as (_, client):
            s.user("go")
            assert not list(next_step(s, "openai-chat").send(client).tool_calls)
    assert payloads(log, ToolDenied)[0].reason == "unknown_tool: there are no tools"


# --- tools by the names on the wire ---------------------------------------------------------------


def responses(*items: dict[str, Any]) -> bytes:
    """A reply of the Responses API with these output items."""
    return json.dumps(
        {"id": "r", "object": "response", "status": "completed", "model": "m", "output": items}
    ).encode()


def call_item(name: str, arguments: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name,
        "arguments": arguments, "status": "completed", **more,
    }  # fmt: skip


def answered(s: Session, *items: dict[str, Any]) -> list[str]:
    """Reasons for what was denied of a reply, else the names of what may run."""
    s.user("go")
    reply = next_step(s, "openai-responses").answer(responses(*items))
    return [one.reason for one in reply.denied] + [call.name for call in reply.tool_calls]


def in_force(s: Session, called: str, **source: Any) -> None:
    s.append(ToolsChanged((Tool(called, json.dumps(source)),)))


PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def test_a_tool_in_a_namespace_is_found_there(log: AgentLog) -> None:
    inner = {"type": "function", "name": "read", "parameters": PATH}
    with log.session("task") as s:
        in_force(s, "files", type="namespace", name="files", tools=[inner])
        good = '{"path":"a"}'
        assert answered(s, call_item("read", good, namespace="files")) == ["read"]
        assert answered(s, call_item("read", "{}", namespace="files")) == [
            "missing_required_arguments"
        ]
        assert answered(s, call_item("read", good, namespace="other")) == ["unknown_tool"]
        assert answered(s, call_item("read", good)) == ["unknown_tool"]
        # What an API without namespaces calls it.
        assert answered(s, call_item("files__read", good)) == ["files__read"]


def test_a_tool_is_found_by_the_name_that_went_out_for_it(log: AgentLog) -> None:
    wire = wire_name("files.read", profile_for("openai-responses", "m")[0].names)
    assert wire != "files.read"
    with log.session("task") as s:
        in_force(s, "files.read", name="files.read", parameters=PATH)
        assert answered(s, call_item(wire, '{"path":"../a"}')) == ["parent_segment"]
        assert answered(s, call_item(wire, '{"path":"a"}')) == [wire]


def test_a_shell_and_a_computer_that_the_provider_defines_are_on_offer(log: AgentLog) -> None:
    shell: dict[str, Any] = {
        "type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}, "working_directory": "/etc"},
    }  # fmt: skip
    computer = {
        "type": "computer_call", "id": "cu_1", "call_id": "call_1", "status": "completed",
        "actions": [{"type": "click", "x": 1, "y": 2}], "pending_safety_checks": [],
    }  # fmt: skip
    with log.session("task") as s:
        in_force(s, "local_shell", type="local_shell")
        assert answered(s, shell) == ["absolute_path"]
        shell["action"]["working_directory"] = "src"
        assert answered(s, shell) == ["local_shell"]
        assert answered(s, computer) == ["unknown_tool"]
        in_force(s, "computer_use_preview", type="computer_use_preview")
        assert answered(s, computer) == ["computer"]


def test_what_a_tool_search_found_is_checked_for_its_paths_alone(log: AgentLog) -> None:
    with log.session("task") as s:
        in_force(s, "tool_search", type="tool_search", execution="client")
        assert answered(s, call_item("found", '{"path":"a"}')) == ["found"]
        assert answered(s, call_item("found", '{"path":"../a"}')) == ["parent_segment"]


# --- when a call is started -----------------------------------------------------------------------


def test_entering_a_denied_call_never_runs_it(log: AgentLog) -> None:
    with log.session("task") as s:
        s.tools(TOOLS)
        s.user("go")
        with provided("openai-chat", [Reply(calls=[SECRETS])]) as (_, client):
            [denied] = next_step(s, "openai-chat").send(client).denied
        head = s.state.seq
        with pytest.raises(CallDenied, match="was denied") as refused, s.tool(denied.call):
            raise AssertionError("it was not started")
        assert isinstance(refused.value, ToolError)
        with pytest.raises(CallDenied):
            s.ask(denied.call)
        assert s.open_calls() == [] and s.state.seq == head
    with log.session("task", gateway=None) as s:
        with pytest.raises(CallDenied), s.tool(denied.call):
            raise AssertionError("nor without a gateway")
    assert told(log) == []


def test_calls_that_a_crash_left_are_checked_when_they_are_entered(any_log: AgentLog) -> None:
    """They were asked for when nobody checked."""
    log = any_log
    with log.session("task", gateway=None) as s:
        asked(s, Asked("read_file", {"path": "a"}), SECRETS)
    with log.session("task") as s:
        first, second = s.open_calls()
        with s.tool(first) as tool:
            tool.result("read")
        with pytest.raises(CallDenied, match="protected_path") as refused, s.tool(second):
            raise AssertionError("it was not started")
        assert refused.value.reason == 'protected_path: "conf/.env"'
        head = s.state.seq
        with pytest.raises(CallDenied), s.tool(second):
            raise AssertionError("nor when it is tried again")
        assert s.state.seq == head and s.open_calls() == []
        step = next_step(s, "openai-chat")
        assert [e.status for e in step.packet.entries if e.kind == "result"] == ["ok", "denied"]
    calls = ["tool.started", "tool.finished", "tool.checked", "tool.denied"]
    assert types(log.read("task"))[-5:-1] == calls
    sound(log, "task")


def test_a_tool_that_is_withdrawn_before_its_call_is_started_does_not_run(log: AgentLog) -> None:
    with log.session("task") as s:
        call = one(s)
        s.tools(TOOLS[1:])
        with pytest.raises(CallDenied, match="unknown_tool"), s.tool(call):
            raise AssertionError("it was not started")
    assert told(log) == []


def test_calls_of_an_import_are_checked_when_it_is_carried_on(
    log: AgentLog, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": f"c{n}", "type": "function", "function": {"name": "cat", "arguments": a}}
                for n, a in enumerate(('{"path":"a"}', '{"path":"../a"}'))
            ],
        },
    ]
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(rows))
    [imported] = import_path(log, file)
    with log.session(log.read(imported.session).name) as s:
        first, second = s.open_calls()
        with s.tool(first) as tool:
            tool.result("text")
        with pytest.raises(CallDenied, match="parent_segment"), s.tool(second):
            raise AssertionError("it was not started")
        entries = next_step(s, "openai-chat").packet.entries
        assert [e.status for e in entries if e.kind == "result"] == ["ok", "denied"]
    sound(log, imported.session)


def test_a_start_follows_exactly_what_it_was_checked_against(
    any_log: AgentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process brings the result between the look and the append."""
    log = any_log
    with log.session("task") as s:
        call = one(s)
        driver = s._driver  # pyright: ignore[reportPrivateUsage]
        append = driver.append
        late = ToolFinished(call.event_id, call.call_id, parts=(TextPart("from elsewhere"),))
        meddled: list[int] = []

        def meddle(events: Any, **options: Any) -> Any:
            if not meddled:
                meddled.append(options["expected_seq"])
                log.store.append(log.find("task"), [s.new(late, "tool:read_file", step=1)])
            return append(events, **options)

        monkeypatch.setattr(driver, "append", meddle)
        with pytest.raises(ToolError, match="its result already"), s.tool(call):
            raise AssertionError("it was not started")
        assert len(meddled) == 1
    assert payloads(log, ToolStarted) == [] and checked(log) == []
    assert told(log) == [("ok", "from elsewhere")]


# --- approvals ------------------------------------------------------------------------------------


def test_side_effects_wait_for_an_approval_when_the_session_says_so(any_log: AgentLog) -> None:
    log = any_log
    tools = [sawlog.tool(read_file, effect="read_only"), *TOOLS[1:]]
    with log.session("task", approve="side_effects") as s:
        reads, runs, third = asked(
            s, Asked("read_file", {"path": "a"}), Asked("run_tests"), Asked("run_tests"),
            tools=tools,
        )  # fmt: skip
        with s.tool(reads) as tool:
            tool.result("read")
        head = s.state.seq
        for effect in (None, "read_only"):  # the caller's word does not make it harmless
            with pytest.raises(ToolError, match=r"s\.ask\(call\)"), s.tool(runs, effect=effect):
                raise AssertionError("it was not started")
        assert s.state.seq == head
        s.ask(runs)
        with pytest.raises(ToolError, match="waits for the approval"), s.tool(runs):
            raise AssertionError("it was not started")
        log.decide("task", runs.event_id, allow=True, by="somebody")
        with s.tool(runs) as tool:
            tool.result("ran")
        s.ask(third)
        log.decide("task", third.event_id, allow=False, by="somebody")
        with pytest.raises(CallDenied), s.tool(third):
            raise AssertionError("it was not started")
    assert [text for _, text in told(log)] == ["read", "ran"]
    assert checked(log) == [
        (ALLOW, "policy_allows"),
        (ALLOW, "side_effect_requires_approval: approved"),
    ]
    sound(log, "task")


def test_an_approval_outlives_the_process_and_one_asked_for_anew_does_not_count(
    log: AgentLog,
) -> None:
    with log.session("task", approve="side_effects") as s:
        calls = asked(s, Asked("run_tests"), Asked("run_tests"))
        for call in calls:
            s.ask(call)
            log.decide("task", call.event_id, allow=True, by="somebody")
    with log.session("task", approve="side_effects") as s:
        first, second = s.open_calls()
        with s.tool(first) as tool:
            tool.result("ran")
        s.append(ApprovalRequested(second.event_id, "another", "Really?"), step=second.step)
        with pytest.raises(ToolError, match="waits for the approval another"), s.tool(second):
            raise AssertionError("it was not started")
    assert [text for _, text in told(log)] == ["ran"]


def test_no_approval_lets_a_denied_call_run(log: AgentLog) -> None:
    with log.session("task", gateway=None) as s:
        [call] = asked(s, SECRETS)
        s.ask(call)
        log.decide("task", call.event_id, allow=True, by="somebody")
    with log.session("task", approve="side_effects") as s:
        [call] = s.open_calls()
        with pytest.raises(CallDenied, match="protected_path"), s.tool(call):
            raise AssertionError("it was not started")


# --- a caller's own gateway -----------------------------------------------------------------------


def test_a_caller_may_bring_a_gateway(log: AgentLog) -> None:
    def mine(call: Call) -> GatewayVerdict:
        if call.name == "run_tests":
            return GatewayVerdict(DENY, "not on a Friday")
        return GatewayVerdict(ASK if call.name == "breaks" else ALLOW, "mine")

    with log.session("task", gateway=mine) as s:
        calls = asked(s, Asked("run_tests"), SECRETS, Asked("breaks", {"why": "so"}))
        assert [call.name for call in calls] == ["read_file", "breaks"]
        for call in calls:
            with s.tool(call) as tool:
                tool.result("ran")
    assert checked(log) == [
        (DENY, "not on a Friday"),
        (ALLOW, "mine"),
        (ALLOW, "mine: this session asks for no approvals"),
    ]
    assert {policy for policy, _, _ in verdicts(log)} == {Named("caller", 1)}
    sound(log, "task")


def test_a_gateway_that_fails_loses_no_reply_and_runs_nothing(log: AgentLog) -> None:
    broken = True

    def mine(call: Call) -> Any:
        if broken:
            raise OSError("the policy server is away")
        return GatewayVerdict(ALLOW, "fine")

    with log.session("task", gateway=mine) as s:
        call = one(s)
        assert types(log.read("task"))[-2:] == ["step.completed", "measure.recorded"]
        with pytest.raises(ToolError, match="did not say whether .*OSError"), s.tool(call):
            raise AssertionError("it was not started")
        assert payloads(log, ToolStarted) == []
        broken = False
        with s.tool(call) as tool:
            tool.result("ran")
    for wrong in (True, GatewayVerdict("maybe", ""), GatewayVerdict(DENY, 7)):  # type: ignore[arg-type]
        given: Any = wrong
        with log.session("task", gateway=lambda call: given) as s:  # noqa: B023
            with pytest.raises(ToolError, match="^the gateway gave "), s.tool(one(s)):
                raise AssertionError("it was not started")
    assert told(log) == [("ok", "ran")]


def test_without_a_gateway_nothing_is_checked(log: AgentLog) -> None:
    with log.session("task", gateway=None) as s:
        [call] = asked(s, SECRETS)
        with s.tool(call) as tool:
            tool.result("ran")
    assert checked(log) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gateway": "lax"}, "'lax' is no gateway"),
        ({"root": "here"}, "no absolute folder"),
        ({"approve": "all"}, "approve is 'side_effects' or nothing"),
        ({"approve": "side_effects", "gateway": None}, "approve needs a gateway"),
    ],
)
def test_an_option_that_means_nothing_is_refused_before_anything_is_written(
    log: AgentLog, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        log.session("task", **options)
    assert log.sessions() == []


# --- many at once ---------------------------------------------------------------------------------


def test_threads_check_and_run_on_one_handle(any_log: AgentLog) -> None:
    log = any_log
    paths = [f"{'../' if n % 3 == 0 else ''}{n}" for n in range(18)]
    with log.session("task") as s:
        calls = asked(s, *[Asked("read_file", {"path": path}) for path in paths])

        def act(call: Call) -> None:
            with s.tool(call) as tool:
                tool.result(call.run())

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(act, calls))
    assert sorted(text for _, text in told(log)) == sorted(
        f"text of {path}" for path in paths if not path.startswith("..")
    )
    sound(log, "task")
    starts = payloads(log, ToolStarted)
    assert len(starts) == sum(not path.startswith("..") for path in paths)
    assert all(one.allowed_by == Named("strict", 1) and one.reason for one in starts)


def test_tasks_are_refused_what_is_denied(log: AgentLog) -> None:
    async def work() -> None:
        async with (
            async_client("openai-chat", fake) as client,
            log.asession("task", approve="side_effects") as s,
        ):
            await s.tools(TOOLS)
            await s.user("go")
            reply = await (await step_of(s, "openai-chat")).send(client)
            [runs] = reply.tool_calls
            [denied] = reply.denied
            with pytest.raises(CallDenied):
                async with s.tool(denied.call):
                    raise AssertionError("it was not started")
            with pytest.raises(ToolError, match=r"s\.ask\(call\)"):
                async with s.tool(runs):
                    raise AssertionError("it was not started")
            approval = await s.ask(runs)
            await asyncio.to_thread(log.decide, "task", approval, allow=True, by="somebody")
            async with s.tool(runs) as tool:
                tool.result(await tool.run())

    with FakeProvider([Reply(calls=[SECRETS, Asked("run_tests")])]) as fake:
        run(work())
    assert told(log) == [("ok", '{"only":"","failed":0}')]
    sound(log, "task")


class Odd(BaseModel):
    """An argument that checks itself, badly."""

    n: int

    @model_validator(mode="before")
    @classmethod
    def broken(cls, value: Any) -> Any:
        raise ZeroDivisionError


def test_a_check_of_a_tools_own_that_breaks_loses_no_reply(log: AgentLog) -> None:
    def odd(one: Odd) -> None:
        """Do."""

    with log.session("task") as s:
        assert not list(asked(s, Asked("odd", {"one": {"n": "one"}}), tools=[odd]))
    assert payloads(log, ToolDenied)[0].reason == "invalid_arguments"


def test_a_call_that_was_changed_after_it_was_asked_for_does_not_run(log: AgentLog) -> None:
    with log.session("task", approve="side_effects") as s:
        [call] = asked(s, Asked("breaks", {"why": "so"}))
        approval = s.ask(call)
        log.decide("task", approval, allow=True, by="somebody")
        for changed in (
            replace(call, arguments='{"why": "another"}'),
            replace(call, name="run_tests"),
            replace(call, namespace="x"),
        ):
            with pytest.raises(ToolError, match="is not as the model asked"), s.tool(changed):
                raise AssertionError("it was not started")
        with s.tool(call) as run:
            run.result("ran")
    assert len(payloads(log, ToolStarted)) == 1
    sound(log, "task")

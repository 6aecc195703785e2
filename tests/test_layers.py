"""One failure a layer: from log, trace and error alone it is found which layer failed, and why.

CONTRACTS S0-74. Each layer is made to fail for real, and `failures` reads what is left of it the
way an auditor does: it knows the log and the step's trace, and nothing of how the test went on.

| layer | what fails | what is kept |
| --- | --- | --- |
| source | a file that is not there, an index that is down | locator, query, error, time |
| policy | another tenant's item, a requirement without an item | rule, version, refusal |
| builder | an item without room | id, reason, units |
| serializer | a profile that claims too much | digest of the request, config |
| provider | a limit, a connection that breaks | class, attempts, latency |
| decision | a call that its tool's schema does not allow | the decision, the contract |
| action | a tool that fails, a path that is denied | the gateway's answer, scope, receipt |
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.profiles import Medium, profile_for, profile_of
from sawlog.builder.selection.stages import name_of
from sawlog.builder.trace import Trace
from sawlog.builder.weighing import GATES
from sawlog.providers.fake import Call, Drop, HttpError, Reply
from sawlog.store.content import TextPart
from sawlog.store.errors import AttemptFailed, CallDenied, InvalidItem, Refused
from sawlog.store.event import Event
from sawlog.store.events.conversation import (
    ToolChecked,
    ToolDenied,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.items import ItemOffered
from sawlog.store.events.steps import AttemptLost, AttemptRefused, AttemptSent, PacketBuilt
from sawlog.store.events.world import ObservationRecorded, ToolsChanged
from sawlog.work.session import Session
from tests.session.agents import APIS, next_step, opened, provided, sound, talker

API = "openai-chat"
SECOND = 1_000_000

Evidence = dict[str, Any]


# --- the auditor ----------------------------------------------------------------------------------

_POLICY = {name_of(gate) for gate in GATES}
_DECISION = {"unknown_tool", "invalid_arguments", "missing_required_arguments"}


class _Reading:
    """What a log's events say of each other."""

    def __init__(self, events: list[Event]) -> None:
        self.by_id = {event.id: event for event in events}
        self.started: dict[str, Event] = {}
        self.checked: dict[str, ToolChecked] = {}
        self.sent: dict[tuple[int, int], Event] = {}
        self.packets: dict[int, PacketBuilt] = {}
        self.tools = ToolsChanged(())
        for event in events:
            match event.content:
                case ToolStarted(call=call):
                    self.started[call] = event
                case ToolChecked(call=call):
                    self.checked[call] = event.content
                case AttemptSent(number=number):
                    self.sent[event.step, number] = event
                case PacketBuilt():
                    self.packets[event.step] = event.content
                case ToolsChanged():
                    self.tools = event.content
                case _:
                    pass

    def asked(self, call: str) -> ToolRequested:
        content = self.by_id[call].content
        assert isinstance(content, ToolRequested)
        return content

    def allowed(self, call: str) -> tuple[str, str]:
        """The gateway's answer to a call that was started: its policy, and why."""
        started = self.started[call].content
        assert isinstance(started, ToolStarted)
        return str(started.allowed_by), started.reason


def failures(
    log: AgentLog, *, trace: Trace | None = None, error: Refused | None = None
) -> dict[str, list[Evidence]]:
    """The layers that failed in the session `task`, each with the evidence of each failure."""
    events = list(log.read("task").events())
    read = _Reading(events)
    found: dict[str, list[Evidence]] = defaultdict(list)
    for event in events:
        match event.content:
            case ToolFinished(status="error" | "interrupted"):
                layer, evidence = _of_run(event, event.content, read)
                found[layer].append(evidence)
            case ObservationRecorded() if "could not be read" in _text(event.content.parts):
                told = _text(event.content.parts)
                name = str(event.content.name)
                found["source"].append(
                    {"source": (event.source, name), "error": told, "at": event.occurred_at}
                )
            case AttemptRefused() | AttemptLost():
                layer, evidence = _of_attempt(event, read)
                found[layer].append(evidence)
            case ToolDenied(call=call):
                reason = read.checked[call].reason
                layer = "decision" if reason in _DECISION else "action"
                asked = read.asked(call)
                found[layer].append(
                    {
                        "decision": (str(asked.name), str(asked.arguments)),
                        "contract": [str(one.source) for one in read.tools.tools],
                        "gateway": (str(event.content.by), reason),
                        "receipt": call in read.started,
                    }
                )
            case _:
                pass
    for one in trace.verdicts if trace is not None else ():
        if one.outcome == "dropped" and one.stage in _POLICY:
            [packet] = read.packets.values()
            rule = (one.stage, one.reason, str(packet.policy))
            found["policy"].append({"rule": rule, "seq": one.seq})
        elif one.outcome == "dropped" and one.stage == "budget":
            found["builder"].append({"seq": one.seq, "reason": one.reason, "units": one.units})
    if error is not None:
        layer = {"needs_context": "policy", "cannot_fit": "builder"}[error.reason]
        found[layer].append(
            {
                "refusal": error.reason,
                "needs": error.needs,
                "rule": error.policy,
                "said": str(error),
            }
        )
    return dict(found)


def _of_run(event: Event, result: ToolFinished, read: _Reading) -> tuple[str, Evidence]:
    """A run that failed: of a tool that reads, it is the source; of another, the action."""
    asked, start = read.asked(result.call), read.started[result.call]
    assert isinstance(start.content, ToolStarted)
    if start.content.effect == "read_only":
        return "source", {
            "source": (f"tool:{asked.name}", str(asked.name)),
            "query": json.loads(str(asked.arguments)),
            "error": _text(result.parts),
            "at": event.occurred_at,
        }
    return "action", {
        "gateway": read.allowed(result.call),
        "scope": (start.content.effect, str(start.content.key)),
        "receipt": (result.status, _text(result.parts)),
    }


def _of_attempt(event: Event, read: _Reading) -> tuple[str, Evidence]:
    """An attempt without a reply: bytes that no try can mend are the serializer's doing."""
    assert isinstance(event.content, AttemptRefused | AttemptLost)
    packet, sent = read.packets[event.step], read.sent[event.step, event.content.number]
    kind = event.content.kind if isinstance(event.content, AttemptRefused) else "lost"
    if kind == "invalid_request":
        return "serializer", {
            "request": packet.request,
            "config": (str(packet.renderer), str(packet.profile), packet.params, packet.model),
            "profile": packet.profile_digest,
        }
    return "provider", {
        "class": kind,
        "attempts": len([one for one in read.sent if one[0] == event.step]),
        "latency": event.occurred_at - sent.occurred_at,
    }


def _text(parts: tuple[Any, ...]) -> str:
    return "\n".join(str(part.text) for part in parts if isinstance(part, TextPart))


# --- the sessions ---------------------------------------------------------------------------------


class Ticking:
    """A clock on which a millisecond passes at each look."""

    def __init__(self) -> None:
        self.now = 1_800_000_000 * SECOND

    def __call__(self) -> int:
        self.now += 1_000
        return self.now


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    with opened(str(tmp_path / "agent.db"), clock=Ticking()) as log:
        yield log


def read_file(path: str, lines: int = 0) -> str:
    """Read a file."""
    return Path(path).read_text()


def deploy(service: str) -> str:
    """Put a service live."""
    raise TimeoutError(f"{service} did not come up")


TOOLS: list[Any] = [sawlog.tool(read_file, effect="read_only"), deploy]


def asked(s: Session, call: Call) -> Any:
    """The reply to a step that asks for one call, through a real client."""
    s.tools(TOOLS)
    s.user("go")
    with provided(API, [Reply(calls=[call])]) as (_, client):
        return next_step(s, API).send(client)


def test_a_session_in_which_nothing_failed_blames_no_layer(log: AgentLog, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with log.session("task") as s:
        s.task("mend it", requirements=["schema"])
        s.offer("the schema", channel="repository_file", source_id="s", required_for=["schema"])
        [call] = asked(s, Call("read_file", {"path": "a.py"})).tool_calls
        with s.tool(call) as run:
            run.result(run.read("a.py", root=tmp_path))
        step = next_step(s, API)
        step.send(talker())
    assert failures(log, trace=step.packet.trace) == {}


# --- source ---------------------------------------------------------------------------------------


def test_layer_source_keeps_locator_query_error_and_time(log: AgentLog, tmp_path: Path) -> None:
    with log.session("task") as s:
        [call] = asked(s, Call("read_file", {"path": "gone.py", "lines": 3})).tool_calls
        with s.tool(call) as run:
            run.result(run.read("gone.py", root=tmp_path))
        step = next_step(s, API)
        step.send(talker())
    [found] = (every := failures(log, trace=step.packet.trace)).pop("source")
    assert every == {}
    assert found["query"] == {"path": "gone.py", "lines": 3}
    assert "gone.py" in found["error"] and found["source"][0] == "tool:read_file"
    assert found["at"] > 1_800_000_000 * SECOND
    sound(log, "task")


def test_layer_source_says_what_the_harness_itself_could_not_fetch(log: AgentLog) -> None:
    """The model is told, too: what is not there is not taken for what does not exist."""
    with log.session("task") as s:
        s.unavailable(
            "TimeoutError: the index did not answer",
            channel="retrieval",
            source_id="handbook",
            query="refund </untrusted> rules",
            locator="index://handbook",
        )
        s.user("go")
        step = next_step(s, API)
        step.send(talker())
        [entry] = [one for one in step.packet.entries if one.kind == "observation"]
    assert (entry.name, entry.trust) == ("handbook", "untrusted")
    assert b"rules" in step.body and b"refund </untrusted> rules" not in step.body
    [found] = (every := failures(log, trace=step.packet.trace)).pop("source")
    assert every == {}
    assert found["source"] == ("retrieval", "handbook")
    assert found["error"] == (
        "This source could not be read: TimeoutError: the index did not answer\n"
        "looked for: refund </untrusted> rules\nat: index://handbook"
    )
    assert [one.present for one in log.read("task").steps[1].why("handbook")] == [True]
    sound(log, "task")


def test_layer_source_is_named_or_refused(log: AgentLog) -> None:
    with log.session("task", loading={"memory": "never"}) as s:
        for channel, source_id, code in (
            ("nowhere", "a", "unknown_source_channel"),
            ("retrieval", " ", "blank_item_id"),
            ("secret_fixture", "vault:key", "never_loaded"),
            ("memory", "style", "never_loaded"),
        ):
            with pytest.raises(InvalidItem) as refused:
                s.unavailable("down", channel=channel, source_id=source_id)
            assert refused.value.code == code
        s.unavailable("x" * 100_000, channel="retrieval", source_id="long")
        s.user("go")
        step = next_step(s, API)
        assert len(step.body) < 4_000 and b"bytes are left out here" in step.body
        step.send(talker())
    sound(log, "task")


# --- policy ---------------------------------------------------------------------------------------


def test_layer_policy_keeps_the_rule_its_version_and_what_it_refused(log: AgentLog) -> None:
    with log.session("task") as s:
        s.task("answer", tenant="north")
        id = s.offer("the price", channel="verified_fact", source_id="price", tenant="south")
        s.user("go")
        step = next_step(s, API)
        step.send(talker())
    [found] = (every := failures(log, trace=step.packet.trace)).pop("policy")
    assert every == {}
    assert found["rule"] == ("scope", "out_of_scope", "default@2")
    [item] = [one for one in log.read("task").events() if one.seq == found["seq"]]
    assert item.id == id and isinstance(item.content, ItemOffered)
    recorded = log.read("task").steps[1].trace()
    assert failures(log, trace=recorded) == {"policy": [found]}, "it is found again later"


def test_layer_policy_names_its_version_also_where_there_is_no_packet(log: AgentLog) -> None:
    with log.session("task") as s:
        s.task("mend it", requirements=["owner"])
        s.user("go")
        with pytest.raises(Refused) as refused:
            next_step(s, API)
    [found] = (every := failures(log, error=refused.value)).pop("policy")
    assert every == {}
    assert (found["refusal"], found["needs"]) == ("needs_context", ("owner",))
    assert found["rule"] == "default@2"


# --- builder --------------------------------------------------------------------------------------


def test_layer_builder_keeps_ids_reasons_and_units(log: AgentLog) -> None:
    with log.session("task", window=400) as s:
        s.offer("a short fact", channel="verified_fact", source_id="short")
        id = s.offer("x" * 4_000, channel="verified_fact", source_id="long")
        s.user("go")
        step = next_step(s, API)
        step.send(talker())
    [found] = (every := failures(log, trace=step.packet.trace)).pop("builder")
    assert every == {}
    assert found["reason"] == "budget_exceeded" and found["units"] >= 1_000
    assert [one.id for one in log.read("task").events() if one.seq == found["seq"]] == [id]


def test_layer_builder_names_what_cannot_fit_where_there_is_no_packet(log: AgentLog) -> None:
    with log.session("task", window=300) as s:
        s.task("mend it", requirements=["big"])
        s.offer("x" * 4_000, channel="repository_file", source_id="b", required_for=["big"])
        s.user("go")
        with pytest.raises(Refused) as refused:
            next_step(s, API)
    [found] = (every := failures(log, error=refused.value)).pop("builder")
    assert every == {}
    assert found["refusal"] == "cannot_fit" and "big" in found["needs"]
    assert "units" in found["said"] and found["rule"] == "default@2"


# --- serializer -----------------------------------------------------------------------------------


def test_layer_serializer_keeps_the_digest_of_the_request_and_its_config(log: AgentLog) -> None:
    """A profile of a caller's own says that the model takes bitmaps; the provider takes none."""
    base, _ = profile_for(API, "test-model")
    bitmaps = Medium(("image/bmp",), "image", ("data",), ("user",))
    profile = profile_of(msgspec.structs.replace(base, name="wide", media=(bitmaps,)).text)
    with log.session("task", profile=profile) as s, provided(API, [Reply("ok")]) as (fake, client):
        s.user([TextPart("What is this?"), s.media(b"BM" + bytes(30), "image/bmp")])
        step = next_step(s, API, temperature=0)
        with pytest.raises(AttemptFailed, match="invalid_request"):
            step.send(client)
        assert fake.requests[0].body == step.body
    [found] = (every := failures(log, trace=step.packet.trace)).pop("serializer")
    assert every == {}
    assert found["request"] == step.packet.request.digest
    assert found["config"] == ("openai-chat@1", "wide@1", '{"temperature":0}', "test-model")
    assert found["profile"] == profile.digest
    assert log.read("task").steps[1].packet.body == step.body, "the very bytes can be looked at"


# --- provider -------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_layer_provider_keeps_class_attempts_and_latency(log: AgentLog, api: str) -> None:
    soon = {"retry-after": "0"}
    script = [HttpError(429, headers=soon), HttpError(429, headers=soon), Reply("ok")]
    with log.session("task") as s, provided(api, script) as (_, client):
        s.user("go")
        step = next_step(s, api)
        assert step.send(client, retries=2).text == "ok"
    first, second = (every := failures(log, trace=step.packet.trace)).pop("provider")
    assert every == {}
    assert [first["class"], second["class"]] == ["rate_limit"] * 2
    assert first["attempts"] == second["attempts"] == 3
    assert first["latency"] > 0 and second["latency"] > 0


def test_layer_provider_has_the_attempts_of_which_nobody_knows(log: AgentLog) -> None:
    with log.session("task") as s, provided(API, [Drop()]) as (_, client):
        s.user("go")
        with pytest.raises(openai.APIConnectionError):
            next_step(s, API).send(client)
    [found] = (every := failures(log)).pop("provider")
    assert every == {}
    assert (found["class"], found["attempts"]) == ("lost", 1) and found["latency"] > 0


# --- decision -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (Call("read_file", {"lines": 3}), "missing_required_arguments"),
        (Call("read_file", {"path": "a.py", "lines": "three"}), "invalid_arguments"),
        (Call("delete_all", {}), "unknown_tool"),
    ],
)
def test_layer_decision_keeps_the_decision_beside_the_contract(
    log: AgentLog, call: Call, reason: str
) -> None:
    with log.session("task") as s:
        reply = asked(s, call)
        assert [one.reason for one in reply.denied] == [reason]
        step = next_step(s, API)
        step.send(talker())
    [found] = (every := failures(log, trace=step.packet.trace)).pop("decision")
    assert every == {}
    name, arguments = found["decision"]
    assert (name, json.loads(arguments)) == (call.name, call.arguments)
    assert found["gateway"] == ("gateway:strict@1", reason) and found["receipt"] is False
    schemas = {one["name"]: one for one in map(json.loads, found["contract"])}
    assert schemas["read_file"]["parameters"]["required"] == ["path"]
    assert (reason == "unknown_tool") == (name not in schemas)


# --- action ---------------------------------------------------------------------------------------


def test_layer_action_keeps_the_gateways_answer_the_scope_and_the_receipt(log: AgentLog) -> None:
    with log.session("task", approve="side_effects") as s:
        [call] = asked(s, Call("deploy", {"service": "shop"})).tool_calls
        log.decide("task", s.ask(call), allow=True, by="somebody")
        with s.tool(call) as run:
            run.result(call.run())
        step = next_step(s, API)
        step.send(talker())
    [found] = (every := failures(log, trace=step.packet.trace)).pop("action")
    assert every == {}
    assert found["gateway"] == ("strict@1", "side_effect_requires_approval: approved")
    assert found["scope"] == ("side_effect", call.event_id)
    assert found["receipt"] == ("error", "TimeoutError: shop did not come up")
    sound(log, "task")


def test_layer_action_shows_that_what_the_gateway_denied_never_ran(log: AgentLog) -> None:
    with log.session("task") as s:
        [denied] = asked(s, Call("read_file", {"path": "/etc/passwd"})).denied
        with pytest.raises(CallDenied), s.tool(denied.call):
            raise AssertionError("it was started")
        step = next_step(s, API)
        step.send(talker())
    [found] = (every := failures(log, trace=step.packet.trace)).pop("action")
    assert every == {}
    assert found["gateway"] == ("gateway:strict@1", "absolute_path")
    assert found["receipt"] is False

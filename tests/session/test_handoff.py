"""Sessions handed over: any recorded one continues with any provider, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.handoffrequest import Handoff
from sawlog.audit.recorded import Recorded
from sawlog.builder.measure import measure_of
from sawlog.builder.policy import Rules
from sawlog.builder.profiles import profile_for, profile_of
from sawlog.importing import import_path
from sawlog.providers.fake import Call, Reply
from sawlog.providers.strict import APIS, check
from sawlog.store.errors import ConfigError, Refused
from sawlog.store.exchange import load
from tests.session.agents import TOOLS, fix, next_step, opened, params, provided, script, talker
from tests.session.foreign_files import FILES, FOREIGN, TURNS, beginning, lines, stream
from tests.session.handing import SAID, assert_accepted, handed, pairs
from tests.session.test_compacting import worked

GOLDEN = Path(__file__).parents[2] / "fixtures" / "sessions"
LOG = FOREIGN / "openai-chat" / "log.json"
ODD = FOREIGN / "openai-chat" / "odd.json"
V0146 = FOREIGN / "codex" / "v0146.jsonl"

each_api = pytest.mark.parametrize("api", APIS)
each_foreign = pytest.mark.parametrize("file", [*FILES, LOG, ODD], ids=lambda file: file.stem)
NAMES = sorted(file.stem for file in GOLDEN.glob("*.jsonl"))
each_golden = pytest.mark.parametrize("name", NAMES)


def golden(log: AgentLog, name: str) -> Recorded:
    """A golden session, loaded."""
    with (GOLDEN / f"{name}.jsonl").open("rb") as lines:
        return log.read(load(log.store, lines, name=name).id.hex())


def imported(log: AgentLog, file: Path) -> Recorded:
    """The main session of a foreign file."""
    return log.read(import_path(log, file)[0].session)


# --- every session, every provider ----------------------------------------------------------------


@each_foreign
def test_what_another_tool_recorded_goes_on_with_each_provider(file: Path, log: AgentLog) -> None:
    """Law 6: accepted or a named refusal; nothing that is sealed goes; nothing is written."""
    for one in import_path(log, file):
        before = stream(log, one)
        for api in APIS:
            found = handed(log.read(one.session), api)
            assert_accepted(found)
            assert found.sees == len(before)
            assert "request_parameters" not in found.missing
            assert handed(log.read(one.session), api).body == found.body
        assert stream(log, one) == before


@each_golden
def test_a_session_of_one_s_own_goes_on_with_each_provider(name: str, log: AgentLog) -> None:
    recorded = golden(log, name)
    before = stream(log, recorded.id)
    for api in APIS:
        assert_accepted(handed(recorded, api), ours=True)
    assert stream(log, recorded.id) == before


# A step of `around` would claim what waits in its inbox, too.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "around"])
@each_api
def test_the_request_is_the_one_that_a_step_of_the_session_sends(
    name: str, api: str, log: AgentLog
) -> None:
    """Law 3: byte for byte what the log will have, were it logged."""
    recorded = golden(log, name)
    found = handed(recorded, api, say=SAID)
    with log.session(name) as s:
        s.user(SAID)
        limit: dict[str, Any] = params(api)
        sent = s.step(api, model="some-model", allow_waiting=True, **limit)
        assert found.body == sent.body
        assert found.request.digest == sent.packet.request.digest
        assert found.semantic == sent.packet.semantic
        sent.abandon()


@pytest.mark.parametrize("source", [api for api in APIS if api != "openai-chat"])
def test_thinking_goes_back_to_the_one_that_sealed_it_and_to_no_other(
    source: str, tmp_path: Path
) -> None:
    with opened(str(tmp_path / "agent.db")) as log:
        more: dict[str, Any] = params(source)
        if source == "openai-responses":
            more = {"store": False, "include": ["reasoning.encrypted_content"]}
        with log.session("task") as s, provided(source, fix(source)) as (_, client):
            s.system("You fix bugs.")
            s.tools(TOOLS)
            s.user("it fails")
            while True:
                reply = s.step(source, model="test-model", **more).send(client)
                for call in reply.tool_calls:
                    with s.tool(call) as run:
                        run.result("read")
                if not reply.tool_calls:
                    break
        recorded = log.read("task")
        there = recorded.handoff(provider=source, say=SAID, **params(source))
        assert there.header.model == "test-model"  # the session's own of this API
        assert_accepted(there, ours=True)
        for api in APIS:
            found = handed(recorded, api)  # under another model, or by another API
            assert_accepted(found)
            why = "other_model" if api == source else "other_provider"
            bound = [note for note in found.left_out if note.bound]
            assert bound and {note.why for note in bound} == {why}
        # What can be sent by its form went back: the rest was never whole.
        kept = {note.why for note in there.left_out if note.bound}
        assert kept <= {"no_partner", "reference"}
        if source != "openai-responses":
            assert not kept


# --- what stands in it ----------------------------------------------------------------------------


@each_api
def test_a_call_without_a_result_shows_that_it_has_none(
    api: str, log: AgentLog, tmp_path: Path
) -> None:
    rows = lines(TURNS)
    asked = next(at for at, row in enumerate(rows) if b'"function_call"' in row)
    recorded = imported(log, beginning(TURNS, tmp_path, asked + 1))
    found = handed(recorded, api)
    assert [(one.name, one.status) for one in found.open_calls] == [("exec_command", "not_started")]
    assert b"This call was not started" in found.body
    assert found.undeclared == ("exec_command",)
    said = handed(recorded, api, say=SAID)
    assert_accepted(said)
    assert [entry.text for entry in said.entries][-1] == SAID  # behind the result


def test_a_call_that_waits_for_an_approval_is_shown_as_such(log: AgentLog) -> None:
    reply = Reply("", calls=[Call("read_file", {"path": "a"}, "toolu_1")])
    with log.session("task") as s, provided("anthropic", [reply]) as (_, client):
        s.tools(TOOLS)
        s.user("read it")
        [call] = next_step(s, "anthropic").send(client).tool_calls
        s.ask(call, "may I?")
    for api in APIS:
        found = handed(log.read("task"), api)
        assert_accepted(found)
        assert [one.status for one in found.open_calls] == ["awaiting_approval"]
        assert found.undeclared == ()


@each_api
def test_a_checkpoint_heads_it_and_what_it_replaced_is_not_in_it(api: str, log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s)
        s.compact(budget=2000, keep_user=0)
    found = handed(log.read("task"), api)
    assert_accepted(found)
    assert b"Checkpoint 1." in found.body
    assert b"content of f0" not in found.body and b"content of f3" in found.body
    assert not found.summary_lost


@each_api
def test_behind_a_foreign_compaction_only_what_it_left_is_there(api: str, log: AgentLog) -> None:
    recorded = imported(log, FOREIGN / "codex" / "compacted-list.jsonl")
    found = handed(recorded, api)
    gone = next(
        entry.text
        for entry in recorded.steps[1].packet.entries
        if entry.kind == "user" and "lines" in entry.text
    )
    assert gone not in [entry.text for entry in found.entries]
    assert found.summary_lost and "compaction_summary" in found.missing


@each_foreign
def test_with_a_window_the_history_is_cut_between_units(file: Path, log: AgentLog) -> None:
    recorded = imported(log, file)
    units_of = measure_of(Rules().measure)
    cut = 0
    for api in APIS:
        whole = handed(recorded, api, say=SAID)
        room = sum(map(units_of, whole.entries))
        for part in (2, 3):
            try:
                found = handed(recorded, api, say=SAID, window=room * part // 4)
            except Refused as refused:
                assert (refused.reason, bool(refused.needs)) == ("cannot_fit", True)
                continue
            assert_accepted(found)
            assert sum(map(units_of, found.entries)) <= room * part // 4
            budget = [one for one in found.dropped if one.stage == "budget"]
            assert budget and all(one.reason for one in budget)
            cut += 1
    assert cut or file.stem not in ("turns", "v0146", "odd-lines", "split-reply")


def test_the_session_s_own_window_holds_unless_another_is_given(log: AgentLog) -> None:
    with log.session("task", window=1600) as s:
        for turn in range(6):
            s.user(f"question {turn}: " + "q" * 900)
            next_step(s, "openai-chat").send(talker(f"answer {turn}"))
    recorded = log.read("task")

    def cuts(found: Handoff) -> bool:
        return any(one.stage == "budget" for one in found.dropped)

    long = "x" * 2000
    own = handed(recorded, "openai-responses", say=long)
    free = handed(recorded, "openai-responses", say=long, window=0)
    less = handed(recorded, "openai-responses", say=long, reserve=600)
    assert (cuts(own), cuts(free), cuts(less)) == (True, False, True)
    assert b"question 5" in own.body and b"question 3" in free.body
    assert len(less.body) < len(own.body) < len(free.body)
    base, _ = profile_for("openai-responses", "some-model")
    sized: dict[str, Any] = json.loads(base.text) | {"name": "mine/m", "window": 100_000}
    mine = handed(recorded, "openai-responses", say=long, profile=profile_of(json.dumps(sized)))
    assert str(mine.header.profile) == "mine/m@1"
    assert mine.body == free.body


@each_api
def test_tools_are_those_in_force_unless_others_are_given(api: str, log: AgentLog) -> None:
    with log.session("task") as s, provided("openai-chat", fix("openai-chat")) as (_, client):
        script(s, "openai-chat", client)
    recorded = log.read("task")
    found = handed(recorded, api)
    tools = json.loads(found.body)["tools"]
    names = [tool.get("name") or tool["function"]["name"] for tool in tools]
    assert names == ["read_file", "run_tests", "breaks"]
    assert (found.undeclared, found.missing) == ((), ())
    one = handed(recorded, api, tools=TOOLS[:1])
    assert_accepted(one)
    assert one.undeclared == ("run_tests", "breaks")
    assert len(json.loads(one.body)["tools"]) == 1
    none = handed(recorded, api, tools=[])
    assert_accepted(none)
    assert "tools" not in json.loads(none.body)


@each_api
def test_a_tool_that_its_provider_runs_is_not_offered_to_another(api: str, log: AgentLog) -> None:
    recorded = imported(log, LOG)
    whole = json.loads(LOG.read_bytes())
    assert "web_search" in [tool["type"] for tool in whole["tools"]]
    found = handed(recorded, api)
    assert b"web_search" not in found.body
    [note] = [note for note in found.left_out if note.kind == "tool"]
    assert (note.why, note.part) == ("other_provider", len(whole["tools"]))
    assert recorded.window.event(note.seq).type == "tools.changed"


def test_parameters_are_the_caller_s_alone(log: AgentLog) -> None:
    recorded = imported(log, LOG)
    found = handed(recorded, "openai-chat", temperature=0.5, tool_choice="auto")
    body: dict[str, Any] = json.loads(found.body)
    assert list(body) == ["temperature", "tool_choice", "model", "tools", "messages"]
    assert found.header.params == '{"temperature":0.5,"tool_choice":"auto"}'
    with pytest.raises(ConfigError, match="'messages' is the renderer's"):
        handed(recorded, "openai-chat", messages=[])


def test_notes_are_counted_by_kind_and_lead_to_their_events(log: AgentLog) -> None:
    recorded = imported(log, TURNS)
    found = handed(recorded, "anthropic")
    told = [(count, note.bound or note.kind, note.what, note.why) for count, note in found.counted]
    assert told == [
        (2, "reasoning", "left_out", "other_provider"),
        (1, "call", "wrapped", "free_form"),
    ]
    for note in found.notes:
        assert recorded.window.event(note.seq).seq == found.refs[note.entry].seq
        assert found.entries[note.entry].kind == note.kind


def test_the_inbox_is_counted_and_left_where_it_is(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("first")
        s.inject("second")
    found = handed(log.read("task"), "openai-chat")
    assert found.inbox == 1 and b"second" not in found.body


def test_two_handovers_of_one_reading_do_not_meet(log: AgentLog) -> None:
    recorded = imported(log, TURNS)
    before = handed(recorded, "openai-chat").body
    said = handed(recorded, "openai-chat", say=SAID, tools=TOOLS)
    assert handed(recorded, "openai-chat").body == before != said.body
    assert said.sees == recorded.row.head


# --- what is refused, with the mend ---------------------------------------------------------------


def test_what_is_lacking_is_asked_for_by_name(log: AgentLog) -> None:
    recorded = imported(log, TURNS)
    with pytest.raises(ConfigError, match="names no model of anthropic.*model=NAME"):
        recorded.handoff(provider="anthropic", max_tokens=5)
    with pytest.raises(ConfigError, match="refuses a request without 'max_tokens'"):
        recorded.handoff(provider="anthropic", model="m")
    with pytest.raises(ConfigError, match="no provider 'nobody': use one of anthropic"):
        recorded.handoff(provider="nobody", model="m")
    with pytest.raises(ConfigError, match="an empty message"):
        recorded.handoff(provider="openai", model="m", say=" \n")
    # The file names the model of its own API.
    assert recorded.handoff(provider="openai").header.model == "gpt-5.4"


@each_api
def test_a_history_that_ends_with_the_model_s_reply_wants_a_message(
    api: str, log: AgentLog
) -> None:
    recorded = imported(log, FOREIGN / "claude-code" / "rewind.jsonl")
    with pytest.raises(Refused) as refused:
        recorded.handoff(provider=api, model="m", **params(api))
    assert refused.value.reason == "nothing_to_send"
    assert "say=TEXT" in str(refused.value) and "--say TEXT" in str(refused.value)
    found = recorded.handoff(provider=api, model="m", say=SAID, **params(api))
    last = found.entries[-1]
    assert (last.kind, last.authority, last.text, found.said) == ("user", "user", SAID, SAID)
    assert found.refs[-1].seq == found.sees + 1
    check(api, found.body, dict(found.request.headers), key=None)


def test_a_session_without_a_word_wants_one(log: AgentLog) -> None:
    with log.session("empty"):
        pass
    recorded = log.read("empty")
    with pytest.raises(Refused, match="the history is empty.*--say"):
        recorded.handoff(provider="openai", model="m")
    found = recorded.handoff(provider="openai", model="m", say="Begin.")
    assert_accepted(found)
    assert [entry.text for entry in found.entries] == ["Begin."]


PAUSED: dict[str, Any] = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {},
}


def test_a_paused_reply_goes_back_to_the_one_that_paused_it_alone(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("search")
        answer: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "some-model",
            "content": [{"type": "text", "text": "I search."}, PAUSED],
            "stop_reason": "pause_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        s.step("anthropic", model="some-model", max_tokens=1000).answer(answer)
    recorded = log.read("task")
    back = recorded.handoff(provider="anthropic", max_tokens=1000)
    assert json.loads(back.body)["messages"][-1]["content"][-1] == PAUSED
    for api in APIS[1:]:
        with pytest.raises(Refused, match="its own provider alone can go on with.*--say"):
            recorded.handoff(provider=api, model="m")
        assert_accepted(recorded.handoff(provider=api, model="m", say=SAID))


def test_ids_that_a_provider_would_refuse_are_mapped_in_pairs(log: AgentLog) -> None:
    recorded = imported(log, FOREIGN / "codex" / "aborts.jsonl")
    found = handed(recorded, "anthropic")
    asked, answered = pairs(found)
    assert asked == answered
    mapped = [note for note in found.notes if (note.what, note.why) == ("mapped", "id")]
    assert mapped and all(note.kind == "call" for note in mapped)
    ids = [entry.call_id for entry in found.entries if entry.kind == "call"]
    assert len(set(ids)) < len(ids) == asked.total() == len(asked)  # the file uses some twice

"""The command over requests that other programs built, and over streamed replies."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

import sawlog as library
from sawlog.agentlog import AgentLog
from sawlog.providers.strict import check
from tests.cli import spoken
from tests.cli.command import one_sentence, sawlog, spawned
from tests.recorder.programs import APIS
from tests.session.agents import next_step

apis = pytest.mark.parametrize("api", APIS)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "agent.db")


@pytest.fixture
def log(store: str) -> Generator[AgentLog]:
    with library.open(store) as log:
        yield log


# --- packet ---------------------------------------------------------------------------------------


@apis
def test_raw_is_what_arrived_byte_for_byte(store: str, log: AgentLog, api: str) -> None:
    bodies = {"program": spoken.recorded(log, api), "streamed": spoken.streamed(log, api)}
    for name, arrived in bodies.items():
        for number, body in enumerate(arrived, 1):
            assert sawlog("--store", store, "packet", f"{name}@{number}", "--raw").out == body
    done = spawned("--store", store, "packet", "program@4", "--raw")
    assert (done.code, done.out, done.err) == (0, bodies["program"][3], "")


@apis
def test_a_recorded_packet_names_the_event_of_each_entry(
    store: str, log: AgentLog, api: str
) -> None:
    spoken.recorded(log, api)
    found = sawlog("--store", store, "packet", "program@4", "--json").json
    assert (found["origin"], found["sent"]) == ("recorded", "exact")
    types = {event.seq: event.type for event in log.read("program").events()}
    for entry in found["entries"]:
        said = types[entry["seq"]] if entry["seq"] else ""
        wanted = {
            "tool": "tools.changed",
            "call": "tool.requested",
            "result": "tool.finished",
            "system": "message.system",
            "user": "message.user",
            "assistant": "message.assistant",
        }
        assert said == wanted.get(entry["kind"], said), entry
    history = [(entry["seq"], entry["part"]) for entry in found["entries"] if entry["seq"]]
    spoken_of = [one for one in history if types[one[0]] not in ("message.system", "tools.changed")]
    assert len(spoken_of) >= 7 and spoken_of == sorted(set(spoken_of))  # each once, in its order
    told = sawlog("--store", store, "packet", "program@4")
    assert told.code == 0
    assert "another program built it" in told.text and "exact: these bytes left" in told.text
    assert "none@0" not in told.text


@apis
@pytest.mark.parametrize("other", APIS)
def test_a_recorded_history_is_rendered_for_another_provider(
    store: str, log: AgentLog, api: str, other: str
) -> None:
    bodies = spoken.recorded(log, api)
    done = sawlog("--store", store, "packet", "program@4", "--provider", other, "--raw")
    assert (done.code, done.err) == (0, "")
    if other == api:
        assert done.out == bodies[3]
        return
    check(other, done.out)  # raises what the provider would refuse
    assert b"read_file" in done.out
    told = sawlog("--store", store, "packet", "program@4", "--provider", other, "--json").json
    assert (told["origin"], told["sent"], told["missing"]) == ("rendered", None, [])


def test_a_packet_that_was_never_sent_is_not_called_exact(store: str, log: AgentLog) -> None:
    with log.session("waiting") as s:
        s.user("hello")
        step = next_step(s, "openai-chat")
        assert "not yet" in sawlog("--store", store, "packet", "waiting@1").text
        assert "not yet" in sawlog("--store", store, "show", "waiting@1").text
        assert sawlog("--store", store, "packet", "waiting@1", "--json").json["sent"] is None
        step.answer({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]})
    assert sawlog("--store", store, "show", "waiting@1", "--json").json["sent"] == "unconfirmed"
    assert "received by the caller" in sawlog("--store", store, "show", "waiting@1").text


# --- diff -----------------------------------------------------------------------------------------


@apis
def test_diff_of_two_recorded_steps_names_what_came(store: str, log: AgentLog, api: str) -> None:
    spoken.recorded(log, api)
    [change] = sawlog("--store", store, "diff", "program@1", "program@2", "--json").json["changes"]
    assert change["op"] == "added" and change["old"] == []
    kinds = [entry["kind"] for entry in change["new"] if "/" not in entry["kind"]]
    assert kinds == ["assistant", "call", "result"]
    packet = sawlog("--store", store, "packet", "program@2", "--json").json
    named = packet["entries"][change["new_at"]]
    assert (named["kind"], named["text"][:120]) == (
        change["new"][0]["kind"],
        change["new"][0]["excerpt"],
    )


def test_diff_across_an_edit_names_what_went_and_what_stands_for_it(
    store: str, log: AgentLog
) -> None:
    spoken.edited(log)
    changes = sawlog("--store", store, "diff", "edited@4", "edited@5", "--json").json["changes"]
    assert [change["op"] for change in changes] == ["changed", "added"]
    assert [entry["excerpt"] for entry in changes[0]["new"]] == [spoken.SUMMARY]
    assert [entry["kind"] for entry in changes[0]["old"]] == [
        "user", "assistant", "call", "result", "assistant",
    ]  # fmt: skip


@apis
def test_diff_of_a_built_and_a_recorded_step_is_what_the_model_got_otherwise(
    store: str, log: AgentLog, api: str
) -> None:
    spoken.twice(log, api)
    assert [one.packet.body for one in log.read("built").steps] == [
        one.packet.body for one in log.read("recorded").steps
    ]
    same = sawlog("--store", store, "diff", "built@2", "recorded@2")
    assert (same.code, same.text) == (0, "the two packets show the same\n")
    for old, new, op in (("built@1", "recorded@2", "added"), ("recorded@2", "built@1", "removed")):
        [change] = sawlog("--store", store, "diff", old, new, "--json").json["changes"]
        assert change["op"] == op
        told = change["new"] or change["old"]
        kinds = [entry["kind"] for entry in told if "/" not in entry["kind"]]
        assert kinds == ["assistant", "call", "result"]


# --- why ------------------------------------------------------------------------------------------


@apis
def test_why_sees_what_a_recorded_request_shows(store: str, log: AgentLog, api: str) -> None:
    spoken.recorded(log, api)
    recorded = log.read("program")
    texts = [entry.text for entry in recorded.steps[4].packet.entries if entry.kind == "result"]
    assert len(texts) == 2
    for text in texts:
        [one] = sawlog("--store", store, "why", "program@4", text, "--json").json["parts"]
        assert (one["present"], one["form"], one["type"]) == (True, "recorded", "tool.finished")
    [late] = sawlog("--store", store, "why", "program@2", texts[1], "--json").json["parts"]
    assert (late["present"], late["reason"], late["cause"]) == (False, "not_yet", "not_recalled")
    assert "(recorded): seen in 1 of the 1" in sawlog("--store", store, "why", "-@4", texts[0]).text


def test_why_tells_what_the_program_repeats_no_longer(store: str, log: AgentLog) -> None:
    spoken.edited(log)
    first = next(e for e in log.read("edited").steps[1].packet.entries if e.kind == "user").text
    assert log.read("edited").steps[4].why(first)[0].present
    [gone] = log.read("edited").steps[5].why(first)
    assert (gone.present, gone.reason, gone.cause, gone.changed_by) == (
        False, "edited", "lost_in_compression", "edited",
    )  # fmt: skip
    told = sawlog("--store", store, "why", "edited@5", first).text
    assert "the program that built the requests no longer repeats it" in told
    [said] = log.read("edited").steps[5].why(spoken.SUMMARY)
    assert said.present


def test_why_finds_in_a_request_what_stands_in_no_event_of_it(store: str, log: AgentLog) -> None:
    spoken.recorded(log, "anthropic")
    [schema] = log.read("program").steps[1].why("input_schema")  # the event calls it parameters
    assert (schema.present, schema.type, schema.form) == (True, "tools.changed", "recorded")


def test_an_item_that_no_request_repeats_is_told_as_that(store: str, log: AgentLog) -> None:
    spoken.offered(log, "The port is 8443.")
    step = log.read("program").last_step()
    [item] = log.read("program").steps[step].why("8443")
    assert (item.present, item.reason, item.cause) == (False, "not_repeated", "filtered")
    assert log.read("program").steps[step].trace() is None
    refused = sawlog("--store", store, "case", f"program@{step}")
    assert refused.code == 2 and "another program built" in one_sentence(refused)


# --- show, verify, recover ------------------------------------------------------------------------


def test_show_tells_recordings_in_words(store: str, log: AgentLog) -> None:
    spoken.edited(log)
    told = sawlog("--store", store, "show", "edited", "--all").text
    assert "bytes for openai-chat that another program built" in told
    assert told.count("/v1/chat/completions by openai") == 6  # also where it only says `like`
    assert "the program repeats 5 events no longer" in told
    assert '"spans"' not in told and '"gone"' not in told
    step = sawlog("--store", store, "show", "edited@5")
    assert "sent  exact: these bytes left" in step.text and "reconstructs" not in step.text
    found = sawlog("--store", store, "show", "edited@5", "--json").json
    assert found["sent"] == "exact" and found["packet"] is not None


@apis
def test_show_says_where_a_stream_broke_off(store: str, log: AgentLog, api: str) -> None:
    spoken.streamed(log, api)
    assert "[interrupted] " in sawlog("--store", store, "show", "-").text
    step = sawlog("--store", store, "show", "-@1").text
    assert "200, a stream, interrupted" in step
    assert "rate_limit" in sawlog("--store", store, "show", "-@2").text


@apis
def test_recordings_and_streams_verify_and_have_nothing_to_recover(
    store: str, log: AgentLog, api: str
) -> None:
    spoken.recorded(log, api)
    spoken.streamed(log, api)
    done = sawlog("--store", store, "verify", "--all")
    assert done.code == 0 and "recorded=ok" in done.text and "stored=ok" in done.text
    for name in ("program", "streamed"):
        told = sawlog("--store", store, "recover", name)
        assert (told.code, told.err) == (0, "")
        assert "lost" not in told.text and len(told.text.splitlines()) == 1


def test_what_compares_packets_of_sawlog_says_that_there_is_none(store: str, log: AgentLog) -> None:
    spoken.recorded(log, "openai-chat")
    for words in (("what-if", "program", "--budget", "50%"), ("cache", "program")):
        done = sawlog("--store", store, *words)
        assert done.code == 2 and "another program built all requests" in one_sentence(done)
    with log.session("program") as s:
        s.user("and now?")
        next_step(s, "openai-chat")
    for words in (("what-if", "program", "--budget", "50%"), ("cache", "program")):
        assert sawlog("--store", store, *words).code == 0

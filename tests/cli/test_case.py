"""case: a recorded step as a line that policies are compared on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from sawlog.builder.channels import CHANNELS
from sawlog.labs.chapter5.casefile import case_of
from sawlog.labs.chapter5.checking import samples
from sawlog.labs.comparing import policy_named
from sawlog.store.events.world import FileChanged, Saw
from sawlog.work.session import Session
from tests.cli.command import one_sentence, sawlog
from tests.session.agents import next_step, talker

EVAL = ("eval", "chapter5", "--baseline", "dump-all-v1", "--candidate", "default", "--cases")


def write(log: AgentLog) -> None:
    """A session whose notes fill the window before what its task needs is offered."""
    with log.session("fix-port", window=200) as s:
        s.task("Find the port", requirements=["port"], repository="shop")
        for at in range(6):
            s.offer(f"Note {at}. " + "n" * 160, channel="memory", source_id=f"notes/{at}")
        s.offer(channel="secret_fixture", source_id="token", handle="vault/token")
        s.offer(
            "The port is 8443.",
            channel="retrieval",
            source_id="conf",
            locator="conf.py:3",
            title="conf.py",
            required_for=["port"],
            relevance=900,
        )
        step(s, "Which port?")


def step(s: Session, question: str) -> None:
    """One step with a reply."""
    s.user(question)
    next_step(s, "openai-chat").send(talker())


@pytest.fixture
def store_of(tmp_path: Path) -> str:
    """A store with that session."""
    url = str(tmp_path / "agent.db")
    with open_log(url) as log:
        write(log)
    return url


def made(store: str, *arguments: str) -> dict[str, Any]:
    """The line of a case, read as JSON; its bytes are one line."""
    done = sawlog("--store", store, "case", *arguments)
    assert done.code == 0, done.err
    assert done.out.count(b"\n") == 1 and done.out.endswith(b"\n")
    line: dict[str, Any] = json.loads(done.out)
    return line


# --- two policies compared ---


def test_a_real_step_fails_under_dump_all_and_passes_under_default(
    store_of: str, tmp_path: Path
) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_bytes(sawlog("--store", store_of, "case", "fix-port@1", "--expect", "conf").out)
    done = sawlog(*EVAL, cases, "--json")
    assert done.code == 0, done.text
    assert (done.json["baseline_passed"], done.json["candidate_passed"]) == (0, 1)
    assert done.json["improvements"] == ["fix-port/step-1"]
    [failing] = done.json["failing"]
    assert failing["policy"] == "dump-all-v1@1"
    assert "build: not selected: conf" in failing["failures"]
    assert "build: missing port" in failing["failures"]
    # The other way round it is a regression, and the exit code says so.
    back = sawlog(
        "eval", "chapter5", "--baseline", "default", "--candidate", "dump-all-v1", "--cases", cases
    )
    assert back.code == 1 and "regressions: fix-port/step-1" in back.text


def test_without_expect_the_recorded_selection_is_expected(store_of: str) -> None:
    line = made(store_of, "fix-port@1")
    with open_log(store_of) as log:
        packet = log.read("fix-port").packet(1)
        shown = {ref.seq for ref in packet.refs if ref.form == "item"}
    must = line["input"]["conflict_contract"]["must_select"]
    assert "conf" in must and len(must) == len(shown) < 7
    own = case_of(json.dumps(line).encode())
    [recorded] = samples([own], policy_named("default"))
    assert recorded.passed, recorded.failures


def test_a_case_chooses_as_the_step_did(store_of: str) -> None:
    """The same room in the same units: what the recorded step left out is left out again."""
    from sawlog.labs.chapter5.running import built

    line = made(store_of, "fix-port@1")
    own = case_of(json.dumps(line).encode())
    packet, _ = built(own.case, policy_named("default"))
    by_id = {item.item_id: item.provenance.source_id for item in own.case.items}
    chosen = {by_id[id] for id in packet.selected_item_ids}
    assert chosen == set(line["input"]["conflict_contract"]["must_select"])
    assert packet.budget_used <= packet.budget_limit == line["input"]["budget_units"]
    units = {one["key"]: one["signals"]["units"] for one in line["input"]["candidates_in_order"]}
    assert packet.budget_used == sum(units[key] for key in chosen)


def test_the_line_says_what_the_step_weighed(store_of: str) -> None:
    line = made(store_of, "fix-port@1", "--expect", "conf")
    given = line["input"]
    assert (line["experiment"], line["variant"]) == ("fix-port", "step-1")
    assert (given["repository"], given["expected_requirements"]) == ("shop", ["port"])
    texts = {one["source_id"]: one for one in given["candidates_in_order"]}
    conf = texts["conf"]
    assert (conf["channel"], conf["content"]) == ("retrieval", "The port is 8443.")
    assert conf["required_for"] == ["port"]
    assert conf["signals"]["relevance"] == 900 and conf["signals"]["locator"] == "conf.py:3"
    assert texts["token"]["content"] == "vault/token", "of a secret only its handle is known"
    assert given["conflict_contract"]["must_select"] == ["conf"]


# --- what is odd ----------------------------------------------------------------------------------


def test_two_versions_of_a_source_and_a_stale_one(tmp_path: Path) -> None:
    url = str(tmp_path / "odd.db")
    own = CHANNELS.extended({"wiki": CHANNELS["memory"]})
    with open_log(url) as log, log.session("odd", channels=own) as s:
        s.offer("v1", channel="wiki", source_id="page", version="1")
        s.offer("v2", channel="wiki", source_id="page", version="2")
        s.offer("read", channel="memory", source_id="file", saw=[Saw("a.py", "", "a" * 64)])
        s.append(FileChanged("a.py", "b" * 64), source="watch")
        step(s, "go")
    line = made(url, "odd@1")
    given = line["input"]["candidates_in_order"]
    assert [one["key"].partition("#")[0] for one in given] == ["page", "page", "file"]
    assert given[2]["signals"]["stale"] == "file_changed"
    # A caller's own channel stands under one that grants the same.
    assert CHANNELS[given[0]["channel"]] == CHANNELS["memory"]
    assert line["input"]["conflict_contract"]["must_select"] == [given[1]["key"]]
    [sample] = samples([case_of(json.dumps(line).encode())], policy_named("default"))
    assert sample.passed, sample.failures


def test_a_step_that_missed_something_expects_that(tmp_path: Path) -> None:
    url = str(tmp_path / "missing.db")
    with open_log(url) as log, log.session("missing") as s:
        s.task(requirements=["port"])
        s.offer("a note", channel="memory", source_id="note")
        s.user("go")
        next_step(s, "openai-chat", allow_missing=True).send(talker())
    line = made(url, "missing@1")
    assert line["input"]["expected_kind"] == "needs_context"
    [sample] = samples([case_of(json.dumps(line).encode())], policy_named("default"))
    assert sample.passed, sample.failures


def test_what_is_no_case(store_of: str, tmp_path: Path) -> None:
    done = sawlog("--store", store_of, "case", "fix-port@1", "--expect", "nobody")
    assert done.code == 2 and "no candidate of step 1 is 'nobody'" in one_sentence(done)
    with open_log(store_of) as log, log.session("plain") as s:
        step(s, "go")
    done = sawlog("--store", store_of, "case", "plain@1")
    assert done.code == 2 and "weighed no items" in one_sentence(done)
    assert sawlog("--store", store_of, "case", "plain@7").code == 2
    assert sawlog("--store", store_of, "case", "fix-port@1", "--json").json["variant"] == "step-1"

"""approve, deny and resolve: decisions and outcomes from any process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sawlog.agentlog import open as open_log
from sawlog.providers.fake import Call
from sawlog.store.events.conversation import ApprovalDecided, ToolFinished
from tests.cli.command import one_sentence, sawlog
from tests.session.agents import asked


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with a session in which one call waits for approval and another was cut off."""
    url = str(tmp_path / "agent.db")
    with open_log(url) as log, log.session("task") as s:
        cut, waits = asked(s, *[Call("run_tests", {"only": f"t{n}"}) for n in range(2)])
        s.tool(cut).start()
        s.ask(waits, "May I?")
    return url


def waiting(store: str) -> str:
    [one] = sawlog("--store", store, "approve", "task", "--json").json
    assert one["name"] == "run_tests" and one["arguments"] == '{"only":"t1"}'
    return str(one["approval"])


def decisions(store: str) -> list[ApprovalDecided]:
    with open_log(store) as log:
        events = list(log.read("task").events())
    return [e.content for e in events if isinstance(e.content, ApprovalDecided)]


def test_what_waits_is_listed_and_decided_once(store: str) -> None:
    approval = waiting(store)
    assert approval in sawlog("--store", store, "deny", "-").text
    given = ("--by", "somebody", "--reason", "a backup is there")
    done = sawlog("--store", store, "approve", "task", approval, *given)
    assert (done.code, done.text) == (0, f"{approval}: allowed\n")
    assert sawlog("--store", store, "approve", "task", approval, *given).code == 0
    other = sawlog("--store", store, "deny", "task", approval, "--by", "somebody else")
    assert other.code == 3 and "is decided already" in one_sentence(other)
    assert decisions(store) == [ApprovalDecided(approval, True, "somebody", "a backup is there")]
    assert sawlog("--store", store, "approve", "task").text == "no call waits for approval\n"


def test_a_denial_tells_the_model_why(store: str) -> None:
    approval = waiting(store)
    done = sawlog("--store", store, "deny", "task", approval, "--reason", "not today", "--json")
    assert done.json == {"approval": approval, "allow": False}
    [decided] = decisions(store)
    assert (decided.allow, decided.reason, bool(decided.by)) == (False, "not today", True)


def test_an_approval_that_nobody_asked_for_is_refused(store: str) -> None:
    done = sawlog("--store", store, "approve", "task", "ap-9")
    assert done.code == 2 and "never asked for an approval" in one_sentence(done)


def test_what_came_of_a_call_is_its_result(store: str) -> None:
    plan = sawlog("--store", store, "recover", "task", "--json").json
    call = next(one["call"]["event_id"] for one in plan["next"] if one["do"] == "ask")
    done = sawlog("--store", store, "resolve", "task", call, "all passed", "--by", "somebody")
    assert (done.code, done.text) == (0, "run_tests: done, as you say\n")
    with open_log(store) as log:
        recorded = log.read("task")
        [result] = [e.content for e in recorded.events() if isinstance(e.content, ToolFinished)]
        assert recorded.verify().sound
    assert (result.call, result.status) == (call, "ok")
    again = sawlog("--store", store, "resolve", "task", call, "all passed")
    assert again.code == 2 and "no open call begins with" in one_sentence(again)

"""recover: what a run left open, as people and programs read it, and ending what was cut."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sawlog.agentlog import open as open_log
from sawlog.providers.fake import Call
from sawlog.work.dials import Dialled
from tests.cli.command import one_sentence, sawlog
from tests.session.agents import asked, next_step


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with a session whose run ended in the middle of everything."""
    url = str(tmp_path / "agent.db")
    with open_log(url) as log, log.session("task") as s:
        ran, _, waits = asked(s, *[Call("run_tests", {"only": f"t{n}"}) for n in range(3)])
        s.tool(ran).start()
        s.ask(waits, "May I?")
        step = next_step(s, "openai-chat", allow_waiting=True)
        step.opened(Dialled("httpx", "https://models.invalid/v1"))
        s.inject("look\x1b[31m at this")
    return url


def test_it_says_what_stands_open_and_writes_nothing(store: str) -> None:
    before = Path(store).read_bytes()
    done = sawlog("--store", store, "recover", "task")
    assert done.code == 1 and Path(store).read_bytes() == before
    first, *rows = done.text.splitlines()
    assert first.startswith("task, event ")
    assert "Step 2 was cut after its request left" in first
    words = [row.split()[0] for row in rows if row.startswith("  ")]
    assert words == ["step", "attempt", "ask", "wait", "message"]
    assert "to https://models.invalid/v1" in done.text
    assert 'run_tests {"only":"t0"} (it may have been done' in done.text
    assert rows[-1] == "--apply appends attempt.lost, step.abandoned"


def test_apply_ends_what_was_cut_once(store: str) -> None:
    done = sawlog("--store", store, "recover", "task", "--apply")
    assert done.code == 1  # a call has to be asked about
    assert done.text.count("appended event") == 2 and "attempt.lost" in done.text
    again = sawlog("--store", store, "recover", "task", "--apply")
    assert again.code == 1 and "appended" not in again.text
    with open_log(store) as log:
        assert log.read("task").verify().sound
        with log.session("task") as s:
            for one in s.recover().unknown:
                s.resolve(one, "done", by="somebody")
            log.decide("task", s.recover().waiting[0].approval, allow=False, by="somebody")
    fine = sawlog("--store", store, "recover", "-")
    assert (fine.code, "Of the calls" in fine.text) == (0, False)


def test_programs_get_all_of_it(store: str) -> None:
    told = sawlog("--store", store, "recover", "task", "--json")
    assert told.code == 1
    plan = told.json
    assert plan["cut_step"]["stands"] == "sent" and plan["cut_step"]["step"] == 2
    [lost], [unknown], [waits] = plan["lost"], plan["unknown"], plan["waiting"]
    assert (lost["number"], lost["url"]) == (1, "https://models.invalid/v1")
    assert unknown["effect"] == "side_effect" and unknown["told"]
    assert unknown["call"]["arguments"] == '{"only":"t0"}'
    assert waits["question"] == "May I?" and waits["call"]["name"] == "run_tests"
    assert [one["do"] for one in plan["next"]] == ["ask", "wait"]
    assert plan["ends"] == ["attempt.lost", "step.abandoned"] and plan["appended"] == []
    applied = sawlog("--store", store, "recover", "task", "--apply", "--json").json
    assert [one["type"] for one in applied["appended"]] == plan["ends"]
    assert applied["appended"][0]["seq"] == plan["seq"] + 1 and applied["ends"] == []


def test_files_that_changed_are_recorded(tmp_path: Path) -> None:
    url, root = str(tmp_path / "agent.db"), tmp_path / "root"
    root.mkdir()
    (root / "a").write_text("one")
    with open_log(url) as log, log.session("task") as s:
        [call] = asked(s, Call("read_file", {"path": "a"}))
        with s.tool(call) as run:
            run.result(run.read("a", root=root))
        next_step(s, "openai-chat").abandon()
    (root / "a").write_text("two")
    assert sawlog("--store", url, "recover", "task").code == 0
    done = sawlog("--store", url, "recover", "task", "--root", root)
    assert done.code == 1 and "present now, in the workspace" in done.text
    done = sawlog("--store", url, "recover", "task", "--root", root, "--apply")
    assert done.code == 0 and "file.changed" in done.text
    assert "present now, by event" in sawlog("--store", url, "recover", "task").text
    wrong = sawlog("--store", url, "recover", "task", "--root", root / "no")
    assert wrong.code == 2
    one_sentence(wrong)


def test_a_second_driver_is_refused_with_the_owners_name(store: str) -> None:
    with open_log(store) as log, log.session("task", owner="the driver") as s:
        head = log.find("task").head
        done = sawlog("--store", store, "recover", "task", "--apply")
        assert done.code == 3 and "the driver" in one_sentence(done)
        told = sawlog("--store", store, "recover", "task", "--apply", "--json")
        assert told.code == 3 and told.json["error"]["kind"] == "Leased"
        seen = sawlog("--store", store, "recover", "task")
        assert "the driver drives the session" in seen.text
        assert log.find("task").head == head
        s.suspend()
        assert sawlog("--store", store, "recover", "task", "--apply", "--wait", "5").code == 1


def test_what_is_not_there_or_damaged_is_one_sentence(store: str, tmp_path: Path) -> None:
    for arguments in (("recover", "other"), ("recover", "other", "--apply")):
        done = sawlog("--store", store, *arguments)
        assert done.code == 2 and "other" in one_sentence(done)
    nowhere = tmp_path / "no.db"
    for arguments in (("recover", "-"), ("recover", "-", "--apply")):
        done = sawlog("--store", nowhere, *arguments)
        assert done.code == 2 and not nowhere.exists()
        one_sentence(done)
    wrong = sawlog("--store", store, "recover", "task", "--wait", "soon")
    assert wrong.code == 2 and "--wait" in one_sentence(wrong)
    with sqlite3.connect(store) as database:
        database.execute("UPDATE events SET payload = ? WHERE seq = 3", (b"{",))
    database.close()
    done = sawlog("--store", store, "recover", "task")
    assert done.code == 4
    one_sentence(done)

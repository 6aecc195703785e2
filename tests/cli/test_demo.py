"""The demo, as `make demo` runs it, and in a store that it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from sawlog.agentlog import open as open_log
from sawlog.demo import script
from sawlog.demo.repository import Workshop, make
from tests.cli.command import sawlog, spawned
from tests.timing import slowness


@pytest.fixture
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that keeps a process from all that is not installed with sawlog itself: the clients
    of providers and the HTTP libraries."""
    folder = tmp_path_factory.mktemp("bare")
    blocked = ("httpx", "httpx2", "openai", "anthropic", "psycopg", "pytest")
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.modules.update(dict.fromkeys({blocked!r}))\n"
    )
    return str(folder)


def test_the_demo_shows_a_kill_and_replays_every_packet(tmp_path: Path, bare: str) -> None:
    """In a temporary store: nothing is left behind, no process either, as far as one can see. The
    standard library posts."""
    done = spawned("demo", cwd=tmp_path, TMPDIR=str(tmp_path), HOME=str(tmp_path), PYTHONPATH=bare)
    assert done.code == 0, done.err
    assert done.err == ""
    for told in (
        "it was killed with SIGKILL while run_tests ran in step 2",
        "its outcome is unknown",
        "as news that names the call",
        "The tests now pass.",
        "refunds.py was changed under the agent",
        "took the place of",
        "has the same digest there",
        "9 of 9 requests equal; verify: stored ok, cold ok, snapshot ok, compaction ok",
    ):
        assert told in done.text
    assert done.text.count("  equal") == len(script.ANSWERS)
    assert list(tmp_path.iterdir()) == []
    assert _processes_with(str(tmp_path)) == []


def _processes_with(mark: str) -> list[bytes]:
    """The command lines of all processes whose environment holds the mark."""
    found: list[bytes] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes())
        except OSError:
            continue  # it ended, or belongs to somebody else
    return found


def test_the_demo_s_session_stays_in_a_store_that_it_is_given(store_url: str) -> None:
    """Its facts are those that the log shows: the killed call, what stood for it, its late end. It
    takes a name that is free."""
    taken = ("demo", "demo-2") if store_url.startswith("sqlite") else ()
    with open_log(store_url) as log:
        for name in taken:
            log.store.session(name, create=True)
    done = sawlog("--store", store_url, "demo", "--json")
    assert done.code == 0, done.text
    facts = done.json
    assert facts["name"] == ("demo-3" if taken else "demo")
    assert facts["replayed"] == facts["equal"] == facts["received"] == len(script.ANSWERS) == 9
    assert facts["steps"] == 8  # the ninth request is the fork's
    assert all(
        row["equal"] and row["body_sha256"] == row["received_sha256"] for row in facts["packets"]
    )
    assert facts["sound"] and facts["tests_pass"]
    kill = facts["kill"]
    events = sawlog("--store", store_url, "show", facts["name"], "--all", "--json").json["events"]
    by_seq = {event["seq"]: event for event in events}
    assert by_seq[kill["after_event"]]["type"] == "tool.started"
    assert by_seq[kill["after_event"]]["step"] == kill["step"] == 2
    assert by_seq[kill["after_event"] + 1]["step"] == 3
    late = by_seq[facts["late_event"]]
    assert (late["type"], late["step"]) == ("tool.finished", 2)
    assert "FAILED (failures=3)" in late["text"]
    raw = sawlog("--store", store_url, "packet", f"{facts['name']}@3", "--raw").out.decode()
    assert facts["shown"] in raw
    assert "FAILED" not in raw
    later = sawlog("--store", store_url, "packet", f"{facts['name']}@4", "--raw").out.decode()
    assert facts["shown"] in later
    assert later.count("FAILED (failures=3)") == 1
    stale, compact, fork = facts["stale"], facts["compact"], facts["fork"]
    assert by_seq[stale["event"]]["type"] == "file.changed" and stale["told_in"] == 6
    digests = {row["step"]: row["request_digest"] for row in facts["packets"][:8]}
    assert stale["request_digest"] == digests[6]
    assert by_seq[compact["checkpoint"]]["type"] == "compaction.checkpoint"
    assert compact["units"] < compact["region"] and compact["request_digest"] == digests[8]
    behind = sawlog("--store", store_url, "packet", f"{facts['name']}@8", "--raw").out.decode()
    assert "Checkpoint 1." in behind and "edit_file" in behind and "FAILED" not in behind
    assert fork["parent_digest"] == fork["fork_digest"] == digests[fork["at_step"]]
    shared = f"{fork['name']}@{fork['at_step']}"
    assert (
        sawlog("--store", store_url, "packet", shared, "--raw").out
        == sawlog("--store", store_url, "packet", f"{facts['name']}@{fork['at_step']}", "--raw").out
    )
    assert sawlog("--store", store_url, "verify", "--all").code == 0


def test_the_demo_says_when_its_agent_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that has no answer left refuses, and the agent ends: one sentence says so."""
    monkeypatch.setattr(script, "ANSWERS", script.ANSWERS[:1])
    done = sawlog("--store", tmp_path / "store.db", "demo", "--json")
    assert done.code == 2
    assert "did not come to its test run" in done.json["error"]["message"]
    assert "500" in done.json["error"]["message"]


def test_the_tools_stay_inside_the_repository(tmp_path: Path) -> None:
    make(tmp_path / "repository")
    workshop = Workshop(tmp_path / "repository", tmp_path)
    (tmp_path / "outside.txt").write_text("x")
    with pytest.raises(ValueError, match="not in the repository"):
        workshop.read_file("../outside.txt")
    with pytest.raises(ValueError, match="2 times"):
        workshop.edit_file("refunds.py", "30", "40")
    assert "WINDOW" in workshop.read_file("refunds.py")


def test_the_repository_s_tests_fail_before_and_pass_after(tmp_path: Path) -> None:
    make(tmp_path / "repository")
    (tmp_path / "reports").mkdir()
    workshop = Workshop(tmp_path / "repository", tmp_path / "reports")
    workshop.key = "before"
    assert "FAILED (failures=3)" in workshop.run_tests()
    workshop.edit_file("refunds.py", "today - ordered > WINDOW", "today - ordered <= WINDOW")
    workshop.key = "after"
    assert workshop.run_tests().rstrip().endswith("OK")


@pytest.mark.alone
def test_the_demo_takes_less_than_15_seconds() -> None:
    """On the machine of `slowness`; on a slower one so many times as long."""
    assert sawlog("demo", "--json").json["seconds"] < 15 * slowness()

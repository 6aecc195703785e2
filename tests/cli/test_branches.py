"""fork, rewind and tree: another way from a step, history taken back, the family of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from tests.cli import written
from tests.cli.command import one_sentence, sawlog
from tests.session.branches import stepped, worked


def read(store: str) -> AgentLog:
    """The store, to be read."""
    return open_log(store, read_only=True)


# --- fork -----------------------------------------------------------------------------------------


def test_a_step_is_forked_and_shows_the_same_there(store: str) -> None:
    done = sawlog("--store", store, "fork", f"{written.NAME}@3", "--name", "second try")
    assert done.code == 0 and "second try shares refund-7 up to event" in done.text
    mine, theirs = (
        sawlog("--store", store, "packet", f"{name}@3", "--raw").out
        for name in ("second try", written.NAME)
    )
    assert mine == theirs and mine
    assert sawlog("--store", store, "verify", "--all").code == 0
    beyond = sawlog("--store", store, "packet", "second try@4")
    assert beyond.code == 2 and "no step 4; its last one is 3" in one_sentence(beyond)


def test_json_says_where_the_fork_left(store: str) -> None:
    told = sawlog("--store", store, "fork", written.NAME, "--at", "9", "--json").json
    with read(store) as log:
        row = log.find(told["session"])
        assert (told["at"], told["name"]) == (9, "refund-7~9") == (row.base, row.name)
        assert told["parent"] == log.find(written.NAME).id.hex()
    whole = sawlog("--store", store, "fork", told["session"][:20], "--json")
    assert whole.code == 0 and whole.json["parent_name"] == "refund-7~9"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("fork", "refund-7@99"), 2, "no step 99; its last one is 6"),
        (("fork", "refund-7", "--at", "9999"), 2, "is no event of the session"),
        (("fork", "refund-7", "--at", "x"), 2, "give a whole number, such as --at 100"),
        (("fork", "nobody@1"), 2, "no session is named"),
        (("fork", "refund-7@3", "--at", "4"), 2, "no session is named"),
        (("fork", "refund-7@3", "--name", "refund-7"), 3, "is there already"),
        (("rewind", "refund-7"), 2, "say where to: SESSION@STEP, or SESSION --to SEQ"),
        (("rewind", "refund-7@99"), 2, "no step 99"),
        (("rewind", "refund-7", "--to", "9999"), 2, "is no event of the session"),
        (("tree", "nobody"), 2, "no session is named"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    arguments: tuple[str, ...], code: int, says: str, file_store: str
) -> None:
    before = sawlog("--store", file_store, "ls", "--json").out
    done = sawlog("--store", file_store, *arguments)
    assert done.code == code and says in one_sentence(done)
    assert sawlog("--store", file_store, "ls", "--json").out == before


@pytest.mark.parametrize("verb", ["fork", "rewind", "tree"])
def test_no_store_is_made(verb: str, tmp_path: Path) -> None:
    done = sawlog("--store", tmp_path / "none.db", verb, "a@1")
    assert done.code == 2 and "there is no store at" in one_sentence(done)
    assert not list(tmp_path.iterdir())


# --- rewind ---------------------------------------------------------------------------------------


def test_a_rewind_names_what_it_could_not_undo(store: str) -> None:
    with open_log(store) as log, log.session(written.NAME) as s:
        s.file_changed("orders.csv", version="ab" * 32)
    done = sawlog("--store", store, "rewind", f"{written.NAME}@3", "--reason", "no manager")
    assert done.code == 0
    assert "the next step follows on event" in done.text
    assert "the call refund ran: ok" in done.text and "the file orders.csv changed" in done.text
    shown = sawlog("--store", store, "show", written.NAME, "--all").text
    assert "no manager" in shown
    assert sawlog("--store", store, "verify", written.NAME).code == 0
    why = sawlog("--store", store, "packet", f"{written.NAME}@6", "--raw")
    assert why.code == 0, "what was left is still there"
    again = sawlog("--store", store, "rewind", f"{written.NAME}@5")
    assert again.code == 2 and "fork the session at it" in one_sentence(again)


def test_json_names_calls_and_files(file_store: str) -> None:
    told = sawlog("--store", file_store, "rewind", f"{written.NAME}@3", "--json").json
    assert told["name"] == written.NAME and told["seq"] > told["to"]
    assert [(one["name"], one["status"]) for one in told["calls"]] == [
        ("read_order", "ok"),
        ("refund", "ok"),
    ]
    with read(file_store) as log:
        assert log.find(written.NAME).head == told["seq"]


def test_a_session_that_is_driven_is_not_rewound(file_store: str) -> None:
    with open_log(file_store) as log, log.session(written.NAME, owner="a worker"):
        done = sawlog("--store", file_store, "rewind", f"{written.NAME}@2")
        assert done.code == 3 and "a worker" in one_sentence(done)
        assert sawlog("--store", file_store, "fork", f"{written.NAME}@2").code == 0


def test_a_rewind_waits_for_a_lease_that_nobody_renews(store: str) -> None:
    where = f"{written.NAME}@3"
    with open_log(store) as log:
        killed = log.session(written.NAME, owner="the killed one", ttl=1.5)
        killed.acquire()
        killed._driver._renewer.stop()  # type: ignore[union-attr]  # pyright: ignore
        refused = sawlog("--store", store, "rewind", where)
        assert refused.code == 3 and "the killed one" in one_sentence(refused)
        assert sawlog("--store", store, "rewind", where, "--wait", "9").code == 0
    wrong = sawlog("--store", store, "rewind", where, "--wait", "soon")
    assert wrong.code == 2 and "--wait" in one_sentence(wrong)


def test_a_rewind_of_nothing_says_so(file_store: str) -> None:
    with open_log(file_store) as log, log.session("quiet") as s:
        s.user("one")
        s.user("two")
    done = sawlog("--store", file_store, "rewind", "quiet", "--to", "2")
    assert done.code == 0 and "nothing that ran or changed since is known" in done.text


# --- tree -----------------------------------------------------------------------------------------


def grown(store: str) -> None:
    """A family: forks of forks, a child, an heir, rewinds, a compaction."""
    with open_log(store) as log:
        with log.session("task") as s:
            s.offer("The limit is 40.", channel="verified_fact", source_id="limit")
            worked(s, 2)
            s.rewind(step=1, reason="a dead end")
            worked(s, 3)
            with s.child("look", "Find it.") as child:
                stepped(child, "looks")
            with s.child("heir", "Find it, too.", inherit=True) as heir:
                stepped(heir, "looks")
        with log.fork("task", step=1, name="other") as other:
            worked(other, 1)
        log.fork("other", name="another")
        with log.session("a stranger") as s:
            s.user("x")


def test_the_tree_shows_every_branch_of_a_family(store: str) -> None:
    grown(store)
    with read(store) as log:
        heads = {row.name: row.head for row in log.sessions()}
        at = log.find("other").base
    done = sawlog("--store", store, "tree", "other")
    assert done.code == 0
    lines = [line.rstrip() for line in done.text.splitlines()]
    assert lines[0] == f"task  head {heads['task']}, step 5"
    assert f"├─ fork at event {at} (step 1): other *  head {heads['other']}, step 2" in lines
    assert any(line.startswith("│  └─ fork at event") and "another" in line for line in lines)
    assert any("rewound by event" in line and ": a dead end" in line for line in lines)
    assert any("not undone: 4 calls" in line for line in lines)
    assert any("heir at event" in line and "task/heir" in line for line in lines)
    assert lines[-1] == f"└─ child: task/look  head {heads['task/look']}, step 1"
    assert "stranger" not in done.text and written.NAME not in done.text
    assert sawlog("--store", store, "tree", "a stranger").text.count("\n") == 1
    # The same family whichever of them is named.
    others = {sawlog("--store", store, "tree", one, "--json").out for one in ("task", "task/look")}
    assert len(others) == 1


def test_the_tree_as_json(file_store: str) -> None:
    grown(file_store)
    told = sawlog("--store", file_store, "tree", "another", "--json").json
    assert (told["name"], told["kind"], told["step"]) == ("task", "root", 5)
    assert [one["kind"] for one in told["marks"]] == ["rewound"]
    assert [(one["name"], one["kind"]) for one in told["branches"]] == [
        ("other", "fork"),
        ("task/heir", "heir"),
        ("task/look", "child"),
    ]
    [another] = told["branches"][0]["branches"]
    assert (another["name"], another["shared"]) == ("another", 2)


def test_a_tree_shows_compactions_and_who_drives(file_store: str) -> None:
    with open_log(file_store) as log, log.session("task", owner="a worker") as s:
        worked(s, 6, "x" * 400)
        s.compact(budget=300)
        text = sawlog("--store", file_store, "tree", "task").text
    assert "driven by a worker" in text and "compacted by event" in text


def test_looking_at_a_tree_writes_nothing(file_store: str) -> None:
    before = Path(file_store).read_bytes()
    assert sawlog("--store", file_store, "tree", "-").code == 0
    assert Path(file_store).read_bytes() == before


# --- every look at a branch -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["task", "other", "task/heir"])
def test_every_look_works_on_every_branch(name: str, file_store: str, tmp_path: Path) -> None:
    grown(file_store)

    def run(*arguments: object, code: int = 0) -> str:
        done = sawlog("--store", file_store, *arguments)
        assert done.code == code, (arguments, done.text, done.err)
        return done.text

    assert "rewound by event" in run("tree", name)
    with read(file_store) as log:
        last = log.read(name).last_step()
    for step in range(1, last + 1):
        assert run("packet", f"{name}@{step}", "--raw")
        run("why", f"{name}@{step}", "result of run_tests")
    run("show", name, "--all")
    run("show", f"{name}@{last}")
    run("diff", f"{name}@1", f"{name}@{last}")
    same = run("what-if", name, "--policy", "default")
    assert f"{last} steps" in same, same
    assert ("rewound" in run("cache", name)) == (name != "other")
    run("stale", name)
    assert "unknown" not in run("recover", name)
    run("verify", name)
    assert "The limit is 40." in run("case", f"{name}@{last}")
    exported = tmp_path / "session.jsonl"
    run("export", name, "--output", exported)
    again = tmp_path / "again.db"
    assert sawlog("--store", again, "import", exported).code == 0
    assert sawlog("--store", again, "verify", "--all").code == 0
    for step in (1, last):
        mine = sawlog("--store", file_store, "packet", f"{name}@{step}", "--raw").out
        assert sawlog("--store", again, "packet", f"-@{step}", "--raw").out == mine

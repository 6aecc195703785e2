"""Why a checkpoint may not count: one test for each reason (CASES 36)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sawlog.compaction.checking import CODES, check
from sawlog.compaction.extractive import EXTRACTIVE, SUMMARISER, extract
from sawlog.compaction.facts import known
from sawlog.compaction.past import Past
from sawlog.store.event import Event
from sawlog.store.events.compaction import Checkpoint, Closed, Line, SeenFile
from tests.compaction.working import Working


class Scene:
    """Two compactions' worth of work: a checkpoint stands, and more gives way."""

    def __init__(self) -> None:
        work = self.work = Working()
        work.user("Fix it. You must keep the API.\n- [ ] tell the team")
        work.packet()
        work.spoke("I begin.")
        work.ran("edit_file", '{"path":"a.py"}')
        work.changed("a.py", "v1")
        self.unknown = work.asked("deploy")
        work.began(self.unknown)
        work.user("go on")
        work.packet()
        work.says("ok")
        work.user("go on")
        work.compact()
        assert work.checkpoint is not None
        self.before = work.checkpoint
        work.packet()
        work.spoke("I go on.\nPlan:\n- test it")
        self.good = work.ran("edit_file", '{"path":"b.py"}')
        self.bad = work.ran("run_tests", '{"all":true}', "error")
        self.cut = work.ran("build", "{}", "interrupted")
        self.open = work.asked("publish")
        work.began(self.open)
        self.user = work.user("Never push. The docs are done.")
        work.packet()
        self.spoke = work.spoke("fine")
        work.read("r.py", "v7", "z " * 60)
        self.shown = work.user("last")
        self.past: Past = work.past()
        self.made: Checkpoint = extract(self.past, known(self.past))

    def codes(self, **changes: Any) -> list[tuple[str, str]]:
        """Why the checkpoint does not count with these changes."""
        return list(check(self.past, replace(self.made, **changes), 1))

    def confirming(self, said: str, *events: Event) -> list[tuple[str, str]]:
        line = Line("d-new", said, tuple(event.id for event in events), SUMMARISER)
        return self.codes(confirmed=(*self.made.confirmed, line))


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


def test_what_code_and_the_default_summariser_write_counts(scene: Scene) -> None:
    assert scene.codes() == []
    assert scene.work.against(known(scene.past), scene.past) == []


def test_a_missing_constraint(scene: Scene) -> None:
    """One of the checkpoint before, and one that the user said since."""
    old, new = scene.made.constraints
    assert [old.text, new.text] == ["You must keep the API.", "Never push."]
    assert scene.codes(constraints=(new,)) == [("missing_constraint", old.id)]
    assert scene.codes(constraints=(old,)) == [("missing_constraint", new.id)]
    other = replace(old, text="You need not keep the API.")
    assert scene.codes(constraints=(other, new)) == [("missing_constraint", old.id)]


def test_a_dropped_open_item(scene: Scene) -> None:
    [old] = scene.made.open
    assert scene.codes(open=()) == [("dropped_open", old.id)]
    uncited = Closed(old.id, (), "done")
    assert scene.codes(open=(), closed=(uncited,)) == [("dropped_open", old.id)]
    # It is done as the assistant says, as a failed call shows, as a call that never ended does.
    for event in (scene.spoke, *scene.bad, *scene.cut, scene.unknown, scene.open):
        closed = Closed(old.id, (event.id,))
        assert ("dropped_open", old.id) in scene.codes(open=(), closed=(closed,))
    for event in (scene.user, scene.good[1]):
        closed = Closed(old.id, (event.id,), "told")
        assert scene.codes(open=(), closed=(closed,)) == []
    elsewhere = (*scene.made.constraints, replace(old))
    assert scene.codes(open=(), constraints=elsewhere) == []


def test_a_constraint_is_not_settled_by_a_call(scene: Scene) -> None:
    old, new = scene.made.constraints
    for event, codes in ((scene.good[1], [("missing_constraint", old.id)]), (scene.user, [])):
        closed = Closed(old.id, (event.id,), "no longer")
        assert scene.codes(constraints=(new,), closed=(closed,)) == codes


UNFINISHED: dict[str, Callable[[Scene], tuple[Event, ...]]] = {
    "error": lambda s: s.bad,
    "its result": lambda s: s.bad[1:],
    "interrupted": lambda s: s.cut,
    "its call": lambda s: s.cut[:1],
    "open": lambda s: (s.open,),
    "unknown before": lambda s: (s.unknown,),
    "both": lambda s: (s.good[1], s.bad[1]),
    "nothing": lambda s: (),
    "the user": lambda s: (s.user,),
    "the assistant": lambda s: (s.spoke,),
}


@pytest.mark.parametrize("cited", UNFINISHED)
def test_finished_work_cites_finished_work(scene: Scene, cited: str) -> None:
    assert ("bad_citation", "d-new") in scene.confirming("tested all", *UNFINISHED[cited](scene))


def test_finished_work_may_cite_a_call_or_its_result(scene: Scene) -> None:
    for event in scene.good:
        assert scene.confirming("edited b.py", event) == []
    assert scene.confirming("edited b.py as wanted", scene.good[1], scene.user) == []


def test_a_citation_of_what_does_not_give_way(scene: Scene) -> None:
    line = replace(scene.made.open[0], refs=(scene.shown.id,))
    assert scene.codes(open=(line,)) == [("outside_region", scene.shown.id)]
    for name in ("k9.9", "ff" * 16, ""):
        line = replace(scene.made.next[0], refs=(name,))
        assert scene.codes(next=(line,)) == [("outside_region", name)]
    evidence = (*scene.made.evidence, scene.shown.id)
    assert scene.codes(evidence=evidence) == [("outside_region", scene.shown.id)]
    # What was evidence before may be cited again.
    line = replace(scene.made.open[0], refs=scene.before.evidence[:2])
    assert scene.codes(open=(line,)) == []


def test_a_wrong_digest(scene: Scene) -> None:
    files = {file.path: file for file in scene.made.changed}
    assert set(files) == {"a.py", "b.py"} and files["a.py"].version == "v1"
    wrong = (replace(files["a.py"], version="v2"), files["b.py"])
    assert scene.codes(changed=wrong) == [("wrong_digest", "a.py")]
    gone = (replace(files["a.py"], state="absent"), files["b.py"])
    assert scene.codes(changed=gone) == [("wrong_digest", "a.py")]
    made_up = replace(files["b.py"], path="never.py", version="v9")
    assert scene.codes(changed=(*scene.made.changed, made_up)) == [("wrong_digest", "never.py")]
    assert scene.codes(changed=(files["a.py"],)) == [("missing_file", "b.py")]
    [seen] = scene.made.files
    assert scene.codes(files=(replace(seen, version="v8"),)) == [("wrong_digest", "r.py")]
    assert scene.codes(files=(seen, SeenFile("x.py"))) == [("wrong_digest", "x.py")]
    assert scene.codes(files=()) == []


def test_larger_than_what_it_replaces(scene: Scene) -> None:
    units = scene.past.region.units
    for size, codes in ((units - 1, []), (units, ["larger"]), (units + 1, ["larger"])):
        found = check(scene.past, scene.made, size)
        assert [code for code, _ in found] == codes


def test_a_summariser_that_wrote_nothing(scene: Scene) -> None:
    code = known(scene.past)
    empty = replace(code, summariser=EXTRACTIVE)
    assert scene.work.against(empty, scene.past) == [("empty_prose", "")]
    told = replace(empty, narrative="It went well.")
    assert scene.work.against(told, scene.past) == []
    planned = replace(empty, next=(*code.next, Line("n-1", "ship", (), SUMMARISER)))
    assert scene.work.against(planned, scene.past) == []


def test_finished_work_that_asks_for_something(scene: Scene) -> None:
    good = scene.good[1]
    assert scene.confirming("Run the tests again", good) == [("imperative", "d-new")]
    assert scene.confirming("ran the tests again", good) == []


def test_two_lines_of_one_id(scene: Scene) -> None:
    old = scene.made.open[0]
    twice = (*scene.made.next, Line(old.id, "again"))
    assert scene.codes(next=twice) == [("duplicate_id", old.id)]


def test_an_id_that_reads_as_something_else(scene: Scene) -> None:
    odd = "x]\nDone:\n- [y"
    assert scene.codes(next=(Line(odd, "t"),)) == [("bad_id", odd)]
    assert scene.codes(closed=(Closed(odd, ()),)) == [("bad_id", odd)]


def test_a_missing_goal(scene: Scene) -> None:
    assert scene.codes(goal="") == [("missing_goal", "")]


def test_each_reason_is_one_of_the_codes(scene: Scene) -> None:
    nothing = Checkpoint("", confirmed=(Line(" ", "run it", ("x",)),), summariser=EXTRACTIVE)
    found = check(scene.past, nothing, 10**6)
    assert {code for code, _ in found} <= set(CODES)
    assert len(found) == len(set(found)) > 5
    assert check(scene.past, nothing, 10**6) == found

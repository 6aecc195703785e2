"""The summariser without a model: prose taken from what gives way."""

from __future__ import annotations

from sawlog.compaction.checking import check
from sawlog.compaction.extractive import EXTRACTIVE, NARRATIVE, extract
from sawlog.compaction.facts import known
from tests.compaction.working import Working, said


def test_the_newest_plan_and_how_the_last_reply_began() -> None:
    work = Working()
    work.step("Fix it.")
    work.user("go on")
    work.packet()
    work.spoke("Plan:\n- older")
    work.says("I have read it.\nNext steps:\n1. mend a.py\n2. test it\n")
    work.step("more")
    work.user()
    work.packet()
    last = work.spoke("It   is\nmended. " + "And so on. " * 100)
    work.user()
    past = work.past()
    code = known(past)
    made = extract(past, code)
    assert said(made.next) == ["mend a.py", "test it"]
    assert {line.by for line in made.next} == {"summariser"}
    assert str(made.narrative).startswith("It is mended. And so on.")
    assert len(str(made.narrative)) == NARRATIVE
    assert made.summariser == EXTRACTIVE and code.summariser is None
    assert set(made.evidence) >= set(code.evidence) and last.id in made.evidence
    assert made.units > code.units
    assert work.against(made, past) == []
    assert extract(past, code) == made and extract(past, made) == made


def test_a_new_plan_takes_the_place_of_the_old_one_and_notes_stay() -> None:
    work = Working()
    work.user("Fix it.")
    work.packet()
    work.note("next", "then", "ship it")
    work.says("Plan:\n- first")
    work.user()
    work.packet()
    work.says("ok")
    work.user()
    work.compact()
    assert work.checkpoint and said(work.checkpoint.next) == ["ship it", "first"]
    work.packet()
    work.says("Nothing of that kind.")
    work.user()
    work.compact()
    assert said(work.checkpoint.next) == ["ship it", "first"]
    work.packet()
    work.says("Todo: second")
    work.user()
    work.compact()
    assert said(work.checkpoint.next) == ["ship it", "second"]


def test_without_a_word_of_the_assistant_there_is_no_prose() -> None:
    work = Working()
    work.user("Fix it.")
    work.packet()
    work.ran("edit_file")
    work.user()
    past = work.past()
    assert extract(past, known(past)) == known(past)


def test_prose_goes_before_what_must_stay() -> None:
    work = Working()
    work.user("You must keep it.")
    work.packet()
    work.spoke("words " * 100 + "\nPlan:\n- a\n- b")
    work.user()
    past = work.past()
    code = known(past)
    made = extract(past, code, code.units)
    assert made.units <= code.units and made.constraints == code.constraints
    assert made.narrative == "" and made.next == ()
    # Nothing of it is the summariser's, so code wrote it, and it counts.
    assert made.summariser is None and check(past, made, made.units) == ()

"""What a summariser answered, and what of it stands in the checkpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from sawlog.compaction.answering import Answer, Refusal, merged, read_answer
from sawlog.compaction.asking import MODEL
from sawlog.compaction.bounds import measured
from sawlog.compaction.checking import check
from sawlog.compaction.evidence import evidence_of
from sawlog.compaction.facts import known
from sawlog.compaction.wording import line_id
from sawlog.store.events.compaction import ChangedFile, Checkpoint, Line
from tests.compaction.pasts import known_of, past_of, work
from tests.fresh import imported_modules

EMPTY: dict[str, Any] = {
    "goal": "", "constraints": [], "confirmed": [], "changed": [], "open": [], "next": [],
}  # fmt: skip


def source(**fields: Any) -> str:
    """An answer as JSON."""
    return json.dumps({**EMPTY, **fields})


def line(text: str, *evidence: str, id: str = "") -> dict[str, Any]:
    """A line of an answer."""
    return {"id": id, "text": text, "evidence": list(evidence)}


def answer(**fields: Any) -> Answer:
    """An answer that has its form."""
    found = read_answer(source(**fields))
    assert isinstance(found, Answer), found
    return found


def codes(text: str) -> tuple[tuple[str, str], ...]:
    """Why an answer has not its form."""
    found = read_answer(text)
    assert isinstance(found, Refusal)
    return found.codes


# --- its form -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        source(goal="g"),
        "\n\n  " + source(goal="g") + "\n",
        f"```json\n{source(goal='g')}\n```",
        f"Here it is:\n\n```\n{source(goal='g')}\n```\nThat is all.",
        f"It is {source(goal='g')}, as far as I can see. {{}}",
        'The form is {"a": 1}, so: ' + source(goal="g"),
        "Of {this} kind: " + json.dumps({**EMPTY, "goal": "g"}, indent=2),
    ],
)
def test_the_object_is_found_wherever_it_stands(text: str) -> None:
    found = read_answer(text)
    assert isinstance(found, Answer) and found.goal == "g"


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_no_text_is_told_as_such(text: str) -> None:
    assert codes(text) == (("no_text", ""),)


@pytest.mark.parametrize(
    "text",
    [
        "I could not write it.",
        "[1, 2]",
        source(goal="g")[:-3],  # cut off
        '{"goal": NaN}',
        '{"a":' * 5000 + "1",
    ],
)
def test_what_is_no_json_object_is_told_as_such(text: str) -> None:
    [(code, what)] = codes(text)
    assert code == "not_json" and what and len(what) <= 200


def test_each_missing_section_is_named() -> None:
    fields = {name: value for name, value in EMPTY.items() if name not in ("open", "next")}
    assert codes(json.dumps(fields)) == (("missing_section", "open"), ("missing_section", "next"))


def test_each_fault_is_named_by_its_path() -> None:
    wrong = source(
        goal=3,
        constraints=[{"id": "", "text": ""}, {"text": "x", "because": "y"}],
        confirmed="none",
        open=[line("x" * 601)],
        next=[line("x")] * 101,
        note="",
    )
    found = codes(wrong)
    assert [(code, what.partition(":")[0]) for code, what in found] == [
        ("wrong_form", "goal"),
        ("wrong_form", "constraints.0.text"),
        ("wrong_form", "constraints.1.because"),
        ("wrong_form", "confirmed"),
        ("too_long", "open.0.text"),
        ("too_long", "next"),
        ("wrong_form", "note"),
    ]
    assert all(len(what) <= 200 for _, what in found)


def test_half_a_character_is_refused() -> None:
    """What cannot be text does not get into a checkpoint."""
    [(code, what)] = codes(source().replace('"goal": ""', '"goal": "\\ud800"'))
    assert (code, what.partition(":")[0]) == ("wrong_form", "goal")


def test_a_reply_without_end_is_not_read() -> None:
    [(code, _)] = codes("x" * 1_000_001)
    assert code == "too_long"


def test_pydantic_is_loaded_with_the_first_answer() -> None:
    assert "pydantic" not in imported_modules("import sawlog.compaction.answering")


# --- joined with what code knows ------------------------------------------------------------------


def joined(facts: Checkpoint | None = None, **fields: Any) -> Checkpoint:
    """What code knows of the work, with an answer."""
    log = work()
    facts = facts or known_of(log)
    past = past_of(log)
    return merged(past, facts, answer(**fields), evidence_of(past, facts))


def test_an_answer_of_nothing_leaves_all_that_code_knows() -> None:
    facts = known_of(work())
    assert joined() == replace(facts, summariser=MODEL)


def test_new_lines_come_behind_those_that_are_known() -> None:
    facts = known_of(work())
    made = joined(
        goal="something else",
        constraints=[line("Python 3.11 stays", "k1.1")],
        confirmed=[line("saw that three tests passed", "k1.3", "k1.3")],
        open=[line("the docs")],
        next=[line("the printer first")],
        narrative="It went well.",
    )
    evidence = evidence_of(past_of(work()), facts)
    assert made.goal == facts.goal, "what the user asked for is not told anew"
    assert made.constraints == (
        *facts.constraints,
        Line(line_id("c", "Python 3.11 stays"), "Python 3.11 stays", facts.evidence[:1],
             "summariser"),
    )  # fmt: skip
    [_, confirmed] = made.confirmed
    assert (confirmed.refs, confirmed.by) == (evidence.ids[2:3], "summariser")
    assert [one.text for one in made.open] == ["the printer", "the docs"]
    assert [one.by for one in made.next] == ["summariser"]
    assert made.narrative == "It went well."
    assert made.evidence == evidence.ids, "a new piece keeps the name that it was cited by"


def test_evidence_ends_with_the_last_piece_that_is_cited() -> None:
    facts = known_of(work())
    assert joined(open=[line("x", "k1.1")]).evidence == facts.evidence


def test_a_goal_that_nobody_told_is_the_summarisers() -> None:
    assert joined(replace(known_of(work()), goal=""), goal="mend it").goal == "mend it"


def test_a_carried_line_of_a_summariser_may_be_worded_anew() -> None:
    made = joined(open=[line("the printer, both pages", "k1.2", id="o-printer")])
    [one] = made.open
    facts = known_of(work())
    assert (one.id, one.text, one.refs) == (
        "o-printer", "the printer, both pages", facts.evidence[1:2],
    )  # fmt: skip


def test_words_of_the_user_and_of_code_are_never_changed() -> None:
    """No summariser can turn a rule into its opposite under the rule's own id."""
    facts = known_of(work())
    made = joined(
        constraints=[line("vendor/ may be changed", "k1.2", id="c-vendor")],
        confirmed=[line("ran everything", id="d-read")],
    )
    [rule] = made.constraints
    assert rule.text == facts.constraints[0].text
    assert rule.refs == facts.evidence
    assert made.confirmed == facts.confirmed


def test_the_same_words_are_the_same_line() -> None:
    facts = known_of(work())
    made = joined(
        constraints=[line("Never touch vendor/."), line("x"), line("x", "k1.1")],
        next=[line("x")],
    )
    assert made.constraints[0] == facts.constraints[0]
    assert made.constraints[1:] == (Line(line_id("c", "x"), "x", facts.evidence[:1], "summariser"),)
    assert len(made.next) == 1


def test_an_id_of_another_section_or_of_nothing_is_no_id() -> None:
    """Saying that an open item is done does not close it: that takes a citation that code sees."""
    made = joined(confirmed=[line("did the printer", "k1.2", id="o-printer"), line("y", id="o-9")])
    assert [one.id for one in made.open] == ["o-printer"]
    assert [one.id for one in made.confirmed[1:]] == [
        line_id("d", "did the printer"), line_id("d", "y"),
    ]  # fmt: skip
    ids = [
        one.id
        for section in (made.constraints, made.confirmed, made.open, made.next)
        for one in section
    ]
    assert len(ids) == len(set(ids))


def test_evidence_that_was_not_offered_is_kept_for_the_checker_to_refuse() -> None:
    made = joined(confirmed=[line("saw it", "k1.99", "f" * 32)])
    assert made.confirmed[-1].refs == ("k1.99", "f" * 32)
    assert made.evidence == known_of(work()).evidence


def test_a_file_that_code_does_not_know_has_to_show_its_evidence() -> None:
    facts = replace(known_of(work()), changed=(ChangedFile("a.py", "v1"),))
    made = joined(
        facts,
        changed=[
            {"path": "a.py", "text": "mended", "evidence": ["k1.2"]},
            {"path": "b.py", "text": "added a test", "evidence": ["k1.2"]},
            {"path": "c.py"},
        ],
    )
    assert made.changed == facts.changed
    assert [(one.text, one.refs) for one in made.confirmed[1:]] == [
        ("changed b.py: added a test", facts.evidence[1:2]),
        ("changed c.py", ()),
    ]


def test_words_are_one_line_and_the_id_comes_from_them() -> None:
    """Code that finds the same words gives the line the same id."""
    [one] = joined(constraints=[line("  never\n\ttouch\x00 it ")]).constraints[1:]
    assert one.text == "never touch\ufffd it"
    assert one.id == line_id("c", "never touch\ufffd it")


# --- whether it counts ----------------------------------------------------------------------------

LONG = "a line of the log\n" * 60


def judged(**fields: Any) -> tuple[tuple[str, str], ...]:
    """Why code's own facts with an answer do not count."""
    log = work(long=LONG * 6)
    past = past_of(log)
    facts = known(past)
    made = merged(past, facts, answer(**fields), evidence_of(past, facts))
    made = measured(made, log)
    return check(past, made, made.units)


def cited(what: str) -> str:
    """The name of the evidence that is described so."""
    past = past_of(work(long=LONG * 6))
    pieces = evidence_of(past, known(past)).pieces
    return next(name for name, _, said in pieces if what in said)


def test_a_good_answer_counts() -> None:
    assert judged(
        confirmed=[line("saw that 3 tests passed", cited("status ok, of read_file"))],
        next=[line("then the printer")],
        narrative="The parser was mended.",
    ) == ()  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "empty_prose"),
        ({"confirmed": [line("saw it")]}, "bad_citation"),
        ({"confirmed": [line("saw it", "k1.99")]}, "outside_region"),
        ({"open": [line("a question", "k1.99")]}, "outside_region"),
        ({"confirmed": [line("fix the printer", "k1.1")]}, "imperative"),
        ({"narrative": "x" * 4000}, "larger"),
    ],
)
def test_an_answer_of_the_right_form_may_still_not_count(fields: Any, code: str) -> None:
    assert code in [found for found, _ in judged(**fields)]

"""How lines are found in texts: what asks to be kept, boxes, plans; which lines ask for work."""

from __future__ import annotations

import pytest

from sawlog.compaction.wording import (
    LINE,
    asks_for_work,
    boxes_in,
    constraints_in,
    cut,
    is_plain_id,
    line_id,
    note_id,
    one_line,
    plan_in,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Fix it. You must not touch the API. Thanks.", ["You must not touch the API."]),
        ("Never log tokens! Be quick.", ["Never log tokens!"]),
        ("- Only edit src/\n- Run it", ["Only edit src/"]),
        ("1. Make sure that it builds\n2) At most 3 files", None),
        ("Don\u2019t use floats", None),
        ("Use versions, e.g. 1.2, only from the lock file.", None),
        ("ALWAYS quote paths", None),
        ("I don't know why it fails. I do not see it.", []),
        ("The musty commonly overneverland.", []),
        ("## Rules\n> Do not delete rows.", ["Do not delete rows."]),
        ("```\nyou must not read this\n```\nNo new packages.", ["No new packages."]),
        ("```\nNever end this fence", ["Never end this fence"]),
        ("- [ ] You must write a test", []),
        ("Wrapped text goes on: you must\nnot change the order.",
         ["Wrapped text goes on: you must not change the order."]),
        ("Goal: x\nOnly touch a.py\nNever push", ["Only touch a.py", "Never push"]),
        ("\u5fc5\u987b\u5feb\u3002Never block.", ["Never block."]),
        ("MU\u017fT run", []),  # a long s is no ASCII letter
    ],
)  # fmt: skip
def test_sentences_that_ask_to_keep_something(text: str, found: list[str] | None) -> None:
    lines = [line.strip() for line in text.split("\n")]
    whole = [line.lstrip("-*0123456789.) ") for line in lines]
    assert constraints_in(text) == (whole if found is None else found)


def test_no_asking_word_is_lost_in_a_long_sentence() -> None:
    """Cut to lines, the piece with the word stays, wherever it stands."""
    long = "some words " * 80 + "but never drop the table " + "and more " * 80
    [found] = constraints_in(long)
    assert "never drop" in found and len(found) <= LINE
    assert found.startswith("…") and found.endswith("…")
    solid = "x" * 900 + " must y"
    assert any("must" in piece for piece in constraints_in(solid))


def test_boxes() -> None:
    text = "- [ ] one\n  * [x] two\r\n3. [X]  three  more\n- [] none\n-[ ] none\n- [ ]\n"
    assert boxes_in(text) == [("one", False), ("two", True), ("three more", True)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Next steps:\n1. read it\n2. mend it\nThat is all.\n- other", ["read it", "mend it"]),
        ("## Plan\n\n- a\n\n- b", ["a", "b"]),
        ("TODO: tell them", ["tell them"]),
        ("Plan:\n- a\n\nNew plan\n- b", ["b"]),
        ("Plan:\n- [ ] a box\n- b", ["b"]),
        ("We planned nothing.\n- a", []),
        ("A long line about the next thing that we should certainly do at some time or other.\n- a",
         []),
        ("Plan without a list", []),
    ],
)  # fmt: skip
def test_plans(text: str, found: list[str]) -> None:
    assert plan_in(text) == found


@pytest.mark.parametrize(
    "line",
    ["run the tests", "Fix the bug.", "- Please update a.py", "**Now, add** a test", "1. Deploy it",
     "must be deployed", "You should check it", "let's go", "Don't push", "TODO mend it",
     "then re\u00adad, no: check it"],
)  # fmt: skip
def test_asking_lines(line: str) -> None:
    if line.startswith("then"):
        assert not asks_for_work(line)  # `re` is no verb, and what follows is not its first word
    else:
        assert asks_for_work(line)


@pytest.mark.parametrize(
    "line",
    ["ran run with {}", "fixed the bug", "read a.py", "set the flag", "The fix is in", "tests pass",
     "addressed all", "", "123", "\u4fee\u6539\u4e86"],
)  # fmt: skip
def test_lines_that_tell_of_something_done(line: str) -> None:
    assert not asks_for_work(line)


def test_names_of_lines_come_from_their_text_alone() -> None:
    assert line_id("c", "Never.") == line_id("c", "Never.") != line_id("c", "Never")
    assert line_id("o", "a") == "oca978112"  # ca978112… is the SHA-256 of `a`
    assert note_id("api.v2") == "api.v2"
    for odd in ("", "x]\nDone:\n- [y", "a b", "\u00e9", "-x", "x" * 101, "\ud800"):
        assert not is_plain_id(odd)
        assert is_plain_id(note_id(odd))


def test_one_line_holds_nothing_that_ends_it() -> None:
    text = "a\r\nb\u2028c\x85d\x00e\ud800f\u00a0g"
    assert one_line(text) == "a b c d\ufffde\ufffdf g"
    assert cut("x" * 400) == "x" * 299 + "…" and cut("x" * 300) == "x" * 300

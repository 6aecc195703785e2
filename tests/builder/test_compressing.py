"""Short forms of long texts: exact differences, the lines of an error, the locator in each."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.compressing import (
    LEAST,
    as_diff,
    ends,
    error_line,
    error_window,
    locator,
)
from tests.timing import growth

FILLER = "".join(f"unchanged {n} {'x' * 40}\n" for n in range(40))
LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c", " \n", "+\n", "é\n"]), max_size=30)


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def patched(before: str, diff: str) -> str:
    """What a unified diff makes of a text, read strictly."""
    old = before.split("\n")
    ended = old.pop() == ""
    if not ended:
        old = before.split("\n")
    out: list[str] = []
    at = 0
    bare = False
    told = diff.split("\n")[2:]
    kind = ""
    for line in told:
        if line.startswith("@@"):
            found = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", line)
            assert found, line
            first = int(found[1]) - (found[2] != "0")
            out += old[at:first]
            at = first
            continue
        if line.startswith("\\"):
            bare = bare or kind in "+ "
            continue
        kind = line[0]
        if kind in "- ":
            assert old[at] == line[1:]
            at += 1
        if kind in "+ ":
            out.append(line[1:])
    rest = old[at:]
    out += rest
    missing_end = bare or (bool(rest) and not ended)
    return "\n".join(out) + ("" if missing_end or not out else "\n")


@given(LINES, LINES)
def test_a_difference_gives_the_new_text_out_of_the_old_one(old: list[str], new: list[str]) -> None:
    before, now = FILLER + "".join(old), FILLER + "".join(new)
    diff = as_diff(before, now, 1 << 20)
    assert diff is not None
    if before == now:
        assert diff.startswith("[Nothing changed since sha256:")
        return
    assert diff.split("\n")[:2] == [f"--- {locator(before)}", f"+++ {locator(now)}"]
    assert patched(before, diff) == now


def test_a_difference_shows_what_changed_with_three_lines_around_it() -> None:
    before = FILLER
    now = FILLER.replace("unchanged 20", "changed 20")
    diff = as_diff(before, now, 4096)
    assert diff is not None
    lines = diff.split("\n")
    assert lines[2] == "@@ -18,7 +18,7 @@"
    assert [line[0] for line in lines[3:]] == list("   -+   ")
    assert hashlib.sha256(now.encode()).hexdigest() in diff


def test_a_difference_that_is_no_shorter_is_none() -> None:
    assert as_diff("a\n", "b\n", 4096) is None
    before, now = FILLER, FILLER.replace("unchanged", "changed")
    assert as_diff(before, now, 1 << 20) is None  # all of it twice
    assert as_diff(before, FILLER + "one more\n", 100) is None  # no room for it


def test_texts_that_have_nothing_in_common_cost_no_quadratic_time() -> None:
    def differ(lines: int) -> None:
        many = "".join(f"{n % 7}\n" for n in range(lines))
        others = "".join(f"{n % 5}\n" for n in range(lines))
        assert as_diff(many, "x\n" + others + "y\n", 4096) is None

    assert growth(differ, 20_000) < 9


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ok\nE   AssertionError: assert 1 == 2\n", 1),
        ("ok\nok\nTraceback (most recent call last):\n", 2),
        ("error[E0308]: mismatched types", 0),
        ("FAILED tests/test_a.py::test_b", 0),
        ("2 failed, 0 errors", 0),
        ("3 passed, 0 failed\n1 error in 3 s", 1),
        ("thread 'main' panicked at src/main.rs", 0),
        ("0 errors, 0 failed, no failures\nerrors: 0", None),
        ("10 failures", 0),
        ("terrorists are errands", None),
        ("", None),
    ],
)
def test_which_line_tells_of_an_error_first(text: str, line: int | None) -> None:
    assert error_line(text) == line


def test_the_lines_around_the_first_error_are_shown_and_counted() -> None:
    lines = [f"line {n}" for n in range(400)]
    lines[150] = "ValueError: no such order"
    lines[300] = "ValueError: another"
    text = "\n".join(lines) + "\n"
    window = error_window(text, 1000)
    assert window is not None and size(window) <= 1000
    first, *shown = window.split("\n")
    assert locator(text) in first and f"{size(text)} bytes" in first
    found = re.match(r"\[lines (\d+) to (\d+) of 400, around the first error on line 151;", first)
    assert found
    assert shown == lines[int(found[1]) - 1 : int(found[2])]
    before, after = 151 - int(found[1]), int(found[2]) - 151
    assert 0 < before < after
    assert "another" not in window
    assert error_window("all is well\n" * 100, 1000) is None


@given(
    st.lists(st.text(st.sampled_from("ab é€\U0001f600\udc80"), max_size=300), max_size=30),
    st.integers(0, 30),
    st.integers(LEAST, 3000),
)
def test_every_short_form_keeps_to_its_room(lines: list[str], at: int, room: int) -> None:
    """Whatever the characters, however long a line; the locator is always in it."""
    lines.insert(min(at, len(lines)), "x" * at * 50 + " Error " + "é" * at * 20)
    text = "\n".join(lines)
    window = error_window(text, room)
    assert window is not None
    assert size(window) <= room and locator(text) in window and "Error" in window
    assert ends(text, room) == text or size(ends(text, room)) <= room
    if size(text) > room:
        assert locator(text) in ends(text, room)


def test_one_endless_line_costs_its_length() -> None:
    def look(size: int) -> None:
        assert error_line("0 errors " * size) is None
        assert error_line("Error" + "x" * 10 * size) is None

    assert growth(look, 20_000) < 9

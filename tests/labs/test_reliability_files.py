"""Cases and sources of one's own: what is read, and that every bad entry is named with its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sawlog.labs.reliability.loading import published_lab, read_lab, with_budget
from sawlog.store.errors import ConfigError, FormatError
from tests.labs.reliability_data import DATA, case, data, lines, source

Put = Callable[[str, str | bytes], Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def put(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


def test_the_published_files_are_read_as_any_other(put: Put) -> None:
    lab = read_lab(DATA / "cases.json", DATA / "sources.json")
    assert lab == published_lab()
    assert len(lab.sources) == 12 and len(lab.cases) == 8
    # The same with an object a line, blank lines between them and another system's line ends.
    cases = put("c.jsonl", lines(*data("cases.json")).replace("\n", "\r\n\r\n"))
    assert read_lab(cases, put("s.jsonl", lines(*data("sources.json")))) == lab


def test_what_has_no_value_may_be_left_out(put: Put) -> None:
    lab = read_lab(put("c", lines(case("c", "s"))), put("s", lines(source("s"))))
    assert lab.sources["s"].valid_until is None
    assert lab.sources["s"].canonical_key == ""


def test_cases_or_sources_alone_stand_with_the_labs_own(put: Put) -> None:
    cases = put("c", lines(case("mine", "general-changelog")))
    assert read_lab(cases).cases[0].id == "mine"
    changed = [one | {"authority": 9} for one in data("sources.json")]
    assert read_lab(None, put("s", lines(*changed))).cases == published_lab().cases
    with pytest.raises(ConfigError, match="the lab's own cases do not run on .*: ctx-001"):
        read_lab(None, put("s", lines(source("other"))))


SOURCE_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "trust": ({"trust": "verified"}, "bad_trust: the trust of t is 'verified'"),
    "date": ({"updated_at": "July"}, "updated_at is 'July': write a day as 2026-07-29"),
    "no such day": ({"valid_until": "2026-02-30"}, "valid_until is '2026-02-30'"),
    "week": ({"updated_at": "2026-W30-3"}, "updated_at is '2026-W30-3'"),
    "estimate": ({"estimated_tokens": 4}, "estimated_tokens is 4, and the lab's estimator gives 3"),
    "type": ({"authority": "5"}, "authority"),
    "unknown field": ({"contents": "c"}, "contents"),
    "blank id": ({"id": " "}, "blank_item_id"),
    "sensitivity": ({"sensitivity": -1}, "negative_number"),
}


@pytest.mark.parametrize("name", SOURCE_FAULTS)
def test_a_bad_source_is_named_with_its_line(put: Put, name: str) -> None:
    fields, why = SOURCE_FAULTS[name]
    path = put("s", "\n" + lines(source("s")) + "\n" + lines({**source("t"), **fields}))
    with pytest.raises(FormatError) as raised:
        read_lab(None, path)
    assert f"{path}: line 4: " in str(raised.value) and why in str(raised.value)
    assert raised.value.line == 4


CASE_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown source": (
        {"candidate_source_ids": ["s", "ghost"]},
        "candidate_source_ids names the source 'ghost', which is not there",
    ),
    "unknown forbidden source": (
        {"forbidden_source_ids": ["ghost"]},
        "forbidden_source_ids names the source 'ghost', which is not there",
    ),
    "source twice": ({"candidate_source_ids": ["s", "s"]}, "names the source 's' twice"),
    "budget": ({"budget": 0}, "budget_below_one: the budget of d is 0"),
    "date": ({"as_of": "29.07.2026"}, "as_of is '29.07.2026'"),
    "gold label": (
        {"expected_missing_topics": ["y"]},
        "expected_missing_topics has 'y', which is not required",
    ),
    "blank id": ({"id": "\t"}, "the id is blank"),
    "missing field": ({"question": None}, "question"),
}


@pytest.mark.parametrize("name", CASE_FAULTS)
def test_a_bad_case_is_named_with_its_line(put: Put, name: str) -> None:
    fields, why = CASE_FAULTS[name]
    path = put("c", lines(case("c", "s"), case("d", "s") | fields))
    with pytest.raises(FormatError) as raised:
        read_lab(path, put("s", lines(source("s"))))
    assert f"{path}: line 2: " in str(raised.value) and why in str(raised.value)


def test_a_second_one_of_an_id_names_both_lines(put: Put) -> None:
    sources = put("s", lines(source("s")))
    with pytest.raises(FormatError, match="line 3: the id 's' stands in line 1 already"):
        read_lab(None, put("t", lines(source("s"), source("t"), source("s"))))
    with pytest.raises(FormatError, match="line 2: the id 'c' stands in line 1 already"):
        read_lab(put("c", lines(case("c", "s"), case("c", "s"))), sources)


def test_every_bad_line_is_named_in_one_error(put: Put) -> None:
    bad = b'{"id": 1}\n' + lines(source("s")).encode() + b"{\n\xff\n[1]\n" + b"[" * 5000 + b"\n"
    with pytest.raises(FormatError) as raised:
        read_lab(None, put("s", bad))
    message = str(raised.value)
    assert [f"line {n}: " in message for n in range(1, 7)] == [True, False, True, True, True, True]


def test_an_array_counts_its_entries(put: Put) -> None:
    entries = [source("s"), source("t", trust="no"), source("s")]
    with pytest.raises(FormatError) as raised:
        read_lab(None, put("s.json", json.dumps(entries, indent=1)))
    assert "entry 2: bad_trust" in str(raised.value)
    assert "entry 3: the id 's' stands in entry 1 already" in str(raised.value)


@pytest.mark.parametrize("content", ["", "\n \r\n", "[]", "[\n]", "[{]", '[{"id": 1}, '])
def test_an_empty_file_or_a_broken_array_is_an_error(put: Put, content: str) -> None:
    path = put("c", content)
    for given in ((path, None), (None, path)):
        with pytest.raises(FormatError) as raised:
            read_lab(*given)
        assert str(path) in str(raised.value)


@pytest.mark.parametrize("budget", [0, -1])
def test_a_budget_below_one_is_refused(budget: int) -> None:
    with pytest.raises(ConfigError, match="give 1 or more"):
        with_budget(published_lab(), budget)

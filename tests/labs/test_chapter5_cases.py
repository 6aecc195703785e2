"""Cases of one's own: what a line may say, what is wrong with a bad one, what a case checks."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sawlog.builder.selection.policy import policy_of
from sawlog.labs.chapter5.casefile import differences, read_cases
from sawlog.labs.chapter5.checking import samples
from sawlog.labs.comparing import Failing, Sample, compare, policy_named
from sawlog.store.errors import ConfigError, FormatError, InvalidPolicy, TooLarge, UnknownNumber
from tests.labs.chapter5_data import own_line, variants, write_cases

CHAPTER5 = policy_of("chapter5")


def line(name: str, **changes: Any) -> dict[str, Any]:
    found = next(one for one in variants() if one["variant"] == name)
    made = copy.deepcopy(own_line(found, expected=False))
    made["input"].update(changes)
    return made


def checked(tmp_path: Path, *lines: Any, policy: str = "chapter5") -> list[Sample]:
    path = write_cases(tmp_path / "cases.jsonl", list(lines))
    return samples(read_cases(path), policy_of(policy))


def test_the_published_variants_pass_as_cases_with_all_that_is_expected(tmp_path: Path) -> None:
    found = checked(tmp_path, *(own_line(variant) for variant in variants()))
    assert [sample for sample in found if not sample.passed] == []
    assert len(found) == 30


def test_each_single_expectation_can_fail(tmp_path: Path) -> None:
    """Every leaf of what is expected, changed alone, fails its case and names its place."""
    variant = next(one for one in variants() if one["variant"] == "hostile_first")
    whole = own_line(variant)
    leaves = [*_leaves(whole["expected"], ())]
    assert len(leaves) > 100
    lines: list[dict[str, Any]] = []
    for number, path in enumerate(leaves):
        made = copy.deepcopy(whole)
        made["variant"] = made["expected"]["report_record"]["variant"] = f"v{number}"
        del made["expected"]["gateway"]["call_id"]  # it is made from the variant's name
        if path == ("gateway", "call_id"):
            continue
        place = made["expected"]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = -1 if path == ("selected_count",) else "changed"
        lines.append(made)
    for sample in checked(tmp_path, *lines):
        assert len(sample.failures) == 1, sample
        assert sample.failures[0].endswith((', not "changed"', ", not -1"))


def _leaves(value: object, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    inner: list[tuple[Any, object]] = []
    if isinstance(value, dict):
        inner = list(cast("dict[Any, object]", value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[object]", value)))
    for step, below in inner:
        yield from _leaves(below, (*path, step))
    if not inner:
        yield path


def test_without_expectations_the_grades_decide(tmp_path: Path) -> None:
    noise = line("noise_5")
    missing = line("missing_required")
    fine = line("complete")
    vague = line("vague", expected_kind="tool", expected_tool="apply_patch")
    found = {sample.case.split("/")[1]: sample for sample in
             checked(tmp_path, noise, missing, fine, vague)}  # fmt: skip
    assert found["complete"].passed
    assert found["noise_5"].failures[0].startswith("build: 5 irrelevant items selected: ctx-")
    assert found["missing_required"].failures == ("build: missing currency-test",)
    assert found["vague"].failures == ("decision: needs_context, where tool was expected",)


def test_the_strict_gateway_can_be_asked_for(tmp_path: Path) -> None:
    lax = line("complete")
    lax["expected"] = {"gateway": {"kind": "ask"}}
    strict = line("injection_path", gateway="strict")
    strict["expected"] = {"gateway": {"kind": "deny", "reason": "protected_path"}}
    assert all(sample.passed for sample in checked(tmp_path, lax, strict))


def test_a_case_needs_little(tmp_path: Path) -> None:
    found = checked(
        tmp_path,
        "",
        {
            "experiment": "mine",
            "variant": "first",
            "input": {
                "candidates_in_order": [
                    {"source_id": "t", "channel": "user_request", "content": "Fix the parser."}
                ],
                "budget_units": 100,
                "expected_kind": "answer",
            },
        },
    )
    assert found == [Sample("mine/first")]


def test_a_refused_build_is_a_failure_that_says_so(tmp_path: Path) -> None:
    twice = line("complete")
    other = copy.deepcopy(twice["input"]["candidates_in_order"][0])
    other["key"], other["required_for"] = "again", ["x"]
    twice["input"]["candidates_in_order"].append(other)
    found = checked(tmp_path, twice)
    # The same source, loaded twice, is one item, required for what either copy is.
    assert found[0].failures == ()


BAD: list[tuple[Any, str]] = [
    ("not json", "malformed"),
    ("[]", "Expected `object`"),
    ("{}", "missing required field `experiment`"),
    ({**line("complete"), "extra": 1}, "unknown field `extra`"),
    ({**line("complete"), "expected": {"packets": {}}}, "`packets` - at `$.expected`"),
    ({**line("complete"), "variant": ""}, "need a name"),
    (line("complete", budget_units="many"), "$.input.budget_units"),
    (line("complete", budget_units=-1), "negative_budget"),
    (line("complete", expected_kind="dance"), "expected_kind is 'dance'"),
    (line("complete", section_order=["fact", "fact"]), "duplicate_section_kind"),
    (line("complete", section_order=["facts"]), "no kind of item"),
    (line("complete", irrelevant_fixtures=["nobody"]), "irrelevant_fixtures names 'nobody'"),
    (line("complete", conflict_contract={"must_select": ["x"]}), "must_select names 'x'"),
    (
        line("complete", conflict_contract={"must_have_reason": [["x", "y"]]}),
        "must_have_reason names 'x'",
    ),
    (line("complete", gateway="lax"), "$.input.gateway"),
    (line("complete", repository=" "), "blank_scope_repository"),
    (line("complete", allowed_sensitivities=["top"]), "unknown_sensitivity"),
    (
        line("complete", candidates_in_order=["pricing-py"]),
        "Expected `object`, got `str` - at `$.input.candidates_in_order",
    ),
    (
        line("complete", candidates_in_order=[
            {"source_id": "a", "channel": "telepathy", "content": "x"}]),
        "unknown_source_channel",
    ),
    (
        line("complete", candidates_in_order=[
            {"source_id": "a", "channel": "system", "content": " "}]),
        "blank_source_content",
    ),
    (
        line("complete", candidates_in_order=[
            {"source_id": "a", "channel": "system", "content": "x"}] * 2),
        "two texts have the key 'a'",
    ),
    ('{"expected":{"packet":{"a":' + "[" * 100_000, "nested too deeply"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "why"), BAD, ids=[why for _, why in BAD])
def test_a_bad_line_is_named_with_its_number(bad: Any, why: str, tmp_path: Path) -> None:
    path = write_cases(tmp_path / "cases.jsonl", [line("duplicate"), "", bad])
    with pytest.raises(FormatError, match="line 3: ") as refused:
        read_cases(path)
    assert why in str(refused.value)
    assert refused.value.line == 3
    assert refused.value.path == str(path)


def test_every_bad_line_is_named(tmp_path: Path) -> None:
    lines = [line("complete"), "{", line("duplicate"), line("complete"), *["{}"] * 40]
    with pytest.raises(FormatError) as refused:
        read_cases(write_cases(tmp_path / "cases.jsonl", lines))
    told = str(refused.value)
    assert "line 2: " in told and "line 24: " not in told
    assert "line 4: the case 'assembly_ablation/complete' stands in line 1 already" in told
    assert told.endswith("; and 22 more")


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b'{"experiment":"\xff"}\n')
    with pytest.raises(FormatError, match="line 1: "):
        read_cases(path)


def test_an_empty_file_holds_no_cases(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no cases"):
        read_cases(write_cases(tmp_path / "cases.jsonl", ["", " "]))


# --- comparing ------------------------------------------------------------------------------------


def test_what_got_better_and_worse_is_told_by_case() -> None:
    before = [Sample("a"), Sample("b", ("x",)), Sample("c", ("y",)), Sample("d")]
    after = [Sample("a", ("z",)), Sample("b"), Sample("c", ("y",)), Sample("d")]
    compared = compare("old", before, "new", after)
    assert compared.improvements == ("b",)
    assert compared.regressions == ("a",)
    assert (compared.cases, compared.baseline_passed, compared.candidate_passed) == (4, 2, 2)
    assert compared.failing == (
        Failing("old", "b", ("x",)),
        Failing("old", "c", ("y",)),
        Failing("new", "a", ("z",)),
        Failing("new", "c", ("y",)),
    )
    assert not compared.ok
    assert compare("old", before, "old", before).ok


def test_a_new_leak_in_a_case_that_failed_before_is_a_regression() -> None:
    before = [Sample("a", ("build: x",))]
    after = [Sample("a", ("build: x", "safety: secret_leak"), ("secret_leak",))]
    assert compare("old", before, "new", after).regressions == ("a",)
    assert compare("old", after, "new", after).ok


def test_only_the_same_cases_are_compared() -> None:
    with pytest.raises(ConfigError, match="same cases"):
        compare("old", [Sample("a")], "new", [Sample("b")])


OWN = """
name = "mine"
number = 2
measure = "utf8-bytes"
stages = [
    { stage = "sensitivity" }, { stage = "scope" }, { stage = "required" }, { stage = "rank" },
    { stage = "budget" }, { stage = "ordering" }, { stage = "labels" }, { stage = "completeness" },
]
"""


def test_a_policy_is_a_name_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    assert policy_named("chapter5") is policy_named("chapter5@1") is CHAPTER5
    assert str(policy_named(str(path)).named) == "mine@2"
    with pytest.raises(UnknownNumber, match="chapter5@7"):
        policy_named("chapter5@7")
    with pytest.raises(ConfigError, match="dump-all-v1"):
        policy_named("nonsense")
    path.write_text("name = 1")
    with pytest.raises(InvalidPolicy, match="mine.toml"):
        policy_named(str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidPolicy, match="UTF-8"):
        policy_named(str(path))
    path.write_bytes(b" " * (1024 * 1024 + 1))
    with pytest.raises(TooLarge):
        policy_named(str(path))


def test_a_policy_without_conflict_rules_is_caught_by_the_cases(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    path = write_cases(
        tmp_path / "cases.jsonl", [own_line(one, expected=False) for one in variants()]
    )
    cases = read_cases(path)
    mine = policy_named(str(tmp_path / "mine.toml"))
    compared = compare("chapter5", samples(cases, CHAPTER5), "mine", samples(cases, mine))
    assert "instruction_conflict/trusted_first" in compared.regressions
    assert not compared.ok


def test_differences_name_their_place() -> None:
    assert differences({"a": [1, {"b": True}]}, {"a": [1, {"b": True, "c": 0}], "d": 1}) == []
    assert differences({"a": {"b": 1}}, {"a": {"b": 2}}) == ["a.b is 2, not 1"]
    assert differences({"a": True}, {"a": 1}) == ["a is 1, not true"]
    assert differences({"a": 1}, {}) == ["a is not there"]
    assert differences({"a": {"b": 1}}, {"a": [1]}) == ["a is [1], not an object"]
    assert differences([1, 2], [1], "x") == ["x is [1], not [1,2]"]
    assert differences({"t": "a" * 200}, {"t": json.dumps(1)})[0].endswith("…")


def test_exercise_an_eval_of_twenty_fixtures(tmp_path: Path) -> None:
    """S0-82: twenty cases, one answer each, and what a policy without gates loses of them."""
    twenty = [own_line(one, expected=False) for one in variants()[-20:]]
    cases = read_cases(write_cases(tmp_path / "cases.jsonl", twenty))
    found = samples(cases, CHAPTER5)
    assert len(found) == len({sample.case for sample in found}) == 20
    dumped = compare("chapter5", found, "dump-all-v1", samples(cases, policy_of("dump-all-v1")))
    assert dumped.cases == 20 and not dumped.ok
    lost = {one.case for one in dumped.failing if one.policy == "dump-all-v1"}
    assert "noise_and_injection/injection_secret" in lost

"""Policies and their documents: names, numbers, digests, what makes none and where it says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from sawlog.builder.selection.choosing import Cap, Phase, Rank, Relevance, Required, WorkingSet
from sawlog.builder.selection.eligibility import Scope, Sensitivity
from sawlog.builder.selection.measure import GIVEN, UTF8_BYTES
from sawlog.builder.selection.ordering import Completeness, Ordering
from sawlog.builder.selection.policy import (
    CHAPTER5,
    DEFAULT,
    POLICIES,
    Policy,
    policy_of,
    read_policy,
)
from sawlog.builder.selection.policydoc import policy_from, policy_from_toml
from sawlog.builder.selection.stages import STAGES, StageUse
from sawlog.builder.selection.walks import Budget, Prefix
from sawlog.store.errors import ConfigError, InvalidPolicy, UnknownNumber
from tests.builder.selection.cases import ids, one, run
from tests.fresh import imported_modules

DIGESTS = {
    "chapter5@1": "2751d213d053f5f76e008ed7e72a180f4adb16b857f3f86bdfda2192388fd78f",
    "context-packet-v1@1": "5152c75d38c7f71e06d58ab8061d337e98fa23c924967507016fd0597ac084d2",
    "dump-all-v1@1": "4badd74e8ce802ebd812c6571dda30b4afc42a2eea358756cece9e08f15d5c8d",
    "default@2": "9e39e460bcf96d6fc3f94b70ffef7939a5e9838f8e4044077a692c30001db97d",
}

MINE = """
name = "mine"
number = 1
measure = "utf8-bytes"

[[stages]]
stage = "sensitivity"
[[stages]]
stage = "scope"
[[stages]]
stage = "phase"
sets = [{ phase = "read", roles = ["symbol"] }]
[[stages]]
stage = "cap"
units = 500
[[stages]]
stage = "required"
[[stages]]
stage = "rank"
signals = ["relevance", "cost"]
[[stages]]
stage = "budget"
[[stages]]
stage = "completeness"
"""


def test_the_built_in_policies_never_change() -> None:
    """A changed digest is a changed policy: give it a new number instead."""
    assert {str(name): policy.digest for name, policy in POLICIES.items()} == DIGESTS


@pytest.mark.parametrize("policy", POLICIES.values(), ids=str)
def test_a_policy_reads_back_from_its_text(policy: Policy) -> None:
    assert read_policy(policy.text) == policy
    assert read_policy(policy.text).digest == policy.digest


def test_a_parameter_that_is_its_default_says_nothing() -> None:
    stages = tuple(Sensitivity(never=("secret",)) if isinstance(each, Sensitivity) else each
                   for each in DEFAULT.stages)  # fmt: skip
    assert replace(DEFAULT, stages=stages).digest == DEFAULT.digest
    stages = tuple(Cap(units=10_001) if isinstance(each, Cap) else each for each in DEFAULT.stages)
    assert replace(DEFAULT, stages=stages).digest != DEFAULT.digest


def test_a_policy_is_found_by_name_and_number() -> None:
    assert policy_of("default") is policy_of("default", 2) is DEFAULT
    for name, number in (("default", 1), ("defualt", None), ("default", 0)):
        with pytest.raises(UnknownNumber, match="is not installed: there is chapter5@1"):
            policy_of(name, number)


WALK: tuple[StageUse, ...] = (Required(), Rank(), Budget())


@pytest.mark.parametrize(
    ("stages", "path", "says"),
    [
        ((*WALK, Sensitivity(), Completeness()), "stages[3]", "sensitivity comes before"),
        ((Rank(), Required(), Budget(), Completeness()), "stages[1]", "required comes before rank"),
        ((Prefix(), *WALK, Completeness()), "stages[1]", "required comes before"),
        ((Prefix(), Prefix(), Completeness()), "stages", "one of budget, prefix, coverage, not 2"),
        ((Completeness(),), "stages", "not 0"),
        ((Budget(), Completeness()), "stages", "required stands once before budget"),
        ((Required(), Prefix(), Completeness()), "stages", "required stands once"),
        (WALK, "stages", "completeness is not there"),
        ((Cap(units=63), *WALK, Completeness()), "stages[0].units", "no room for its notice"),
        ((Relevance(minimum=-1), *WALK, Completeness()), "stages[0].minimum", "per mille"),
    ],
)
def test_stages_that_make_no_policy(stages: tuple[StageUse, ...], path: str, says: str) -> None:
    with pytest.raises(InvalidPolicy, match=says) as caught:
        Policy("p", 1, GIVEN, stages)
    assert caught.value.path == path
    assert isinstance(caught.value, ConfigError)


def test_a_document_is_a_policy() -> None:
    policy = policy_from_toml(MINE)
    assert policy == Policy(
        "mine",
        1,
        UTF8_BYTES,
        (
            Sensitivity(),
            Scope(),
            phase("read", "symbol"),
            Cap(units=500),
            Required(),
            Rank(signals=("relevance", "cost")),
            Budget(),
            Completeness(),
        ),
    )
    assert read_policy(policy.text) == policy
    found = run(
        one("a", text="abc", role="symbol"), one("b", role="diff"), policy=policy, phase="read"
    )
    assert ids(found) == ["a"]


def phase(name: str, *roles: str) -> StageUse:
    return Phase((WorkingSet(name, roles),))


@pytest.mark.parametrize(
    ("old", "new", "path", "says"),
    [
        ('"scope"', '"scoop"', "stages[1]", "there is no stage 'scoop': use one of budget, cap"),
        ("units = 500", "units = -1", "stages[3].units", "the number is too small"),
        ("units = 500", "units = 9", "stages[3].units", "use 64 or more"),
        ("units = 500", "unit = 5", "stages[3].unit", "no such parameter: use units, kinds"),
        ("units = 500", 'units = "500"', "stages[3].units", "valid integer"),
        ("units = 500", "units = true", "stages[3].units", "valid integer"),
        ('"relevance"', '"luck"', "stages[5].signals[0]", "'trusted', 'phase', 'topics'"),
        ("roles =", "rules =", "stages[2].sets[0].roles", "required"),
        ("number = 1", "number = 0", "number", "too small"),
        ("number = 1", "", "number", "required"),
        ("number = 1", "number = 1\nnote = 2", "note", "no such parameter: use name, number"),
        ('"utf8-bytes"', '"guess"', "measure", "use given@1, utf8-bytes@1, lab-estimator@1"),
        ('"mine"', '"default"', "name", "taken by a built-in policy"),
        ('"sensitivity"', '"sensitivity"\nnever = []', "stages[0].never", "secrets come into no"),
        ('stage = "scope"', 'stage = "clearance"', "stages", "the stage scope must be there"),
        ('stage = "completeness"', 'stage = "ordering"', "stages", "completeness is not there"),
        ('name = "mine"', "name =", "", "this is no TOML"),
        ('stage = "rank"', 'sort = "rank"', "stages[5]", "there is no stage None"),
    ],
)
def test_a_document_that_says_no_policy_says_where(
    old: str, new: str, path: str, says: str
) -> None:
    assert old in MINE
    with pytest.raises(InvalidPolicy, match=says) as caught:
        policy_from_toml(MINE.replace(old, new, 1))
    assert caught.value.path == path


@pytest.mark.parametrize(
    "text",
    [
        "stages=" + "[" * 3000 + "]" * 3000,
        "a=" + "{a=" * 3000 + "1" + "}" * 3000,
        ".".join("a" * 5000) + "=1",
        "[" + ".".join("a" * 5000) + "]",
    ],
    ids=["lists", "tables", "keys", "heads"],
)
def test_a_document_that_is_nested_too_deeply_is_no_policy(text: str) -> None:
    with pytest.raises(InvalidPolicy, match="nested too deeply"):
        policy_from_toml(text)
    endless: dict[str, object] = {}
    endless["stages"] = [endless]
    with pytest.raises(InvalidPolicy, match="nested too deeply"):
        policy_from(endless)


def test_every_stage_can_be_written_down_with_its_defaults() -> None:
    for policy in (CHAPTER5, DEFAULT):
        document: dict[str, Any] = {"name": "mine", "number": 3, "measure": str(policy.measure)}
        document["stages"] = read_stages(policy)
        if policy is CHAPTER5:
            document["stages"][0]["never"] = ["secret"]
        made = policy_from(document)
        assert made.stages[1:] == policy.stages[1:]


def read_stages(policy: Policy) -> list[dict[str, Any]]:
    stages: list[dict[str, Any]] = json.loads(policy.text)["stages"]
    return stages


def test_no_stage_is_left_out_of_the_table() -> None:
    assert set(STAGES) == set(StageUse.__args__)
    assert Ordering in STAGES


def test_pydantic_is_loaded_on_demand_alone() -> None:
    loaded = imported_modules("import sawlog.builder.selection.select")
    assert "pydantic" not in loaded
    assert "pydantic" in imported_modules("import sawlog.builder.selection.policydoc")

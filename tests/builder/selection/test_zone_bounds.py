"""Bounds of zones in a policy: what they hold, what they never hold, how a document says them."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sawlog.builder.selection.candidate import ZONES, Candidate
from sawlog.builder.selection.choosing import Rank, Required
from sawlog.builder.selection.measure import GIVEN
from sawlog.builder.selection.ordering import Completeness
from sawlog.builder.selection.policy import DEFAULT, Policy, read_policy
from sawlog.builder.selection.policydoc import policy_from, policy_from_toml
from sawlog.builder.selection.verdict import Selection
from sawlog.builder.selection.walks import Budget, Zone, ZoneBound
from sawlog.store.errors import InvalidPolicy
from tests.builder.selection.cases import ids, one, run, why
from tests.builder.selection.test_properties import TASK, groups, mixed

NEEDS = {"q1", "q2", "q3", "q4", "x", "y"}


def bounded(base: Policy = DEFAULT, /, **units: int) -> Policy:
    """The default policy under another name, with these bounds."""
    bounds = tuple(ZoneBound(zone, most) for zone, most in units.items())  # type: ignore[arg-type]
    stages = tuple(
        replace(use, bounds=bounds) if isinstance(use, Budget) else use for use in base.stages
    )
    return replace(base, name="bounded", number=1, stages=stages)


def docs(count: int, **fields: Any) -> list[Candidate]:
    """Artifacts of ten units each, which are retrieved."""
    return [one(f"d{at}", "artifact", **fields) for at in range(count)]


def used(found: Selection, zone: str) -> int:
    return dict(found.zones)[zone]


# --- what a bound holds ---------------------------------------------------------------------------


def test_a_zone_takes_no_more_than_its_bound_and_the_verdict_names_it() -> None:
    found = run(*docs(5), one("o", "observation"), policy=bounded(retrieved=25))
    assert sorted(ids(found)) == ["d0", "d1", "o"]
    for id in ("d2", "d3", "d4"):
        assert why(found, id) == "budget/dropped/zone_exceeded"
        assert found.verdict(id).note == "zone retrieved is bounded to 25 units"
        assert found.verdict(id).units == 10
    assert used(found, "retrieved") == 20


def test_what_a_zone_leaves_is_there_for_other_zones() -> None:
    late = one("s", zone="summary", units=60)
    assert "s" not in ids(run(*docs(5), late, budget=100))
    assert "s" in ids(run(*docs(5), late, budget=100, policy=bounded(retrieved=40)))


def test_a_smaller_one_may_come_in_where_a_larger_one_does_not_fit() -> None:
    wide = one("a", "artifact", units=30)
    narrow = one("b", "artifact", units=20)
    found = run(wide, narrow, policy=bounded(retrieved=25))
    assert ids(found) == ["b"]


def test_a_bound_of_nothing_keeps_a_zone_empty() -> None:
    found = run(*docs(2), one("o", "observation"), policy=bounded(retrieved=0))
    assert ids(found) == ["o"]


def test_of_two_bounds_the_smaller_holds() -> None:
    for of_task, of_policy in ((20, 40), (40, 20)):
        found = run(*docs(5), policy=bounded(retrieved=of_policy), zones=(("retrieved", of_task),))
        assert used(found, "retrieved") == 20


def test_what_stands_in_the_packet_counts_until_it_holds_no_more() -> None:
    """Its successor takes its place, and not the room beside it."""
    policy = bounded(retrieved=25)
    there = one("old", "artifact", source_id="page", version="1", units=0, text="", in_prefix=True)
    standing = (("old", "retrieved", 20),)
    found = run(there, one("new", "artifact"), policy=policy, standing=standing)
    assert why(found, "new") == "budget/dropped/zone_exceeded"
    assert why(found, "old") == "selected/selected/selected", "no bound moves it"
    newer = one("new", "artifact", source_id="page", version="2", units=20)
    found = run(there, newer, policy=policy, standing=standing)
    assert why(found, "old") == "supersession/dropped/superseded"
    assert ids(found) == ["new"]


def test_what_stands_there_counts_although_it_would_not_come_in_again() -> None:
    """Only what is said to hold no more makes room; another task's text still takes its own."""
    there = one("old", "artifact", repository="other", units=0, text="", in_prefix=True)
    found = run(
        there,
        one("new", "artifact"),
        policy=bounded(retrieved=25),
        standing=(("old", "retrieved", 20),),
        repository="mine",
    )
    assert why(found, "old") == "scope/dropped/out_of_scope"
    assert why(found, "new") == "budget/dropped/zone_exceeded"


# --- what it never holds --------------------------------------------------------------------------


def test_what_is_required_is_never_held_and_takes_its_zone() -> None:
    needed = [
        one("kept", "artifact", retention="required", units=30),
        one("test", "artifact", required_for=("q",), units=30),
    ]
    found = run(*needed, *docs(2), policy=bounded(retrieved=40), requirements=("q",))
    assert sorted(ids(found)) == ["kept", "test"]
    assert found.missing == ()
    assert why(found, "d0") == "budget/dropped/zone_exceeded"
    assert found.verdict("kept").note == ""
    assert found.verdict("test").note == "zone retrieved is bounded to 40 units; it is needed"


def test_a_topic_is_never_lost_to_a_bound_and_costs_the_least_beyond_it() -> None:
    dear = one("dear", "artifact", topics=("t",), units=60, relevance=900)
    cheap = one("cheap", "artifact", topics=("t",), units=50, relevance=100)
    found = run(dear, cheap, *docs(3), policy=bounded(retrieved=30), topics=("t",))
    assert ids(found) == ["cheap"]
    assert found.missing == ()
    assert found.verdict("cheap").note == "zone retrieved is bounded to 30 units; it is needed"
    assert why(found, "dear") == "budget/dropped/zone_exceeded"


def test_a_topic_keeps_its_room_though_a_bound_frees_it_for_others() -> None:
    """Without the bound the first one leaves no room for the wide one, and the topic has it."""
    first = one("a", "artifact", units=50)
    wide = one("b", "observation", zone="summary", units=60)
    topic = one("c", "observation", zone="summary", units=50, topics=("t",), relevance=0)
    order = (Required(), Rank(signals=("authority",)), Budget(), Completeness())
    policy = Policy("plain", 1, GIVEN, order)
    assert sorted(ids(run(first, wide, topic, budget=100, topics=("t",), policy=policy))) == [
        "a",
        "c",
    ]
    found = run(first, wide, topic, budget=100, topics=("t",), policy=bounded(policy, retrieved=10))
    assert ids(found) == ["c"]
    assert found.missing == ()


def test_a_stranger_s_word_for_a_topic_is_held() -> None:
    stranger = one("s", "artifact", trust="unverified", topics=("t",), units=50)
    found = run(stranger, policy=bounded(retrieved=30), topics=("t",))
    assert why(found, "s") == "budget/dropped/zone_exceeded"
    assert found.missing == ("t",)


bounds = st.dictionaries(st.sampled_from(ZONES[1:]), st.integers(0, 60), max_size=4)


@given(found=groups(), units=bounds, data=st.data())
def test_the_order_of_candidates_never_matters_under_bounds(
    found: list[Candidate], units: dict[str, int], data: st.DataObject
) -> None:
    policy = bounded(**units)
    first = run(*found, policy=policy, **TASK, budget=100)
    assert run(*data.draw(st.permutations(found)), policy=policy, **TASK, budget=100) == first


@given(found=mixed, units=bounds, budget=st.integers(0, 200))
def test_no_bound_loses_a_requirement_or_a_topic(
    found: list[Candidate], units: dict[str, int], budget: int
) -> None:
    """And what is required comes in alike under every bound."""
    free = run(*found, **TASK, budget=budget)
    held = run(*found, policy=bounded(**units), **TASK, budget=budget)
    assert set(held.missing) <= set(free.missing) <= NEEDS
    assert [each.id for each in held.selected if each.is_required] == [
        each.id for each in free.selected if each.is_required
    ]
    assert held.required_units == free.required_units


@given(
    found=mixed, zone=st.sampled_from(ZONES[1:]), most=st.integers(0, 60), more=st.integers(1, 60)
)
def test_a_larger_bound_never_shows_less_of_its_zone(
    found: list[Candidate], zone: str, most: int, more: int
) -> None:
    """Where the room is no matter; other zones do not change."""
    task = {**TASK, "topics": ()}
    small = run(*found, policy=bounded(**{zone: most}), **task, budget=1000)
    large = run(*found, policy=bounded(**{zone: most + more}), **task, budget=1000)
    assert used(small, zone) <= used(large, zone)
    others = [pair for pair in small.zones if pair[0] != zone]
    assert others == [pair for pair in large.zones if pair[0] != zone]


@given(found=mixed, units=bounds, budget=st.integers(0, 200))
def test_only_what_is_needed_goes_beyond_a_bound(
    found: list[Candidate], units: dict[str, int], budget: int
) -> None:
    held = run(*found, policy=bounded(**units), **TASK, budget=budget)
    for zone, most in units.items():
        inside = [each for each in held.selected if dict(held.zones)[zone] > most]
        noted = {each.id for each in held.verdicts if each.note.endswith("it is needed")}
        assert not inside or noted & {each.id for each in inside}
    at = {each.id: each for each in held.selected}
    for verdict in held.verdicts:
        if verdict.note.endswith("it is needed"):
            chosen = at[verdict.id]
            assert chosen.is_required or set(chosen.topics) & set(TASK["topics"])


# --- how a document says it -----------------------------------------------------------------------

MINE = """
name = "mine"
number = 1
stages = [
    { stage = "sensitivity" }, { stage = "scope" }, { stage = "required" }, { stage = "rank" },
    { stage = "budget", bounds = [{ zone = "retrieved", units = 2000 }] },
    { stage = "completeness" },
]
"""


def test_a_document_bounds_zones_and_reads_back() -> None:
    policy = policy_from_toml(MINE)
    [walk] = [use for use in policy.stages if isinstance(use, Budget)]
    assert walk == Budget(bounds=(ZoneBound("retrieved", 2000),))
    assert read_policy(policy.text) == policy
    assert policy.digest != policy_from_toml(MINE.replace("2000", "2001")).digest
    document = {"name": "mine", "number": 1, "stages": [
        {"stage": "sensitivity"}, {"stage": "scope"}, {"stage": "required"}, {"stage": "rank"},
        {"stage": "budget", "bounds": [{"zone": "retrieved", "units": 2000}]},
        {"stage": "completeness"},
    ]}  # fmt: skip
    assert policy_from(document) == policy


@pytest.mark.parametrize(
    ("old", "new", "path", "says"),
    [
        ("2000", "-1", "bounds[0].units", "the number is too small"),
        ("2000", "2000.0", "bounds[0].units", "valid integer"),
        ("2000", "true", "bounds[0].units", "valid integer"),
        ('"retrieved"', '"attic"', "bounds[0].zone", "'rules', 'goal', 'recent'"),
        ('"retrieved"', '"fixed"', "bounds[0].zone", "'rules', 'goal'"),
        ("units", "per_mille", "bounds[0].units", "required"),
        ("zone =", "sort =", "bounds[0].zone", "required"),
        ("}]", '}, { zone = "retrieved", units = 5 }]', "bounds[1]", "retrieved has two bounds"),
        ("}]", "}], zones = false", "bounds", "hold nothing without zones"),
    ],
)
def test_bounds_that_are_none_say_where(old: str, new: str, path: str, says: str) -> None:
    assert old in MINE
    with pytest.raises(InvalidPolicy, match=says) as caught:
        policy_from_toml(MINE.replace(old, new, 1))
    assert caught.value.path == f"stages[4].{path}"


def test_bounds_made_without_a_document_are_checked_too() -> None:
    for wrong, says in ((ZoneBound("attic", 1), "no zone 'attic' can be"),  # type: ignore[arg-type]
                        (ZoneBound("goal", -1), "counts units from 0")):  # fmt: skip
        with pytest.raises(InvalidPolicy, match=says):
            Policy("p", 1, GIVEN, (Required(), Rank(), Budget(bounds=(wrong,)), Completeness()))


def test_the_names_of_zones_are_those_that_candidates_stand_in() -> None:
    assert ("fixed", *get_args(Zone)) == ZONES

"""What holds of any candidates: order is nothing, one verdict each, no requirement is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sawlog.builder.item import AUTHORITY_RANK, RETENTION_RANK, TRUST_RANK, Kind
from sawlog.builder.selection.candidate import FILE_CHANGE, Candidate
from sawlog.builder.selection.chapter5 import packed
from sawlog.builder.selection.policy import POLICIES, Policy
from sawlog.builder.selection.task import Task
from sawlog.builder.selection.verdict import Selection
from tests.builder.selection.cases import run

ALL = tuple(POLICIES.values())
TASK: dict[str, Any] = {
    "repository": "r",
    "task_id": "t",
    "target_path": "src/a.py",
    "as_of": "2026-07-29",
    "requirements": ("q1", "q4"),
    "topics": ("x", "y"),
    "phase": "verify",
    "workspace": (("src/a.py", "2"),),
}

words = st.sampled_from(["", "a", "b", "c d", "é", "SYSTEM: obey", "e" * 40])
names = st.lists(st.sampled_from(["q1", "q2", "q3"]), max_size=2).map(
    lambda got: tuple(sorted({*got}))
)


@st.composite
def candidates(draw: st.DrawFn, at: int) -> Candidate:
    """A candidate of few words, so that many are equal in something."""
    kind = draw(st.sampled_from([*map(str, Kind), "policy"]))
    ranks = (AUTHORITY_RANK, TRUST_RANK, RETENTION_RANK)
    authority, trust, retention = (draw(st.sampled_from(sorted(table))) for table in ranks)
    if kind != Kind.INSTRUCTION:
        authority = "none"
    return Candidate(
        id=f"{draw(st.integers(0, 99)):02d}-{at}",
        kind=kind,
        text=draw(words) or "t",
        locator=draw(st.sampled_from(["", "l1", "l2"])),
        source_id=draw(st.sampled_from(["", "s1", "s2", "s3"])),
        version=draw(st.sampled_from(["", "1", "1.2", "1.10", "abc"])),
        canonical=draw(st.sampled_from(["", "", "k"])),
        authority=AUTHORITY_RANK[authority],
        trust=TRUST_RANK[trust],
        retention=RETENTION_RANK[retention],
        authority_name=authority,
        trust_name=trust,
        sensitivity=draw(st.sampled_from(["public", "internal", "internal", "secret"])),
        clearance=draw(st.integers(0, 1)),
        repository=draw(st.sampled_from(["", "r", "other"])),
        path=draw(st.sampled_from(["", "src/AGENTS.md", "lib"])),
        scope_path=draw(st.sampled_from(["", "src/AGENTS.md", "lib"])),
        tenant=draw(st.sampled_from(["", "", "t2"])),
        topics=draw(st.sampled_from([(), ("x",), ("x", "y"), ("z",)])),
        required_for=draw(names),
        updated_at=draw(st.sampled_from(["", "2026-07-01", "2026-07-02", "turn:3"])),
        valid_until=draw(st.sampled_from(["", "", "2026-07-29", "2026-07-28", "?"])),
        ttl=draw(st.sampled_from(["", "", FILE_CHANGE])),
        seen=draw(st.sampled_from([(), (("src/a.py", "1"),), (("src/a.py", "2"),)])),
        stale=draw(st.sampled_from(["", "", "", "changed"])),
        relevance=draw(st.sampled_from([None, 0, 500])),
        in_prefix=draw(st.booleans()),
        role=draw(st.sampled_from(["", "", "diff", "caller"])),
        units=draw(st.integers(1, 60)),
        seq=draw(st.integers(0, 3)),
    )  # fmt: skip


@st.composite
def groups(draw: st.DrawFn) -> list[Candidate]:
    """Some candidates, a few of them told twice."""
    found = [draw(candidates(at)) for at in range(draw(st.integers(0, 8)))]
    again = draw(st.lists(st.sampled_from(found), max_size=3)) if found else []
    return [*found, *(replace(each, locator="again", required_for=("q3",)) for each in again)]


@st.composite
def eligible(draw: st.DrawFn) -> list[Candidate]:
    """Candidates that pass every gate and differ in text, so that room alone decides."""
    found: list[Candidate] = []
    for at in range(draw(st.integers(2, 8))):
        retention = draw(st.sampled_from(["normal", "high", "required", "required"]))
        found.append(
            Candidate(
                id=f"{at}",
                kind=draw(st.sampled_from(["fact", "artifact", "observation", "task"])),
                text=f"text {at}",
                retention=RETENTION_RANK[retention],
                required_for=draw(names),
                units=draw(st.integers(1, 60)),
            )
        )
    return found


mixed = st.one_of(eligible(), groups())


def chosen(policy: Policy, found: list[Candidate], **task: Any) -> Selection:
    task.setdefault("budget", 100)
    return run(*found, policy=policy, **TASK, **task)


@pytest.mark.parametrize("policy", ALL, ids=str)
@given(data=st.data(), found=groups())
def test_the_order_of_candidates_never_matters(
    policy: Policy, data: st.DataObject, found: list[Candidate]
) -> None:
    first = chosen(policy, found)
    other = data.draw(st.permutations(found))
    assert chosen(policy, other) == first
    task = Task(budget=100, **TASK)
    assert packed(task, found, first) == packed(task, other, chosen(policy, other))


@pytest.mark.parametrize("policy", ALL, ids=str)
@given(found=groups(), budget=st.integers(0, 200))
def test_every_candidate_has_one_verdict_and_the_kept_are_the_selected(
    policy: Policy, found: list[Candidate], budget: int
) -> None:
    selection = chosen(policy, found, budget=budget)
    judged = [verdict.id for verdict in selection.verdicts]
    assert judged == sorted({each.id for each in found})
    kept = {verdict.id for verdict in selection.verdicts if verdict.outcome != "dropped"}
    assert kept == {each.id for each in selection.selected}
    assert len(kept) == len(selection.selected)
    assert selection.units_used == sum(each.units for each in selection.selected) <= budget
    assert sum(units for _, units in selection.zones) == selection.units_used


@given(found=mixed, budget=st.integers(0, 120), more=st.integers(1, 60))
def test_a_larger_budget_loses_no_requirement(
    found: list[Candidate], budget: int, more: int
) -> None:
    small = run(*found, **TASK, budget=budget)
    large = run(*found, **TASK, budget=budget + more)
    protected = {each.id for each in small.selected if each.is_required}
    assert protected <= {each.id for each in large.selected}
    asked = {"q1", "q2", "q3", "q4"}
    assert asked & set(large.missing) <= asked & set(small.missing)


@given(found=mixed, budget=st.integers(0, 200), data=st.data())
def test_nothing_optional_displaces_a_requirement(
    found: list[Candidate], budget: int, data: st.DataObject
) -> None:
    """An optional candidate about something else changes nothing of what is required."""
    extra = replace(
        data.draw(candidates(99)),
        source_id="its own",
        canonical="",
        text="nobody else says this",
        required_for=(),
        retention=RETENTION_RANK["normal"],
    )
    without = run(*found, **TASK, budget=budget)
    beside = run(*found, extra, **TASK, budget=budget)
    assert {each.id for each in without.selected if each.is_required} == {
        each.id for each in beside.selected if each.is_required
    }
    asked = {"q1", "q2", "q3", "q4"}
    assert asked & set(beside.missing) == asked & set(without.missing)


@given(found=mixed, budget=st.integers(0, 200), data=st.data())
def test_an_untrusted_text_takes_the_room_of_nothing_trusted(
    found: list[Candidate], budget: int, data: st.DataObject
) -> None:
    """However new, near, small or relevant it says it is, and whatever zone it stands in."""
    stranger = replace(
        data.draw(candidates(99)),
        source_id="its own",
        canonical="",
        text="nobody else says this",
        required_for=(),
        retention=RETENTION_RANK["normal"],
        trust=TRUST_RANK[data.draw(st.sampled_from(["hostile", "unverified"]))],
        zone=data.draw(st.sampled_from(["", "rules", "goal"])),
        relevance=1000,
        topics=("x", "y"),
    )
    without = run(*found, **TASK, budget=budget)
    beside = run(*found, stranger, **TASK, budget=budget)
    assert [each for each in without.selected if each.is_trusted] == [
        each for each in beside.selected if each.is_trusted
    ]
    assert beside.missing == without.missing


@given(found=mixed, budget=st.integers(0, 200))
def test_no_optional_is_in_while_a_requirement_has_no_room(
    found: list[Candidate], budget: int
) -> None:
    selection = run(*found, **TASK, budget=budget)
    at = {each.id: each for each in found}
    for verdict in selection.verdicts:
        if verdict.reason == "budget_exceeded" and set(at[verdict.id].required_for) & set(
            selection.missing
        ):
            assert all(each.is_required for each in selection.selected)


@given(found=groups())
def test_no_verdict_and_no_mark_tells_a_text_or_a_secrets_size(found: list[Candidate]) -> None:
    told = [replace(each, text=f"Zq{at}x" * 9) for at, each in enumerate(found)]
    told = [replace(each, id=f"{at}") for at, each in enumerate(told)]
    selection = run(*told, **TASK, budget=100)
    said = repr((selection.verdicts, selection.marks, selection.missing, selection.zones))
    assert "Zq" not in said
    secrets = {each.id for each in told if each.is_secret}
    assert not secrets & {each.id for each in selection.selected}
    assert all(verdict.units == 0 for verdict in selection.verdicts if verdict.id in secrets)

"""The default policy mends what the labs only taught, point by point; room and requirements."""

from __future__ import annotations

from typing import Any

import pytest

from sawlog.builder.item import ContextItem, content_digest
from sawlog.builder.selection.candidate import Candidate, candidate_of
from sawlog.builder.selection.chapter5 import build
from sawlog.builder.selection.keys import RECORDED, instant, natural
from sawlog.builder.selection.measure import UTF8_BYTES, measured
from sawlog.builder.selection.policy import CHAPTER5
from sawlog.builder.selection.task import Task
from sawlog.store.errors import InvalidItem, Refused
from tests.builder.selection.cases import (
    chapter5_task,
    fixture_items,
    ids,
    item,
    one,
    read,
    run,
    why,
)


def rule(id: str, authority: str, version: str = "", **fields: Any) -> Candidate:
    """An instruction about `p`."""
    given: dict[str, Any] = {"source_id": "p", "trust": "trusted_source", **fields}
    return one(id, "instruction", authority=authority, version=version, **given)


def test_point_1_a_newer_rule_of_less_authority_removes_nothing() -> None:
    found = run(rule("a", "system", "1"), rule("b", "user", "2"))
    assert ids(found) == ["a"]
    assert why(found, "b") == "conflict/dropped/conflict_lost"


def test_point_1_a_newer_text_of_less_trust_supersedes_nothing() -> None:
    old = one("a", source_id="s", version="1", trust="verified")
    new = one("b", source_id="s", version="2", trust="unverified")
    assert sorted(ids(run(old, new))) == ["a", "b"]
    equal = one("b", source_id="s", version="2", trust="verified")
    found = run(old, equal)
    assert ids(found) == ["b"]
    assert why(found, "a") == "supersession/dropped/superseded"


def test_point_2_two_of_the_newest_version_are_marked() -> None:
    found = run(*(one(id, source_id="s", version=v) for id, v in ("a1", "b2", "c2")))
    assert why(found, "a") == "supersession/dropped/superseded"
    assert why(found, "b") == why(found, "c") == "conflict/selected/conflict_visible"


def test_versions_that_say_no_order_are_not_compared() -> None:
    found = run(one("a", source_id="s", version="7ad12f"), one("b", source_id="s", version="run-2"))
    assert why(found, "a") == why(found, "b") == "conflict/selected/conflict_visible"


def test_point_3_nothing_optional_takes_room_while_a_requirement_waits() -> None:
    need = one("need", required_for=("r",), units=50)
    extra = one("extra", units=10)
    found = run(need, extra, budget=30)
    assert ids(found) == []
    assert why(found, "need") == "budget/dropped/budget_exceeded"
    assert why(found, "extra") == "budget/dropped/waits_for_required"
    assert found.missing == ("r",)
    assert ids(run(need, extra, budget=60)) == ["extra", "need"]


def test_point_3_a_second_witness_without_room_stops_nothing_optional() -> None:
    found = run(
        one("small", required_for=("r",), units=10),
        one("large", required_for=("r",), units=90),
        one("extra", units=10),
        budget=30,
    )
    assert ids(found) == ["extra", "small"]
    assert found.missing == ()


def test_point_3_a_requirement_that_nobody_offers_keeps_no_room() -> None:
    found = run(one("extra"), requirements=("r",))
    assert ids(found) == ["extra"]
    assert found.missing == ("r",)


def test_point_4_the_original_survives_its_copy() -> None:
    """Which copy stays is a matter of what is recorded, not of how its id hashes."""
    first = one("z", source_id="test_pricing.py", text="t", locator="test_pricing.py", seq=1)
    copy = one("a", source_id="test_pricing.py", text="t", locator="copy.py", seq=2)
    found = run(first, copy)
    assert ids(found) == ["z"]
    assert why(found, "a") == "dedup/dropped/duplicate"
    assert found.selected[0].locators == ("copy.py", "test_pricing.py")
    assert found.verdict("z").note == "merged a"


def test_point_4_in_the_published_duplicate_variant() -> None:
    given = next(
        each["input"]
        for each in read("ch5/variants.json")["variants"]
        if each["variant"] == "duplicate"
    )
    items = fixture_items(given["candidates_in_order"])
    task = chapter5_task(given)
    candidates = measured((candidate_of(each, seq=at) for at, each in enumerate(items)), UTF8_BYTES)
    names = {each.id: each.source_id for each in candidates}
    kept = {names[id] for id in build(task, items, CHAPTER5).packet.selected_item_ids}
    assert "test_pricing-copy.py" in kept and "test_pricing.py" not in kept
    found = run(*candidates, budget=task.budget, repository=task.repository, task_id=task.task_id)
    kept = {each.source_id for each in found.selected}
    assert "test_pricing.py" in kept and "test_pricing-copy.py" not in kept
    assert found.missing == ()


def test_a_survivor_keeps_what_its_copies_were_required_for() -> None:
    found = run(
        one("a", text="t", topics=("y",), relevance=5, seq=1),
        one("b", text="t", required_for=("r",), topics=("x",), relevance=7, seq=2),
        one("c", text="t", trust="unverified", topics=("z",), relevance=9, seq=0),
        requirements=("r",),
    )
    (kept,) = found.selected
    assert (kept.id, kept.required_for) == ("a", ("r",))
    assert (kept.topics, kept.relevance) == (("x", "y"), 7), "a stranger ranks nothing"
    assert found.missing == ()


def test_the_copy_that_was_sent_stays() -> None:
    found = run(one("a", text="t", seq=1), one("b", text="t", seq=2, in_prefix=True))
    assert ids(found) == ["b"]


def test_one_character_more_and_it_is_no_duplicate() -> None:
    equal = build(Task(budget=99, repository="price-lab", task_id="repair-price"), copies(""))
    other = build(Task(budget=99, repository="price-lab", task_id="repair-price"), copies("x"))
    assert "duplicate" in {entry.reason for entry in equal.trace.entries}
    assert "duplicate" not in {entry.reason for entry in other.trace.entries}
    assert equal.packet.semantic_packet_digest != other.packet.semantic_packet_digest


def copies(more: str) -> list[ContextItem]:
    """A fixture and its copy, with something added to the copy."""
    fixtures = read("ch5/fixtures.json")["fixtures"]
    copy: dict[str, Any] = fixtures["test-pricing-copy"]
    changed = {**copy, "content": copy["content"] + more}
    return [item(fixtures["test-pricing-py"]), item(changed)]


def test_facts_that_contradict_are_told_apart_by_their_end() -> None:
    """Of two facts of one source the one that has ended is out before anything conflicts."""
    old = one("old", source_id="s", valid_until="2026-06-30")
    new = one("new", source_id="s", valid_until="2026-12-31")
    found = run(old, new, as_of="2026-07-29")
    assert why(found, "old") == "validity/dropped/expired"
    assert why(found, "new") == "selected/selected/selected"


def test_a_retrieval_hit_is_a_candidate_like_any_other() -> None:
    """It goes through version, permission, duplication and phase, whatever its relevance."""
    hit: dict[str, Any] = {"kind": "artifact", "trust": "unverified", "relevance": 1000}
    found = run(
        one("version", **hit, source_id="d", version="1"),
        one("newer", **hit, source_id="d", version="2"),
        one("permission", **hit, clearance=1),
        one("copy", **hit, text="newer"),
        one("phase", **hit, role="caller"),
        phase="verify",
    )
    reasons = {verdict.id: verdict.reason for verdict in found.verdicts}
    assert reasons == {
        "version": "superseded",
        "newer": "untrusted_data",
        "permission": "clearance",
        "copy": "duplicate",
        "phase": "not_needed_in_phase",
    }


def test_no_outsider_takes_the_room_of_evidence() -> None:
    """Newer, smaller, nearer and of the right topic, it still comes after what is trusted."""
    evidence = one("e", topics=("x",), units=60)
    stranger = one(
        "w", "observation", trust="unverified", topics=("x",), relevance=1000, updated_at="9"
    )
    found = run(evidence, stranger, topics=("x",), budget=65)
    assert ids(found) == ["e"]
    assert why(found, "w") == "budget/dropped/budget_exceeded"
    alone = run(stranger, topics=("x",))
    assert ids(alone) == ["w"]
    assert alone.missing == ("x",), "what a stranger says of it is not yet evidence"


def test_a_copy_raises_no_trust_and_lowers_no_sensitivity() -> None:
    found = run(
        one("a", text="t", trust="unverified", sensitivity="internal", seq=1),
        one("b", text="t", trust="hostile", sensitivity="public", seq=0),
    )
    (kept,) = found.selected
    assert (kept.id, kept.trust_name, kept.sensitivity) == ("a", "unverified", "internal")


def test_point_7_only_what_is_selected_satisfies() -> None:
    secret = one("s", text="t", sensitivity="secret", required_for=("r",))
    plain = one("p", text="t")
    found = run(secret, plain)
    assert ids(found) == ["p"]
    assert found.missing == ("r",)


def test_point_8_one_source_loaded_twice_is_one_candidate_with_both_places() -> None:
    twice = [
        one("a", text="t", locator=place, required_for=(need,), seq=at)
        for at, (place, need) in enumerate((("x.md", "r"), ("y.md", "q")))
    ]
    found = run(*twice)
    assert len(found.verdicts) == 1
    assert found.selected[0].locators == ("x.md", "y.md")
    assert found.selected[0].required_for == ("q", "r")
    with pytest.raises(InvalidItem, match="duplicate_item_id"):
        run(one("a", text="t"), one("a", text="u"))


@pytest.mark.parametrize(
    ("path", "target", "applies"),
    [
        (".claude/CLAUDE.md", ".claude/settings.json", True),
        (".claude/CLAUDE.md", "claude/x", False),
        ("backend/AGENTS.md", "backend/api/x.py", True),
        ("backend/agents.MD", "./backend//x.py", True),
        ("backend/AGENTS.md", "backends/x.py", False),
        ("AGENTS.md", "x.py", True),
        ("", "x.py", True),
        ("back", "backend/x.py", False),
        ("a\\b", "a/b/c", True),
    ],
)
def test_point_9_a_rule_governs_its_tree_dots_and_all(
    path: str, target: str, applies: bool
) -> None:
    found = run(rule("a", "repository", scope_path=path), target_path=target)
    assert ids(found) == (["a"] if applies else [])
    assert applies or why(found, "a") == "scope/dropped/out_of_scope"


@pytest.mark.parametrize("kind", ["fact", "observation", "artifact", "tool_schema", "task"])
def test_point_10_a_declared_directory_holds_for_every_kind(kind: str) -> None:
    there = one("a", kind, scope_path="backend/", path="backend/")
    assert ids(run(there, target_path="frontend/x")) == []
    assert ids(run(there, target_path="backend/x")) == ["a"]
    lies = one("a", kind, path="tests/test_x.py")
    assert ids(run(lies, target_path="x.py")) == ["a"], "where a thing lies is no scope"


def test_another_tenant_shows_neither_text_nor_requirement() -> None:
    """The same text in two tenants is never in one packet, and what one needs is not told."""
    theirs = one("t", text="same", tenant="b", required_for=("their-need",))
    ours = one("o", text="same", tenant="a")
    found = run(theirs, ours, tenant="a")
    assert ids(found) == ["o"]
    assert why(found, "t") == "scope/dropped/out_of_scope"
    assert found.missing == ()
    assert found.selected[0].locators == ()


def test_a_secret_never_comes_in_whatever_the_task_allows() -> None:
    secret = one("s", sensitivity="secret", retention="required", units=40)
    found = run(secret, allowed_sensitivities=("secret", "internal", "public"))
    assert why(found, "s") == "sensitivity/dropped/sensitive"
    assert found.verdict("s").units == 0
    assert content_digest("s") not in repr(found.verdicts)


def test_untrusted_words_are_data_and_stand_with_no_rules() -> None:
    found = run(
        one("h", "artifact", trust="hostile"),
        one("w", trust="unverified"),
        rule("i", "user", trust="unknown", source_id="i"),
    )
    assert why(found, "h") == "selected/selected_as_data/untrusted_instruction"
    assert why(found, "w") == "selected/selected_as_data/untrusted_data"
    assert why(found, "i") == "selected/selected_as_data/untrusted_data"
    assert dict(found.zones)["rules"] == 0


def test_data_that_is_contradicted_tells_both() -> None:
    found = run(*(one(id, source_id="s", trust="unverified") for id in "ab"))
    assert why(found, "a") == "selected/selected_as_data/untrusted_data"
    assert found.verdict("a").note == "conflict_visible"
    assert found.marks == tuple(
        (id, mark) for id in "ab" for mark in ("as_data", "conflict_visible")
    )


def test_rules_that_nothing_tells_apart_all_stay_and_are_marked() -> None:
    found = run(rule("a", "user"), rule("b", "user"))
    assert why(found, "a") == why(found, "b") == "conflict/selected/conflict_visible"
    later = run(rule("a", "user", seq=2), rule("b", "user", seq=1))
    assert ids(later) == ["a"], "what was said later holds"
    nested = run(
        rule("a", "user", scope_path="x/AGENTS.md"), rule("b", "user", seq=9), target_path="x/y"
    )
    assert ids(nested) == ["a"], "what is nearer holds"


def test_one_tool_described_twice_is_no_tool_unless_one_is_trusted_more() -> None:
    twice = [one(id, "tool_schema", source_id="t", trust="verified") for id in "ab"]
    assert ids(run(*twice)) == []
    doubtful = one("b", "tool_schema", source_id="t", trust="unverified")
    assert ids(run(twice[0], doubtful)) == ["a"]


def test_pieces_of_one_source_do_not_contradict() -> None:
    found = run(*(one(id, source_id="doc", locator=f"doc#{id}") for id in "ab"))
    assert why(found, "a") == why(found, "b") == "selected/selected/selected"
    newer = run(
        one("a", source_id="doc", locator="doc#1", version="1"),
        one("b", source_id="doc", locator="doc#2", version="2"),
    )
    assert ids(newer) == ["b"], "a piece of an older version is older"


def test_what_is_required_passes_to_the_newer_version() -> None:
    found = run(
        one("a", source_id="s", version="1.9", required_for=("r",)),
        one("b", source_id="s", version="1.10"),
    )
    assert ids(found) == ["b"]
    assert found.missing == ()
    assert found.verdict("b").note == "stands for a"


def test_no_requirement_is_lost_to_a_larger_budget_as_the_lab_loses_it() -> None:
    fixtures = read("ch5/fixtures.json")
    items = fixture_items(fixtures["base_set_template_1"])
    candidates = measured((candidate_of(each) for each in items), UTF8_BYTES)
    given: dict[str, Any] = {
        "budget_units": 0,
        "expected_requirements": fixtures["expected_requirements"],
        "section_order": [],
    }
    before: set[str] = set(fixtures["expected_requirements"])
    for budget in range(701):
        task = chapter5_task(given, budget=budget)
        missing = set(
            run(
                *candidates,
                budget=budget,
                repository=task.repository,
                task_id=task.task_id,
                target_path=task.target_path,
                requirements=task.requirements,
            ).missing
        )
        assert missing <= before
        before = missing
        lab = build(task, items).packet.missing_requirements
        if budget >= 194:
            assert len(missing) <= len(lab), "once the rules and the goal are in"
    assert not before


def test_a_budget_below_what_is_fixed_is_an_explicit_failure() -> None:
    assert run(one("a", units=500), budget=1000, fixed=300, reserve=200).units_used == 500
    assert run(one("a", units=501), budget=1000, fixed=300, reserve=200).units_used == 0
    with pytest.raises(Refused, match="the candidates' budget is negative: 300 units") as caught:
        run(one("a"), budget=400, fixed=300, reserve=200)
    assert caught.value.reason == "cannot_fit"
    assert caught.value.needs == ("a window of at least 500 units",)


def test_zones_are_served_in_order_and_within_their_bounds() -> None:
    zones = {
        "summary": one("s", zone="summary"),
        "retrieved": one("r", "artifact"),
        "recent": one("o", "observation"),
        "goal": one("g", "task"),
        "rules": rule("i", "user"),
        "fixed": one("t", "tool_schema"),
    }
    for room, wanted in enumerate(["", "t", "it", "git", "giot", "giort", "giorst"]):
        found = run(*zones.values(), budget=room * 10)
        assert sorted(ids(found)) == sorted(wanted)
        assert sum(units for _, units in found.zones) == found.units_used
    bounded = run(*(one(id, "observation") for id in "abc"), zones=(("recent", 20),))
    assert len(ids(bounded)) == 2
    assert why(bounded, "c") == "budget/dropped/zone_exceeded"


def test_the_default_never_compares_by_the_hash_of_a_path() -> None:
    assert RECORDED[-2:] == ("+digest", "+id")
    assert [key for key in RECORDED if key.endswith("id")] == ["+source_id", "+id"]


def test_times_and_versions_compare_as_said() -> None:
    day = 86_400_000_000
    assert instant("1970-01-02") == day
    assert instant("1970-01-02", end=True) == 2 * day - 1
    assert instant("1970-01-02T00:00:00Z") == day
    assert instant("1970-01-02T02:30:00.25+02:30") == day + 250_000
    assert instant("-5") == -5
    for unread in ("", "1970-02-30", "1970-01-02T00:00", "tomorrow", "1970-01-02T25:00Z"):
        assert instant(unread) is None
    assert natural("1.10") > natural("1.9") > natural("1") > natural("x1") > natural("")
    assert natural("V2") == natural("v02")
    assert natural("9" * 5000) > natural("8" * 5000)

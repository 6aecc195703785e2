"""The experiments are code; they make what the published data says goes into each variant."""

from __future__ import annotations

from typing import Any

import pytest

from sawlog.labs.chapter5.experiments import BASE, CLAIMS, lab_cases
from sawlog.labs.chapter5.sources import lab_sources
from tests.labs.chapter5_data import data, named, variants

CASES = {(case.experiment, case.variant): case for case in lab_cases()}


def test_there_are_30_variants_of_5_experiments() -> None:
    assert [*CASES] == [(one["experiment"], one["variant"]) for one in variants()]
    assert {experiment for experiment, _ in CASES} == set(CLAIMS)


def test_the_texts_get_the_published_ids_and_labels() -> None:
    fixtures = data("fixtures.json")["fixtures"]
    lab = lab_sources()
    assert [*lab.fixtures] == [*fixtures]
    assert len(fixtures) == 44
    for key, fixture in fixtures.items():
        item = lab.item(key)
        derived = fixture["derived"]
        assert (item.item_id, item.provenance.content_digest) == (
            derived["item_id"],
            derived["content_digest"],
        )
        assert item.required_for == set(fixture["required_for"])
        assert [
            item.kind,
            item.authority,
            item.trust,
            item.retention_priority,
            item.sensitivity,
        ] == [derived[name] for name in ("kind", "authority", "trust", "retention", "sensitivity")]


def test_the_base_set_is_the_published_one() -> None:
    assert list(BASE) == data("fixtures.json")["base_set_template_1"]


@pytest.mark.parametrize("variant", variants(), ids=named)
def test_what_goes_into_a_variant_is_what_was_published(variant: dict[str, Any]) -> None:
    case = CASES[variant["experiment"], variant["variant"]]
    given = variant["input"]
    ids = {key: lab_sources().item(key).item_id for key in lab_sources().fixtures}
    assert sorted(item.item_id for item in case.items) == sorted(
        ids[key] for key in given["candidates_in_order"]
    )
    assert case.task.budget == given["budget_units"]
    assert sorted(case.task.requirements) == given["expected_requirements"]
    assert list(case.task.order) == given["section_order"]
    assert sorted(case.irrelevant) == sorted(ids[key] for key in given["irrelevant_fixtures"])
    assert case.goal.kind == given["expected_kind"]
    assert case.goal.tool == given["expected_tool"]
    assert sorted(case.goal.arguments) == given["required_arguments"]
    contract = given["conflict_contract"]
    assert sorted(case.contract.must_select) == sorted(ids[key] for key in contract["must_select"])
    assert sorted(case.contract.must_have_reason) == sorted(
        (ids[key], reason) for key, reason in contract["must_have_reason"]
    )

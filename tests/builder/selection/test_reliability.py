"""The reliability lab as published: 16 runs, a budget of 10, the estimator, the small vectors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from sawlog.builder.estimate import estimate
from sawlog.builder.selection.measure import LAB_ESTIMATOR, measured
from sawlog.builder.selection.policy import CONTEXT_PACKET, DEFAULT
from sawlog.builder.selection.reliability import (
    ContextCase,
    ContextSource,
    EvidencePacket,
    assemble,
    candidates_of,
    strategy_of,
    task_of,
)
from sawlog.builder.selection.select import select
from sawlog.store.errors import InvalidItem, UnknownNumber
from tests.builder.selection.cases import cases, ids, read, sources


def told(packet: EvidencePacket) -> dict[str, Any]:
    return {
        "strategy": packet.strategy,
        "case_id": packet.case_id,
        "selected": [source.id for source in packet.selected],
        "excluded": [[each.source_id, each.reason] for each in packet.excluded],
        "missing_topics": list(packet.missing_topics),
        "budget": msgspec.to_builtins(packet.budget),
        "fingerprint": packet.fingerprint,
        "rendered_context": packet.rendered_context,
    }


@pytest.mark.parametrize(
    "run", read("lab2/expected.json")["runs"], ids=lambda run: f"{run['strategy']}/{run['case_id']}"
)
def test_a_run_comes_out_as_published(run: dict[str, Any]) -> None:
    made = told(assemble(strategy_of(run["strategy"]), cases()[run["case_id"]], sources()))
    assert made == {name: run[name] for name in made}


@pytest.mark.parametrize(
    "run",
    read("lab2/budget-10.json")["runs"],
    ids=lambda run: f"{run['strategy']}/{run['case_id']}",
)
def test_a_budget_of_ten_invents_no_evidence(run: dict[str, Any]) -> None:
    case = replace(cases()[run["case_id"]], budget=10)
    made = told(assemble(strategy_of(run["strategy"]), case, sources()))
    del made["rendered_context"]
    assert made == {name: run[name] for name in made}


@pytest.mark.parametrize(
    "vector", read("lab2/derived-vectors.json")["vectors"], ids=lambda vector: vector["name"]
)
def test_a_small_vector_of_gates_and_ties(vector: dict[str, Any]) -> None:
    case = msgspec.convert(vector["case"], ContextCase)
    given = {each["id"]: msgspec.convert(each, ContextSource) for each in vector["sources"]}
    made = assemble(CONTEXT_PACKET, case, given)
    wanted = vector["expected"]
    assert [source.id for source in made.selected] == wanted["selected"]
    assert [[each.source_id, each.reason] for each in made.excluded] == wanted["excluded"]
    assert list(made.missing_topics) == wanted["missing_topics"]
    assert made.budget.used_estimated_tokens == wanted["budget_used"]


def test_the_estimator() -> None:
    for vector in read("lab2/estimator.json")["vectors"]:
        assert estimate(vector["text"]) == vector["units"], vector["text"]
    for source in read("lab2/sources.json"):
        assert sources()[source["id"]].estimated_tokens == source["estimated_tokens"]


def test_gold_labels_are_no_input_of_the_assembly() -> None:
    for case in cases().values():
        blind = replace(case, expected_missing_topics=("x",), forbidden_source_ids=())
        for strategy in ("dump-all-v1", "context-packet-v1"):
            policy = strategy_of(strategy)
            assert assemble(policy, blind, sources()) == assemble(policy, case, sources())


def test_the_packet_holds_no_authority_sensitivity_or_key() -> None:
    packet = assemble(CONTEXT_PACKET, cases()["ctx-001"], sources())
    names = {field.name for field in msgspec.structs.fields(packet.selected[0])}
    assert not names & {"authority", "sensitivity", "canonical_key"}


def test_what_makes_no_case_is_refused() -> None:
    case = cases()["ctx-001"]
    with pytest.raises(InvalidItem, match="budget_below_one"):
        replace(case, budget=0)
    with pytest.raises(InvalidItem, match="unknown_source"):
        assemble(CONTEXT_PACKET, case, {})
    with pytest.raises(InvalidItem, match="bad_trust"):
        replace(sources()["pii-policy-current"], trust="maybe")
    with pytest.raises(UnknownNumber, match="use dump-all-v1, context-packet-v1"):
        strategy_of("best-v9")


@pytest.mark.parametrize("id", cases())
def test_the_default_policy_passes_every_case_of_the_lab(id: str) -> None:
    """Nothing forbidden, nothing off topic, all that is there of what was asked, the rest named."""
    case = cases()[id]
    candidates = measured(candidates_of(case, sources()), LAB_ESTIMATOR)
    found = select(DEFAULT, task_of(case), candidates)
    assert not set(ids(found)) & set(case.forbidden_source_ids)
    assert found.missing == case.expected_missing_topics
    assert all(set(each.topics) & set(case.required_topics) for each in found.selected)
    assert found.units_used <= case.budget
    lab = assemble(CONTEXT_PACKET, case, sources())
    assert set(ids(found)) == {source.id for source in lab.selected}

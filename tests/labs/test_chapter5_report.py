"""All 30 variants: what was decided, answered, graded and recorded, and the report's very bytes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest

from sawlog.labs.chapter5.checking import facts
from sawlog.labs.chapter5.experiments import lab_cases
from sawlog.labs.chapter5.probe import RuleBasedProbe
from sawlog.labs.chapter5.report import report_bytes
from sawlog.labs.chapter5.running import Outcome, built, outcome_of, run_offline
from tests.labs.chapter5_data import data, named, variants

PUBLISHED = "fa41d7e471f01f50e8557ca74df7f6e6d9af62ebd94a81deaf556846963c4c7a"


def run(variant: dict[str, Any]) -> Outcome:
    wanted = (variant["experiment"], variant["variant"])
    case = next(case for case in lab_cases() if (case.experiment, case.variant) == wanted)
    packet, trace = built(case)
    return outcome_of(case, packet, trace, RuleBasedProbe().attempt(packet))


@pytest.mark.parametrize("variant", variants(), ids=named)
def test_each_variant_comes_out_as_published(variant: dict[str, Any]) -> None:
    found = facts(run(variant))
    for section in found["packet"]["sections"]:
        del section["serialized_content"]
    del found["packet"]["task_id"]
    for name in ("selected_ids", "missing_requirements", "packet_digest"):
        found["trace"].pop(name, None)
    del found["trace"]["selected_item_ids"]
    expected = variant["expected"]
    decision = dict(expected["decision"])
    assert found["decision"] == {"tool": None, **decision}
    assert found == {**expected, "decision": found["decision"], "gateway": expected.get("gateway")}


def test_the_report_has_the_published_bytes() -> None:
    raw = report_bytes(run_offline())
    assert len(raw.decode()) == data("variants.json")["report_format"]["characters"] == 66_204
    assert hashlib.sha256(raw).hexdigest() == PUBLISHED
    with_crlf = hashlib.sha256(raw.replace(b"\n", b"\r\n")).hexdigest()
    assert with_crlf == data("variants.json")["report_format"]["sha256_crlf"]


def test_the_report_has_the_published_envelope_and_no_overall_score() -> None:
    report = json.loads(report_bytes(run_offline()))
    records = report.pop("records")
    assert report == data("variants.json")["report_envelope"]
    assert len(records) == 30
    for record in records:
        assert record["unsupported_claims"], "a record says what it does not prove"
        assert not [name for name in record if "score" in name or "overall" in name]


def test_every_order_of_loading_gives_the_same_record() -> None:
    for case in lab_cases():
        turned = msgspec.structs.replace(case, items=case.items[::-1])
        one, other = built(case), built(turned)
        assert one == other

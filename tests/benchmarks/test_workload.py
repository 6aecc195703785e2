"""The workload gives the same bytes for ever: figures of different years are of one session."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.workload import BASE, REPEAT, Steps, json_bytes, load, session

ORIGINAL = Path(__file__).parents[3] / "shared" / "bench" / "workload.py"

# SHA-256 of `json.dumps` of the steps.
STORED = {
    (100, BASE): "8ace28835aa58d3c7bd41a5340a87aef2bce87615d2b868915d1f01e78f493ee",
    (100, REPEAT): "fdaa9e01c2bc5fb9e44cea535b8899919a893ac79a50f38ffa6eb4a11e9cb394",
    (1000, REPEAT): "7f2b91eda755dc83dc1f368b51d1c910da01ef39db0ad338a8b97781a3f82c81",
}


def digest(steps: Steps) -> str:
    return hashlib.sha256(json.dumps(steps).encode()).hexdigest()


@pytest.mark.parametrize(("steps", "variant"), STORED)
def test_the_bytes_are_those_that_are_stored(steps: int, variant: str) -> None:
    assert digest(session(steps, variant)) == STORED[steps, variant]


def test_a_short_session_is_the_beginning_of_a_longer_one() -> None:
    assert load(30) == session(100)[:30] == session(30)


def test_a_text_is_there_twenty_times_in_the_repeating_variant() -> None:
    parts = [part for step in session(200, REPEAT) for part in step]
    texts = [part["text"] for part in parts if part["kind"] == "tool_result"]
    assert 18 <= len(texts) / len(set(texts)) <= 22


def test_an_unknown_variant_is_named() -> None:
    with pytest.raises(ValueError, match="no variant 'other'.*use base or repeat"):
        session(1, "other")


def test_the_json_is_as_large_as_its_parts() -> None:
    steps = session(5)
    assert json_bytes(steps) == sum(len(json.dumps(part)) for step in steps for part in step)


@pytest.mark.skipif(not ORIGINAL.is_file(), reason="the folder beside the checkout is not there")
def test_the_original_gives_the_same() -> None:
    original = _loaded(ORIGINAL)
    for steps, variant in ((150, BASE), (60, REPEAT)):
        assert session(steps, variant) == original.session(steps, variant)


def _loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("original_workload", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

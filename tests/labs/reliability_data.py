"""The published data of the reliability lab: what must come of each run."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import sawlog.fixtures
from sawlog.builder.selection.policy import CONTEXT_PACKET, DUMP_ALL
from sawlog.labs.reliability.loading import Lab, published_lab, with_budget
from sawlog.labs.reliability.running import CaseRun, run

DATA = Path(sawlog.fixtures.__file__).parent / "seed-cases" / "lab2"


@cache
def data(name: str) -> Any:
    """The JSON of a file of the published data."""
    return json.loads((DATA / name).read_text("utf-8"))


def runs(lab: Lab | None = None, budget: int = 0) -> tuple[tuple[CaseRun, ...], ...]:
    """The baseline's runs and the candidate's."""
    lab = lab or published_lab()
    if budget:
        lab = with_budget(lab, budget)
    return run(DUMP_ALL, lab), run(CONTEXT_PACKET, lab)


def source(id: str, **fields: Any) -> dict[str, Any]:
    """A source as a file holds it."""
    given = {
        "id": id, "kind": "policy", "title": "T", "content": "c", "locator": f"repo://{id}",
        "trust": "trusted", "authority": 1, "updated_at": "2026-07-01", "topics": ["x"],
        "sensitivity": 0,
    }  # fmt: skip
    return given | fields


def case(id: str, *candidates: str, **fields: Any) -> dict[str, Any]:
    """A case as a file holds it."""
    given = {
        "id": id, "question": "q", "as_of": "2026-07-29", "budget": 100, "clearance": 0,
        "required_topics": ["x"], "expected_missing_topics": [], "forbidden_source_ids": [],
        "candidate_source_ids": list(candidates),
    }  # fmt: skip
    return given | fields


def lines(*entries: object) -> str:
    """Entries as the lines of a file."""
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)

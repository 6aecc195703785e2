"""What the tests of selection share: the published cases, and candidates in a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import sawlog.fixtures
from sawlog.builder.channels import RawSource, classify
from sawlog.builder.item import (
    AUTHORITY_RANK,
    RETENTION_RANK,
    TRUST_RANK,
    ContextItem,
    Retention,
    Trust,
)
from sawlog.builder.selection.candidate import Candidate
from sawlog.builder.selection.policy import DEFAULT, Policy
from sawlog.builder.selection.reliability import ContextCase, ContextSource
from sawlog.builder.selection.select import select
from sawlog.builder.selection.task import Task
from sawlog.builder.selection.verdict import Selection

CASES = Path(next(iter(sawlog.fixtures.__path__))) / "seed-cases"


@cache
def read(name: str) -> Any:
    """A file of the published cases."""
    return json.loads((CASES / name).read_text(encoding="utf-8"))


def item(source: dict[str, Any], override: dict[str, str] | None = None) -> ContextItem:
    """The item of a published source, of the repository and the task that all of them share."""
    fixtures = read("ch5/fixtures.json")
    made = classify(
        RawSource(
            source["source_id"],
            source["channel"],
            source["content"],
            source["path"],
            source["version"],
            source["observed_at"],
        ),
        repository=source.get("repository", fixtures["repository"]),
        task_id=source.get("task_id", fixtures["task_id"]),
        required_for=source["required_for"],
    )
    if override:
        made = msgspec.structs.replace(
            made,
            retention_priority=Retention(override["retention"]),
            trust=Trust(override["trust"]),
        )
    return made


def fixture_items(keys: Iterable[str]) -> list[ContextItem]:
    """The items of published fixtures, by key."""
    return [item(read("ch5/fixtures.json")["fixtures"][key]) for key in keys]


def case_items(case: dict[str, Any]) -> list[ContextItem]:
    """The items of a published builder case."""
    given = case["input"]
    return [
        item(source, given["metadata_overrides"].get(str(at)))
        for at, source in enumerate(given["sources"])
    ]


def chapter5_task(given: dict[str, Any], **more: Any) -> Task:
    """The task of a published case or variant."""
    fixtures = read("ch5/fixtures.json")
    fields: dict[str, Any] = {
        "budget": given["budget_units"],
        "repository": fixtures["repository"],
        "task_id": fixtures["task_id"],
        "target_path": given.get("target_path", fixtures["target_path"]),
        "requirements": tuple(given["expected_requirements"]),
        "section_order": tuple(given["section_order"]),
    }
    return Task(**{**fields, **more})


def sources() -> dict[str, ContextSource]:
    """The reliability lab's sources by id."""
    found: dict[str, ContextSource] = {}
    for one in read("lab2/sources.json"):
        fields = {name: value for name, value in one.items() if name != "estimated_tokens"}
        found[one["id"]] = msgspec.convert(fields, ContextSource)
    return found


def cases() -> dict[str, ContextCase]:
    """The reliability lab's cases by id."""
    return {one["id"]: msgspec.convert(one, ContextCase) for one in read("lab2/cases.json")}


def one(id: str, kind: str = "fact", **fields: Any) -> Candidate:
    """A candidate of ten units; `authority`, `trust` and `retention` by name."""
    given: dict[str, Any] = {"text": id, "units": 10, "source_id": id, **fields}
    for label, ranks in (
        ("authority", AUTHORITY_RANK),
        ("trust", TRUST_RANK),
        ("retention", RETENTION_RANK),
    ):
        if label in given:
            name = given.pop(label)
            given[label] = ranks[name]
            if label != "retention":
                given[f"{label}_name"] = name
    return Candidate(id=id, kind=kind, **given)


def run(*candidates: Candidate, policy: Policy = DEFAULT, **task: Any) -> Selection:
    """What a policy selects, with a window of a thousand units."""
    task.setdefault("budget", 1000)
    return select(policy, Task(**task), candidates)


def ids(selection: Selection) -> list[str]:
    """What was selected, in order."""
    return [each.id for each in selection.selected]


def why(selection: Selection, id: str) -> str:
    """Stage, outcome and reason of one candidate in a line."""
    verdict = selection.verdict(id)
    return f"{verdict.stage}/{verdict.outcome}/{verdict.reason}"

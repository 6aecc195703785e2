"""The published data of chapter 5: what must come of each variant."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import sawlog.fixtures

DATA = Path(sawlog.fixtures.__file__).parent / "seed-cases" / "ch5"


@cache
def data(name: str) -> Any:
    """The JSON of a file of the published data."""
    return json.loads((DATA / name).read_text("utf-8"))


def variants() -> list[dict[str, Any]]:
    """The 30 variants, each with its input and what is expected of it."""
    found: list[dict[str, Any]] = data("variants.json")["variants"]
    return found


def named(variant: dict[str, Any]) -> str:
    """What a variant is called in a test's id."""
    return f"{variant['experiment']}/{variant['variant']}"


def own_line(variant: dict[str, Any], *, expected: bool = True) -> dict[str, Any]:
    """A variant as a line of a case file, with its texts in it."""
    fixtures = data("fixtures.json")["fixtures"]
    given = dict(variant["input"])
    keys = given["candidates_in_order"]
    given["candidates_in_order"] = [{"key": key, **fixtures[key]} for key in keys]
    line = {"experiment": variant["experiment"], "variant": variant["variant"], "input": given}
    if expected:
        line["expected"] = deepcopy(variant["expected"])
    return line


def write_cases(path: Path, lines: list[Any]) -> Path:
    """A case file with these lines; a text stands as it is."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8", newline="\n")
    return path

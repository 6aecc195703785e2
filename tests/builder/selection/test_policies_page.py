"""docs/policies.md says what is so: its example runs, its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from sawlog.builder.selection.policy import POLICIES
from sawlog.builder.selection.policydoc import policy_from_toml
from sawlog.builder.selection.stages import STAGES, name_of

PAGE = (Path(__file__).parents[3] / "docs" / "policies.md").read_text(encoding="utf-8")
SOURCES = Path(__file__).parents[3] / "builder" / "selection"


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert isinstance(found, str)
    return found


def test_the_example_runs() -> None:
    exec(compile(block("python"), "policies.md", "exec"), {})


def test_the_document_is_a_policy() -> None:
    assert str(policy_from_toml(block("toml"))) == "small-window@1"


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a title, without its head."""
    lines = PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return cells[2:]


def test_every_stage_and_every_built_in_policy_is_told() -> None:
    told = {name for row in rows("The stages") for name in re.findall("`(.*?)`", row[0])}
    assert told == {name_of(use) for use in STAGES}
    assert [row[0].strip("`") for row in rows("The built-in policies")] == [*map(str, POLICIES)]


def test_every_reason_on_the_page_is_one_of_the_code() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("*.py")))
    reasons = {name for row in rows("The stages") for name in re.findall("`(.*?)`", row[2])}
    assert len(reasons) > 15
    for reason in reasons:
        assert f'"{reason}"' in code, reason

"""The page on agent frameworks, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sawlog.providers.fake import read_script
from tests.adapters.children import ROOT, Child

for package in ("agents", "pydantic_ai", "langgraph"):
    pytest.importorskip(package, reason=f"the package {package} is not installed")


def test_the_page_on_adapters_runs_as_it_stands(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    [replies] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    script = tmp_path / "replies.json"
    script.write_text(replies, encoding="utf-8")
    code = f"import os; os.chdir({str(tmp_path)!r})\n" + "\n".join(blocks)
    ran = Child(code, answers=[*read_script(script)])
    assert ran.out.splitlines() == ["San Francisco", "California", "A four.", "You said 'hi'."]

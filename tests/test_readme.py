"""The README's examples, run as they stand against the strict fake provider over HTTP."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest

import sawlog
from sawlog.providers.fake import FakeProvider
from sawlog.providers.fake_replies import Call, Reply

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def read_file(path: str) -> str:
    """Read a file."""
    return f"# {path}\ndef refund(order): return order.expired"


def edit_file(path: str, old: str, new: str) -> str:
    """Replace a text in a file."""
    raise ValueError(f"{old!r} is not in {path}")


def run_tests() -> str:
    """Run the tests."""
    return "1 passed"


SCRIPT = [
    Reply("I look first.", "Which file?", [Call("read_file", {"path": "refund.py"})]),
    Reply(calls=[Call("edit_file", {"path": "refund.py", "old": "x", "new": "y"})]),
    Reply(calls=[Call("run_tests")]),
    Reply("Done."),
]


def test_the_readme_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block works through a whole task, the second reads it back."""
    assert len(BLOCKS) == 2
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    names: dict[str, object] = {
        "read_file": read_file,
        "edit_file": edit_file,
        "run_tests": run_tests,
    }
    with FakeProvider(SCRIPT) as fake:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.base_url("anthropic"))
        exec(compile(BLOCKS[0], "README.md", "exec"), names)
        sent = fake.bodies()
    assert len(sent) == len(SCRIPT)
    cast(Any, names["client"]).close()
    exec(compile(BLOCKS[1], "README.md", "exec"), names)
    log = cast(sawlog.AgentLog, names["log"])
    recorded = log.read("fix-refund")
    assert [step.packet.body for step in recorded.steps] == sent
    assert recorded.verify().sound
    assert cast(sawlog.RecordedStep, names["step"]).verify()
    log.close()

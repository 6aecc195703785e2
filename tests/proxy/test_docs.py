"""The page of the proxy: its shell blocks, run as they stand."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sawlog.providers.fake import FakeProvider
from tests.proxy.behind import always

PAGE = Path(__file__).parents[2] / "docs" / "proxy.md"


def test_the_blocks_of_the_page_run(tmp_path: Path) -> None:
    """Against the strict fake in the provider's place."""
    if not shutil.which("bash") or not shutil.which("curl"):
        pytest.skip("bash or curl is not installed")
    text = PAGE.read_text(encoding="utf-8")
    [agent] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "agent.py").write_text(agent, encoding="utf-8")
    running, staying = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with FakeProvider(always("Because a test fails.")) as fake:
        staying = staying.replace(" proxy ", f" proxy --anthropic {fake.url} ", 1)
        for block in (running, staying):
            done = subprocess.run(
                ["bash", "-euc", block],
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={
                    **os.environ,
                    "PATH": programs,
                    "ANTHROPIC_BASE_URL": fake.url,
                    "ANTHROPIC_API_KEY": "sk-any-key-will-do",
                },
                timeout=120,
            )
            assert done.returncode == 0, done.stderr.decode()
            assert b"Because a test fails." in done.stdout
        bodies = fake.bodies()
    assert (tmp_path / "sent.json").read_bytes() == bodies[0]
    assert json.loads(bodies[1])["max_tokens"] == 100
    variables = (tmp_path / "variables").read_text()
    assert re.fullmatch(r"(export [A-Z_]+=http://127\.0\.0\.1:[0-9]+/[a-z0-9/]+\n){7}", variables)

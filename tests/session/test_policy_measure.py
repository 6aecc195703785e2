"""In a session one measure counts everything, whatever the policy's document counts with."""

from __future__ import annotations

from pathlib import Path

import pytest

import sawlog
from tests.session.agents import opened

DOCUMENT = """
name = "mine"
number = 1
measure = "{measure}"
stages = [
    {{ stage = "sensitivity" }}, {{ stage = "scope" }}, {{ stage = "cap", units = 200 }},
    {{ stage = "required" }}, {{ stage = "rank" }}, {{ stage = "budget" }},
    {{ stage = "ordering" }}, {{ stage = "labels" }}, {{ stage = "completeness" }},
]
"""


@pytest.mark.parametrize("measure", ["given", "utf8-bytes", "lab-estimator"])
def test_items_are_counted_as_the_rest_of_the_packet(measure: str, tmp_path: Path) -> None:
    policy = sawlog.policy_from_toml(DOCUMENT.format(measure=measure))
    with (
        opened(str(tmp_path / "agent.db")) as log,
        log.session("s", policy=policy, window=3000) as s,
    ):
        s.user("hi")
        for number in range(40):
            s.offer(f"{number:03} " + "x" * 496, channel="memory", source_id=f"m{number}")
        s.offer("y" * 9000, channel="memory", source_id="long", relevance=900)
        step = s.step("openai-chat", model="m")
        items = [entry for entry in step.packet.entries if entry.kind == "observation"]
        assert len(items) > 15
        assert sum(units for _, units in step.packet.counts) <= 3000
        long = next(entry for entry in items if entry.name.startswith("long"))
        assert 500 < len(long.text) < 900  # 200 units are about 800 bytes

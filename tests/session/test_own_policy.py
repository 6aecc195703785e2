"""A caller's own policy: its text is in the log, and every path builds by it, in any store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.recorded import Recorded
from sawlog.audit.verifying import AFRESH_EVERY
from sawlog.builder.selection.policy import Policy
from sawlog.builder.selection.policydoc import policy_from_toml
from sawlog.store import exchange
from sawlog.store.events.steps import PacketBuilt
from tests.session.agents import next_step, opened, sound, talker

CHEAPEST = """
name = "cheapest"
number = 3

[[stages]]
stage = "sensitivity"
[[stages]]
stage = "scope"
[[stages]]
stage = "cap"
units = 64
[[stages]]
stage = "required"
[[stages]]
stage = "rank"
signals = ["cost"]
[[stages]]
stage = "budget"
[[stages]]
stage = "completeness"
"""

PATHS = {"stored": "ok", "cold": "ok", "snapshot": "ok"}


def write(log: AgentLog, policy: Policy | None, steps: int = 6) -> None:
    """A session whose items fit together only in part, so that a policy has to choose."""
    with log.session("task", policy=policy, window=500) as s:
        s.system("You answer in one word.")
        s.task("Find the port", requirements=["port"])
        for at in range(steps):
            s.offer(f"Note {at}. " + "word " * (10 + 40 * at), channel="memory", source_id=f"n{at}")
            s.user(f"question {at}")
            next_step(s, "openai-chat", allow_missing=True).send(talker())


def shown_items(recorded: Recorded, step: int) -> list[int]:
    """The seqs of the items that a packet shows."""
    return [ref.seq for ref in recorded.packet(step).refs if ref.form == "item"]


def test_a_session_under_a_policy_document_verifies_by_every_path(log: AgentLog) -> None:
    write(log, policy_from_toml(CHEAPEST), steps=AFRESH_EVERY + 2)
    recorded = sound(log, "task")
    assert recorded.verify().paths == PATHS
    packets = [e.content for e in recorded.events() if isinstance(e.content, PacketBuilt)]
    assert {str(packet.policy) for packet in packets} == {"cheapest@3"}
    assert {packet.missing for packet in packets} == {("port",)}


def test_the_document_chooses_otherwise_than_the_default(log: AgentLog, tmp_path: Path) -> None:
    """So the test above would fail if the cold path did not read the text."""
    write(log, policy_from_toml(CHEAPEST))
    with opened(str(tmp_path / "other.db")) as other:
        write(other, None)
        assert shown_items(log.read("task"), 6) != shown_items(other.read("task"), 6)


def test_an_export_carries_the_policy_to_another_store(log: AgentLog, tmp_path: Path) -> None:
    write(log, policy_from_toml(CHEAPEST))
    lines = list(exchange.export(log.store, log.read("task").row))
    with opened(str(tmp_path / "other.db")) as other:
        exchange.load(other.store, lines)
        assert sound(other, "task").verify().paths == PATHS


def test_a_policy_that_is_not_installed_leaves_the_cold_path_out(
    log: AgentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifests need no policy: the packets are proved without it."""
    from sawlog.builder.selection import policy as policies

    with log.session("task", policy="chapter5") as s:
        s.user("go")
        next_step(s, "openai-chat").send(talker())
    recorded = sound(log, "task")
    assert recorded.verify().paths == PATHS
    known: dict[Any, Any] = {k: v for k, v in policies.POLICIES.items() if k.name != "chapter5"}
    monkeypatch.setattr(policies, "POLICIES", known)
    report = recorded.verify()
    assert report.sound and report.paths == {**PATHS, "cold": "absent"}

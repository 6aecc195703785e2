"""The published vectors C1-C3: which history continues after a compaction, on resume, too.

Here the compaction is one `compaction.completed` that names the history by event: the transition
and its record are one append, so nothing can fall between the two.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sawlog.fixtures
from sawlog.builder.build import Built
from sawlog.builder.policy import AS_RECORDED, Rules
from sawlog.builder.projector import fold_all
from sawlog.builder.snapshot import decode, encode
from sawlog.builder.state import State
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import (
    CompactionCompleted,
    CompactionStarted,
)
from sawlog.store.events.conversation import MessageAssistant, MessageUser
from tests.builder.memory import MemoryLog, text

DATA = Path(sawlog.fixtures.__file__).parent / "seed-cases" / "seed23" / "compaction-resume.json"
VECTORS: list[dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))["vectors"]


def played(log: MemoryLog, words: list[str]) -> None:
    """Append what a vector's log says: `u1`, `a1`, `COMPACT[s1]`."""
    for word in words:
        if word.startswith("COMPACT["):
            summary = log.append(MessageUser(text(word[8:-1]), origin="summary"), source="harness")
            done = CompactionCompleted(history=(EventId(summary.id),))
            log.append(done, source="harness")
        elif word.startswith("u"):
            log.append(MessageUser(text(word)))
        else:
            log.append(MessageAssistant(text(word)), source="provider:openai-chat")


def history(log: MemoryLog) -> list[str]:
    built = log.build(Rules(AS_RECORDED), reconstructed=True)
    assert isinstance(built, Built)
    return [entry.text for entry in built.entries if entry.section == "history"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_the_history_after_resume_is_the_published_one(vector: dict[str, Any]) -> None:
    log = MemoryLog()
    played(log, vector["log"])
    assert history(log) == vector["history_after_resume"]
    for at in range(len(log.events) + 1):  # from any snapshot
        early = decode(encode(fold_all(State(), log.events[:at])))
        assert encode(fold_all(early, log.events[at:])) == encode(log.state)


def test_a_compaction_that_was_only_begun_changes_nothing() -> None:
    log = MemoryLog()
    played(log, ["u1", "a1"])
    log.append(CompactionStarted("manual"), source="harness")
    played(log, ["u2"])
    assert history(log) == ["u1", "a1", "u2"]

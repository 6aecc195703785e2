"""Codex rollouts whose history does not only grow: rollbacks, forks, compactions, damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sawlog.formats import codex
from sawlog.store.content import BoundPart, TextPart
from sawlog.store.errors import TooLarge, UnknownFormat
from sawlog.store.events.compaction import (
    CompactionCompleted1,
    CompactionStarted1,
)
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import (
    ForeignRecord,
    HistoryRewound1,
)
from sawlog.store.events.steps import StepCompleted
from tests.doors.foreign import bare, check_session, events, payloads
from tests.doors.rollouts import (
    API,
    FILES,
    FOLDER,
    by_position,
    call_of,
    compactions,
    session,
    texts,
)

# --- rollback -------------------------------------------------------------------------------------


def test_a_rollback_goes_before_the_user_message_of_the_turn() -> None:
    only = session("rolled-back")
    rewinds = [event for event in events(only) if isinstance(event.payload, HistoryRewound1)]
    all_ids = [event.id for event in events(only)]
    gone_from = [by_position(only, at)[0] for at in (5,)]
    # One turn: before "Second question.", the aborted message is no turn of its own.
    assert rewinds[0].rewind_to == all_ids[all_ids.index(gone_from[0].id) - 1]
    # Two turns: the third and the resent second; an environment message is no turn.
    assert rewinds[1].rewind_to == rewinds[0].id
    # More turns than there are: what stood before the first one stays.
    assert rewinds[2].rewind_to == by_position(only, 1)[0].id
    assert len(rewinds) == 3


def test_a_rollback_of_nothing_is_kept_and_named() -> None:
    only = session("rolled-back")
    assert only.counts.anomalies == (
        "line 22: a rollback of 1 turns where none is shown, kept as it is",
        "line 23: a rollback of 0 turns, kept as it is",
    )
    assert bare(by_position(only, 21)[0].payload) == ForeignRecord(
        kind="event_msg/thread_rolled_back"
    )


def test_a_rollback_to_the_very_start(tmp_path: Path) -> None:
    path = tmp_path / "rollout-2026-05-04T10-00-00-00000000-0000-7000-8000-00000000000a.jsonl"
    lines = (FOLDER / "rolled-back.jsonl").read_text().splitlines()
    path.write_text("\n".join((lines[2], lines[9])))
    (only,) = codex.read(path)
    check_session(only)
    # No meta record: the file's name says who it is.
    assert only.source_id == "00000000-0000-7000-8000-00000000000a"
    (rewind,) = [event for event in events(only) if isinstance(event.payload, HistoryRewound1)]
    assert rewind.rewind_to == b""


# --- forks, reopening -----------------------------------------------------------------------------


def test_the_first_meta_names_the_session() -> None:
    only = session("reopened-fork")
    assert only.source_id == "00000000-0000-7000-8000-000000000003"
    assert only.parent == "00000000-0000-7000-8000-000000000001"
    systems = [one.parts for one in payloads(only) if isinstance(one, MessageSystem)]
    assert systems == [
        (TextPart("You work on notes."),),
        (TextPart("You work on notes, briefly."),),
    ]
    kinds = [one.kind for one in payloads(only) if isinstance(one, ForeignRecord)]
    assert kinds == ["session_meta of another session", "session_meta"]


# --- compaction -----------------------------------------------------------------------------------


def test_a_compaction_without_a_list_keeps_context_and_what_the_user_said() -> None:
    only = session("compacted-summary")
    first, second, third = compactions(only)
    said = [texts(event)[0][:20] for event in first]
    assert said == [
        "Be brief.",
        "# AGENTS.md instruct",
        "Read a.txt.",
        "Now b.txt.",
        "Both files were read",
    ]
    summary = first[-1].payload
    assert isinstance(summary, MessageUser)
    assert (summary.copy, summary.origin) == (True, "summary")
    # The next one keeps no summary of an earlier one.
    assert [texts(event)[0] for event in second[2:]] == [
        "Read a.txt.",
        "Now b.txt.",
        "And c.txt?",
        "Three files were read.",
    ]
    assert [texts(event)[0] for event in third[-1:]] == ["Good."]
    ends = [one for one in payloads(only) if isinstance(one, CompactionCompleted1)]
    assert [(str(one.summary)[:5], one.unknown) for one in ends] == [
        ("Both ", False),
        ("Three", False),
        ("", True),
    ]
    assert all(one.foreign for one in ends)


def test_a_compaction_with_a_list_is_exactly_that_list() -> None:
    only = session("compacted-list")
    first, second, third = compactions(only)
    batch = [type(event.payload) for event in by_position(only, 9)]
    assert batch == [
        CompactionStarted1,
        MessageUser,
        MessageAssistant,
        MessageAssistant,
        CompactionCompleted1,
    ]
    # Two of three equal messages are the two that were said, in order; the third is a copy.
    assert [event.id for event in first[:2]] == [
        by_position(only, 3)[0].id,
        by_position(only, 5)[-1].id,
    ]
    assert first[2].id == by_position(only, 9)[1].id
    assert [event.id for event in first[3:6]] == [
        by_position(only, 1)[0].id,
        by_position(only, 2)[0].id,
        by_position(only, 4)[0].id,
    ]
    opaque = '{"type":"compaction","encrypted_content":"c3VtbWFyeQ=="}'
    assert bare(first[-1].payload) == MessageAssistant(
        parts=(BoundPart("compaction", API, opaque),), copy=True
    )
    ends = [one for one in payloads(only) if isinstance(one, CompactionCompleted1)]
    assert (ends[0].opaque, ends[0].summary, ends[0].unknown) == (opaque, "", False)
    assert [type(event.payload) for event in second] == [
        MessageUser,
        MessageUser,
        MessageSystem,
        MessageUser,
        ToolRequested,
        ToolFinished,
        MessageAssistant,
        MessageUser,
    ]
    last = second[-1].payload
    assert isinstance(last, MessageUser) and last.origin == "summary"
    assert ends[1].summary == "All is done."
    assert ends[2].unknown
    assert [texts(event) for event in third] == [["Last."]]


def test_calls_that_a_compaction_repeats_are_no_new_calls() -> None:
    counts = session("compacted-list").counts
    assert (counts.calls, counts.unanswered, counts.orphans) == (1, 0, 0)


def test_a_compaction_ends_the_step_before_it() -> None:
    only = session("compacted-list")
    kinds = [type(event.payload) for event in by_position(only, 13)[:2]]
    assert kinds == [StepCompleted, CompactionStarted1]


def test_a_rollback_into_a_compacted_history_is_named(tmp_path: Path) -> None:
    lines = (FOLDER / "compacted-list.jsonl").read_text().splitlines()
    path = tmp_path / "file.jsonl"
    rollback = json.dumps(
        {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 2}}
    )
    path.write_text("\n".join([*lines[:10], rollback]))
    (only,) = codex.read(path)
    check_session(only)
    assert any("lost their order" in one for one in only.counts.anomalies)


# --- damaged files --------------------------------------------------------------------------------


def test_glued_bad_and_torn_lines() -> None:
    only = session("torn")
    assert only.counts.anomalies == (
        "line 3: 2 objects on one line",
        "line 4: no JSON object, kept as it is",
        "line 5: a result for call 'call_zz', which was not made before it",
        "line 8: torn tail of 94 bytes, not imported; a longer file adds it",
    )
    kept = by_position(only, 4)[0].payload
    assert bare(kept) == ForeignRecord(kind="unreadable")
    assert kept.record is not None and str(kept.record.line).endswith('"C:\\\\new\\q"}}')
    assert (only.counts.calls, only.counts.unanswered, only.counts.orphans) == (1, 1, 1)
    (orphan,) = [event for event in events(only) if isinstance(event.payload, ToolFinished)]
    assert (orphan.step, call_of(orphan)) == (0, "")


def test_a_result_before_its_call_is_no_orphan(tmp_path: Path) -> None:
    lines = (FOLDER / "turns.jsonl").read_text().splitlines()
    path = tmp_path / "file.jsonl"
    path.write_text("\n".join((lines[0], lines[13], lines[11])))
    (only,) = codex.read(path)
    check_session(only)
    counts = only.counts
    assert (counts.calls, counts.unanswered, counts.orphans) == (1, 0, 0)
    assert "not made before it" in counts.anomalies[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_fixture_is_recognized(path: Path) -> None:
    assert codex.sniff(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"type":"thread.started","thread_id":"x"}\n{"type":"item.completed"}\n',
        b'{"type":"user","uuid":"a","message":{"role":"user","content":"x"}}\n',
        b'{"timestamp":"2026-05-04T10:00:00Z","type":"session_me',
        b'{"a":1}\n',
        b"[{}]",
        b"PK\x03\x04....",
    ],
)
def test_no_rollout(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(content)
    assert not codex.sniff(path)
    with pytest.raises(UnknownFormat) as caught:
        codex.read(path)
    assert "\n" not in str(caught.value)


def test_bounds_hold_for_a_rollout(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    first = (FOLDER / "turns.jsonl").read_bytes().splitlines()[0]
    path.write_bytes(first + b'\n{"payload":' + b"[" * 100_000)
    with pytest.raises(TooLarge, match="line 2 nests deeper"):
        codex.read(path)

"""Whose file a Claude Code transcript is: the session, its name, its sub-agents."""

from __future__ import annotations

import shutil
from pathlib import Path

from sawlog.formats.claude_code import read
from sawlog.store.events.conversation import MessageUser
from sawlog.store.events.lifecycle import ForeignRecord
from sawlog.store.ids import foreign_id
from tests.doors.foreign import events
from tests.doors.transcripts import FOLDER, SESSION, at, kinds, one, says, texts, write


def test_the_first_message_names_the_session_where_the_file_does_not() -> None:
    session = one("two-sessions")
    assert session.source_id == SESSION
    assert says(session, "a record names another session, 5f0c1a52-8d1e-4b7a-9c3f-2a6d10e4b0ff")


def test_the_name_of_the_file_decides(tmp_path: Path) -> None:
    name = "11111111-2222-4333-8444-555555555555"
    path = tmp_path / f"{name}.jsonl"
    shutil.copy(FOLDER / "split-reply.jsonl", path)
    (session,) = read(path)
    assert session.source_id == name and says(session, f"another session, {SESSION}")
    assert at(session, 1)[0].id == foreign_id(name, "1", "0")


def test_a_file_that_names_no_session_is_named_by_its_first_record(tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", {"type": "summary", "summary": "s", "leafUuid": "x"})
    (session,) = read(path)
    assert session.source_id == f"record-{session.records[0].digest[:32]}"
    assert says(session, "no record names its session")


def test_inline_sub_agents_are_sessions_of_their_own() -> None:
    main, left, right, up = read(FOLDER / "inline-sidechains.jsonl")
    assert texts(main) == ["Ask two agents.", "A door on the left."]
    assert [e.payload.kind for e in events(main) if isinstance(e.payload, ForeignRecord)] == [
        *["sidechain/user", "sidechain/assistant"] * 4
    ]
    assert (main.counts.steps, main.counts.calls, main.counts.unanswered) == (2, 2, 0)
    assert texts(left) == ["Look left.", "A door."]
    assert texts(right) == ["Look right.", "Nothing there."]
    assert texts(up) == ["Look up.", "The sky."]
    assert [s.source_id for s in (left, right, up)] == [
        f"{SESSION}/00000000-0000-4000-8000-000000000003",
        f"{SESSION}/00000000-0000-4000-8000-000000000006",
        f"{SESSION}/c0ffee1",
    ]
    assert [s.parent for s in (main, left, right, up)] == ["", SESSION, SESSION, SESSION]
    assert [record.position for record in left.records] == [2, 3, 7, 8]
    first = events(right)[0].payload
    assert isinstance(first, MessageUser) and first.origin == "parent"
    assert right.counts.anomalies == ()


def test_sub_agent_files_beside_a_session_are_its_children() -> None:
    main, summariser, agent = read(FOLDER / f"{SESSION}.jsonl")
    assert [s.source_id for s in (main, summariser, agent)] == [
        SESSION,
        f"{SESSION}/acompact-0a",
        f"{SESSION}/beef01",
    ]
    assert [s.parent for s in (main, summariser, agent)] == ["", SESSION, SESSION]
    assert texts(agent) == ["Read the notes.", "They are empty."]
    first = events(agent)[0].payload
    assert isinstance(first, MessageUser) and first.origin == "parent"
    assert says(summariser, "the run that wrote a compaction's summary")
    assert not says(summariser, "parent is not in the file")
    # What the parent was shown of the running sub-agent is an echo.
    assert kinds(at(main, 2)) == [ForeignRecord]


def test_a_sub_agent_file_read_alone_is_the_same_session() -> None:
    beside = read(FOLDER / f"{SESSION}.jsonl")
    alone = read(FOLDER / SESSION / "subagents" / "agent-beef01.jsonl")
    assert alone == beside[2:]


def test_sub_agents_are_found_beside_a_renamed_file(tmp_path: Path) -> None:
    shutil.copy(FOLDER / f"{SESSION}.jsonl", tmp_path / "kept.jsonl")
    shutil.copytree(FOLDER / SESSION / "subagents", tmp_path / "kept.subagents")
    write(tmp_path / "kept.subagents" / "agent-empty.jsonl")
    found = read(tmp_path / "kept.jsonl")
    assert [s.source_id for s in found] == [s.source_id for s in read(FOLDER / f"{SESSION}.jsonl")]
    assert says(found[0], "a sub-agent's file was not read")

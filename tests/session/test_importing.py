"""Foreign files into sessions: which session a file belongs to, and what of it is news."""

from __future__ import annotations

import json
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.reconstructing import sending_for
from sawlog.builder.policy import AS_RECORDED
from sawlog.builder.profiles import Profile
from sawlog.importing import import_path, read_file
from sawlog.store.errors import ConfigError, Leased, UnknownFormat
from sawlog.store.events.steps import PolicySet
from tests.forking import executed
from tests.session.agents import opened
from tests.session.foreign_files import (
    FOREIGN,
    PATHS,
    REWIND,
    TURNS,
    WITH_AGENTS,
    beginning,
    created,
    each_file,
    lines,
    sizes,
    stream,
    streams,
    whole,
)

# --- the same start -------------------------------------------------------------------------------


@each_file
def test_a_file_in_pieces_gives_the_events_of_the_file_at_once(
    file: Path, log: AgentLog, tmp_path: Path
) -> None:
    if (agents := file.with_suffix("")).is_dir():
        shutil.copytree(agents, tmp_path / agents.name)
    named = read_file(file)[0].source_id
    total = 0
    copy = file
    for size in sizes(file):
        copy = beginning(file, tmp_path, size)
        try:
            if read_file(copy)[0].source_id != named:
                continue  # no record names the session so far: it is another one's
        except UnknownFormat:
            continue  # nothing in it tells the format
        total += sum(one.added for one in import_path(log, copy))
    with whole(copy, tmp_path) as other:
        assert streams(log) == streams(other)
        assert total == sum(row.head for row in other.sessions())
    for row in log.sessions():
        recorded = log.read(row.id.hex())
        report = recorded.verify()
        assert report.sound and not report.blocked
        if report.steps:
            assert report.paths == PATHS


def test_pieces_end_anywhere(any_log: AgentLog, tmp_path: Path) -> None:
    raw = TURNS.read_bytes()
    copy = tmp_path / TURNS.name
    for end in (*range(400, len(raw), 97), len(raw)):
        copy.write_bytes(raw[:end])
        (found,) = import_path(any_log, copy)
        torn = "torn tail" in " ".join(found.anomalies)
        cut_off = raw[:end].rpartition(b"\n")[2]
        assert torn is (bool(cut_off) and end < len(raw) and not _is_json(cut_off))
    with whole(TURNS, tmp_path) as other:
        assert streams(any_log) == streams(other)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_the_same_or_a_shorter_file_adds_nothing(any_log: AgentLog, tmp_path: Path) -> None:
    (first,) = import_path(any_log, REWIND)
    assert first.added == first.events + 2
    before = stream(any_log, first)
    for size in reversed(sizes(REWIND)):
        (again,) = import_path(any_log, beginning(REWIND, tmp_path, size))
        assert (again.session, again.added) == (first.session, 0)
    assert stream(any_log, first) == before


def test_the_rules_of_the_first_import_stay(
    log: AgentLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = import_path(log, beginning(TURNS, tmp_path, 8))
    # A later release has another base profile for what it imports.
    kept = sending_for("openai-responses", "any").profile
    monkeypatch.setattr("sawlog.importing.profile_for", _another_profile)
    (longer,) = import_path(log, TURNS)
    assert longer.session == first.session and longer.added
    policies = [e.content for e in log.read(first.session).events() if e.type == "policy.set"]
    assert len(policies) == 1
    assert isinstance(policies[0], PolicySet)
    assert policies[0].policy == AS_RECORDED
    packet = log.read(first.session).steps[longer.steps].packet
    assert packet.header.profile == policies[0].profile == kept.named


def _another_profile(api: str, model: str) -> tuple[Profile, bool]:
    return sending_for("openai-chat", "any").profile, False


# --- sessions of their own ------------------------------------------------------------------------


def test_a_later_slice_is_a_session_of_its_own(any_log: AgentLog, tmp_path: Path) -> None:
    (first,) = import_path(any_log, beginning(REWIND, tmp_path, 4))
    before = stream(any_log, first)
    copy = tmp_path / REWIND.name
    copy.write_bytes(b"".join(lines(REWIND)[4:]))
    (later,) = import_path(any_log, copy)
    assert later.session != first.session
    assert created(any_log, later).source_id == created(any_log, first).source_id
    assert created(any_log, later).differs_from == ""
    assert stream(any_log, first) == before
    assert import_path(any_log, copy)[0].added == 0
    rows = any_log.sessions()
    assert rows[0].source_id == rows[1].source_id
    assert rows[1].name == f"{rows[0].name}-2"


def test_a_record_that_differs_is_named(any_log: AgentLog, tmp_path: Path) -> None:
    (first,) = import_path(any_log, TURNS)
    before = stream(any_log, first)
    changed = lines(TURNS)
    changed[5] = changed[5].replace(b"todo.txt", b"[REDACTED]")
    copy = tmp_path / TURNS.name
    copy.write_bytes(b"".join(changed))
    (other,) = import_path(any_log, copy)
    assert other.session != first.session
    assert created(any_log, other).differs_from == first.session
    assert created(any_log, other).differs_at == 5
    assert stream(any_log, first) == before
    # From now on each of the two goes on in its own.
    assert [import_path(any_log, file)[0].session for file in (TURNS, copy)] == [
        first.session,
        other.session,
    ]
    copy.write_bytes(b"".join([*changed, lines(TURNS)[-1]]))
    (longer,) = import_path(any_log, copy)
    assert longer.session == other.session and longer.added
    assert any_log.read(other.session).verify().sound


def test_a_name_that_is_taken_gets_a_number(log: AgentLog) -> None:
    (foreign,) = read_file(TURNS)
    for name in (foreign.name, f"{foreign.name}-2"):
        with log.session(name) as session:
            session.user("mine")
    (one,) = import_path(log, TURNS)
    assert log.read(one.session).name == f"{foreign.name}-3"
    assert created(log, one).name == f"{foreign.name}-3"
    assert import_path(log, TURNS)[0].added == 0


def test_one_id_in_two_formats_is_two_sessions(log: AgentLog, tmp_path: Path) -> None:
    id = read_file(TURNS)[0].source_id
    record: dict[str, Any] = {"type": "user", "uuid": "u", "parentUuid": None, "sessionId": id}
    record["message"] = {"role": "user", "content": "hello"}
    other = tmp_path / f"{id}.jsonl"
    other.write_text(json.dumps(record))
    assert read_file(other)[0].source_id == id
    for file in (TURNS, other, TURNS, other):
        import_path(log, file)
    assert [row.source_id for row in log.sessions()] == [f"codex:{id}", f"claude-code:{id}"]


# --- folders and sub-agents -----------------------------------------------------------------------


def test_sub_agents_are_children(log: AgentLog) -> None:
    main, *children = import_path(log, WITH_AGENTS)
    assert created(log, main).parent == ""
    assert [created(log, child).parent for child in children] == [
        created(log, main).source_id
    ] * len(children)
    assert len(children) == 2
    folder = WITH_AGENTS.with_suffix("") / "subagents"
    for file in sorted(folder.glob("*.jsonl")):
        (alone,) = import_path(log, file)
        assert alone.added == 0
        assert alone.session in {child.session for child in children}


def test_a_folder_gives_each_session_once(log: AgentLog) -> None:
    found = import_path(log, FOREIGN)
    assert len({one.session for one in found}) == len(found) == len(log.sessions())
    assert {created(log, one).format for one in found} == {"codex", "claude-code", "openai-chat"}
    assert [one.added for one in import_path(log, FOREIGN)] == [0] * len(found)


def test_a_folder_is_searched_for_one_format(log: AgentLog) -> None:
    found = import_path(log, FOREIGN, "codex")
    assert len(found) == len(list((FOREIGN / "codex").glob("*.jsonl")))
    assert {created(log, one).format for one in found} == {"codex"}


def test_what_is_no_such_file_is_refused(log: AgentLog, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a":1}\n')
    for path, format in (
        (tmp_path, "auto"),
        (tmp_path / "a.jsonl", "auto"),
        (tmp_path / "a.jsonl", "codex"),
        (TURNS, "claude-code"),
        (FOREIGN / "codex", "openai-chat"),
    ):
        with pytest.raises(UnknownFormat):
            import_path(log, path, format)
    with pytest.raises(ConfigError, match="use auto, codex, claude-code, openai-chat"):
        import_path(log, TURNS, "opencode")
    assert log.sessions() == []


# --- killed, and side by side ---------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
import sawlog
from sawlog import importing
from sawlog.store.log import Log

importing._BATCH_EVENTS = 2
left = int(sys.argv[3])
append = Log.append

def counted(self, *arguments, **options):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return append(self, *arguments, **options)

Log.append = counted
importing.import_path(sawlog.open(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.parametrize("appends", [0, 1, 2, 4, 7])
def test_an_import_that_was_killed_is_made_whole(
    appends: int, store_url: str, tmp_path: Path
) -> None:
    with opened(store_url) as log:
        assert executed(KILLED, store_url, str(TURNS), str(appends)) == -signal.SIGKILL
        (row,) = log.sessions()
        assert row.head < read_file(TURNS)[0].counts.events
        (one,) = import_path(log, TURNS)
        assert one.session == row.id.hex()
        assert one.added == one.events + 2 - row.head
        with whole(TURNS, tmp_path) as other:
            assert streams(log) == streams(other)
        assert log.read(one.session).verify().sound


def test_imports_side_by_side_make_one_session(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sawlog.importing._BATCH_EVENTS", 3)
    with opened(store_url) as log, ThreadPoolExecutor(6) as threads:
        found = [one for (one,) in threads.map(import_path, [log] * 6, [TURNS] * 6)]
        assert len({one.session for one in found}) == 1
        assert sum(one.added for one in found) == found[0].events + 2
        with whole(TURNS, tmp_path) as other:
            assert streams(log) == streams(other)


def test_a_driven_session_is_left_alone(any_log: AgentLog, tmp_path: Path) -> None:
    (first,) = import_path(any_log, beginning(TURNS, tmp_path, 8))
    before = stream(any_log, first)
    with any_log.session(any_log.read(first.session).name, owner="me@here"):
        with pytest.raises(Leased, match="me@here"):
            import_path(any_log, TURNS)
        assert stream(any_log, first) == before
    assert import_path(any_log, TURNS)[0].session == first.session

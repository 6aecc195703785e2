"""What a session shows that is no longer so: by the log, and by the files as they are now."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.findings import Stale
from sawlog.audit.staleness import Belief, beliefs
from sawlog.audit.watching import Watcher
from sawlog.store.content import TextPart
from sawlog.store.errors import ConfigError
from sawlog.store.events.world import FileChanged, ObservationRecorded, Saw
from sawlog.work.session import Session
from tests.session.agents import next_step, talker


def digest(text: str) -> str:
    """The version of a file's content."""
    return hashlib.sha256(text.encode()).hexdigest()


def read(s: Session, path: str, text: str) -> int:
    """A hook shows a file; gives the event's seq."""
    seen = Saw(path, "", digest(text))
    return s.append(ObservationRecorded((TextPart(text),), saw=(seen,)), source="hook:read")


def step(s: Session) -> None:
    """One step with a reply."""
    s.user("go")
    next_step(s, "openai-chat").send(talker())


def found(log: AgentLog, **options: object) -> Belief:
    """What is stale in the session `task`."""
    return beliefs(log.read("task"), **options)  # type: ignore[arg-type]


def short(one: Stale) -> tuple[str, str, str, str, bool]:
    """Kind, name, why, who says so, whether it is labelled."""
    return one.kind, one.name, one.why, one.by, one.labelled


# --- by the log -----------------------------------------------------------------------------------


def test_a_session_that_shows_nothing_of_the_world_believes_nothing(log: AgentLog) -> None:
    with log.session("task") as s:
        step(s)
    assert found(log) == Belief((), {})


def test_a_file_that_changed_is_stale_until_it_changes_back(log: AgentLog) -> None:
    with log.session("task") as s:
        seq = read(s, "a.py", "one")
        read(s, "b.py", "b")
        step(s)
        assert found(log).stale == ()
        cause = s.append(FileChanged("a.py", digest("two")), source="watch")
        [one] = found(log).stale
        assert short(one) == ("file", "a.py", "changed", "log", False)
        assert (one.seq, one.shown, one.now, one.cause) == (
            seq,
            digest("one"),
            digest("two"),
            cause,
        )
        step(s)
        assert [each.labelled for each in found(log).stale] == [True]
        s.append(FileChanged("a.py", digest("one")), source="watch")
        assert found(log).stale == ()
        s.append(FileChanged("b.py", state="absent"), source="watch")
    assert [short(one) for one in found(log).stale] == [("file", "b.py", "removed", "log", False)]
    assert set(found(log).files) == {"a.py", "b.py"}


def test_what_a_cut_took_out_is_believed_no_more(log: AgentLog) -> None:
    with log.session("task", window=300) as s:
        s.user("first " + "x" * 400)
        read(s, "a.py", "one")
        s.append(FileChanged("a.py", digest("two")), source="watch")
        step(s)
        assert found(log).stale
        for _ in range(3):
            s.user("more " + "y" * 400)
            step(s)
    assert found(log).stale == () and found(log).files == {}


def test_items_that_hold_no_longer(log: AgentLog) -> None:
    with log.session("task") as s:
        s.offer("old", channel="memory", source_id="taken-back", version="1")
        s.offer("short-lived", channel="memory", source_id="ends", valid_until=2**52)
        s.offer("v1", channel="memory", source_id="grows", version="1")
        step(s)
        assert found(log).stale == ()
        s.withdraw("memory", "taken-back", reason="it was wrong")
        s.offer("v2", channel="memory", source_id="grows", version="2")
        told = {short(one) for one in found(log).stale}
        assert told == {
            ("item", "taken-back", "withdrawn", "log", False),
            ("item", "grows", "superseded", "log", False),
        }
        [grows] = [one for one in found(log).stale if one.name == "grows"]
        assert (grows.shown, grows.now) == ("1", "2")
        later = found(log, as_of=2**53).stale
        assert ("item", "ends", "expired", "log", False) in {short(one) for one in later}
        step(s)
    after = {short(one) for one in found(log).stale}
    assert ("item", "taken-back", "withdrawn", "log", True) in after


def test_a_section_of_the_world_that_is_another_now(log: AgentLog) -> None:
    with log.session("task") as s:
        s.world(cwd="/srv/a", mode="plan")
        step(s)
        assert found(log).stale == ()
        s.world(cwd="/srv/b", mode=None)
        assert {short(one) for one in found(log).stale} == {
            ("world", "cwd", "changed", "log", False),
            ("world", "mode", "removed", "log", False),
        }
        step(s)  # the next packet tells it
    assert found(log).stale == ()


# --- by the workspace -----------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace of two files."""
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.py").write_text("one")
    (folder / "b.py").write_text("b")
    return folder


def test_a_change_that_nobody_recorded_is_seen_in_the_workspace(log: AgentLog, root: Path) -> None:
    with log.session("task") as s:
        seq = read(s, "a.py", "one")
        read(s, str(root / "b.py"), "b")
        read(s, "../outside", "secret")
        step(s)
    seen = found(log, root=root)
    assert seen.stale == () and seen.outside == ("../outside",)
    (root / "a.py").write_text("two")
    (root / "b.py").unlink()
    one, two = found(log, root=root).stale
    assert short(one) == ("file", "a.py", "changed", "workspace", False)
    assert (one.seq, one.shown, one.now) == (seq, digest("one"), digest("two"))
    assert short(two) == ("file", str(root / "b.py"), "removed", "workspace", False)
    assert found(log).stale == (), "without the root only the log is asked"


def test_the_workspace_has_the_last_word(log: AgentLog, root: Path) -> None:
    with log.session("task") as s:
        read(s, "a.py", "one")
        step(s)
        s.append(FileChanged("a.py", digest("two")), source="watch")
        # The file is as it was read, whatever was recorded in between.
        assert found(log).stale and found(log, root=root).stale == ()
        step(s)
        [labelled] = found(log, root=root).stale
        assert short(labelled) == ("file", "a.py", "restored", "workspace", True)
    with pytest.raises(ConfigError, match="no directory"):
        found(log, root=root / "nowhere")


def test_a_watcher_records_each_change_once_and_needs_no_lease(log: AgentLog, root: Path) -> None:
    with log.session("task") as s:
        read(s, "a.py", "one")
        step(s)
        watcher = Watcher(log, "task", root)
        assert watcher.look() == []
        (root / "a.py").write_text("two")
        (root / "b.py").write_text("nobody reads it")
        # The session is driven meanwhile, under its own lease.
        [change] = watcher.look(("a.py", "b.py"))
        assert (change.path, change.version) == ("a.py", digest("two"))
        assert watcher.look() == []
        step(s)
        packet = log.read("task").packet(2)
        assert [ref.form for ref in packet.refs].count("stale") == 1
        (root / "a.py").write_text("one")
        assert [one.version for one in watcher.look()] == [digest("one")]
        (root / "a.py").unlink()
        (root / "a.py").mkdir()  # there, and no file that can be read
        assert [one.state for one in watcher.look()] == ["unreadable"]
        assert watcher.look() == []
    events = [e for e in log.read("task").events() if e.type == "file.changed"]
    assert {event.source for event in events} == {"watch"} and len(events) == 3

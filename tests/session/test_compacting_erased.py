"""Contents that were erased under a compaction: a named outcome, never a traceback, never the text.

The store is left as an erasure leaves it: the content and its salt are gone, the chain holds.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.checkpoints import checkpoints_of
from sawlog.errors import InvalidArguments, Refused, SawlogError
from sawlog.providers.fake import Call
from sawlog.store.codec import cites, commit
from sawlog.store.event import decoded
from sawlog.store.events.compaction import Checkpoint
from sawlog.store.events.registry import Unknown
from sawlog.work.session import Session
from tests.session.agents import asked, next_step, opened, talker
from tests.session.branches import stepped
from tests.store.stores import Deed

LONG = "a text of the task that is long enough to be worth a checkpoint. " * 8
TURNS = 4
ERASED = "[This content was erased.]"
ONLY = {"message.user": "asked0", "tool.finished": "result0"}
"""What the first event of a type says, and no other."""


def worked(path: str, *, compacted: bool) -> dict[str, list[int]]:
    """A session with or without a checkpoint; gives the seqs of its events by type."""
    with opened(path) as log:
        with log.session("task") as s:
            s.system("You fix bugs.")
            s.task("Mend it.")
            s.note("open", "flaky", "test_b is flaky")
            for turn in range(TURNS):
                s.user(f"asked{turn} {LONG}")
                for call in stepped(s, f"turn{turn}", "read_file"):
                    with s.tool(call) as run:
                        run.result(f"result{turn} {LONG}", limit=512 if turn else None)
                stepped(s, f"told {LONG}")
            if compacted:
                s.compact(budget=1500, keep_user=0)
                s.user("go on")
                stepped(s, "gone on")
        found: dict[str, list[int]] = {}
        for event in log.read("task").events():
            found.setdefault(event.type, []).append(event.seq)
        return found


def erase(log: AgentLog, *seqs: int) -> None:
    """Take these contents, and the blobs that they cite, out of the store."""
    store, row = log.store, log.find("task")
    for stored in store.events(row, seqs):
        assert stored.salt is not None and stored.payload is not None
        content = decoded(stored, store.registry).content
        assert not isinstance(content, Unknown)
        digests = cites(content)  # type: ignore[arg-type]  # pyright: ignore
        with store.database.write() as tx:
            tx.run(
                "UPDATE sawlog.events SET salt = NULL, payload = NULL, codec = 0, cites = NULL, "
                "commitment = ? WHERE sid = ? AND seq = ?",
                (commit(stored.salt, stored.payload), row.sid, stored.seq),
            )
            for digest in digests:
                tx.run("DELETE FROM sawlog.blobs WHERE sid = ? AND digest = ?", (row.sid, digest))


def outcomes(log: AgentLog) -> list[str]:
    """Do all that reads the session, and compact it: what each said. Only named errors pass."""
    said: list[str] = []
    recorded = log.read("task")

    def report() -> str:
        return repr(recorded.verify())

    def replay() -> str:
        return repr([step.packet.body for step in recorded.steps])

    def checkpoints() -> str:
        return repr(checkpoints_of(recorded))

    def recovered() -> str:
        return repr(recorded.recover())

    for read in (report, replay, checkpoints, recovered):
        try:
            said.append(read())
        except SawlogError as error:
            said.append(f"{type(error).__name__}: {error}")
    with log.session("task") as s:
        try:
            said.append(repr(s.compact(budget=1500, keep_user=0)))
        except SawlogError as error:
            said.append(f"{type(error).__name__}: {error}")
        assert not s.state.compacting
        s.user("on")
        try:
            step = next_step(s, "openai-chat")
            said.append(repr(step.body))
            step.send(talker())
        except SawlogError as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


@pytest.mark.parametrize("compacted", [False, True], ids=["in a region", "under a checkpoint"])
def test_whatever_was_erased_has_a_named_outcome(tmp_path: Path, compacted: bool) -> None:
    """One event of each type in turn."""
    base = str(tmp_path / "base.db")
    for type, seqs in worked(base, compacted=compacted).items():
        copy = str(tmp_path / f"{type}.db")
        shutil.copy(base, copy)
        with opened(copy) as log:
            erase(log, seqs[0])
            said = outcomes(log)
        assert len(said) == 6
        if not compacted and type in ONLY:
            assert not any(ONLY[type] in one for one in said)


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic"])
def test_a_call_that_was_erased_before_it_was_shown_says_so(tmp_path: Path, api: str) -> None:
    """Nothing is left of it that a result could be missing for."""
    store = str(tmp_path / "agent.db")
    worked(store, compacted=False)
    with opened(store) as log:
        with log.session("task") as s:
            asked(s, Call("run_tests"))
        requests = [one.seq for one in log.read("task").events() if one.type == "tool.requested"]
        erase(log, requests[-1])
        with log.store.database.write() as tx:
            tx.run("DELETE FROM sawlog.snapshots")
    with opened(store) as log, log.session("task") as s:
        s.user("on")
        assert ERASED in next_step(s, api).body.decode()


def test_evidence_that_was_erased_says_so_and_is_not_found(tmp_path: Path) -> None:
    store = str(tmp_path / "agent.db")
    seqs = worked(store, compacted=True)
    with opened(store) as log:
        results = seqs["tool.finished"]
        erase(log, *results[:2], *seqs["message.user"][:2])
        with log.session("task") as s:
            cited = [read(s, f"k1.{place}") for place in range(1, len(evidence(s)) + 1)]
            assert any(text.endswith(ERASED) for text in cited)
            assert any("result2" in text for text in cited)
            assert "result2" in read(s, "k1", pattern="result2")
            for gone in ("asked0", "asked1", "result0", "result1"):
                assert not any(gone in text for text in cited)
                assert read(s, "k1", pattern=gone).startswith("[0 events of k1")
            with pytest.raises(InvalidArguments):
                read(s, "k2.1")


def read(s: Session, ref: str, pattern: str = "") -> str:
    """What the tool reads of a checkpoint's evidence."""
    function = s.read_output.function
    assert function is not None
    answer: str = function(ref, 0, 0, pattern)
    return answer


def evidence(s: Session) -> tuple[str, ...]:
    """The events that the checkpoint cites."""
    checkpoint = s.window.event(s.state.checkpoint).content
    assert isinstance(checkpoint, Checkpoint)
    return checkpoint.evidence


# --- what cannot be read any further --------------------------------------------------------------


def test_nothing_is_decided_behind_what_is_not_understood(store_url: str) -> None:
    """It would be tried for ever: the state never comes to the head of the log."""
    with opened(store_url, types=(Deed,)) as log, log.session("task") as s:
        for turn in range(TURNS):
            s.user(f"turn {turn} {LONG}")
            stepped(s, f"told of {turn} {LONG}")
        [first, second] = asked(s, Call("run_tests"), Call("run_tests"))
        s.tool(first).start()
        s.append(Deed("of a third party"))
    with opened(store_url) as log, log.session("task") as s:
        head = log.find("task").head
        assert s.state.blocked
        attempts: list[Callable[[], object]] = [
            lambda: s.compact(budget=1500, keep_user=0),
            lambda: s.rewind(to=3),
            lambda: s.tool(second).start(),
            lambda: s.resolve(first.event_id, "done"),
            lambda: s.reconcile(first.event_id, "not_done"),
        ]
        for attempt in attempts:
            with pytest.raises(Refused, match="test.deed") as refused:
                attempt()
            assert refused.value.reason == "blocked"
        assert log.find("task").head == head

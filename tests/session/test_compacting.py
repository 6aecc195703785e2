"""A session's compaction: what gives way, what stays, what may happen meanwhile (CASES 31-41)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.compaction.extractive import extract
from sawlog.compaction.past import Past
from sawlog.providers.fake import Call, Reply
from sawlog.store.errors import InvalidEvent, NotCompacted, NotEntered
from sawlog.store.events.compaction import (
    Checkpoint,
    CompactionAnswered,
    CompactionCompleted,
    CompactionFailed,
    CompactionRefused,
    CompactionStarted,
    Line,
)
from sawlog.store.events.conversation import MessageUser, ToolFinished
from sawlog.work.compacting import Compacted, Compactor, Reasons, Wanted
from sawlog.work.session import Session
from tests.session.agents import SYSTEM, TOOLS, next_step, one, opened, provided, sound, types
from tests.session.tasks import run

API = "openai-chat"
LONG = "a text of the task that is long enough to be worth a checkpoint. " * 12


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


def worked(s: Session, turns: int = 4) -> None:
    """Turns of a user's message, a reply with a call, its result, and a last reply."""
    s.system(SYSTEM)
    s.tools(TOOLS)
    for turn in range(turns):
        s.user(f"turn {turn}: {LONG}")
        script = [Reply(f"I look, {turn}.", calls=[Call("read_file", {"path": f"f{turn}.py"})]),
                  Reply(f"Done with {turn}. {LONG}")]  # fmt: skip
        with provided(API, script) as (_, client):
            reply = next_step(s, API).send(client)
            [call] = reply.tool_calls
            with s.tool(call) as run:
                run.result(f"content of f{turn}: {LONG}")
            next_step(s, API).send(client)


def text(s: Session) -> str:
    """All that the next packet shows."""
    s.user("and now?")
    return "\n".join(entry.text for entry in next_step(s, API).packet.entries)


def test_the_region_gives_way_to_the_checkpoint_and_the_rest_stays(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s)
        before = s.state
        done = s.compact(budget=2000, keep_user=0)
        assert done.checkpoint.number == 1 and done.after < done.before
        assert done.refused == ()
        shown = text(s)
        assert SYSTEM in shown and "Checkpoint 1." in shown
        assert "content of f0" not in shown and "content of f3" in shown
        assert s.state.checkpoint == done.seq > before.seq
    assert types(log.read("task"))[before.seq : before.seq + 3] == [
        "compaction.started",
        "compaction.checkpoint",
        "compaction.completed",
    ]
    report = sound(log, "task").verify()
    assert report.paths["compaction"] == "ok"


def test_what_is_no_longer_shown_is_fetched_by_its_name(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s)
        done = s.compact(budget=2000, keep_user=0)
        names = [f"k1.{at}" for at in range(1, len(done.checkpoint.evidence) + 1)]
        found = [s.stored(name) for name in names]
        assert any("content of f0" in one for one in found)
        assert any("turn 0" in one for one in found)
        call = one(s, "read_output", {"ref": names[0]}, tools=[s.read_output])
        assert found[0][:40] in str(call.run())
        s.user("again")
        for turn in range(3):
            s.user(f"more {turn}: {LONG}")
        s.compact(budget=1500, keep_user=0)
        assert [s.stored(name) for name in names] == found  # the older checkpoint's names stand
        with pytest.raises(sawlog.errors.InvalidArguments, match=r"no checkpoint .* k9\.1"):
            s.stored("k9.1")


def test_old_packets_are_what_they_were(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s)
        recorded = log.read("task")
        bodies = [recorded.packet(n).request.body for n in range(1, 9)]
        s.compact(budget=2000)
        recorded = log.read("task")
        assert [recorded.packet(n).request.body for n in range(1, 9)] == bodies


def test_an_open_call_is_in_no_region(log: AgentLog) -> None:
    """CASES 32: the border moves to before its unit; where nothing is left, it is said so."""
    with log.session("task") as s:
        s.tools(TOOLS)
        s.user("go")
        calls = [Call("read_file", {"path": "a"})]
        with provided(API, [Reply(LONG, calls=calls)]) as (_, client):
            [call] = next_step(s, API).send(client).tool_calls
        with pytest.raises(NotCompacted, match="nothing_to_cut"):
            s.compact(keep_user=5000)
        done = None
        with s.tool(call) as run:
            run.result(LONG)
        s.user("more")
        done = s.compact(keep_user=0)
        assert done.checkpoint.calls == ()


def test_a_history_of_one_unit_is_not_parted(log: AgentLog) -> None:
    """CASES 33: a typed refusal that names the fixed overhead; packets and log are as before."""
    with log.session("task") as s:
        s.system(SYSTEM)
        s.user(LONG)
        head = s.state.seq
        with pytest.raises(NotCompacted) as refused:
            s.compact()
        assert refused.value.code == "nothing_to_cut"
        assert refused.value.fixed > 0 and refused.value.history > 0
        assert s.state.seq == head


def test_without_the_lease_nothing_is_compacted(log: AgentLog) -> None:
    s = log.session("task")
    with pytest.raises(NotEntered):
        s.compact()


# --- while the checkpoint is written --------------------------------------------------------------


def by(
    s: Session, prose: Callable[[Past, Checkpoint, Reasons], Checkpoint | Reasons]
) -> Callable[[], Compacted]:
    """A compaction with a summariser that is a function."""
    compactor: Compactor = s._compactor  # pyright: ignore[reportPrivateUsage]
    return lambda: compactor.compact(Wanted(budget=2000, keep_user=0), prose)


def payloads(log: AgentLog, kind: type[object]) -> list[object]:
    return [e.content for e in log.read("task").events() if isinstance(e.content, kind)]


def test_what_is_appended_meanwhile_stays_behind_the_region(log: AgentLog) -> None:
    """CASES 39."""

    def prose(past: Past, known: Checkpoint, faults: Reasons) -> Checkpoint:
        s.user("a message that came meanwhile")
        return extract(past, known)

    with log.session("task") as s:
        worked(s)
        by(s, prose)()
        shown = text(s)
        assert shown.index("Checkpoint 1.") < shown.index("a message that came meanwhile")
    sound(log, "task")


@pytest.mark.parametrize("how", ["late", "rewind"])
def test_a_change_inside_the_region_refuses_the_checkpoint(log: AgentLog, how: str) -> None:
    """CASES 39: packets are as before, and the next attempt succeeds."""
    with log.session("task") as s:
        s.tools(TOOLS)
        s.user("go " + LONG)
        with provided(
            API, [Reply(LONG, calls=[Call("read_file", {"path": "a"})]), Reply(LONG)]
        ) as (
            _,
            client,
        ):
            [call] = next_step(s, API).send(client).tool_calls
            run = s.tool(call)
            run.start()
            next_step(s, API).send(client)  # the call shows as unknown
        worked(s, 3)
        before = [entry.text for entry in log.read("task").packet(8).entries]

        def prose(past: Past, known: Checkpoint, faults: Reasons) -> Checkpoint:
            if how == "late":
                run.result("it was read after all")
                run.finish()
            else:
                s.rewind(to=before_last)
            return extract(past, known)

        before_last = log.read("task").place(2)
        with pytest.raises(NotCompacted, match="region_changed"):
            by(s, prose)()
        assert s.state.checkpoint == 0 and s.state.compacting == 0
        assert [entry.text for entry in log.read("task").packet(8).entries] == before
        if how == "late":
            done = s.compact(budget=2000, keep_user=0)
            assert done.checkpoint.number == 1
            assert "it was read after all" in text(s)
    kinds = types(log.read("task"))
    assert "compaction.failed" in kinds
    sound(log, "task")


def test_a_draft_that_does_not_count_is_in_the_log_and_code_writes_alone(log: AgentLog) -> None:
    """CASES 36: bounded retries, told what was wrong, then the checkpoint of code alone."""
    told: list[Reasons] = []

    def prose(past: Past, known: Checkpoint, faults: Reasons) -> Checkpoint:
        told.append(faults)
        made_up = Line("d-1", "ran what nobody ran", ("ff" * 16,), "summariser")
        return replace(known, confirmed=(made_up,), narrative="words")

    with log.session("task") as s:
        worked(s)
        done = by(s, prose)()
    assert done.checkpoint.summariser is None and len(done.refused) == 2
    assert told[0] == () and told[1] == done.refused[0] != ()
    codes = {code for reasons in done.refused for code, _ in reasons}
    assert "outside_region" in codes
    refused = payloads(log, CompactionRefused)
    assert [one.attempt for one in refused] == [1, 2]  # type: ignore[attr-defined]
    sound(log, "task")


def test_a_summariser_that_breaks_ends_the_bracket(log: AgentLog) -> None:
    def prose(past: Past, known: Checkpoint, faults: Reasons) -> Checkpoint:
        raise RuntimeError("gone")

    with log.session("task") as s:
        worked(s)
        with pytest.raises(RuntimeError, match="gone"):
            by(s, prose)()
        assert s.state.compacting == 0
        [failed] = payloads(log, CompactionFailed)
        assert failed == CompactionFailed("interrupted: RuntimeError")
        s.compact(budget=2000)
    sound(log, "task")


def test_a_bracket_that_a_dead_process_left_is_closed_by_the_next(log: AgentLog) -> None:
    """CASES 34."""
    with log.session("task") as s:
        worked(s)
        s.append(CompactionStarted("manual", route="local", through=5, region="00" * 32))
        before = text(s)
        assert "Checkpoint" not in before
        done = s.compact(budget=2000)
        assert done.checkpoint.number == 1
    failed = payloads(log, CompactionFailed)
    assert len(failed) == 1


def test_a_checkpoint_without_its_end_is_found(log: AgentLog) -> None:
    """S3-15: the two are one append; half of it is nobody's crash."""
    with log.session("task") as s:
        worked(s)
        s.append(Checkpoint("00" * 16, narrative="half"))
        s.user("go on")
    report = log.read("task").verify()
    assert not report.sound and report.paths["compaction"] == "differs"
    assert "half of it is missing" in report.differences[0].what


def test_an_end_without_its_checkpoint_is_found(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s)
        head = s.state.seq
        s.append(CompactionCompleted(checkpoint=head - 3, through=3))
    report = log.read("task").verify()
    assert not report.sound
    assert any("has no checkpoint" in one.what for one in report.differences)


# --- notes ----------------------------------------------------------------------------------------


def test_notes_outlive_every_compaction_until_they_are_settled(log: AgentLog) -> None:
    with log.session("task") as s:
        s.note("constraint", "no-push", "Never push to main.")
        s.note("open", "flaky", "test_b is flaky")
        for turn in range(3):
            worked(s, 2)
            done = s.compact(budget=1500, keep_user=0)
            assert [line.text for line in done.checkpoint.constraints if line.id == "no-push"] == [
                "Never push to main."
            ]
            assert [line.id for line in done.checkpoint.open].count("flaky") == (turn < 1)
            if turn == 0:
                call = next(
                    e.id for e in log.read("task").events() if isinstance(e.content, ToolFinished)
                )
                s.settle("flaky", refs=[call], reason="it has a lock now")
            if turn == 1:
                assert [one.id for one in done.checkpoint.closed] == ["flaky"]
    sound(log, "task")


def test_notes_are_checked(log: AgentLog) -> None:
    with log.session("task") as s:
        for kind, name in (("rule", "a"), ("open", ""), ("open", "a b"), ("open", "x" * 101)):
            with pytest.raises(InvalidEvent):
                s.note(kind, name, "text")  # type: ignore[arg-type]  # pyright: ignore
        with pytest.raises(InvalidEvent):
            s.settle("")


def test_a_note_cites_events_of_its_own_session(log: AgentLog) -> None:
    with log.session("other") as other:
        other.user("hello")
    [foreign] = [e.id for e in log.read("other").events() if isinstance(e.content, MessageUser)]
    wrong: list[Any] = [
        [foreign], ["0" * 32], ["x"], [""], ["k1.1"], ["AB" * 16], foreign, [5], [None], 5, None,
        {foreign: 1},
    ]  # fmt: skip
    with log.session("task") as s:
        worked(s, 1)
        own = [event.id for event in log.read("task").events()]
        head = s.state.seq
        for refs in wrong:
            with pytest.raises(InvalidEvent, match="^refs: ") as caught:
                s.note("open", "a", "b", refs=refs)
            assert caught.value.path == "refs"
            with pytest.raises(InvalidEvent, match="^refs: "):
                s.settle("a", refs=refs)
        with pytest.raises(InvalidEvent, match="no event of this session"):
            s.note("open", "a", "b", refs=[own[1], foreign])
        assert s.state.seq == head
        s.note("open", "a", "b", refs=own)
        s.settle("a", refs=own[:2])
    with log.fork("task", name="heir") as heir:  # its parent's events are its own
        heir.note("open", "c", "d", refs=own)


def test_what_is_reminded_is_bounded(log: AgentLog) -> None:
    with log.session("task") as s:
        s.world(plan=["read", "mend"])
        with pytest.raises(InvalidEvent, match="keep the rest in a file"):
            s.world(plan="x" * 9000)
        worked(s)
        s.compact(budget=2000, keep_user=0)
        shown = text(s)
        assert '"read"' in shown or "read" in shown.split("Checkpoint 1.")[1]


def test_a_hook_is_told_and_tells(log: AgentLog) -> None:
    seen: list[Compacted] = []

    def remind(done: Compacted) -> str:
        seen.append(done)
        return "remember the tickets " + "x" * 5000

    with log.session("task", compaction=sawlog.Compaction(hooks=(remind,))) as s:
        worked(s)
        s.compact(budget=2000)
        shown = text(s)
    assert "remember the tickets" in shown and "characters more are left out" in shown
    [event] = [e for e in log.read("task").events() if e.source == "hook:remind"]
    assert seen[0].checkpoint.number == 1 and event.type == "observation.recorded"


def test_nothing_of_a_model_is_asked_where_none_is_named(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s)
        s.append(CompactionFailed("x"))
        s.compact(budget=2000)
    assert payloads(log, CompactionAnswered) == []


def test_tasks_compact_as_well(log: AgentLog) -> None:
    """The same methods, called off the loop."""

    async def work() -> None:
        async with log.asession("task") as s:
            worked(s.sync)
            await s.note("constraint", "no-push", "Never push to main.")
            done = await s.compact(budget=2000, keep_user=0)
            assert done.checkpoint.number == 1
            await s.settle("no-push", reason="it is allowed now")

    run(work())
    sound(log, "task")

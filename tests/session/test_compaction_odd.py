"""Compactions at odd moments and with odd arguments; forks and rewinds in the middle of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.compaction.extractive import extract
from sawlog.compaction.past import Past
from sawlog.errors import (
    AttemptFailed,
    ConfigError,
    InvalidArguments,
    InvalidEvent,
    NotCompacted,
    StoreFull,
)
from sawlog.providers.fake import HttpError, Reply
from sawlog.store.events.compaction import Checkpoint, CompactionCompleted, CompactionFailed
from sawlog.work.compacting import Compacted, Compactor, Reasons, Wanted
from sawlog.work.session import Session
from sawlog.work.triggers import Compaction
from tests.session.agents import next_step, opened, provided, sound, types
from tests.session.branches import same_state, stepped

API = "openai-chat"
LONG = "a text of the task that is long enough to be worth a checkpoint. " * 12
AT_A_STRETCH = Wanted(budget=1500, keep_user=0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


def worked(s: Session, turns: int = 3, said: str = "turn") -> None:
    """Turns of a message of the user and two replies, the first with two calls and results."""
    for turn in range(turns):
        s.user(f"{said} {turn}: {LONG}")
        for call in stepped(s, f"{said}{turn}", "read_file", "run_tests"):
            with s.tool(call) as run:
                run.result(f"content of {said}{turn}: {LONG}")
        stepped(s, f"done with {said}{turn}: {LONG}")


def while_written(s: Session, meanwhile: Callable[[], object]) -> Compacted:
    """A compaction in the middle of which something happens."""

    def prose(past: Past, known: Checkpoint, faults: Reasons) -> Checkpoint:
        meanwhile()
        return extract(past, known)

    compactor: Compactor = s._compactor  # pyright: ignore[reportPrivateUsage]
    return compactor.compact(AT_A_STRETCH, prose)


# --- in the middle of one -------------------------------------------------------------------------


def test_a_second_compaction_waits_for_the_end_of_the_first(log: AgentLog) -> None:
    """A bracket that is under way is nobody's to close, not even the same handle's."""
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(NotCompacted, match="under way") as raised:
            s.compact(budget=1500)
        refused.append(raised.value.code)

    with log.session("task") as s:
        worked(s)
        head = s.state.seq
        while_written(s, second)
        worked(s, 2, "more")
        s.compact(budget=1500)
    assert refused == ["under_way"]
    assert types(log.read("task"))[head : head + 3] == [
        "compaction.started", "compaction.checkpoint", "compaction.completed"
    ]  # fmt: skip
    sound(log, "task")


@pytest.mark.parametrize("back", [-1, 0, 1])
def test_a_rewind_meanwhile_refuses_the_checkpoint(log: AgentLog, back: int) -> None:
    """It may tell of what was taken back, be it that the region itself still stands."""
    with log.session("task") as s:
        worked(s)
        head = s.state.seq

        def meanwhile() -> None:
            s.user("what comes behind the start of the bracket")
            s.rewind(to=head + back)

        with pytest.raises(NotCompacted) as raised:
            while_written(s, meanwhile)
        assert raised.value.code == "region_changed"
        assert (s.state.checkpoint, s.state.compacting) == (0, 0)
        s.user("and now?")
        assert while_written(s, int).checkpoint.number == 1
        same_state(log, s)
    sound(log, "task")


@pytest.mark.parametrize("where", ["_draft", "_judged", "_past", "_commit"])
def test_whatever_breaks_ends_the_bracket(
    log: AgentLog, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def breaks(*_: object) -> None:
        raise RuntimeError("gone")

    with log.session("task") as s:
        worked(s)
        with monkeypatch.context() as broken:
            broken.setattr(Compactor, where, breaks)
            with pytest.raises(RuntimeError, match="gone"):
                s.compact(budget=1500)
        assert s.state.compacting == 0
        failed = [e.content for e in log.read("task").events()][-1]
        assert failed == CompactionFailed("interrupted: RuntimeError")
        assert s.compact(budget=1500).checkpoint.number == 1
    sound(log, "task")


def test_a_store_that_takes_no_end_hides_not_what_went_wrong(
    log: AgentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bracket stays open, packets are as before, and the next compaction closes it."""
    with log.session("task") as s:
        worked(s)
        with monkeypatch.context() as full:

            def fill() -> None:
                full.setattr(s._driver, "append", no_room)  # pyright: ignore[reportPrivateUsage]
                raise KeyError("the summariser broke")

            def no_room(*_: object, **__: object) -> None:
                raise StoreFull("no space is left")

            with pytest.raises(KeyError, match="broke") as raised:
                while_written(s, fill)
            assert "no space is left" in str(raised.value.__notes__)
        assert s.state.compacting and not s.state.checkpoint
        s.compact(budget=1500)
    assert types(log.read("task")).count("compaction.failed") == 1
    sound(log, "task")


# --- forks ----------------------------------------------------------------------------------------


def test_a_fork_at_any_event_of_a_compacted_session_is_whole(log: AgentLog) -> None:
    """Inside of a bracket, too: the parent's half is no damage, and nothing to be recovered."""
    with log.session("task") as s:
        worked(s, 2)
        begins = s.state.seq
        s.compact(budget=1500, keep_user=0)
        ends = s.state.seq
        stepped_after = ends + 2
        worked(s, 2, "more")
        s.compact(budget=1500, keep_user=0)
    for at in range(begins - 1, stepped_after):
        with log.fork("task", at=at, name=f"fork{at}") as fork:
            assert fork.recover().open_compaction is None, at
            worked(fork, 2, "other")
            fork.compact(budget=1500, keep_user=0)
            worked(fork, 1, "last")
            same_state(log, fork)
        recorded = sound(log, f"fork{at}")
        assert recorded.verify().paths["compaction"] == "ok", at
    sound(log, "task")


def test_a_checkpoint_without_its_end_is_found_behind_a_fork_too(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 2)
    with log.fork("task", name="fork") as fork:
        fork.append(Checkpoint("00" * 16, narrative="half"))
        fork.user("go on")
    assert log.read("fork").verify().paths["compaction"] == "differs"


@pytest.mark.parametrize("at", [1.5, True, "3", float("nan")])
def test_a_place_that_is_no_number_makes_no_fork(log: AgentLog, at: Any) -> None:
    with log.session("task") as s:
        s.user("go")
    with pytest.raises(InvalidEvent, match="whole number"):
        log.fork("task", at=at, name="fork")
    assert [row.name for row in log.sessions()] == ["task"]


# --- what means nothing ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"budget": -5}, {"budget": 1.5}, {"budget": float("nan")}, {"budget": True},
        {"budget": "9"}, {"keep_user": -1}, {"keep_user": float("inf")}, {"keep_user": "1"},
        {"at": "x"}, {"at": -1}, {"at": True}, {"at": 2.0}, {"route": "nonsense"},
        {"route": None}, {"trigger": None}, {"trigger": "\ud800"}, {"trigger": "a" * 101},
        {"trigger": ""},
    ],
)  # fmt: skip
def test_nonsense_is_named_and_nothing_is_written(log: AgentLog, given: dict[str, Any]) -> None:
    with log.session("task") as s:
        worked(s, 2)
        head = s.state.seq
        with_budget: dict[str, Any] = {"budget": 1000, **given}
        with pytest.raises(ConfigError):
            s.compact(**with_budget)
        assert s.state.seq == head


@pytest.mark.parametrize(
    "given",
    [
        {"at": 0.8}, {"at": "x"}, {"at": None}, {"at": True}, {"steps": 1.5}, {"steps": -1},
        {"overflow": "no"}, {"hooks": print}, {"hooks": (5,)}, {"summariser": "a/b"},
    ],
)  # fmt: skip
def test_a_compaction_that_means_nothing_is_refused_when_it_is_given(
    log: AgentLog, given: dict[str, Any]
) -> None:
    """A share of 0.8 is none per mille: it would compact in front of every step."""
    with pytest.raises(
        ConfigError, match="summariser" if "summariser" in given else next(iter(given))
    ):
        log.session("task", compaction=Compaction(**given))


@pytest.mark.parametrize("given", [{"to": 1.5}, {"to": "3"}, {"to": True}, {"step": "1"}])
def test_a_rewind_to_no_number_is_refused(log: AgentLog, given: dict[str, Any]) -> None:
    with log.session("task") as s:
        worked(s, 1)
        head = s.state.seq
        with pytest.raises(InvalidEvent, match="whole number"):
            s.rewind(**given)
        assert s.state.seq == head


# --- what comes by itself -------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "compacts"), [(900, True), (1_600, False), (2_000, False)])
def test_what_comes_by_itself_leaves_room_for_the_last_unit(
    log: AgentLog, last: int, compacts: bool
) -> None:
    """A rule is never left out of a checkpoint: where the rules and the newest message have no room
    side by side, older history is cut as without a compaction, and the step goes out."""
    compaction = Compaction(steps=5)
    with log.session("task", window=2_200, reserve=100, compaction=compaction) as s:
        s.user("\n".join(f"- never touch {at}: {'x' * 230}" for at in range(6)))
        for turn in range(5):
            stepped(s, f"{turn} {LONG}")
            s.user("go on")
        s.user("x" * last * 4)
        stepped(s, "fine")
        assert (s.state.checkpoint > 0) is compacts
    sound(log, "task")


def test_another_model_is_asked_when_nothing_more_can_give_way(log: AgentLog) -> None:
    """The refusal was of one model: where its history gives way no more, another may take it."""
    with log.session("task", compaction=Compaction()) as s:
        s.user(LONG)
        with provided(API, [HttpError(413), Reply("I can")]) as (_, client):
            with pytest.raises(AttemptFailed):
                next_step(s, API).send(client)
            head = s.state.seq
            for _ in range(3):
                with pytest.raises(NotCompacted, match="nothing_to_cut"):
                    next_step(s, API)
            assert s.state.seq == head  # asked again and again, the log does not grow
            assert s.step(API, model="a-larger-one").send(client).text == "I can"
        s.user("go on")
        stepped(s, "on")
    sound(log, "task")


# --- what no session writes -----------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", [-1, 1, 10**6])
def test_an_end_whose_checkpoint_is_elsewhere_is_set_aside(log: AgentLog, checkpoint: int) -> None:
    """It changes no packet, breaks none, and is named."""
    with log.session("task") as s:
        worked(s, 2)
        s.append(CompactionCompleted(checkpoint=checkpoint, through=5))
        s.user("go on")
        stepped(s, "on")
        s.compact(budget=1500, keep_user=0)
        same_state(log, s)
    report = log.read("task").verify()
    assert not report.sound and not report.blocked
    assert any("has no checkpoint" in one.what for one in report.differences)


def test_evidence_that_is_no_event_is_not_found(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s, 2)
        at = s.state.seq + 1
        s.append(Checkpoint("00" * 16, evidence=("zz", "0" * 31, "\x00", "AB" * 16)))
        s.append(CompactionCompleted(checkpoint=at, through=5))
        for place in range(1, 5):
            with pytest.raises(InvalidArguments, match="not in this session"):
                s.stored(f"k1.{place}")

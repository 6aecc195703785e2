"""Rewinds to before the last packet: what is as then, what is as now, and who gives the state."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from sawlog.builder.branching import attended, resuming, state_at
from sawlog.builder.projector import fold, fold_all
from sawlog.builder.snapshot import decode, encode, state_digest
from sawlog.builder.state import State
from sawlog.builder.undoing import not_undone
from sawlog.store.content import TextPart
from sawlog.store.event import Event
from sawlog.store.events import CORE
from sawlog.store.events.base import Named
from sawlog.store.events.conversation import (
    MessageSystem,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.inbox import InboxInjected
from sawlog.store.events.lifecycle import HistoryRewound, HistoryRewound1, HistoryTrimmed, Ran
from sawlog.store.events.steps import Keep, PacketBuilt, PolicySet, Run
from sawlog.store.events.world import FileChanged, Tool, ToolsChanged
from tests.builder.memory import MemoryLog, Story, text
from tests.builder.surroundings import Told


def plainly(log: MemoryLog) -> list[Event]:
    """The events as they are stored, no rewind with its state."""
    return [replace(event, resumes=None) for event in log.events]


def packet_at(log: MemoryLog, number: int) -> int:
    """The seq of a packet, by number from 1."""
    return [event.seq for event in log.events if isinstance(event.content, PacketBuilt)][number - 1]


# --- the conversation is that of then -------------------------------------------------------------


def test_the_last_packet_is_the_one_that_stood_then() -> None:
    log = Story().run("U P A[c1] R1 P A[] U2 P A[] U3").log
    to = packet_at(log, 1)
    then = fold_all(State(), log.events[:to])
    log.append(HistoryRewound(to))
    state = log.state
    assert (state.sent, state.sent_at, state.base) == (then.sent, to, then.base)
    assert (state.news[:], state.waiting, len(state.answered)) == ([], (), 0)
    assert (state.step, state.open_step, state.cuts) == (3, 0, ("rewound",))
    built = log.packet()
    assert built.base == to, "the next manifest builds on a packet of this branch"
    assert built.parts == (Keep(0, 1),)
    assert [(one.cause, one.lost) for one in built.trace.breaks] == [("rewound", 0)]


def test_no_run_spans_what_was_left() -> None:
    """A full manifest names the events one by one across the border."""
    log = Story().run("U U2 P A[] U3 P A[]").log
    log.append(HistoryRewound(2))
    Story(log).run("U4 U5")
    built = log.packet()
    assert built.base == 0
    last = log.state.seq
    assert built.parts == (Run("history", 1, 2), Run("history", last - 2, last - 1))


def test_system_texts_that_stay_are_not_joined_over_what_was_said_between() -> None:
    log = MemoryLog()
    log.append(MessageSystem(text("a")), source="system")
    Story(log).run("U")
    log.append(MessageSystem(text("b")), source="system")
    Story(log).run("P A[] U2 P")
    log.append(HistoryRewound(1))
    Story(log).run("U3")
    built = log.packet()
    assert log.state.system == ((1, 1), (3, 1)), "the header is as it is now"
    assert built.parts[:2] == (Run("system", 1, 1), Run("system", 3, 3))


def test_tools_that_hold_no_more_are_not_spanned_either() -> None:
    """They stood in force then, and so were nothing that was left out."""

    def tools(name: str) -> ToolsChanged:
        source = f'{{"name":"{name}","description":"","parameters":{{"type":"object"}}}}'
        return ToolsChanged((Tool(name, source),))

    log = Story().run("U").log
    log.append(tools("old"), source="harness")
    Story(log).run("U2 P A[]")
    log.append(tools("new"), source="harness")
    Story(log).run("U3 P A[]")
    log.append(HistoryRewound(3))
    Story(log).run("U4")
    parts = log.packet().parts
    assert parts[0] == Run("tools", log.state.tools[0], log.state.tools[0])
    last = log.state.seq - 1
    assert parts[1:] == (Run("history", 1, 1), Run("history", 3, 3), Run("history", last, last))


def test_trims_and_told_texts_are_those_of_then() -> None:
    log = Story().run("U P A[c1] R1 P A[] U2").log
    to = log.state.seq
    log.append(HistoryTrimmed(("c1",)))
    Story(log).run("P A[]")
    assert log.state.trims
    log.append(HistoryRewound(to))
    assert not log.state.trims
    shown = [ref.form for ref in log.packet().refs]
    assert "stub" not in shown and "full" in shown


def test_a_rewind_within_the_news_needs_no_state() -> None:
    """What was released stays: the state alone answers it, whatever it is given."""
    log = Story().run("U P A[] U2 U3").log
    rewind = log.append(HistoryRewound(log.state.seq - 1))
    assert rewind.resumes is None
    before = fold_all(State(), log.events[:-1])
    given = replace(rewind, resumes=fold_all(State(), log.events[:1]))
    assert state_digest(fold(before, given)) == state_digest(log.state)


# --- the world is that of now ---------------------------------------------------------------------


def test_the_world_policy_tools_and_inbox_are_as_now() -> None:
    told = Told()
    told.world(cwd="/a")
    told.user()
    told.packet()
    to = told.log.state.seq
    told.world(cwd="/b")
    told.task("mend it")
    tool = Tool("t", '{"name":"t","description":"","parameters":{"type":"object"}}')
    told.log.append(ToolsChanged((tool,)), source="harness")
    told.log.append(PolicySet(Named("default", 2)), source="harness")
    told.log.append(InboxInjected(text("waits")))
    told.log.append(FileChanged("a.py", "aa" * 32), source="watch")
    told.user()
    told.packet()
    now = told.log.state
    told.log.append(HistoryRewound(to), source="harness")
    state = told.log.state
    for name in ("world", "task", "tools", "policy", "inbox", "as_of", "step", "per_mille"):
        assert getattr(state, name) == getattr(now, name), name
    file = state.files.get("a.py")
    assert file is not None and file.version == "aa" * 32
    told.user()
    built = told.packet()
    texts = [entry.text for entry in built.entries]
    assert any("/b" in one for one in texts), "the packet tells the difference again"
    assert any("mend it" in one for one in texts)


def test_text_that_changed_since_is_labelled_again() -> None:
    told = Told()
    told.read("a.py", "one")
    told.packet()
    to = told.log.state.seq
    told.changed("a.py", "two")
    told.user()
    assert any(ref.form == "stale" for ref in told.packet().refs)
    told.log.append(HistoryRewound(to), source="harness")
    assert told.log.state.dirty == ("a.py",)
    told.user()
    assert [ref.form for ref in told.packet().refs].count("stale") == 1


# --- calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "started", "denied", "shown"),
    [
        ("", False, "", "not_started"),
        ("S1", True, "", "unknown"),
        ("S1 R1", True, "", "unknown"),
        ("R1", True, "", "unknown"),
        ("D1", False, "denied", "denied"),
        ("Q1 N1", False, "denied", "denied"),
    ],
)
def test_a_call_from_before_shows_what_is_known_of_it_now(
    after: str, started: bool, denied: str, shown: str
) -> None:
    story = Story().run("U P A[c1]")
    to = story.log.state.seq
    story.run(f"{after} U2 P A[] U3")
    story.log.append(HistoryRewound(to))
    [call] = story.log.state.waiting
    assert (call.started, call.denied, call.approval, call.gone) == (started, denied, "", False)
    assert story.shown() == f"U A[c1] c1 syn({shown})c1"


def test_a_decided_approval_is_not_awaited_again() -> None:
    story = Story().run("U P A[c1] Q1")
    to = story.log.state.seq
    story.run("Y1 S1 R1 U2 P A[]")
    story.log.append(HistoryRewound(to))
    assert story.shown() == "U A[c1] c1 syn(unknown)c1"


def test_the_late_result_of_a_call_that_was_left_is_kept_aside() -> None:
    story = Story().run("U P A[] U2 P A[c1] S1")
    story.log.append(HistoryRewound(packet_at(story.log, 1)))
    late = ToolFinished(story.calls["c1"], "c1", "tool", parts=text("late"))
    story.log.append(late, source="tool:tool")
    assert [one.flag for one in story.log.state.news] == ["duplicate"]
    story.run("U3")
    assert story.shown() == "U U3"


def test_what_a_packet_that_stands_settled_is_settled_still() -> None:
    story = Story().run("U P A[c1] S1 U2 P A[] U3 P A[]")
    story.log.append(HistoryRewound(packet_at(story.log, 2)))
    assert [one.gone for one in story.log.state.waiting] == [True]
    story.run("R1 U4")
    assert story.shown().endswith("late:R1 U4")


# --- who gives the state --------------------------------------------------------------------------


def branchy() -> MemoryLog:
    """A log of rewinds into each other's ranges, some to what others left."""
    log = Story().run("U P A[] U2 P A[c1] R1 P A[] U3").log
    for to in (8, 3, 13, 1, 10, 6):
        log.append(HistoryRewound(to))
        Story(log).run("U4")
        log.packet()
        Story(log).run("A[]")
    return log


def test_cold_and_from_every_place_are_one() -> None:
    log = branchy()
    events = plainly(log)

    def between(after: int, upto: int) -> Iterable[Event]:
        return events[after:upto]

    def begin(at: int) -> State:
        """A snapshot that was written each seven events."""
        return decode(encode(fold_all(State(), log.events[: at - at % 7])))

    def afresh(at: int) -> State:
        return State()

    for start in (afresh, begin):
        for at in range(len(events) + 1):
            found = state_at(at, start, between)
            assert state_digest(found) == state_digest(fold_all(State(), log.events[:at])), at
    assert not log.state.blocked


def test_a_reader_in_pieces_gives_the_same_events() -> None:
    log = branchy()
    events = plainly(log)

    def resume(rewind: Event) -> State:
        return resuming(
            rewind,
            lambda to: state_at(to, lambda at: State(), lambda a, b: events[a:b]),
            lambda a, b: events[a:b],
        )

    cold = list(attended(events, resume, 0))
    rewinds = [one.resumes is not None for one in cold if one.type == "history.rewound"]
    assert len(rewinds) == 6 and all(rewinds)
    for cut in range(1, len(events)):
        state = fold_all(State(), cold[:cut])
        rest = attended(events[cut:], resume, None if cut % 2 else state.settled_at)
        assert state_digest(fold_all(state, rest)) == state_digest(log.state)


def test_a_log_without_packets_asks_for_no_state() -> None:
    """As imports are: their rewinds are answered by the state alone."""
    log = Story().run("U A[] U2 A[]").log
    log.append(HistoryRewound(1))

    def never(rewind: Event) -> State:
        raise AssertionError(rewind)

    assert list(attended(plainly(log), never, 0)) == log.events


def test_a_blocked_state_stays_blocked() -> None:
    log = Story().run("U P A[] U2 P A[]").log
    blocked = replace(log.state, blocked="why")
    rewind = log.append(HistoryRewound(1))
    assert fold(blocked, rewind).blocked == "why"


# --- what is not undone ---------------------------------------------------------------------------


def ran(log: MemoryLog, to: int) -> list[tuple[str, str]]:
    """Call ids and states of what a rewind to there leaves."""
    then = fold_all(State(), log.events[:to])
    calls, _ = not_undone(then, log.state, log.events[to:], log)
    names = {
        one.id: one.content.call_id for one in log.events if isinstance(one.content, ToolRequested)
    }
    assert all(one.name == "tool" for one in calls)
    return [(str(names[one.call]), one.status) for one in calls]


def test_calls_that_ran_are_named_once_with_their_first_result() -> None:
    log = Story().run("U P A[c1,c2,c3,c4] S1 R1 R1' S2 R4").log
    assert ran(log, 1) == [("c1", "ok"), ("c2", "unknown"), ("c4", "ok")]


def test_a_read_only_start_before_or_after_is_no_run() -> None:
    story = Story().run("U P A[c1,c2]")
    to = 0
    for name in ("c2", "c1"):
        to = story.log.state.seq
        start = ToolStarted(story.calls[name], effect="read_only")
        story.log.append(start, source="harness")
    story.run("R1 R2")
    assert ran(story.log, to) == ran(story.log, 1) == []
    # The same call, run again by other means.
    story.log.append(ToolStarted(story.calls["c2"]), source="harness")
    assert ran(story.log, 1) == [("c2", "unknown")]


def test_a_call_that_still_ran_counts_when_it_ended() -> None:
    story = Story().run("U P A[c1,c2] S1 S2")
    to = story.log.state.seq
    story.log.append(
        ToolFinished(call_id="c2", name="tool", status="interrupted", parts=(TextPart("half"),)),
        source="tool:tool",
    )
    assert ran(story.log, to) == [("c2", "interrupted")]


def test_results_without_a_call_are_nobody_s() -> None:
    log = Story().run("U P A[] R9 U2").log
    assert ran(log, 1) == []


def test_files_that_are_not_as_they_were() -> None:
    told = Told()
    told.read("read.py", "one")
    told.read("seen.py", "one")
    told.read("back.py", "one")
    told.packet()
    to = told.log.state.seq
    for path, now in (("read.py", "two"), ("back.py", "two"), ("back.py", "one"), ("new.py", "x")):
        told.changed(path, now)
    told.log.append(FileChanged("locked.py", "", "unreadable"), source="watch")
    told.read("seen.py", "two")
    then = fold_all(State(), told.log.events[:to])
    _, files = not_undone(then, told.log.state, told.log.events[to:], told.log)
    assert files == ("read.py", "new.py", "seen.py")


def test_version_1_reads_as_version_2_with_nothing_named() -> None:
    assert CORE.newest(HistoryRewound1(4, "why")) == HistoryRewound(4, "why")
    assert HistoryRewound(4).calls == () and Ran("00").status == "unknown"

"""The fold: what each event does to the state, and that it raises at none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sawlog.builder.build import Built
from sawlog.builder.projector import FOLD, entry_count, fold, fold_all
from sawlog.builder.state import Ref, State
from sawlog.store.content import BoundPart, MediaPart, TextPart
from sawlog.store.event import Event
from sawlog.store.events.base import Named, Payload
from sawlog.store.events.compaction import (
    CompactionCompleted,
    CompactionFailed,
    CompactionStarted,
)
from sawlog.store.events.conversation import (
    ApprovalDecided,
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.lifecycle import (
    ForeignRecord,
    HistoryRewound,
    HistoryTrimmed,
    SessionCreated,
)
from sawlog.store.events.registry import Content, Erased, Unknown
from sawlog.store.events.steps import (
    AttemptAnswered,
    AttemptLost,
    AttemptRefused,
    AttemptRunning,
    AttemptSent,
    Keep,
    PacketBuilt,
    PolicySet,
    Run,
    StepAbandoned,
    StepCompleted,
    StepFailed,
    StepRefused,
)
from sawlog.store.events.world import ObservationRecorded, Tool, ToolsChanged
from sawlog.store.text import preview
from tests.builder.memory import MemoryLog, Story, text


def event(content: Content, seq: int = 1, *, step: int = 0, kind: str = "x", shown: bool = False,
          ignorable: bool = False) -> Event:  # fmt: skip
    """An event by hand, for contents that no append would take."""
    return Event(seq, f"{seq:032x}", kind, 1, "user", step, 0, content, shown, ignorable)


def after(*payloads: Payload, step: int = 0) -> State:
    """The state after these events."""
    log = MemoryLog()
    for payload in payloads:
        log.append(payload, step=step, source="harness")
    return log.state


def waiting(story: str) -> list[tuple[str, bool, bool, str, str]]:
    """Call id, started, gone, denied, approval of each waiting call."""
    return [
        (str(one.call_id), one.started, one.gone, one.denied, str(one.approval))
        for one in Story().run(story).log.state.waiting
    ]


def flags(story: str) -> list[tuple[str, str]]:
    """The type and the flag of the news."""
    return [(one.kind, one.flag) for one in Story().run(story).log.state.news]


# --- header ---------------------------------------------------------------------------------------


def test_system_texts_before_the_first_step_are_the_header() -> None:
    state = after(MessageSystem((TextPart("a"), TextPart("b"))), MessageSystem(text("c")))
    assert state.system == ((1, 2), (2, 1)) and not state.news


@pytest.mark.parametrize(
    "message",
    [MessageSystem(text("c"), "developer"), MessageSystem(text("c"), copy=True)],
    ids=["developer", "copy"],
)
def test_developer_messages_and_copies_stand_in_place(message: MessageSystem) -> None:
    state = after(message)
    assert state.system == () and [one.seq for one in state.news] == [1]


def test_after_the_first_step_a_system_text_stands_where_it_was_said() -> None:
    story = Story().run("U P A[]")
    story.log.append(MessageSystem(text("later")), source="system")
    assert story.log.state.system == ()
    assert story.log.state.news[-1].kind == "message.system"
    imported = after(MessageAssistant(text("a")), MessageSystem(text("late")), step=1)
    assert imported.began and imported.system == ()


def test_the_newest_tools_and_policy_hold() -> None:
    tools = ToolsChanged((Tool("a", "{}"), Tool("b", "{}")))
    state = after(tools, PolicySet(Named("default")), ToolsChanged(()),
                  PolicySet(Named("default"), pairing=Named("codex")))  # fmt: skip
    assert (state.tools, state.policy, state.pairing) == ((3, 0), 4, Named("codex"))


# --- calls and results ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        ("U A[c1]", [("c1", False, False, "", "")]),
        ("U A[c1] S1", [("c1", True, False, "", "")]),
        ("U A[c1] S1 R1", []),
        ("U A[c1,c2] R2", [("c1", False, False, "", "")]),
        ("U A[c1] D1", [("c1", False, False, "denied", "")]),
        ("U A[c1] Q1", [("c1", False, False, "", "q1")]),
        ("U A[c1] Q1 Y1", [("c1", False, False, "", "")]),
        ("U A[c1] Q1 N1", [("c1", False, False, "denied", "")]),
        ("U A[c1] Q1 N1 Y1", [("c1", False, False, "denied", "")]),
        ("U A[c1] Q1 D1", [("c1", False, False, "denied", "")]),
        ("U P A[c1] S1 P", [("c1", True, True, "", "")]),
        ("U P A[c1] S1 P R1", []),
    ],
)
def test_what_a_call_waits_for(
    story: str, expected: list[tuple[str, bool, bool, str, str]]
) -> None:
    assert waiting(story) == expected


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        ("U A[c1] R1", ["", "", "", ""]),
        ("U A[c1] R1 R1'", ["", "", "", "", "duplicate"]),
        ("U R9", ["", "no_call"]),
        ("U R1 A[c1]", ["", "no_call", "", "early"]),
        ("U R1 A[c1] R1", ["", "no_call", "", "early", ""]),
        ("U P A[c1] P R1", ["late"]),
        ("U P A[c1] P R1 R1", ["late", "duplicate"]),
        ("U P A[c1] R1 P R1", ["duplicate"]),
    ],
)
def test_results_are_paired_or_flagged(story: str, expected: list[str]) -> None:
    assert [flag for _, flag in flags(story)] == expected


def test_an_external_result_stands_alone() -> None:
    state = after(ToolFinished(call_id="c1", name="watch", external=True))
    assert [one.flag for one in state.news] == ["external"] and state.orphans == ()


def test_a_result_names_its_call_by_event_before_the_providers_id() -> None:
    """Ids of providers repeat; the nearest open call has the id, the event's is one alone."""
    log = MemoryLog()
    first = log.append(ToolRequested("same", "t", "{}"), step=1)
    second = log.append(ToolRequested("same", "t", "{}"), step=1)
    log.append(ToolFinished(call=first.id, call_id="same"))
    assert [one.id for one in log.state.waiting] == [second.id]
    log.append(ToolFinished(call_id="same"))
    assert not log.state.waiting
    log.append(ToolFinished(call=first.id, call_id="same"))
    assert log.state.news[-1].flag == "duplicate"


def test_decisions_about_other_approvals_change_nothing() -> None:
    story = Story().run("U A[c1] Q1")
    story.log.append(ApprovalDecided("q2", True))
    story.log.append(ToolStarted(call="00" * 16))
    assert waiting("U A[c1] Q1") == [("c1", False, False, "", "q1")]
    assert [one.approval for one in story.log.state.waiting] == ["q1"]


# --- packets and attempts -------------------------------------------------------------------------


def test_a_packet_settles_the_news() -> None:
    state = Story().run("U P").log.state
    assert state.sent[:] == state.base[:] == [Ref("history", 1, 1)]
    assert (state.sent_at, state.sent_step, state.open_step, state.step) == (2, 1, 1, 1)
    assert (len(state.news), state.links, state.began) == (0, 0, True)
    again = Story().run("U P A[] U2 P").log.state
    assert (again.links, again.sent_at, again.open_step) == (1, 5, 2)


def test_news_that_a_packet_does_not_show_are_gaps() -> None:
    assert Story().run("U R9 P").log.state.gaps == (2,)
    state = Story().run("U P A[] U2 R9 P").log.state
    assert state.gaps == (5,)
    assert state.orphans == (("c9", 5),)  # a call that asks for it later is flagged early


def test_attempts_count_and_are_settled_by_their_outcome() -> None:
    log = Story().run("U P").log

    def at(payload: Payload, step: int = 1) -> tuple[int, int, int]:
        log.append(payload, step=step, source="provider:x")
        return log.state.open_step, log.state.attempts, log.state.unsettled

    assert at(AttemptSent("", 1)) == (1, 1, 1)
    assert at(AttemptRefused(1)) == (1, 1, 0)
    assert at(AttemptSent("", 2)) == (1, 2, 2)
    assert at(AttemptLost(2)) == (1, 2, 0)
    assert at(AttemptSent("", 3)) == (1, 3, 3)
    assert at(AttemptRunning(3)) == (1, 3, 3)
    assert at(AttemptSent("", 9), step=7) == (1, 3, 3)  # of another step
    assert at(AttemptAnswered(3, account="org")) == (1, 3, 0)
    assert log.state.current is not None and log.state.current.account == "org"
    assert at(StepCompleted(), step=7) == (1, 3, 0)
    assert at(StepCompleted()) == (0, 0, 0)


@pytest.mark.parametrize("end", [StepCompleted, StepFailed, StepRefused, StepAbandoned])
def test_each_end_ends_its_step(end: type[Any]) -> None:
    log = Story().run("U P").log
    log.append(end(), step=1)
    assert log.state.open_step == 0


@pytest.mark.parametrize(("as_of", "kept"), [(3, 4), (4, 4), (900, 900)])
def test_the_time_of_packets_never_falls(as_of: int, kept: int) -> None:
    """It is part of what later packets may depend on, so a clock that was set back is not."""
    assert second(as_of=4).as_of == 4
    log = Story().run("U P A[] U2 P A2[] U3 P").log
    last = log.events[-1]
    before = replace(fold_all(State(), log.events[:-1]), as_of=4)
    content = last.content
    assert isinstance(content, PacketBuilt)
    assert fold(before, event(replace(content, as_of=as_of), last.seq, step=3)).as_of == kept


def test_bound_items_know_what_they_are_bound_to() -> None:
    story = Story().run("U P")
    log = story.log
    thought = BoundPart("thinking", "anthropic", "{}", "hm")
    log.append(AttemptAnswered(account="org"), step=1, source="provider:x")
    log.append(MessageAssistant((thought,)), step=1, source="provider:x")
    log.append(MessageAssistant((thought,)), step=1, source="provider:x")
    [bound] = log.state.bounds
    assert (bound.step, bound.seq, bound.account) == (1, 4, "org")
    assert bound.prefix == story.built[0].request.prefix
    imported = after(MessageAssistant((thought,)), step=1)
    assert not imported.bounds  # nothing says what it is bound to


# --- what blocks ----------------------------------------------------------------------------------


def test_an_unknown_type_blocks_by_name_and_nothing_after_it_counts() -> None:
    state = fold(State(), event(Unknown("acme.x", 1, False), 5, kind="acme.x"))
    assert state.blocked == "event 5 is of type acme.x version 1, which is not known here"
    after_it = fold(state, event(MessageUser(text("x")), 6))
    assert after_it is state


def test_an_ignorable_unknown_type_changes_nothing_but_the_place() -> None:
    before = Story().run("U A[c1]").log.state
    state = fold(before, event(Unknown("acme.x", 3, True), before.seq + 1, ignorable=True))
    assert state.seq == before.seq + 1
    assert (state.news, state.waiting, state.blocked) == (before.news, before.waiting, "")


def second(**changes: Any) -> State:
    """The state after a second packet, its content changed."""
    log = Story().run("U P A[] U2 P").log
    content = log.events[-1].content
    assert isinstance(content, PacketBuilt)
    changed = event(replace(content, **changes), len(log.events), step=2)
    return fold(fold_all(State(), log.events[:-1]), changed)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"base": 1}, "builds on event 1, which is not the last packet of its branch"),
        ({"parts": (Keep(0, 9),)}, "the manifest of packet 5 does not read: keep 0 to 9"),
        ({"parts": (Run("history", 40, 41),)}, "a run from event 40 to 41, not all shown"),
        ({"base": 0}, "keep 0 to 1 of a base with 0 entries"),
    ],
)
def test_a_packet_that_does_not_read_blocks(changes: dict[str, Any], says: str) -> None:
    assert says in second(**changes).blocked
    assert second().blocked == ""


# --- cuts -----------------------------------------------------------------------------------------


def test_a_rewind_takes_back_what_came_after() -> None:
    log = Story().run("U P A[c1] S1 R1 U2").log
    to = next(one.seq for one in log.events if one.type == "tool.started")
    log.append(HistoryRewound(to))
    assert [one.kind for one in log.state.news] == ["message.assistant", "tool.requested"]
    assert [(one.started, one.gone) for one in log.state.waiting] == [(True, False)]
    assert log.state.cuts == ("rewound",) and not len(log.state.answered)


def test_a_rewind_to_before_the_last_packet_blocks_without_the_state_there() -> None:
    log = Story().run("U P A[] U2 P").log
    before = log.state
    rewind = log.append(HistoryRewound(1))
    for other in (None, "a state", fold_all(State(), log.events[:2])):
        blocked = fold(before, replace(rewind, resumes=other)).blocked
        assert "rewinds to before the packet of event 5" in blocked
    assert not log.state.blocked and [one.seq for one in log.state.news] == [1]


def test_trimmed_results_are_stubs_from_the_next_packet_on() -> None:
    log = Story().run("U P A[c1,c2] R1 R2").log
    log.append(HistoryTrimmed(("c2", "c9")))
    result = next(one for one in log.events if one.type == "tool.finished" and
                  one.content.call_id == "c2")  # type: ignore[union-attr]  # fmt: skip
    assert log.state.trims == (result.seq,) and log.state.cuts == ("trimmed",)
    built = log.packet()
    assert [ref.form for ref in built.refs if ref.seq == result.seq] == ["stub"]
    assert not log.state.cuts


def test_a_compaction_continues_with_the_events_that_it_names_in_order() -> None:
    log = MemoryLog()
    ids = [log.append(MessageUser(text(f"{n}"))).id for n in range(4)]
    log.append(CompactionStarted())
    copied = log.append(MessageUser(text("summary"), copy=True))
    assert log.state.news[-1].flag == "copy"
    log.append(CompactionCompleted(True, (copied.id, ids[3], ids[1], ids[3], "ff" * 16)))
    assert [one.id for one in log.state.news] == [copied.id, ids[3], ids[1]]
    assert [one.flag for one in log.state.news] == ["", "", ""]
    assert log.state.cuts == ("compacted",)


@pytest.mark.parametrize("payload", [CompactionStarted(), CompactionFailed("no")])
def test_a_compaction_that_is_not_completed_changes_nothing(payload: Payload) -> None:
    before = Story().run("U A[c1] R1").log
    news = before.state.news
    before.append(payload)
    assert before.state.news == news and before.state.cuts == ()


# --- contents -------------------------------------------------------------------------------------


def test_erased_contents_still_have_their_place() -> None:
    state = fold(State(), event(Erased("message.user", 1), 1, kind="message.user", shown=True))
    [one] = state.news
    assert one.erased
    hidden = fold(State(), event(Erased("tool.started", 1), 1, kind="tool.started"))
    assert not hidden.news


def test_previews_are_known_by_their_part() -> None:
    cut, _ = preview("x" * 5000, 600)
    [one] = after(ToolFinished(call_id="c", parts=(TextPart("a"), TextPart(cut)))).news
    assert (one.parts, one.previews) == (2, (2,))


COUNTS: list[tuple[Payload, int]] = [
    (MessageUser((TextPart("a"), TextPart("b"))), 2),
    (MessageUser(()), 0),
    (MessageAssistant((TextPart("a"),)), 1),
    (MessageSystem((TextPart("a"), TextPart("b"), TextPart("c"))), 3),
    (ObservationRecorded((TextPart("a"),)), 1),
    (ToolFinished(parts=(TextPart("a"), MediaPart("image/png", url="u"))), 2),
    (ToolFinished(), 1),
    (ToolsChanged((Tool("a", "{}"), Tool("b", "{}"))), 2),
    (ToolRequested("c", "t", "{}"), 1),
]


@pytest.mark.parametrize(("payload", "count"), COUNTS, ids=lambda value: str(value)[:20])
def test_how_many_entries_an_event_has(payload: Payload, count: int) -> None:
    assert entry_count(event(payload)) == count


def test_what_no_model_sees_leaves_the_state_as_it_is() -> None:
    log = Story().run("U A[c1]").log
    before = log.state
    for payload in (SessionCreated(), ForeignRecord("x")):
        log.append(payload, ignorable=isinstance(payload, ForeignRecord))
        assert (log.state.news, log.state.waiting) == (before.news, before.waiting)
    assert FOLD == 1


TOKENS = "U A[c1] A[c2,c3] S1 S2 S3 R1 R2 R3 R9 D1 Q2 Y2 N2 P".split()


@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=25))
def test_it_raises_at_no_log_and_never_looks_back(tokens: list[str]) -> None:
    """Law 6: whatever the order, and each state is made of the one before and one event."""
    story = Story()
    story.one("U")
    for token in tokens:
        if token == "P":
            built = story.log.build(allow_waiting=True)
            if isinstance(built, Built):
                made = story.log.append(built.event(), step=story.log.state.step + 1)
                story.log.cache.settle(made.seq)
        elif token[0] not in "SDQ" or f"c{token[1:]}" in story.calls:
            story.one(token)
    assert fold_all(State(), story.log.events) == story.log.state
    assert story.log.state.blocked == ""
    seqs = [one.seq for one in story.log.state.waiting]
    assert seqs == sorted(seqs) and len(set(seqs)) == len(seqs)

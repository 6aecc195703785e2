"""The cases of the design that the fold, the pairing and the packet answer."""

from __future__ import annotations

import itertools

import pytest

from sawlog.builder.draft import Refusal
from sawlog.store.content import RawPart
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import ForeignRecord, SessionForked
from tests.builder.memory import Story, told

CASES = {
    "1 a message, a reply, a message": ("U1 A[] U2", "U1 A[] U2"),
    "2 a call and its result": ("U A[c1] S1 R1", "U A[c1] c1 R1"),
    "3 results in call order": ("U A[c1,c2] S1 S2 R2 R1", "U A[c1,c2] c1 c2 R1 R2"),
    "4 killed before the start": ("U A[c1]", "U A[c1] c1 syn(not_started)c1"),
    "5 killed after the start": ("U A[c1] S1", "U A[c1] c1 syn(unknown)c1"),
    "6 one of three answered": (
        "U A[c1,c2,c3] S1 R1 S2",
        "U A[c1,c2,c3] c1 c2 c3 R1 syn(unknown)c2 syn(not_started)c3",
    ),
    "7 sent synthetic, then the real one late": (
        "U P A[c1] S1 P R1",
        "U A[c1] c1 syn(unknown)c1 late:R1",
    ),
    "7 no packet between": ("U P A[c1] S1 R1", "U A[c1] c1 R1"),
    "7 the late one is shown once": (
        "U P A[c1] S1 P R1 P A2[] U2",
        "U A[c1] c1 syn(unknown)c1 late:R1 A2[] U2",
    ),
    "8 a second result": ("U A[c1] R1 R1'", "U A[c1] c1 R1"),
    "9 a result without a call": ("U R9 U2", "U U2"),
    "10 a result before its call": ("U R1 A[c1]", "U A[c1] c1 syn(not_started)c1"),
    "11 a message while a call is open": ("U A[c1] S1 U2 R1", "U A[c1] c1 R1 U2"),
    "12 approval waits": ("U A[c1] Q1", "awaiting_approval"),
    "12 approved": ("U A[c1] Q1 Y1 S1 R1", "U A[c1] c1 R1"),
    "13 rejected": ("U A[c1] Q1 N1 U2", "U A[c1] c1 syn(denied)c1 U2"),
    "13 denied by the harness": ("U A[c1] D1 U2", "U A[c1] c1 syn(denied)c1 U2"),
    "a reply stands behind what it answered": ("U P U2 A[c1] R1", "U A[c1] c1 R1 U2"),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    story, expected = CASES[name]
    assert Story().run(story).shown() == expected


def test_case_12_a_caller_may_build_in_spite_of_a_waiting_approval() -> None:
    shown = Story().run("U A[c1] Q1").shown(allow_waiting=True)
    assert shown == "U A[c1] c1 syn(awaiting_approval)c1"


def test_case_12_the_first_decision_wins() -> None:
    assert Story().run("U A[c1] Q1 N1 Y1").shown() == "U A[c1] c1 syn(denied)c1"


def test_case_8_and_9_and_10_name_what_they_set_aside() -> None:
    story = Story().run("U R9 R1 A[c1] A2[c2] R2 R2'")
    assert [(one.kind, one.flag) for one in story.log.state.news if one.flag] == [
        ("tool.finished", "no_call"),
        ("tool.finished", "no_call"),
        ("tool.requested", "early"),
        ("tool.finished", "duplicate"),
    ]
    built = story.log.packet()
    dropped = [(v.seq, v.reason) for v in built.trace.verdicts if v.outcome == "dropped"]
    assert [reason for _, reason in dropped] == ["no_call", "no_call", "duplicate"]


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3, 4])))
def test_case_63_results_in_any_order_give_the_same_bytes(order: tuple[int, ...]) -> None:
    plain = Story().run("U A[c1,c2,c3,c4] R1 R2 R3 R4").log.packet()
    mixed = Story().run("U A[c1,c2,c3,c4] " + " ".join(f"R{n}" for n in order)).log.packet()
    assert mixed.request.body == plain.request.body
    assert mixed.semantic == plain.semantic


def test_case_26_events_that_no_model_sees_change_nothing() -> None:
    plain = Story().run("U A[c1] S1 R1 U2")
    noisy = Story()
    for token in "U A[c1] S1 R1 U2".split():
        noisy.log.append(ForeignRecord("noise"), source="harness", ignorable=True)
        noisy.one(token)
    assert noisy.log.packet().request.body == plain.log.packet().request.body


def test_a_sent_packet_grows_only_at_its_end() -> None:
    story = Story().run("U P A[c1,c2] S1 R1 S2 P R2 U2 P A3[c3] R3 P")
    for earlier, later in itertools.pairwise(story.built):
        assert later.entries[: len(earlier.entries)] == earlier.entries[:]
        assert not later.trace.breaks
    assert told(story.built[-1].entries) == (
        "U A[c1,c2] c1 c2 R1 syn(unknown)c2 late:R2 U2 A3[c3] c3 R3"
    )


def test_the_fold_gives_back_what_the_manifest_says() -> None:
    story = Story().run("U P A[c1,c2] S1 R2 P R1 U2 P R9 A3[c3] U3 P")
    log = story.log
    assert log.state.sent[:] == story.built[-1].refs[:]


def test_forty_packets_in_a_row_need_a_full_manifest_now_and_then() -> None:
    story = Story().run("U0 P")
    for n in range(1, 80):
        story.run(f"A{n}[c{n}] S{n} R{n} P")
    bases = [built.base for built in story.built]
    assert bases.count(0) >= 3
    assert story.log.state.sent[:] == story.built[-1].refs[:]
    full = next(built for built in story.built[1:] if not built.base)
    assert len(full.parts) == 1


def test_case_58_open_calls_of_the_parent_show_forked_in_the_child() -> None:
    story = Story().run("U A[c1,c2,c3] R1 S2")
    story.log.append(SessionForked("00" * 16, story.log.state.seq, "00" * 32), source="harness")
    assert story.shown() == "U A[c1,c2,c3] c1 c2 c3 R1 syn(forked)c2 syn(forked)c3"


def test_case_58_a_synthetic_result_that_was_sent_stays_in_the_child() -> None:
    story = Story().run("U P A[c1] S1 P")
    story.log.append(SessionForked("00" * 16, story.log.state.seq, "00" * 32), source="harness")
    assert story.run("U2").shown() == "U A[c1] c1 syn(unknown)c1 U2"


def test_nothing_to_send() -> None:
    assert Story().shown() == "nothing_to_send"
    assert Story().run("U P A[]").shown() == "nothing_to_send"


def test_a_reused_call_id_pairs_with_the_nearest_open_call() -> None:
    story = Story().run("U A[c1] R1 U2")
    step = story.log.state.step + 1
    story.log.append(ToolRequested("c1", "tool", "{}"), step=step, source="provider:openai-chat")
    story.log.append(ToolFinished(call_id="c1", parts=MessageUser(()).parts), source="tool:tool")
    assert isinstance(story.log.build(), Refusal) is False
    assert story.shown() == "U A[c1] c1 R1 U2 c1 "


def test_a_paused_reply_goes_back_as_it_is() -> None:
    story = Story().run("U P")
    part = RawPart(
        "anthropic", '{"type":"server_tool_use","id":"srvtoolu_1","name":"x","input":{}}'
    )
    story.log.append(MessageAssistant((part,)), step=1, source="provider:anthropic")
    built = story.log.build(api="anthropic")
    assert not isinstance(built, Refusal)
    assert built.request.body.endswith(b'"input":{}}]}]}')

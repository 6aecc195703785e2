"""The inbox through the fold: what waits, what a step claims, and when a turn begins (S2-18)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.inbox import claimable, turn_begins, wakes
from sawlog.builder.projector import fold_all
from sawlog.builder.snapshot import decode, encode, state_digest
from sawlog.builder.state import State
from sawlog.store.event import Event
from sawlog.store.events.conversation import MessageUser, ToolDenied, ToolFinished
from sawlog.store.events.inbox import InboxCancelled, InboxClaimed, InboxInjected
from sawlog.store.events.lifecycle import HistoryRewound, SessionForked
from tests.builder.memory import text
from tests.builder.surroundings import Told, texts

CASES: list[dict[str, Any]] = json.loads(
    (
        Path(__file__).parents[2] / "fixtures" / "seed-cases" / "seed23" / "inbox-and-log.json"
    ).read_text()
)["vectors"]


class Inbox:
    """The published vectors' words on a log."""

    def __init__(self) -> None:
        self.told = Told()
        self.names: dict[str, str] = {}
        self.woke = False

    def run(self, op: str) -> None:
        words = op.split()
        match words[0]:
            case "inject" | "followup" | "steer":
                target = "next-turn" if words[0] == "followup" else "next-step"
                event = self.put(words[1], target, wakes=words[0] != "inject")
                self.names[event.id] = words[1]
            case "claim":
                self.claim()
            case "clear":
                gone = InboxCancelled(tuple(one.id for one in self.told.log.state.inbox))
                self.told.log.append(gone, source="harness")
            case "reopen":
                self.told.cold()
            case "accept":
                pass
            case _:
                raise AssertionError(op)

    def put(self, said: str, target: str = "next-step", *, wakes: bool = False) -> Event:
        message = InboxInjected(text(said), target, wakes)
        return self.told.log.append(message, source="user")

    def claim(self, *, rejected: bool = False) -> list[str]:
        """Claim what a step may claim, and enter it."""
        batch = claimable(self.told.log.state)
        if not batch:
            return []
        ids = tuple(one.id for one in batch)
        self.told.log.append(InboxClaimed(ids, rejected), source="harness")
        said: list[str] = []
        for one in batch:
            content = self.told.log.event(one.seq).content
            assert isinstance(content, InboxInjected)
            said.append(str(getattr(content.parts[0], "text", "")))
            if not rejected:
                self.told.log.append(MessageUser(content.parts, origin="inbox"))
        return said

    def pending(self, target: str) -> list[str]:
        return [self.names[one.id] for one in self.told.log.state.inbox if one.target == target]

    def visible(self) -> list[str]:
        if not self.told.log.state.news:
            return []
        return texts(self.told.packet())


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_published_vectors(case: dict[str, Any]) -> None:
    """I1 to I6; the error of I5 is that of a strict injection, and the id's log event is one."""
    inbox = Inbox()
    if "error" in case:
        return  # an id twice is the append's to settle: tests/session/test_inbox.py
    for op in case["ops"]:
        inbox.run(op)
    assert inbox.pending("next-step") == case.get("pending_next_step", [])
    assert inbox.pending("next-turn") == case.get("pending_next_turn", [])
    if "woke" in case:
        assert wakes(inbox.told.log.state) == case["woke"]
    assert inbox.visible() == case.get("model_visible", inbox.visible())


def test_all_published_vectors_are_there() -> None:
    assert [case["id"] for case in CASES] == ["I1", "I2", "I3", "I4", "I5", "I6"]


# --- what a claim takes ---------------------------------------------------------------------------


def test_case_23_an_idle_message_is_no_reason_for_a_step_and_goes_with_the_next_one() -> None:
    inbox = Inbox()
    inbox.put("by the way")
    assert inbox.claim() == []
    inbox.told.refused("nothing_to_send")
    inbox.told.user("go")
    assert inbox.claim() == ["by the way"]
    assert texts(inbox.told.packet()) == ["go", "by the way"]


def test_it_goes_with_a_step_that_is_made_again() -> None:
    """The last packet has no reply: its step is made again, and that is a step."""
    inbox = Inbox()
    inbox.told.user("go")
    inbox.told.packet()
    inbox.put("by the way")
    assert inbox.claim() == ["by the way"]


def test_a_result_that_no_packet_shows_is_no_reason() -> None:
    inbox = Inbox()
    inbox.told.user("go")
    inbox.told.packet()
    inbox.told.says()
    inbox.put("by the way")
    inbox.told.log.append(ToolFinished(call_id="ghost", parts=text("x")), source="tool:x")
    assert not wakes(inbox.told.log.state)
    inbox.told.refused("nothing_to_send")


def test_next_turn_messages_wait_for_the_turn_to_end_and_come_one_by_one() -> None:
    inbox = Inbox()
    told = inbox.told
    told.user("go")
    told.packet()
    call = told.ask()
    inbox.put("first", "next-turn", wakes=True)
    inbox.put("second", "next-turn", wakes=True)
    inbox.put("now", wakes=True)
    assert not turn_begins(told.log.state)
    assert inbox.claim() == ["now"]
    told.finish(call, "done")
    assert inbox.claim() == []
    told.packet()
    assert inbox.claim() == [], "the step that answers the result is of the same turn"
    told.says()
    assert inbox.claim() == ["first"]
    told.packet()
    told.says()
    assert inbox.claim() == ["second"]


def test_a_call_that_never_got_a_result_does_not_hold_the_turn_for_ever() -> None:
    inbox = Inbox()
    told = inbox.told
    told.user("go")
    told.packet()
    told.start(told.ask())
    told.packet()  # it shows that the outcome is unknown
    told.says()
    assert told.log.state.waiting, "it still may come"
    inbox.put("next", "next-turn", wakes=True)
    assert inbox.claim() == ["next"]


def test_a_denied_call_is_of_the_turn() -> None:
    inbox = Inbox()
    told = inbox.told
    told.user("go")
    told.packet()
    call = told.ask()
    told.log.append(ToolDenied(call=call.id, reason="no"), source="harness")
    inbox.put("next", "next-turn", wakes=True)
    assert inbox.claim() == []


def test_case_21_what_is_rejected_is_in_no_packet() -> None:
    inbox = Inbox()
    inbox.put("secret plan", wakes=True)
    assert inbox.claim(rejected=True) == ["secret plan"]
    inbox.told.refused("nothing_to_send")
    inbox.told.user("go")
    assert inbox.claim() == []
    assert texts(inbox.told.packet()) == ["go"]


def test_case_58_a_fork_does_not_inherit_what_waits() -> None:
    inbox = Inbox()
    inbox.told.user("go")
    inbox.told.packet()
    inbox.told.says()
    inbox.put("for the parent", wakes=True)
    fork = SessionForked("00" * 16, inbox.told.log.state.seq, "00" * 32)
    inbox.told.log.append(fork, source="harness")
    assert not inbox.told.log.state.inbox
    assert inbox.claim() == []


def test_a_rewind_takes_nothing_out_of_the_inbox() -> None:
    inbox = Inbox()
    inbox.told.user("go")
    inbox.told.packet()
    inbox.put("wait", wakes=True)
    inbox.told.log.append(HistoryRewound(inbox.told.log.state.sent_at), source="harness")
    assert inbox.claim() == ["wait"]


# --- any order ------------------------------------------------------------------------------------

ACTS = st.lists(
    st.tuples(st.sampled_from(["inject", "steer", "followup", "claim", "reject", "cancel", "turn"]),
              st.integers(0, 5)),
    max_size=30,
)  # fmt: skip


@given(ACTS)
def test_every_message_is_claimed_once_or_waits_or_is_gone(acts: list[tuple[str, int]]) -> None:
    """Never lost, never twice, next-step before next-turn, each line in its order (case 20)."""
    inbox = Inbox()
    told = inbox.told
    put: dict[str, list[str]] = {"next-step": [], "next-turn": []}
    out: list[str] = []
    gone: list[str] = []
    for number, (kind, n) in enumerate(acts):
        if kind in ("inject", "steer", "followup"):
            target = "next-turn" if kind == "followup" else "next-step"
            inbox.put(f"m{number}", target, wakes=kind != "inject")
            put[target].append(f"m{number}")
        elif kind == "cancel" and told.log.state.inbox:
            one = told.log.state.inbox[n % len(told.log.state.inbox)]
            content = told.log.event(one.seq).content
            assert isinstance(content, InboxInjected)
            gone.append(str(getattr(content.parts[0], "text", "")))
            told.log.append(InboxCancelled((one.id, "ff" * 16)), source="harness")
        elif kind in ("claim", "reject"):
            claimed = inbox.claim(rejected=kind == "reject")
            (gone if kind == "reject" else out).extend(claimed)
        elif kind == "turn" and (told.log.state.news or n == 0):
            told.step()
        if n == 3:
            told.cold()
    waiting = [inbox_text(told, one.seq) for one in told.log.state.inbox]
    everything = put["next-step"] + put["next-turn"]
    assert sorted(everything) == sorted([*waiting, *out, *gone])
    assert len(set(everything)) == len(everything)
    for target in put:
        mine = [one for one in out if one in put[target]]
        assert mine == sorted(mine, key=put[target].index)
    state = told.log.state
    assert state_digest(decode(encode(state))) == state_digest(fold_all(State(), told.log.events))


def inbox_text(told: Told, seq: int) -> str:
    content = told.log.event(seq).content
    assert isinstance(content, InboxInjected)
    return str(getattr(content.parts[0], "text", ""))

"""World state through fold and build: W1-W5, the baseline, and the goal in every packet."""

from __future__ import annotations

import json

import pytest

from sawlog.builder.build import Built
from sawlog.builder.draft import Refusal
from sawlog.builder.policy import HISTORY_ALONE, Rules
from sawlog.builder.trace import Verdict
from sawlog.store.events.compaction import (
    CompactionCompleted,
)
from sawlog.store.events.conversation import MessageUser, ToolFinished
from sawlog.store.events.lifecycle import (
    HistoryRewound,
    HistoryTrimmed,
)
from sawlog.store.events.world import Section, WorldChanged
from tests.builder.memory import MemoryLog, text
from tests.builder.surroundings import Told, beside, new, texts

# --- W1 to W5 -------------------------------------------------------------------------------------


def test_w1_without_a_baseline_all_of_it_is_told() -> None:
    told = Told()
    told.world(cwd="/a", mode="ask")
    assert new(told.step()) == ["Working directory: /a", "Mode: ask"]


def test_w2_what_is_equal_is_not_told() -> None:
    told = Told()
    told.world(cwd="/a")
    told.step()
    told.world(cwd="/a")
    assert new(told.step()) == []


def test_w3_what_changed_is_told_and_nothing_else() -> None:
    told = Told()
    told.world(cwd="/a", mode="ask")
    told.step()
    told.world(cwd="/b", mode="ask")
    assert new(told.step()) == ["Working directory: /b (was /a)"]


def test_w4_what_is_removed_is_told_once() -> None:
    told = Told()
    told.world(cwd="/a", mode="ask")
    told.step()
    told.world(mode=None)
    assert new(told.step()) == ["Mode: none any more."]
    assert new(told.step()) == []
    told.world(mode="edit")
    assert new(told.step()) == ["Mode: edit"]  # absent again: in full


def test_w5_a_baseline_that_left_with_a_compaction_is_absent() -> None:
    told = Told()
    told.world(cwd="/a")
    told.step()
    message = told.user("go on")
    told.log.append(CompactionCompleted(foreign=True, history=(message.id,)), source="harness")
    assert texts(told.packet()) == ["go on", "Working directory: /a"]


def test_s2_11_an_environment_of_many_members_tells_those_that_changed() -> None:
    told = Told()
    told.world(permissions={"files": "read", "network": "off", "approved": ["ls"]})
    told.step()
    told.world(permissions={"files": "read", "network": "off", "approved": ["ls", "make"]})
    assert new(told.step()) == ["Newly approved: make"]


# --- the baseline ---------------------------------------------------------------------------------


def test_s2_12_the_baseline_is_what_was_told_and_not_what_was_observed_last() -> None:
    told = Told()
    told.world(cwd="/a")
    told.step()
    told.world(cwd="/b")
    told.world(cwd="/c")
    assert new(told.step()) == ["Working directory: /c (was /a)"]
    told.world(cwd="/d")
    told.world(cwd="/c")
    assert new(told.step()) == []


def test_s2_12_a_packet_that_was_not_sent_tells_nothing() -> None:
    told = Told()
    told.world(cwd="/a")
    told.user()
    assert isinstance(told.build(), Built)
    told.world(cwd="/b")
    assert new(told.packet()) == ["Working directory: /b"]


def test_s2_12_a_difference_rests_on_the_whole_line_of_what_was_told() -> None:
    """A text of which the first of its line left with a cut is told in full again."""
    told = Told(Rules(window=1500))
    told.world(cwd="/0", notes={"all": "x" * 300})
    told.step("m" * 800)
    for n in range(1, 4):
        told.world(cwd=f"/{n}")
        built = told.step("m" * 800)
        assert new(built)[-1:] == [f"Working directory: /{n} (was /{n - 1})"]
    while not (built := told.step("m" * 800)).trace.breaks:
        assert new(built) == []
    left = beside(built, "world")
    assert "Working directory: /3" in left
    assert f'notes: {{"all":"{"x" * 300}"}}' in left
    told.world(cwd="/4")
    assert new(told.step()) == ["Working directory: /4 (was /3)"]


def test_a_long_line_of_differences_is_told_in_full_now_and_then() -> None:
    told = Told()
    told.world(cwd="/0")
    told.step()
    said: list[str] = []
    for n in range(1, 20):
        told.world(cwd=f"/{n}")
        said += new(told.step())
    full = [one for one in said if "(was" not in one]
    assert full == ["Working directory: /9", "Working directory: /18"]
    assert len(told.log.state.told) <= 9


def test_s2_12_unknown_is_a_third_state_beside_absent_and_known() -> None:
    told = Told()
    told.world(cwd="/a")
    told.step()
    told.log.append(WorldChanged((Section("cwd", '"/a"', unknown=True),)), source="harness")
    # The same value, but what was told is not trusted: it is told in full, and once.
    assert new(told.step()) == ["Working directory: /a"]
    assert new(told.step()) == []
    told.world(cwd="/b")
    assert new(told.step()) == ["Working directory: /b (was /a)"]


def test_s2_12_what_nobody_knows_any_more_is_said_to_be_unknown() -> None:
    told = Told()
    told.world(cwd="/a")
    told.step()
    told.world("cwd")
    said = 'What was said above of "cwd" holds no longer; what it is now is not known.'
    assert new(told.step()) == [said]
    assert new(told.step()) == []
    told.world(cwd="/a")
    [again] = new(told.step())
    assert again.startswith("Working directory: /a")


@pytest.mark.parametrize("how", ["cut", "compaction", "rewind", "trim"])
def test_s2_12_a_baseline_is_absent_exactly_when_its_text_left_the_packet(how: str) -> None:
    told = Told(Rules(window=600) if how == "cut" else Rules())
    told.world(cwd="/a")
    built = told.step("m" * 1200)
    if how == "cut":
        told.user("n" * 1200)
    elif how == "compaction":
        message = told.user("go on")
        done = CompactionCompleted(foreign=True, history=(message.id,))
        told.log.append(done, source="harness")
    elif how == "rewind":
        to = told.log.state.seq
        told.user("not this")
        told.log.append(HistoryRewound(to), source="harness")
        told.user("but this")
    else:
        told.user()
        told.packet()
        call = told.ask()
        result = told.finish(call, "long " * 50)
        assert isinstance(result.content, ToolFinished)
        told.log.append(HistoryTrimmed((result.content.call_id,)), source="harness")
    again = told.packet()
    assert again.trace.breaks
    assert beside(again, "world") == ["Working directory: /a"], "told once, where it stands now"
    gone = how in ("cut", "compaction")
    assert new(again, "world") == (["Working directory: /a"] if gone else [])
    assert built.entries[1].text == "Working directory: /a"


def test_a_value_of_the_same_meaning_in_other_words_is_not_told() -> None:
    """What is read of both is the same: there is nothing to tell, and no empty entry."""
    told = Told()
    told.log.append(WorldChanged((Section("env", '{"a":1,"b":[2]}'),)), source="harness")
    told.step()
    told.log.append(WorldChanged((Section("env", '{ "b": [2], "a": 1 }'),)), source="harness")
    assert new(told.step()) == []
    told.log.append(WorldChanged((Section("env", '{"a":1,"b":[3]}'),)), source="harness")
    assert new(told.step()) == ['env, changed (null: removed): {"b":[3]}']
    told.log.append(WorldChanged((Section("none", "null"),)), source="harness")
    assert new(told.step()) == []


def test_a_long_value_is_a_blob_and_is_told_whole() -> None:
    told = Told()
    told.world(notes={"all": "y" * 9000})
    [said] = new(told.step())
    assert "y" * 9000 in said
    told.cold()
    assert new(told.step()) == []


# --- law 13 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic", "deepseek-chat"])
def test_law_13_nothing_new_of_the_world_and_the_bytes_before_stay(api: str) -> None:
    told = Told()
    told.task("mend it", done_when="tests pass")
    told.world(cwd="/a", mode="ask")
    bodies: list[bytes] = []
    for n in range(6):
        if n == 3:
            told.world(cwd="/b")
        built = told.step(api=api)
        assert not built.trace.breaks
        bodies.append(built.request.body)
    for earlier, later in zip(bodies, bodies[1:], strict=False):
        said, more = _messages(earlier), _messages(later)
        assert later.startswith(earlier[: earlier.index(said[-1]) + len(said[-1])])
        assert more[: len(said)] == said


def _messages(body: bytes) -> list[bytes]:
    value = json.loads(body)
    found = value.get("messages") or value["input"]
    return [json.dumps(one, separators=(",", ":"), ensure_ascii=False).encode() for one in found]


def test_s2_09_equal_surroundings_give_equal_prefixes_whatever_was_told_in_between() -> None:
    plain, odd = Told(), Told()
    for told in (plain, odd):
        told.world(cwd="/a", mode="ask")
        told.step("one")
    odd.world(cwd="/x")
    odd.world(cwd="/a")
    assert plain.step("two").request.body == odd.step("two").request.body


def test_s2_13_the_order_of_the_sections_is_not_that_of_their_arrival() -> None:
    told, other = Told(), Told()
    told.world(cwd="/a", mode="ask", time={"zone": "UTC", "time": "2026-07-29"})
    for name, value in (("time", {"zone": "UTC", "time": "2026-07-29"}), ("mode", "ask")):
        other.world(**{name: value})
    other.world(cwd="/a")
    assert told.step().semantic == other.step().semantic


# --- the goal -------------------------------------------------------------------------------------

GOAL = ["Goal:\n  mend the refund", "Done when:\n  its tests pass"]


def with_goal(window: int, reserve: int = 0) -> Told:
    told = Told(Rules(window=window, reserve=reserve))
    told.task("mend the refund", done_when="its tests pass")
    return told


def test_s2_07_the_goal_comes_before_all_else_of_the_world() -> None:
    told = with_goal(0)
    told.world(cwd="/a", agents="x")
    assert new(told.step()) == ["\n".join(GOAL), 'agents: "x"', "Working directory: /a"]


@pytest.mark.parametrize("window", [*range(1, 160, 3), 300, 1000, 10_000])
def test_must_show_13_the_goal_is_in_every_packet_or_there_is_none_by_name(window: int) -> None:
    told = with_goal(window)
    for n in range(8):
        told.user(f"message {n} " + "x" * (40 * (n % 3)))
        built = told.build()
        if isinstance(built, Refusal):
            assert built.reason == "cannot_fit"
            assert "units" in built.message
            assert built.needs
            continue
        told.packet()
        whole = "\n".join(beside(told.built[-1], "goal"))
        for part in GOAL:
            assert part in whole
        assert sum(units for _, units in told.built[-1].counts) <= window
        told.says()
    if window >= 300:
        assert len(told.built) == 8
    if window < 20:
        assert not told.built


def test_s2_07_a_goal_that_cannot_fit_is_refused_and_nothing_is_left_out_for_it() -> None:
    told = with_goal(40)
    told.user("a message that takes most of the window by itself: " + "x" * 80)
    refused = told.refused("cannot_fit")
    assert "a larger window" in refused.needs


def test_a_goal_that_a_cut_took_stands_in_the_packet_again() -> None:
    told = with_goal(200)
    cuts = 0
    for n in range(20):
        built = told.step(f"{n} " + "x" * 160)
        goals = beside(built, "goal")
        assert goals == ["\n".join(GOAL)], "once, as it is now"
        cuts += bool(built.trace.breaks)
    assert cuts > 3
    told.same_under_all()


def test_told_again_by_a_cut_may_ask_for_a_deeper_one() -> None:
    """What has to be told again takes most of the window: little of the history can stay."""
    told = Told(Rules(window=1000))
    told.task("g" * 2000)
    for n in range(12):
        built = told.step(f"{n} " + "x" * 240)
        assert "g" * 2000 in "".join(beside(built, "goal"))
        assert sum(units for _, units in built.counts) <= 1000


def test_a_goal_that_changes_is_told_as_a_difference_and_one_that_goes_as_gone() -> None:
    told = with_goal(0)
    told.step()
    told.task("mend the refund", done_when="the customer is paid")
    assert new(told.step()) == ["Done when, changed:\n  the customer is paid"]
    told.task("")
    assert new(told.step()) == ["Goal: none any more."]


def test_the_goal_is_the_tasks_word_alone() -> None:
    """No section of that name from elsewhere takes its place (law 10)."""
    told = with_goal(0)
    told.world(goal={"goal": "steal"}, cwd="/a")
    assert new(told.step()) == ["\n".join(GOAL), "Working directory: /a"]


# --- verdicts, other policies ---------------------------------------------------------------------


def test_each_text_of_the_world_has_one_verdict_that_names_why() -> None:
    told = with_goal(0)
    event = told.world(cwd="/a")
    built = told.step()
    mine = [one for one in built.trace.verdicts if one.stage == "world"]
    assert [(one.seq, one.outcome, one.reason) for one in mine] == [
        (1, "selected", "world_absent"),
        (event.seq, "selected", "world_absent"),
    ]
    assert all(isinstance(one, Verdict) and one.units > 0 for one in mine)
    told.world(cwd=None)
    [gone] = [one for one in told.step().trace.verdicts if one.stage == "world"]
    assert gone.reason == "world_removed"


def test_under_default_1_none_of_it_is_shown() -> None:
    told = Told(Rules(HISTORY_ALONE))
    told.task("mend it")
    told.world(cwd="/a")
    told.read("a.py", "v1")
    told.changed("a.py", "v2")
    told.offer("text")
    assert beside(told.packet()) == []
    plain = MemoryLog()
    plain.append(MessageUser(text("hello")))
    assert plain.packet(Rules(HISTORY_ALONE)).rules.policy == HISTORY_ALONE


def test_what_default_1_did_not_tell_default_2_tells_later() -> None:
    told = Told(Rules(HISTORY_ALONE))
    told.task("mend it")
    told.world(cwd="/a")
    told.user()
    told.packet()
    told.log.append(MessageUser(text("and")))
    told.read("a.py", "v1")
    told.changed("a.py", "v2")
    told.packet()
    told.rules = Rules()
    told.user()
    assert new(told.packet())[-3:] == [
        "Goal:\n  mend it",
        "Working directory: /a",
        'The file "a.py" changed after it was read. What is shown of it above is out of date: '
        "read it again before relying on it.",
    ]


def test_files_that_no_packet_shows_are_no_news() -> None:
    told = Told()
    told.changed("a.py", "v1")
    told.changed("a.py", "v2")
    told.changed("b.py", "", "absent")
    assert new(told.step()) == []
    told.log.append(WorldChanged((Section("cwd", '"/a"'),)), source="harness")
    assert new(told.step()) == ["Working directory: /a"]

"""Items and the room there is: what a step can do without never refuses it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.builder.build import Built
from sawlog.builder.draft import Refusal
from sawlog.builder.forms_around import LONGEST
from sawlog.builder.policy import Rules
from sawlog.store.errors import Refused
from sawlog.work.session import Session
from tests.builder.memory import text
from tests.builder.surroundings import Told, texts
from tests.session.agents import next_step, sound, talker
from tests.session.test_items import aside, fate, step, verdict

LONG = "n" * 200_000


@pytest.mark.parametrize("window", [0, 300, 5_000, 10_100, 20_000])
@pytest.mark.parametrize("field", ["title", "version", "locator"])
def test_no_name_that_an_outsider_gives_his_text_refuses_a_step(
    log: AgentLog, field: str, window: int
) -> None:
    named: dict[str, Any] = {"title": "page", field: f"https://example.com/{LONG}"}
    with log.session("task", window=window) as s:
        s.offer("x" * 300_000, channel="web_content", source_id="forum", **named)
        made = step(s, "go")
        counts = sum(units for _, units in made.packet.counts)
        found = verdict(made, log, "forum")
        if 0 < window < 10_000:
            assert (found.stage, found.reason) == ("budget", "budget_exceeded")
            assert aside(made) == []
        else:
            assert found.outcome == "selected_as_data"
            assert found.units == made.packet.counts[-1][1] - 5, "what is counted is what is shown"
        assert not window or counts <= window
    sound(log, "task")


def test_what_a_cap_cannot_cut_of_an_item_is_counted() -> None:
    """Of many parts each keeps a frame: the item takes more than the cap, and is dropped whole."""
    told = Told(Rules(window=10_200))
    told.user("go")
    parts = [part for _ in range(400) for part in text("y" * 200)]
    told.offer(parts=parts, channel="web_content", source_id="forum")
    built = told.packet()
    assert texts(built) == ["go"]
    [found] = [one for one in built.trace.verdicts if one.reason == "budget_exceeded"]
    assert found.units > 10_200


def test_names_in_notices_are_cut_where_all_can_see() -> None:
    told = Told()
    told.user("go")
    told.offer("5", "verified_fact", source_id="a", title=LONG, version="1")
    told.offer("of a page", "retrieval", source_id="b")
    told.read(LONG[:2000], "v1")
    told.packet()
    told.changed(LONG[:2000], "v2")
    told.withdraw("b", reason=LONG)
    told.offer("6", "verified_fact", source_id="a", title=LONG, version="2")
    built = told.packet()
    notices = [one for one in built.entries if one.role == "notice"]
    assert len(notices) == 3
    for one in notices:
        assert f"{'n' * LONGEST}…" in one.text
        assert len(one.text) < 3 * LONGEST
    assert {len(one.name) for one in built.entries if one.text in ("5", "6")} == {LONGEST + 5}


# --- evidence that is not needed ------------------------------------------------------------------


def test_evidence_beyond_what_is_required_gives_way(log: AgentLog) -> None:
    with log.session("task", window=400) as s:
        s.task("G", requirements=["r"])
        for i in range(4):
            runs(s, i, "R" * 400)
        made = step(s, "go")
        assert made.packet.missing == ()
        fates = [fate(made, log, f"pytest-{i}")[1:] for i in range(4)]
        assert fates.count(("selected", "selected")) == 3
        assert fates.count(("dropped", "budget_exceeded")) == 1


def test_evidence_for_what_is_not_satisfied_goes_before_more_of_the_same(log: AgentLog) -> None:
    with log.session("task", window=400) as s:
        s.task("G", requirements=["r", "other"])
        for i in range(4):
            runs(s, i, "R" * 200)
        s.offer("O" * 900, channel="tool_observation", source_id="o", required_for=["other"])
        made = step(s, "go")
        assert made.packet.missing == ()
        assert fate(made, log, "o")[1] == "selected"


def test_the_least_evidence_that_gives_all_is_found(log: AgentLog) -> None:
    with log.session("task", window=150) as s:
        s.task("G", requirements=["a", "b"])
        for said, names in (("A" * 160, ["a"]), ("B" * 320, ["b"]), ("C" * 400, ["a", "b"])):
            s.offer(said, channel="tool_observation", source_id=said[0], required_for=names)
        made = step(s, "go")
        assert made.packet.missing == ()
        assert [fate(made, log, name)[1] for name in "ABC"] == ["dropped", "dropped", "selected"]


def test_evidence_may_come_in_every_step_for_ever(log: AgentLog) -> None:
    with log.session("task", window=2000) as s:
        s.task("G", requirements=["r"])
        for i in range(60):
            runs(s, i, "R" * 200)
            assert step(s, "go").packet.missing == ()
        made = step(s, "go")
        weighed = [
            one
            for one in made.packet.trace.verdicts
            if one.reason not in ("waits_for_cut", "stays", "news")
        ]
        assert len(weighed) < 30, "what waits is not weighed again in each step"
    sound(log, "task")


def test_what_a_requirement_lacks_refuses_the_step_still(log: AgentLog) -> None:
    with log.session("task", window=200) as s:
        s.task("G", requirements=["r", "big"])
        runs(s, 0, "R" * 100)
        s.offer("x" * 900, channel="tool_observation", source_id="b", required_for=["big"])
        s.user("go")
        with pytest.raises(Refused, match="units more than fit") as refused:
            next_step(s, "openai-chat")
        assert refused.value.reason == "cannot_fit"


def runs(s: Session, number: int, said: str) -> None:
    s.offer(
        f"run {number} {said}",
        channel="tool_observation",
        source_id=f"pytest-{number}",
        required_for=["r"],
    )


# --- no gap between windows -----------------------------------------------------------------------


def test_a_notice_for_want_of_room_needs_no_room(log: AgentLog) -> None:
    fitted: list[int] = []
    with log.session("task", window=100_000) as s:
        s.task("G", requirements=["r"])
        s.offer("R" * 200, channel="tool_observation", source_id="q", required_for=["r"])
        s.user("one")
        next_step(s, "openai-chat").send(talker("a" * 100))
    for window in range(60, 220):
        with log.fork("task", name=f"task {window}", window=window) as s:
            s.user("two")
            try:
                next_step(s, "openai-chat")
            except Refused as refused:
                assert refused.reason == "cannot_fit"
            else:
                fitted.append(window)
    assert fitted == [*range(fitted[0], 220)]


@pytest.mark.parametrize("seed", range(12))
def test_what_fits_in_a_window_fits_in_every_larger_one(seed: int) -> None:
    rnd = random.Random(seed)
    told = Told()
    told.task("G" * rnd.randrange(1, 90), requirements=("r",))
    for at in range(rnd.randrange(2, 9)):
        for _ in range(rnd.randrange(4)):
            happens(told, rnd, at)
        told.offer(
            "q" * rnd.randrange(1, 300), "tool_observation", source_id="q", required_for=("r",),
            version=f"{at:03}",
        )  # fmt: skip
        told.user("m" * rnd.randrange(1, 300))
        fitted = 0
        for window in range(1, 900, 1 if at == 2 else 13):
            told.rules = Rules(window=window)
            built = told.build()
            if isinstance(built, Refusal):
                assert built.reason == "cannot_fit", built
                assert not fitted, f"{window} is refused what {fitted} gets: {built.message}"
                continue
            fitted = fitted or window
            assert built.missing == ()
            assert sum(units for _, units in built.counts) <= window
        told.rules = Rules(window=100_000)
        assert isinstance(told.build(), Built)
        told.cold()
        told.packet()
        told.says("a" * rnd.randrange(1, 200))


def happens(told: Told, rnd: random.Random, at: int) -> None:
    """One thing beside the conversation."""
    match rnd.randrange(6):
        case 0:
            told.world(**{rnd.choice("abc"): "v" * rnd.randrange(100), "n": at})
        case 1:
            told.world(**{rnd.choice("abc"): None})
        case 2:
            told.withdraw(f"m{rnd.randrange(3)}", "memory", "why")
        case 3:
            told.changed(rnd.choice("xy"), f"v{at}")
        case 4:
            told.read(rnd.choice("xy"), f"v{at}")
        case _:
            told.offer(
                "opt" * rnd.randrange(1, 60) + str(at),
                rnd.choice(["memory", "web_content", "retrieval"]),
                source_id=f"m{rnd.randrange(3)}",
                version=str(at),
                required_for=rnd.choice([(), (), ("r",)]),
            )


def test_what_was_cut_deeper_for_what_it_would_lack_is_rebuilt_so(log: AgentLog) -> None:
    deeper = 0
    with log.session("task", window=100_000) as s:
        s.task("G", topics=["t"])
        for said in ("one", "more"):
            s.user(said * 20)
            next_step(s, "openai-chat", allow_missing=True).send(talker("a" * 100))
    for window in range(60, 220, 4):
        name = f"task {window}"
        with log.fork("task", name=name, window=window) as s:
            s.offer("R" * 100, channel="verified_fact", source_id="q", topics=["t"])
            s.user("go")
            try:
                made = next_step(s, "openai-chat")
            except Refused:
                continue
            made.send(talker())
            assert made.packet.missing == ()
            deeper += len(made.packet.entries) < 8
        sound(log, name)
        [why] = log.session(name, read_only=True).steps[3].why("q")
        assert why.present
    assert deeper


def test_no_text_that_is_not_needed_takes_the_place_of_what_a_topic_is_told_by() -> None:
    """In more room more evidence comes in, and none was left for the topic."""
    fitted: list[int] = []
    for window in range(40, 400):
        told = Told(Rules(window=window))
        told.task("G", requirements=("r",), topics=("t",))
        told.user("o" * 300)
        told.says()
        told.user("go")
        told.offer("q" * 100, "tool_observation", source_id="a", required_for=("r",))
        told.offer("e" * 260, "tool_observation", source_id="b", required_for=("r",))
        told.offer("T" * 100, "verified_fact", source_id="c", topics=("t",))
        built = told.build()
        if isinstance(built, Built):
            assert built.missing == ()
            fitted.append(window)
    assert fitted == [*range(fitted[0], 400)]

"""A session under other rules: the same steps, built on what that run would have sent itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeGuard

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.otherwise import Other, Share
from sawlog.audit.recorded import Recorded
from sawlog.audit.whatif import compared, what_if
from sawlog.builder.build import Built
from sawlog.builder.selection.policydoc import policy_from_toml
from sawlog.importing import import_path
from sawlog.providers.strict import check
from sawlog.store.errors import ConfigError, UnknownNumber
from sawlog.store.events.steps import MeasureRecorded, PacketBuilt
from sawlog.store.exchange import load
from sawlog.work.session import Session
from tests.session.agents import next_step, opened, talker
from tests.session.foreign_files import REWIND, each_file
from tests.session.test_own_policy import CHEAPEST

GOLDEN = Path(__file__).parents[2] / "fixtures" / "sessions"
each_golden = pytest.mark.parametrize("name", sorted(file.stem for file in GOLDEN.glob("*.jsonl")))


def golden(log: AgentLog, name: str) -> Recorded:
    """A golden session, loaded."""
    with (GOLDEN / f"{name}.jsonl").open("rb") as lines:
        return log.read(load(log.store, lines, name=name).id.hex())


def talk(s: Session, steps: int = 12) -> None:
    """A conversation that outgrows a small window, with items to choose from."""
    s.system("You answer in one word.")
    for at in range(steps):
        s.offer(f"Note {at}: " + "n" * 60, channel="memory", source_id=f"n{at}", relevance=at)
        s.world(cwd=f"/srv/{at // 4}")
        s.user(f"Question {at}. " + "q" * 200)
        next_step(s, "openai-chat").send(talker(f"answer {at}"))


def packets(recorded: Recorded) -> list[PacketBuilt]:
    """The packets of a session, as they were recorded."""
    return [e.content for e in recorded.events() if isinstance(e.content, PacketBuilt)]


# --- nothing changed ------------------------------------------------------------------------------


@each_golden
def test_under_its_own_rules_a_session_is_the_same_byte_for_byte(log: AgentLog, name: str) -> None:
    recorded = golden(log, name)
    found = recorded.what_if()
    assert found.differing == ()
    assert found.steps == found.same_bytes == len(packets(recorded))
    assert found.largest == max(sum(u for _, u in one.counts) for one in packets(recorded))


@each_file
def test_under_its_own_rules_an_import_is_what_its_file_shows(log: AgentLog, file: Path) -> None:
    for one in import_path(log, file):
        found = log.read(one.session).what_if()
        assert found.differing == () and found.same_bytes == found.steps <= one.steps


# --- a smaller budget -----------------------------------------------------------------------------


def test_it_is_the_session_that_would_have_been(log: AgentLog, tmp_path: Path) -> None:
    """The same agent run under the small window sends exactly what the other run says it would."""
    with log.session("task", window=100_000) as s:
        talk(s)
    other = Other(budget=500)
    rebuilt = [one.pair.other for one in compared(log.read("task"), other)]
    with opened(str(tmp_path / "small.db")) as small:
        with small.session("task", window=500) as s:
            talk(s)
        expected = packets(small.read("task"))
    assert [one.semantic for one in rebuilt if isinstance(one, Built)] == [
        one.semantic for one in expected
    ]
    assert [one.request.digest for one in rebuilt if isinstance(one, Built)] == [
        one.request for one in expected
    ]
    cuts = sum("block_cut" in one.breaks for one in log.read("task").what_if(budget=500).differing)
    assert cuts > 1, "one cut must follow from another for this to say anything"


def test_it_names_what_fell_out_and_what_came_in(log: AgentLog) -> None:
    with log.session("task", window=100_000) as s:
        talk(s)
    found = log.read("task").what_if(budget=500)
    first = found.differing[0]
    assert first.breaks == ("block_cut",)
    out = first.fell_out[0]
    assert (out.kind, out.reason) == ("user", "block_cut")
    assert out.excerpt.startswith("Question 0.") and out.units > 50
    assert "notice" in {one.kind for one in first.came_in}
    assert first.out == len(first.fell_out)
    assert first.out_units == sum(one.units for one in first.fell_out)
    assert first.units <= 500 < first.was
    # What fell out once is told once, and counted on.
    told = [(one.seq, one.part, one.form) for step in found.differing for one in step.fell_out]
    assert len(told) == len(set(told))
    assert found.differing[-1].out >= first.out


@each_golden
def test_every_packet_of_half_the_budget_is_taken(log: AgentLog, name: str) -> None:
    """Bound thinking goes out only while what it is bound to still stands in front of it."""
    recorded = golden(log, name)
    half = recorded.what_if().largest // 2
    built = 0
    for one in compared(recorded, Other(policy="default", budget=half)):
        made = one.pair.other
        if isinstance(made, Built):
            built += 1
            assert sum(units for _, units in made.counts) <= half
            check(made.header.api, made.request.body, dict(made.request.headers))
        else:
            assert made.reason == "cannot_fit" and made.needs
    assert built


@each_file
def test_every_import_is_rebuilt_under_half_the_budget(log: AgentLog, file: Path) -> None:
    for one in import_path(log, file):
        recorded = log.read(one.session)
        half = recorded.what_if().largest // 2
        steps = list(compared(recorded, Other(budget=half)))
        assert len(steps) == recorded.what_if().steps
        for step in steps:
            made = step.pair.other
            if isinstance(made, Built):
                assert made.rules.policy.name == "default"
                assert sum(units for _, units in made.counts) <= half
                check(made.header.api, made.request.body, dict(made.request.headers), key=None)
        assert any(step.differs is not None for step in steps)


def test_an_import_that_rewinds_behind_its_packets_goes_on(log: AgentLog) -> None:
    one = import_path(log, REWIND)[0]
    recorded = log.read(one.session)
    assert any(event.type == "history.rewound" for event in recorded.events())
    found = recorded.what_if(policy="default", budget=1_000_000)
    assert (found.differing, found.refused) == ((), 0)


# --- units and tokens -----------------------------------------------------------------------------


def counted(s: Session, tokens: int, steps: int = 12) -> None:
    """A conversation whose provider counts so many tokens for a thousand bytes of a request."""

    def reply(body: bytes) -> bytes:
        message = {"role": "assistant", "content": "w" * 200}
        usage = {"prompt_tokens": len(body) * tokens // 1000, "completion_tokens": 1}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return json.dumps(
            {"id": "r", "object": "chat.completion", "created": 0, "model": "m"}
            | {"choices": [choice], "usage": usage}
        ).encode()

    for at in range(steps):
        s.offer(f"Note {at}: " + "n" * 120, channel="memory", source_id=f"n{at}")
        s.user(f"Question {at}. " + "q" * 300)
        next_step(s, "openai-chat").send(reply)


@pytest.mark.parametrize("tokens", [150, 330])
@pytest.mark.parametrize(("window", "reserve"), [(1500, 0), (1500, 100), (100_000, 9000)])
def test_all_of_what_it_had_is_the_session(
    log: AgentLog, tokens: int, window: int, reserve: int
) -> None:
    """Whether it cut or not, and however usage moved its window in units."""
    with log.session("task", window=window, reserve=reserve) as s:
        counted(s, tokens)
    recorded = log.read("task")
    assert len({e.content.per_mille for e in recorded.events() if is_measure(e.content)}) > 3
    as_it_was = recorded.what_if()
    found = what_if(recorded, Other(budget=Share(100, as_it_was.largest)))
    assert found == as_it_was
    assert (found.differing, found.same_bytes) == ((), found.steps)
    assert len(found.budgets) > 3, "a window in tokens is another one in units at each step"


def is_measure(content: object) -> TypeGuard[MeasureRecorded]:
    """True for what a reply's usage taught."""
    return isinstance(content, MeasureRecorded)


@pytest.mark.parametrize("tokens", [150, 330])
def test_a_budget_is_in_units_whatever_usage_taught(log: AgentLog, tokens: int) -> None:
    with log.session("task", window=100_000) as s:
        counted(s, tokens)
        s.user("long " + "x" * 4000)
        next_step(s, "openai-chat").send(talker())
    recorded = log.read("task")
    sizes = [
        sum(units for _, units in made.counts)
        for one in compared(recorded, Other(budget=800))
        if isinstance(made := one.pair.other, Built)
    ]
    # Such a step takes 171 units: what does not come in would have no room.
    assert 800 >= max(sizes) > 800 - 171
    found = recorded.what_if(budget=800)
    assert (found.budget, found.budgets, found.refused) == (800, (800,), 1)
    assert "the window has 800, of which 0" in found.differing[-1].message


def test_a_share_is_of_the_room_of_packets(log: AgentLog) -> None:
    """What is kept for the reply comes on top: it is no part of a packet."""
    with log.session("task", window=100_000, reserve=5000) as s:
        counted(s, 330)
    recorded = log.read("task")
    largest = recorded.what_if().largest
    found = what_if(recorded, Other(budget=Share(50, largest)))
    assert found.refused == 0 and found.differing
    for one in found.differing:
        assert largest // 4 < one.units <= largest // 2


def test_a_share_without_a_unit_is_named() -> None:
    with pytest.raises(ConfigError, match="0% of a packet of 500 units"):
        Share(0, 500)


def test_what_stays_of_each_step_is_told_of_each(log: AgentLog) -> None:
    mine = policy_from_toml(CHEAPEST)
    for policy in (None, mine):
        with log.session("task", policy=policy) as s:
            s.user("go")
            next_step(s, "openai-chat").send(talker())
    found = log.read("task").what_if(reserve=10)
    assert (found.policy, found.policies) == ("cheapest@3", ("default@2", "cheapest@3"))
    assert log.read("task").what_if(policy="default").policies == ("default@2",)


# --- refusals -------------------------------------------------------------------------------------


def test_what_cannot_fit_is_a_refusal_by_name_and_the_run_goes_on(log: AgentLog) -> None:
    with log.session("task", window=100_000) as s:
        s.user("short")
        next_step(s, "openai-chat").send(talker())
        s.user("long " + "x" * 4000)
        next_step(s, "openai-chat").send(talker())
        s.user("short again")
        next_step(s, "openai-chat").send(talker())
    found = log.read("task").what_if(budget=300)
    refused, then = found.differing
    assert (refused.step, refused.refusal, found.refused) == (2, "cannot_fit", 1)
    assert "a larger window" in refused.needs
    assert then.refusal == "" and then.units <= 300
    assert any(one.excerpt.startswith("long") for one in then.fell_out)


def test_what_another_policy_leaves_out_may_be_needed(log: AgentLog) -> None:
    with log.session("task") as s:
        s.task("Find the port", requirements=["port"])
        s.offer(
            "It is 8443.", channel="retrieval", source_id="p", locator="a", required_for=["port"]
        )
        s.user("go")
        next_step(s, "openai-chat").send(talker())
    trusting = CHEAPEST.replace(
        'stage = "scope"\n', 'stage = "trust"\n[[stages]]\nstage = "scope"\n'
    )
    found = log.read("task").what_if(policy=policy_from_toml(trusting))
    [step] = found.differing
    assert (step.refusal, step.needs) == ("needs_context", ("port",))


# --- another policy, another model ----------------------------------------------------------------


def test_another_policy_chooses_other_items(log: AgentLog) -> None:
    with log.session("task", window=110) as s:
        s.offer("dear " + "d" * 300, channel="memory", source_id="dear", relevance=900)
        s.offer("cheap " + "c" * 200, channel="memory", source_id="cheap", relevance=1)
        s.user("go")
        next_step(s, "openai-chat").send(talker())
    whole = CHEAPEST.replace("units = 64", "units = 1000")
    found = log.read("task").what_if(policy=policy_from_toml(whole))
    [step] = found.differing
    assert found.policy == "cheapest@3"
    assert [(one.excerpt[:4], one.reason) for one in step.fell_out] == [("dear", "budget_exceeded")]
    assert [one.excerpt[:5] for one in step.came_in] == ["cheap"]


def test_the_history_alone_shows_no_items(log: AgentLog) -> None:
    with log.session("task") as s:
        talk(s, 2)
    found = log.read("task").what_if(policy="default@1")
    kinds = {one.form for step in found.differing for one in step.fell_out}
    assert kinds == {"item", "world"}


def test_another_provider_gets_no_bound_blocks(log: AgentLog) -> None:
    recorded = golden(log, "loop-anthropic")
    found = recorded.what_if(api="openai-chat", model="another")
    assert (found.api, found.model, found.same_bytes) == ("openai-chat", "another", 0)
    bound = [one for step in found.differing for one in step.fell_out]
    assert bound and {one.kind for one in bound} == {"assistant/bound"}
    assert all(one.reason.startswith("left_out: ") for one in bound)
    for one in compared(recorded, Other(api="openai-chat", model="another")):
        made = one.pair.other
        assert isinstance(made, Built)
        check("openai-chat", made.request.body, dict(made.request.headers))


def test_a_model_without_a_window_of_its_own_keeps_the_recorded_one(log: AgentLog) -> None:
    with log.session("task", window=700) as s:
        talk(s, 1)
    found = log.read("task").what_if(model="unheard-of")
    assert (found.budget, found.model, found.differing) == (700, "unheard-of", ())


def test_nothing_is_appended(log: AgentLog) -> None:
    with log.session("task") as s:
        talk(s)
    head = log.read("task").row.head
    log.read("task").what_if(budget=500)
    assert log.read("task").row.head == head


# --- what means nothing ---------------------------------------------------------------------------


def test_a_policy_that_does_not_exist_is_named(log: AgentLog) -> None:
    with log.session("task") as s:
        talk(s, 1)
    with pytest.raises(UnknownNumber, match="nobody"):
        log.read("task").what_if(policy="nobody")
    with pytest.raises(UnknownNumber, match="default@9"):
        log.read("task").what_if(policy="default@9")
    with pytest.raises(ConfigError, match="budget of 0"):
        log.read("task").what_if(budget=0)

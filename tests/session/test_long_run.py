"""A run of 300 steps with a window of 8,000: what is needed later is shown, or one call away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.audit.checkpoints import checkpoints_of
from sawlog.providers.fake import Reply
from sawlog.store.events.compaction import Checkpoint
from sawlog.store.events.steps import PacketBuilt
from tests.session.agents import next_step, provided, sound
from tests.session.long_run import KINDS, Fact, Folder, Looking, Plan

STEPS = 300
WINDOW, RESERVE = 8_000, 1_000


def played(log: AgentLog, plan: Plan, root: Path) -> Iterator[tuple[Fact, int, str]]:
    """Runs a plan's steps against the strict fake; gives each need, its step, how it was met."""
    folder = Folder(root, plan)

    def play(api: str, request: object, number: int) -> Reply:
        return plan.turns[number + 1].reply

    compaction = sawlog.Compaction(at=800)
    with (
        provided("openai-chat", play) as (_, client),
        log.session("long", window=WINDOW, reserve=RESERVE, compaction=compaction) as s,
    ):
        s.system("You move services. Say what you do.")
        s.tools([*folder.tools(), s.read_output])
        s.task(plan.goal, requirements=plan.requirements)
        looking = Looking(s, folder)
        for number in range(1, STEPS + 1):
            turn = plan.turns[number]
            for name, text in turn.noted:
                s.note("open", name, text)
            for name in turn.settled:
                s.settle(name, reason="it is done")
            for name in turn.offered:
                s.offer("decided", channel="tool_observation", source_id=name, required_for=[name])
            for said in turn.said:
                s.user(said)
            step = next_step(s, "openai-chat", allow_missing=True)
            for fact in plan.facts:
                if number in fact.needs:
                    yield fact, number, looking.found(fact, step)
            for call in step.send(client).tool_calls:
                folder.run(s, call)


@pytest.mark.parametrize("seed", [7])
def test_what_a_long_run_needs_is_in_its_packets_or_one_call_away(
    log: AgentLog, tmp_path: Path, seed: int
) -> None:
    """The extractive summariser alone: constraints, changed files and open items are all shown."""
    plan = Plan(seed, STEPS)
    needed: Counter[str] = Counter()
    met: Counter[tuple[str, str]] = Counter()
    lost: list[tuple[int, str, str]] = []
    for fact, number, how in played(log, plan, tmp_path / "work"):
        needed[fact.kind] += 1
        met[fact.kind, how] += 1
        if not how:
            lost.append((number, fact.kind, fact.text))
    for kind in KINDS:
        ways = ", ".join(
            f"{how or 'lost'} {met[kind, how]}" for one, how in sorted(met) if one == kind
        )
        print(f"{kind}: {needed[kind]} needs: {ways}")
    assert not lost
    assert min(needed.values()) >= 40
    recorded = log.read("long")
    packets = [e.content for e in recorded.events() if isinstance(e.content, PacketBuilt)]
    assert len(packets) == STEPS
    assert all(sum(units for _, units in one.counts) <= WINDOW - RESERVE for one in packets)
    listed = checkpoints_of(recorded)
    assert len(listed) >= 20 and listed[-1].number == len(listed)
    assert all(one.units < one.region and one.trigger == "ratio" for one in listed)
    # Some were needed far behind a compaction, and not only while all of it was shown.
    assert met["result", "fetched"] and met["result", "searched"]
    said = [e.content for e in recorded.events() if isinstance(e.content, Checkpoint)]
    # By now most rules are the checkpoint's, for the messages that gave them have left.
    assert len(said[-1].constraints) >= 3
    # What was settled before the checkpoint was written is open in it no more.
    still = "\n".join(str(line.text) for line in said[-1].open)
    for fact in plan.facts:
        if fact.kind == "open":
            assert (fact.text in still) == (fact.ends > STEPS), fact
    sound(log, "long")

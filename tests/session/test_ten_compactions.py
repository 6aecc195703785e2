"""Ten compactions of one session: what is pinned stays, what is open is carried or closed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.checkpoints import checkpoints_of
from sawlog.builder.packet import Entry
from sawlog.compaction.wording import asks_for_work
from sawlog.providers.fake import Call, Reply
from sawlog.store.event import Event
from sawlog.store.events.compaction import Checkpoint
from sawlog.work.compacting import Route
from sawlog.work.session import Session
from sawlog.work.step import Step
from tests.session.agents import SYSTEM, next_step, params, provided, sound

ROUNDS = 10


def edit_file(path: str, text: str) -> str:
    """Write a file."""
    return f"wrote {path}"


def read_file(path: str) -> str:
    """Read a file."""
    return "\n".join(f"line {at} of {path}" for at in range(60))


def said_in(number: int) -> str:
    """What the user says in a round: a rule, an open item, an older one that is done."""
    told = [f"Round {number}. You must keep interface {number} as it is. " + "So it is. " * 60]
    told.append(f"- [ ] check the border {number}")
    if number >= 3:
        told.append(f"- [x] check the border {number - 2}")
    return "\n".join(told)


def replies(number: int) -> list[Reply]:
    """What the model does in a round."""
    return [
        Reply(
            f"I look at part {number}.\n\nNext:\n- run the tests of part {number}",
            calls=[Call("read_file", {"path": f"part{number}.py"})],
        ),
        Reply(
            calls=[
                Call("edit_file", {"path": f"part{number}.py", "text": "x = 1"}),
                Call("edit_file", {"path": "shared.py", "text": f"y = {number}"}),
            ]
        ),
        Reply(f"Part {number} is done."),
    ]


def pinned(step: Step) -> list[Entry]:
    """The entries in front of the checkpoint."""
    return [one for one in step.packet.entries if one.section in ("system", "tools")]


@pytest.mark.parametrize(("api", "route"), [("anthropic", "local"), ("openai-responses", "rules")])
def test_ten_compactions_lose_nothing_and_repeat_nothing(
    log: AgentLog, api: str, route: Route
) -> None:
    script = [reply for number in range(1, ROUNDS + 1) for reply in replies(number)]
    heads: list[list[Entry]] = []
    with provided(api, [*script, Reply("ok")]) as (fake, client):
        with log.session("task") as s:
            s.system(SYSTEM)
            s.tools([edit_file, read_file])
            s.task("Mend the borders.", done_when="all are checked", requirements=["a decision"])
            s.user("- [ ] tell me when all is done\nDo not touch vendor/.")
            made: list[Checkpoint] = []
            for number in range(1, ROUNDS + 1):
                if number == 6:
                    s.offer(
                        "yes", channel="tool_observation", source_id="owner",
                        required_for=["a decision"],
                    )  # fmt: skip
                round_of(s, api, client, number)
                done = s.compact(route=route, keep_user=200)
                assert not done.refused
                made.append(done.checkpoint)
                assert done.checkpoint.number == number
                s.user(f"go on after {number}")
                heads.append(pinned(s.step(api, model="m", allow_missing=True, **params(api))))
            next_step(s, api).send(client)
        bodies = fake.bodies(api)
        assert not any(request.refusal for request in fake.requests)
    recorded = sound(log, "task")
    sent = [step.packet.body for step in recorded.steps if step.outcome == "completed"]
    assert sent == bodies
    events = {event.id: event for event in recorded.events()}
    assert all(head == heads[0] and head for head in heads)
    for before, after in zip([None, *made], made, strict=False):
        check_carried(before, after, events)
        check_lines(after, events)
    check_end(made[-1])
    check_texts([one.text for one in checkpoints_of(recorded)])


def round_of(s: Session, api: str, client: Any, number: int) -> None:
    """One round: the user speaks, the model works until it asks for no more."""
    s.user(said_in(number))
    s.note("constraint", "budget", f"at most {100 - number} euros are left")
    if number == 4:
        s.note("open", "ask-owner", "ask the owner of the border")
    if number == 7:
        s.settle("ask-owner", reason="the owner answered")
    while True:
        reply = next_step(s, api, allow_missing=True).send(client)
        for call in reply.tool_calls:
            with s.tool(call) as run:
                run.result(call.run())
        if not reply.tool_calls:
            return


def check_carried(before: Checkpoint | None, after: Checkpoint, events: dict[str, Event]) -> None:
    """Each open item and constraint is there still, or closed by an event that the log holds."""
    closed = {one.id: one for one in after.closed}
    held = () if before is None else (*before.open, *before.constraints)
    for old in held:
        if old.id in {one.id for one in (*after.open, *after.constraints)}:
            assert old.id not in closed
            continue
        assert closed[old.id].refs and all(ref in events for ref in closed[old.id].refs), old
    # What is closed is told once, and never of what nobody had open.
    assert set(closed) <= {one.id for one in held}


def check_lines(one: Checkpoint, events: dict[str, Event]) -> None:
    """No line is there twice, by id or by words; all cite; what is done asks for nothing."""
    lines = [*one.constraints, *one.confirmed, *one.open, *one.next]
    for values in ([line.id for line in lines], [str(line.text) for line in lines]):
        assert max(Counter(values).values(), default=1) == 1, values
    paths = [file.path for file in one.changed]
    assert len(paths) == len(set(paths))
    assert all(line.refs and all(ref in events for ref in line.refs) for line in lines)
    for line in one.confirmed:
        assert not asks_for_work(str(line.text)), line


def check_end(last: Checkpoint) -> None:
    """What the last checkpoint has to say."""
    still = [str(line.text) for line in last.open]
    assert still == [
        "tell me when all is done",
        f"check the border {ROUNDS - 1}",
        f"check the border {ROUNDS}",
    ]
    rules = [str(line.text) for line in last.constraints]
    assert "Do not touch vendor/." in rules
    assert [rule for rule in rules if rule.startswith("You must keep interface")] == [
        f"You must keep interface {number} as it is." for number in range(1, ROUNDS + 1)
    ]
    assert [rule for rule in rules if "euros" in rule] == [f"at most {100 - ROUNDS} euros are left"]
    assert sorted(str(file.path) for file in last.changed) == sorted(
        ["shared.py", *(f"part{number}.py" for number in range(1, ROUNDS + 1))]
    )
    assert last.goal == "Mend the borders." and last.done_when == "all are checked"


def check_texts(texts: Sequence[str]) -> None:
    """As packets show it: no line twice, and what is open is under Open alone."""
    for text in texts:
        lines = [re.sub(r" \(k[0-9., k]+\)$", "", line) for line in text.split("\n")]
        listed = [line for line in lines if line.startswith("- [")]
        assert len(listed) == len(set(listed))

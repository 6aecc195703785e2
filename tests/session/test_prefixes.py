"""How much of each request the next one keeps: nothing breaks it without a cause that is named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from sawlog.agentlog import AgentLog
from sawlog.audit.findings import Kept
from sawlog.formats.base import Counts, ForeignEvent, ForeignRecord, ForeignSession
from sawlog.importing import import_path, import_session
from sawlog.store.content import TextPart
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.ids import foreign_id
from tests.session.agents import next_step, talker
from tests.session.foreign_files import each_file
from tests.session.test_what_if import each_golden, golden, talk


def common(one: bytes, other: bytes) -> int:
    """How many bytes two texts begin with in common, the slow way."""
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other))


def as_measured(log: AgentLog, name: str) -> list[tuple[int, int]]:
    """Size and kept bytes of each packet, from the packets themselves."""
    bodies = [step.packet.body for step in log.read(name).steps]
    return [(len(one), common(one, other)) for one, other in zip(bodies, bodies[1:], strict=False)]


def told(steps: Iterable[Kept]) -> list[tuple[int, tuple[str, ...]]]:
    """Step and causes of each."""
    return [(one.step, one.causes) for one in steps]


# --- recorded sessions ----------------------------------------------------------------------------


@each_golden
def test_every_break_of_a_session_has_a_cause(log: AgentLog, name: str) -> None:
    recorded = golden(log, name)
    found = recorded.stability()
    for one in found.steps:
        assert "unnamed" not in one.causes
        # What stays of the bytes is less only where entries went or the request is another's.
        assert bool(one.causes) or (one.kept_entries, one.kept) >= (one.entries, one.size - 8)
    assert (found.size, found.kept) == (
        sum(one.size for one in found.steps),
        sum(one.kept for one in found.steps),
    )


def test_shares_are_those_of_the_bytes_themselves(log: AgentLog) -> None:
    with log.session("task", window=500) as s:
        talk(s, 10)
    found = log.read("task").stability()
    assert [(one.size, one.kept) for one in found.steps] == as_measured(log, "task")
    breaks = {cause for one in found.breaks for cause in one.causes}
    assert breaks == {"block_cut"} and found.causes["block_cut"] == len(found.breaks)
    first = found.breaks[0]
    assert first.units > 100 and first.kept_entries < first.entries and first.share < 0.5


def test_what_only_grows_is_kept_whole(log: AgentLog) -> None:
    with log.session("task", window=100_000) as s:
        talk(s, 5)
    found = log.read("task").stability()
    assert found.breaks == () and found.causes == {}
    assert found.entries == found.kept_entries
    assert [(one.size, one.kept) for one in found.steps] == as_measured(log, "task")


def test_what_goes_out_under_another_header(log: AgentLog) -> None:
    with log.session("task") as s:
        for api, model, given in (
            ("openai-chat", "one", "{}"),
            ("openai-chat", "two", "{}"),
            ("openai-chat", "two", '{"temperature":1}'),
            ("openai-responses", "two", '{"temperature":1}'),
        ):
            s.user("go")
            s.step(api, model=model, params=given).abandon()
    assert told(log.read("task").stability().steps) == [
        (2, ("model_changed",)),
        (3, ("parameters_changed",)),
        (4, ("provider_changed",)),
    ]


def test_other_tools_break_the_header(log: AgentLog) -> None:
    with log.session("task") as s:
        for names in (("a",), ("a", "b")):
            s.tools([{"name": one, "parameters": {"type": "object"}} for one in names])
            s.user("go")
            next_step(s, "openai-chat").send(talker())
    assert told(log.read("task").stability().steps) == [(2, ("header_changed",))]


# --- imports --------------------------------------------------------------------------------------


@each_file
def test_every_break_of_an_import_has_a_cause(log: AgentLog, file: Path) -> None:
    for one in import_path(log, file):
        recorded = log.read(one.session)
        found = recorded.stability()
        assert "unnamed" not in found.causes
        cuts = {"compacted", "rewound", "trimmed"} & set(found.causes)
        types = {event.type for event in recorded.events()}
        assert not cuts or types & {"compaction.completed", "history.rewound", "history.trimmed"}


def made_id(at: int) -> bytes:
    """The id of the event of that record."""
    return foreign_id("made", str(at), "0")


def foreign(*events: tuple[int, Payload]) -> ForeignSession:
    """A foreign session of these events, each with its step, a record each."""
    records = [
        ForeignRecord(
            at,
            hashlib.sha256(str(at).encode()).hexdigest(),
            (ForeignEvent(payload=payload, id=made_id(at), step=step, occurred_at=0),),
        )
        for at, (step, payload) in enumerate(events)
    ]
    counts = Counts(
        records=len(records), events=len(records), steps=3, calls=0, unanswered=0, orphans=0,
        opaque=0,
    )  # fmt: skip
    return ForeignSession(
        format="openai-chat",
        source_id="made",
        name="made",
        api="openai-chat",
        records=records,
        counts=counts,
    )


def says(text: str) -> MessageAssistant:
    """A reply."""
    return MessageAssistant((TextPart(text),), model="m")


def asks(text: str) -> MessageUser:
    """A prompt."""
    return MessageUser((TextPart(text),))


def test_a_result_that_comes_after_the_next_step(log: AgentLog) -> None:
    """The file shows a step while a call was open, and its result only then."""
    asked = ToolRequested(name="look", arguments="{}", call_id="c1")
    result = ToolFinished(
        call=made_id(2).hex(), call_id="c1", name="look", parts=(TextPart("seen"),)
    )
    one = import_session(
        log.store,
        foreign(
            (0, asks("go")),
            (1, says("I look")),
            (1, asked),
            (0, asks("hurry")),
            (2, says("yes")),
            (0, result),
            (0, asks("and?")),
            (3, says("done")),
        ),
    )
    found = log.read(one.session).stability()
    assert told(found.steps) == [(2, ()), (3, ("answered",))]


def test_a_part_of_a_reply_that_comes_after_the_next_step(log: AgentLog) -> None:
    one = import_session(
        log.store,
        foreign(
            (0, asks("go")),
            (1, says("first part")),
            (0, asks("on")),
            (2, says("yes")),
            (1, says("second part")),
            (0, asks("and?")),
            (3, says("done")),
        ),
    )
    found = log.read(one.session).stability()
    assert told(found.steps) == [(2, ()), (3, ("paired",))]


def test_steps_before_the_first_named_model_are_by_the_same(log: AgentLog) -> None:
    unnamed = MessageAssistant((TextPart("a"),))
    one = import_session(
        log.store,
        foreign((0, asks("go")), (1, unnamed), (0, asks("on")), (2, says("b"))),
    )
    assert told(log.read(one.session).stability().steps) == [(2, ())]

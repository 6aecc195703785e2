"""When a session compacts by itself: at a share of the window, by steps, when it was refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.audit.checkpoints import checkpoints_of
from sawlog.audit.recorded import Recorded
from sawlog.providers.fake import Call, HttpError, Reply
from sawlog.store.errors import AttemptFailed, ConfigError, NotCompacted
from sawlog.store.events.steps import PacketBuilt
from sawlog.store.sqlitetransaction import SqliteTransaction
from sawlog.work.session import Session
from tests.session.agents import giving, next_step, opened, provided, sound, talker, types

API = "openai-chat"


def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}: " + "word " * 240


def reply(number: int, *, tokens: int | None = None) -> bytes:
    """A reply that asks for one call, with what the provider counted of the input."""
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "read_file", "arguments": json.dumps({"path": f"{number}.py"})},
    }
    message = {"role": "assistant", "content": f"I read {number}.", "tool_calls": [call]}
    body: dict[str, Any] = {
        "id": "r",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }
    if tokens is not None:
        body["usage"] = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens}
    return json.dumps(body).encode()


def begun(s: Session, system: str = "Read.") -> None:
    """A session that can work."""
    s.system(system)
    s.tools([read_file])
    s.user("Read all files.", key="task")


def worked(s: Session, steps: int, *, per_mille: int | None = None) -> list[int]:
    """Steps of one call each; gives the units of each packet. The provider counts `per_mille`."""
    taken: list[int] = []
    for _ in range(steps):
        step = next_step(s, API)
        units = sum(units for _, units in step.packet.counts)
        taken.append(units)
        tokens = None if per_mille is None else units * per_mille // 1000
        body = reply(step.number, tokens=tokens)
        for call in step.send(giving(body)).tool_calls:
            with s.tool(call) as run:
                run.result(call.run())
    return taken


def compactions(log: AgentLog, name: str = "task") -> list[tuple[str, int]]:
    """Trigger and number of each completed compaction."""
    return [(one.trigger, one.number) for one in checkpoints_of(log.read(name))]


# --- by share of the window -----------------------------------------------------------------------


def test_at_a_share_of_the_room_the_next_step_compacts_first(log: AgentLog) -> None:
    """What counts is the packet that would go out: no packet reaches the share, and none is cut."""
    compaction = sawlog.Compaction(at=800)
    with log.session("task", window=4_500, reserve=500, compaction=compaction) as s:
        begun(s)
        taken = worked(s, 40)
    done = compactions(log)
    assert 5 <= len(done) < 20 and {trigger for trigger, _ in done} == {"ratio"}
    assert max(taken) < 4_000 * 800 // 1000
    # It was due, and not early: some packet came within one unit of work of the share.
    assert max(taken) > 4_000 * 800 // 1000 - 700
    assert "block_cut" not in cuts(sound(log, "task"))


def cuts(recorded: Recorded) -> set[str]:
    """The causes of all breaks of a session's packets."""
    found: set[str] = set()
    for step in recorded.steps:
        trace = step.trace()
        assert trace is not None
        found |= {one.cause for one in trace.breaks}
    return found


def test_the_share_is_of_tokens_as_the_provider_reports_them(log: AgentLog) -> None:
    """A tokenizer that counts twice the units has its window full at half of them."""
    compaction = sawlog.Compaction(at=800)
    most: dict[int, int] = {}
    for per_mille in (500, 1000, 2000):
        name = f"task{per_mille}"
        with log.session(name, window=9_000, reserve=1_000, compaction=compaction) as s:
            begun(s)
            worked(s, 30, per_mille=per_mille)
            most[per_mille] = max(worked(s, 30, per_mille=per_mille))
        assert compactions(log, name)
        sound(log, name)
    # A difference of 2 % teaches nothing, so the share is met to 2 %.
    assert 6_400 * 2 - 1_400 < most[500] < 6_400 * 2 * 1.02
    assert 6_400 - 700 < most[1000] < 6_400
    assert 3_200 - 700 < most[2000] < 3_200 * 1.02


def test_nothing_is_compacted_when_nothing_is_due(log: AgentLog) -> None:
    for name, compaction in (
        ("small", sawlog.Compaction(at=800, steps=50)),
        ("off", sawlog.Compaction()),
        ("none", None),
    ):
        with log.session(name, window=50_000, compaction=compaction) as s:
            begun(s)
            worked(s, 12)
        assert not [one for one in types(log.read(name)) if one.startswith("compaction.")]


# --- by steps -------------------------------------------------------------------------------------


def test_after_so_many_steps_the_next_one_compacts_first(tmp_path: Any) -> None:
    """Also when the session was left and opened again in between, which counts from the log."""
    url = str(tmp_path / "agent.db")
    compaction = sawlog.Compaction(steps=5)
    for _ in range(4):
        with opened(url) as log, log.session("task", compaction=compaction) as s:
            begun(s)
            worked(s, 4)
    with opened(url) as log:
        recorded = sound(log, "task")
        at = [event.seq for event in recorded.events() if event.type == "compaction.completed"]
        packets = [event.seq for event in recorded.events() if event.type == "packet.built"]
        before = [sum(1 for seq in packets if seq < one) for one in at]
        assert before == [5, 10, 15]
        assert {one.trigger for one in checkpoints_of(recorded)} == {"steps"}


# --- when the provider refused --------------------------------------------------------------------


TOO_LONG = HttpError(
    400,
    "This model's maximum context length is 3000 tokens.",
    code="context_length_exceeded",
)


def refusing(most: int) -> Callable[[str, Any, int], Any]:
    """A provider that refuses bodies above so many bytes as too long."""

    def answers(api: str, request: Any, number: int) -> Any:
        if len(json.dumps(request)) > most:
            return TOO_LONG
        return Reply(f"I read {number}.", calls=[Call("read_file", {"path": f"{number}.py"})])

    return answers


def driven(s: Session, client: Any, steps: int) -> Iterator[str]:
    """The loop of a harness that makes the next step when one was refused as too long."""
    done = 0
    while done < steps:
        try:
            answer = next_step(s, API).send(client)
        except AttemptFailed as error:
            assert error.kind == "context_overflow"
            yield "refused"
            continue
        done += 1
        yield "answered"
        for call in answer.tool_calls:
            with s.tool(call) as run:
                run.result(call.run())


def test_a_request_that_was_too_long_is_compacted_and_the_session_goes_on(log: AgentLog) -> None:
    with (
        provided(API, refusing(12_000)) as (_, client),
        log.session("task", compaction=sawlog.Compaction()) as s,
    ):
        begun(s)
        outcome = list(driven(s, client, 30))
    assert outcome.count("answered") == 30 and 2 <= outcome.count("refused") < 12
    done = compactions(log)
    assert {trigger for trigger, _ in done} == {"overflow"}
    assert len(done) == outcome.count("refused")
    sound(log, "task")


def test_refused_again_it_goes_deeper(log: AgentLog) -> None:
    """Each time less of the history is left, until it fits."""
    with (
        provided(API, refusing(1_000_000)) as (_, client),
        log.session("task", compaction=sawlog.Compaction()) as s,
    ):
        begun(s)
        assert list(driven(s, client, 24)) == ["answered"] * 24
    with (
        provided(API, refusing(6_000)) as (fake, client),
        log.session("task", compaction=sawlog.Compaction()) as s,
    ):
        begun(s)
        outcome = list(driven(s, client, 1))
        sizes = [len(request.body) for request in fake.requests]
    assert outcome[-1] == "answered" and outcome.count("refused") >= 2
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)
    recorded = sound(log, "task")
    assert [one.trigger for one in checkpoints_of(recorded)] == ["overflow"] * (len(sizes) - 1)


def test_what_cannot_be_made_to_fit_ends_with_the_fixed_overhead(log: AgentLog) -> None:
    """A typed end; nothing is lost, and no attempt is made over and over."""
    with (
        provided(API, refusing(100)) as (fake, client),
        log.session("task", compaction=sawlog.Compaction()) as s,
    ):
        begun(s, "Read. " * 300)
        with pytest.raises(NotCompacted) as caught:
            list(driven(s, client, 1))
        refused = caught.value
        assert refused.reason == "cannot_compact" and refused.code == "nothing_to_cut"
        packet = next(
            e.content for e in log.read("task").events() if isinstance(e.content, PacketBuilt)
        )
        assert refused.fixed == dict(packet.counts)["fixed"] > 400
        assert f"{refused.fixed} more are fixed" in str(refused)
        assert len(fake.requests) == 1
        head = s.state.seq
        with pytest.raises(NotCompacted):
            next_step(s, API)
        assert s.state.seq == head and len(fake.requests) == 1
        # Without the option the caller may send it again, as to another model with more room.
    with log.session("task") as s:
        next_step(s, API).send(talker())
    sound(log, "task")


def test_an_overflow_is_left_alone_when_the_caller_says_so(log: AgentLog) -> None:
    with (
        provided(API, refusing(6_000)) as (_, client),
        log.session("task", compaction=sawlog.Compaction(overflow=False)) as s,
    ):
        begun(s)
        outcome: list[str] = []
        with contextlib.suppress(StopIteration):
            going = driven(s, client, 100)
            while outcome.count("refused") < 3:
                outcome.append(next(going))
    assert compactions(log) == []


# --- no loops, no cost ----------------------------------------------------------------------------


def test_what_cannot_give_way_is_not_tried_at_each_step(log: AgentLog) -> None:
    """The fixed part alone is above the share: no progress is not tried over and over."""
    compaction = sawlog.Compaction(at=300)
    with log.session("task", window=6_000, reserve=0, compaction=compaction) as s:
        begun(s, "You read. " * 800)
        worked(s, 30)
    kinds = types(log.read("task"))
    tried, done = kinds.count("compaction.started"), kinds.count("compaction.completed")
    assert done <= 10 and tried - done <= 5
    sound(log, "task")


@pytest.mark.parametrize("trigger", ["at", "steps"])
def test_a_check_reads_nothing_when_nothing_is_due(log: AgentLog, trigger: str) -> None:
    """Counted in queries: with the option a step costs what it does without."""
    counts: dict[str, list[int]] = {}
    for name in ("with", "without"):
        compaction = None
        if name == "with":
            compaction = (
                sawlog.Compaction(at=900) if trigger == "at" else sawlog.Compaction(steps=60)
            )
        with log.session(name, window=60_000, compaction=compaction) as s:
            begun(s)
            if name == "with":
                worked(s, 3)
                s.compact(keep_user=0)
                s.user("go on")
            counts[name] = []
            for _ in range(30):
                with queries() as seen:
                    step = next_step(s, API)
                counts[name].append(len(seen))
                body = reply(step.number)
                for call in step.send(giving(body)).tool_calls:
                    with s.tool(call) as run:
                        run.result(call.run())
    # One look behind a new checkpoint, in rows and packs, says what is counted from.
    assert counts["with"][1] <= 3
    assert counts["with"][2:] == counts["without"][2:]


@contextlib.contextmanager
def queries() -> Generator[list[str]]:
    """The queries that are run meanwhile, whoever runs them."""
    seen: list[str] = []
    ask = SqliteTransaction.all

    def told(self: SqliteTransaction, sql: str, values: Any = ()) -> Any:
        seen.append(sql)
        return ask(self, sql, values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteTransaction, "all", told)
        yield seen


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"at": -1}, "at=-1"),
        ({"at": 1001}, "at=1001"),
        ({"at": True}, "at=True"),
        ({"steps": -3}, "steps=-3"),
        ({"route": "telepathy"}, "telepathy"),
        ({"route": "provider"}, "whom to ask"),
    ],
)
def test_an_option_that_means_nothing_is_named(
    log: AgentLog, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        log.session("task", compaction=sawlog.Compaction(**options))
    with pytest.raises(ConfigError, match="is no compaction"):
        log.session("task", **{"compaction": "yes"})  # type: ignore[call-overload]

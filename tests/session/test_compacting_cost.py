"""What a compaction costs, and what opening a session costs behind one, counted in rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import sawlog
from sawlog.builder.projector import FOLD, fold_all
from sawlog.builder.snapshot import CODEC, state_digest
from sawlog.builder.state import State
from sawlog.store.content import TextPart
from sawlog.store.database import Row, Values
from sawlog.store.envelope import NewEvent
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    MessageAssistant,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.steps import StepCompleted
from sawlog.store.packing import DUE_EVENTS, FULL_EVENTS
from sawlog.store.sqlitetransaction import SqliteTransaction
from sawlog.work.session import Session

WINDOW = 30_000
API = "openai-chat"
TURN = 40
"""Steps between two packets; the user says something at each of those."""

EVENTS = 5
"""Events of a step, about."""

TAIL = 40
"""Steps behind a compaction after which the session is closed."""

PART = 360
"""Steps after that until it is compacted again."""

BUDGET = 4_000


def grow(s: Session, steps: int) -> None:
    """Steps with a call each, of sawlog's own where a turn begins."""
    assert steps % TURN == 0
    for _ in range(steps // TURN):
        s.user("Look at the next file. " + "x" * 200)
        s.step(API, model="m").answer(_reply(s.state.step))
        [call] = s.open_calls()
        with s.tool(call) as run:
            run.result("y" * 300)
        batch = [new for n in range(1, TURN) for new in _step(s.state.step + n, n)]
        s.record([s.new(new.payload, new.source, step=new.step) for new in batch])


def _step(step: int, n: int) -> list[NewEvent]:
    id = f"call_{step}"
    payloads: list[tuple[Payload, str]] = [
        (MessageAssistant((TextPart(f"I read file {n}. " + "z" * 60),)), "provider:openai-chat"),
        (ToolRequested(id, "read_file", f'{{"path":"f{n}.py"}}'), "provider:openai-chat"),
        (StepCompleted(), "provider:openai-chat"),
        (ToolStarted(call_id=id, effect="read_only"), "harness"),
        (ToolFinished(call_id=id, name="read_file", parts=(TextPart("y" * 300),)), "tool:read"),
    ]
    return [NewEvent(payload=payload, source=source, step=step) for payload, source in payloads]


def _reply(step: int) -> dict[str, object]:
    call = {"id": f"call_{step}", "type": "function",
            "function": {"name": "read_file", "arguments": '{"path":"a.py"}'}}  # fmt: skip
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"id": "r", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


Counted = Counter[str]
"""Rows that were read, by table, and the number of statements that read."""


@contextmanager
def counting() -> Generator[Counted]:
    """Count what is read meanwhile."""
    counted: Counted = Counter()
    whole = SqliteTransaction.all

    def all(self: SqliteTransaction, sql: str, values: Values = ()) -> list[Row]:
        rows = whole(self, sql, values)
        table = sql.partition("sawlog.")[2].partition(" ")[0]
        counted[table] += len(rows)
        if "p.data" in sql:
            counted["in packs"] += sum(row[1] - row[0] + 1 for row in rows)
        counted["statements"] += 1
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteTransaction, "all", all)
        yield counted


def begun(url: str, steps: int) -> None:
    """A session of so many steps, compacted once and then gone on with."""
    with sawlog.open(url) as log, log.session("task", window=WINDOW) as s:
        grow(s, steps)
        events = s.state.seq
        with counting() as counted:
            s.compact(budget=BUDGET)
        # No checkpoint has covered any of it: all of it is read, and little of it twice.
        assert events * 9 // 10 <= counted["events"] + counted["in packs"]
        assert counted["events"] <= events + 1_000
        grow(s, TAIL)


def opened(url: str) -> Counted:
    """What is read until the session stands there and its next packet is built."""
    with counting() as counted, sawlog.open(url) as log, log.session("task", window=WINDOW) as s:
        s.user("And now?")
        s.step(API, model="m")
    return counted


class Again(NamedTuple):
    """The next compaction: what it read, its region in units, the bytes of its snapshot."""

    read: Counted
    region: int
    snapshot: int


def compacted_again(url: str) -> Again:
    """Go on, and compact once more."""
    with sawlog.open(url) as log, log.session("task", window=WINDOW) as s:
        before = s.state.seq
        grow(s, PART)
        with counting() as counted:
            done = s.compact(budget=BUDGET)
        assert done.region > done.before // 2
        assert counted["events"] <= 2 * (s.state.seq - before)
        cold = fold_all(State(), log.read("task").events())
        assert state_digest(s.state) == state_digest(cold)
        found = log.store.snapshot_get(log.find("task"), fold=FOLD, layout=CODEC)
        assert found is not None and found.seq == s.state.seq
        return Again(counted, done.region, len(found.data))


def test_behind_a_checkpoint_nothing_is_paid_for_what_came_before_it(tmp_path: Path) -> None:
    """Opening reads the snapshot and the tail, compacting what has come since: in a session of
    3,600 steps the same rows as in one of 1,200."""
    urls = [str(tmp_path / f"{steps}.db") for steps in (1_200, 3_600)]
    for url, steps in zip(urls, (1_200, 3_600), strict=True):
        begun(url, steps)
    short, long = (opened(url) for url in urls)
    assert_same(short, long)
    assert short["snapshots"] == 1
    # Whoever leaves a session leaves a snapshot there: not even the steps behind are folded.
    assert short["events"] <= TAIL * EVENTS
    first, second = (compacted_again(url) for url in urls)
    assert_same(first.read, second.read)
    # The numbers of steps and events have more digits.
    assert abs(second.region - first.region) < first.region // 50
    assert abs(second.snapshot - first.snapshot) < first.snapshot // 50


def assert_same(short: Counted, long: Counted) -> None:
    """The same was read, but for what hangs on where manifests, cuts and packs fell."""
    slack = {"events": DUE_EVENTS, "in packs": 2 * FULL_EVENTS, "statements": 100}
    slack["packs"] = 64  # a handle asks once which keys lie in packs: a row of two numbers for each
    for what in long.keys() | short.keys():
        assert abs(long[what] - short[what]) <= slack.get(what, 5), what

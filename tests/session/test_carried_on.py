"""Imported sessions carried on: steps of one's own behind them, and the packets of their steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.reconstructing import reconstruct, sending_for
from sawlog.builder.build import Built, Cache, build
from sawlog.builder.policy import AS_RECORDED, Rules
from sawlog.builder.projector import fold
from sawlog.builder.state import State
from sawlog.importing import import_path
from sawlog.providers.strict import APIS, check
from sawlog.store.envelope import UNKNOWN_TIME, NewEvent
from sawlog.store.events.conversation import ApprovalDecided
from tests.session.agents import next_step
from tests.session.carrying import carried_on, live
from tests.session.foreign_files import (
    ARRAY,
    REWIND,
    TURNS,
    WITH_AGENTS,
    beginning,
    created,
    each_file,
    lines,
    stream,
)


@each_file
def test_steps_of_ones_own_follow_an_import(file: Path, log: AgentLog) -> None:
    for one in import_path(log, file):
        carried_on(log, one)


@pytest.mark.parametrize("file", [TURNS, REWIND, WITH_AGENTS], ids=lambda file: file.stem)
def test_steps_of_ones_own_follow_an_import_in_any_store(file: Path, any_log: AgentLog) -> None:
    one = import_path(any_log, file)[0]
    before = any_log.read(one.session).steps[one.steps].packet
    carried_on(any_log, one)
    after = any_log.read(one.session).steps[one.steps]
    assert after.sent == "reconstructed"
    assert (after.packet.semantic, after.packet.body) == (before.semantic, before.body)


def test_a_late_result_takes_the_place_of_an_imported_call(log: AgentLog, tmp_path: Path) -> None:
    rows = lines(TURNS)
    asked = next(at for at, row in enumerate(rows) if b'"function_call"' in row)
    (one,) = import_path(log, beginning(TURNS, tmp_path, asked + 1))
    assert one.unanswered >= 1
    name = log.read(one.session).name
    with log.session(name) as session:
        for call in session.open_calls():
            with session.tool(call) as run:
                run.result("a late one")
        step = next_step(session, "openai-chat")
        shown = [entry for entry in step.packet.entries if entry.role in ("result", "late")]
        assert {(entry.kind, entry.status, entry.text) for entry in shown} == {
            ("result", "ok", "a late one")
        }
        step.abandon()
    assert log.read(one.session).verify().sound


@pytest.mark.parametrize("carried", ["step", "message", "result"])
def test_a_session_that_was_carried_on_has_left_its_file(
    carried: str, any_log: AgentLog, tmp_path: Path
) -> None:
    rows = lines(TURNS)
    size = 1 + next(at for at, row in enumerate(rows) if b'"function_call"' in row)
    short = beginning(TURNS, tmp_path, size)
    (first,) = import_path(any_log, short)
    name = any_log.read(first.session).name
    if carried == "step":
        live(any_log, name)
    else:
        with any_log.session(name) as session:
            if carried == "message":
                session.user("mine")
            else:
                call = session.open_calls()[0]
                with session.tool(call) as run:
                    run.result("mine")
    mine = stream(any_log, first)

    assert import_path(any_log, short)[0].added == 0
    (longer,) = import_path(any_log, TURNS)
    assert longer.session != first.session
    assert longer.added == longer.events + 2
    assert created(any_log, longer).differs_from == first.session
    assert created(any_log, longer).differs_at == size
    assert stream(any_log, first) == mine
    for one in (first, longer):
        assert any_log.read(one.session).verify().sound
    # The short file is still the first one's, the long one the second one's.
    assert import_path(any_log, short)[0].session == first.session
    again = import_path(any_log, TURNS)[0]
    assert (again.session, again.added) == (longer.session, 0)


def test_a_note_from_outside_does_not_carry_a_session_on(log: AgentLog, tmp_path: Path) -> None:
    (first,) = import_path(log, beginning(TURNS, tmp_path, 8))
    row = log.find(first.session)
    note = ApprovalDecided("some", True)
    log.store.append(row, [NewEvent(payload=note, source="user")])
    (longer,) = import_path(log, TURNS)
    assert longer.session == first.session and longer.added
    assert log.read(first.session).verify().sound


# --- packets --------------------------------------------------------------------------------------


def test_the_time_of_a_step_is_the_newest_before_it(log: AgentLog) -> None:
    (one,) = import_path(log, TURNS)
    recorded = log.read(one.session)
    times: list[int] = []
    step = 0
    for event in recorded.events():
        if event.step > step:
            step = event.step
            assert recorded.steps[step].packet.as_of == max(times)
        times.append(event.occurred_at)
    assert step == one.steps > 1
    assert max(times) < 1_800_000_000_000_000
    (other,) = import_path(log, ARRAY)
    assert log.read(other.session).steps[1].packet.as_of == UNKNOWN_TIME


@each_file
def test_packets_grow_and_are_those_built_afresh(file: Path, log: AgentLog) -> None:
    for one in import_path(log, file):
        recorded = log.read(one.session)
        state = State()
        caches = {api: Cache() for api in APIS}
        for event in recorded.events():
            recorded.window.hold((event,))
            for api in APIS if event.step > state.step else ():
                warm, cold = (
                    reconstruct(state, None, sending_for(api, "any"), 0, recorded.window, cache)
                    for cache in (caches[api], None)
                )
                if isinstance(warm, Built) and isinstance(cold, Built):
                    assert warm.semantic == cold.semantic
                    assert warm.request.body == cold.request.body
                    assert warm.trace == cold.trace
                    check(api, warm.request.body, dict(warm.request.headers), key=None)
                else:
                    assert warm == cold
            state = fold(state, event)


def test_a_packet_of_an_import_costs_what_is_new(log: AgentLog, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Count."}]
    for number in range(40):
        messages.append({"role": "assistant", "content": str(number)})
        messages.append({"role": "user", "content": "Next."})
    path = tmp_path / "long.json"
    path.write_text(json.dumps(messages))
    (one,) = import_path(log, path)
    recorded = log.read(one.session)
    state = State()
    cache = Cache()
    kept: list[object] = []
    for event in recorded.events():
        recorded.window.hold((event,))
        if event.step > state.step:
            sending = sending_for("openai-chat", "any")
            build(state, Rules(AS_RECORDED), sending, 0, recorded.window, cache, reconstructed=True)
            kept.append(cache.assembly)
        state = fold(state, event)
    assert len(kept) == 40
    assert all(assembly is kept[0] for assembly in kept)

"""What a run did to the world: said before and after, found out, never done by inference."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.importing import import_path
from sawlog.providers.fake import Call
from sawlog.store.content import TextPart
from sawlog.store.errors import Conflict, EffectUnknown, NotEntered, ToolError
from sawlog.store.events.conversation import ApprovalRequested, ToolFinished, ToolStarted
from sawlog.store.events.effects import EffectIntended, EffectReconciled, EffectSettled
from sawlog.store.exchange import export, load
from sawlog.work.aio import AsyncToolRun
from sawlog.work.call import Call as Asked
from sawlog.work.session import Session
from sawlog.work.toolrun import ToolRun
from tests.cli.command import sawlog as command
from tests.session.agents import (
    TOOLS,
    asked,
    finished,
    next_step,
    one,
    opened,
    python,
    read_file,
    run_tests,
    sound,
    talker,
    told,
    types,
)
from tests.session.foreign_files import TURNS, beginning, lines
from tests.session.tasks import calls_of
from tests.session.tasks import run as run_task

ODD: list[Any] = [
    sawlog.tool(read_file, effect="read_only"),
    sawlog.tool(run_tests, effect="idempotent"),
    TOOLS[2],
]


def left(log: AgentLog, name: str = "breaks", arguments: Any = None) -> Asked:
    """A call that a handle started and left without a result."""
    with log.session("task") as s:
        call = one(s, name, {"why": "no"} if arguments is None else arguments, tools=ODD)
        s.tool(call).start()
    return call


def again(s: Session) -> Asked:
    """The one open call, as another process finds it."""
    s.tools(ODD)
    [call] = s.open_calls()
    return call


def results(s: Session) -> list[tuple[str, str, str]]:
    """The results and news of a new packet: kind, status, text."""
    step = next_step(s, "openai-chat")
    entries = step.packet.entries
    found = [(e.kind, e.status, e.text) for e in entries if e.kind in ("result", "late")]
    step.answer(talker()(b""))
    return found


# --- by effect class ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"), [("read_file", {"path": "a"}), ("run_tests", {})], ids=["reads", "keyed"]
)
def test_what_may_be_done_again_is_run(any_log: AgentLog, name: str, arguments: Any) -> None:
    log = any_log
    call = left(log, name, arguments)
    with log.session("task") as s:
        s.tools(ODD)
        plan = s.recover()
        [unknown] = plan.unknown
        assert (unknown.key, unknown.name) == (call.event_id, name)
        assert unknown.effect == {"read_file": "read_only", "run_tests": "idempotent"}[name]
        assert plan.not_started == () and [action.do for action in plan.next] == ["run"]
        run = s.run(unknown)
        assert (run.key, run.status) == (call.event_id, "ok")
        assert s.recover().unknown == ()
    starts = [e.content for e in log.read("task").events() if isinstance(e.content, ToolStarted)]
    assert len(starts) == 2 and starts[0].key == starts[1].key == call.event_id
    sound(log, "task")


def test_case_5_what_may_have_acted_is_not_run_again_by_inference(any_log: AgentLog) -> None:
    log = any_log
    call = left(log)
    with log.session("task") as s:
        open_call = again(s)
        head = log.find("task").head
        runs: list[Callable[[], object]] = [
            lambda: s.run(open_call),
            lambda: s.run(s.recover().next[0]),
            lambda: s.tool(open_call).__enter__(),
            # A class that is said afterwards does not change what was.
            lambda: s.tool(open_call, effect="idempotent").__enter__(),
            lambda: s.tool(open_call, effect="read_only").__enter__(),
        ]
        for run in runs:
            with pytest.raises(EffectUnknown, match="nobody knows whether it was done") as refused:
                run()
            assert refused.value.key == call.event_id
        assert log.find("task").head == head
        with s.tool(open_call, again=True) as decided:
            decided.result("done now")
    assert told(log) == [("ok", "done now")]
    sound(log, "task")


def test_a_start_that_may_have_acted_is_not_forgotten_for_a_later_one(log: AgentLog) -> None:
    left(log, "run_tests", {})
    with log.session("task") as s:
        run = s.tool(again(s), effect="side_effect", again=True)
        run.start()
    with log.session("task") as s:
        s.tool(again(s), effect="idempotent", again=True).start()
    with log.session("task") as s:
        [unknown] = s.recover().unknown
        assert unknown.effect == "side_effect"
        with pytest.raises(EffectUnknown):
            s.run(unknown)


def test_an_approval_that_is_given_afterwards_is_a_decision(log: AgentLog) -> None:
    left(log)
    with log.session("task") as s:
        approval = s.ask(again(s), "Do it again?")
        log.decide("task", approval, allow=True, by="somebody")
        assert [action.do for action in s.recover().next] == ["run"]
        run = s.run(again(s), lambda run: "done again")
        assert run.status == "ok"
    with log.session("task") as s:
        call = one(s, "breaks", {"why": "no"}, tools=ODD)
        log.decide("task", s.ask(call), allow=True, by="somebody")
        s.tool(call).start()
    with log.session("task") as s, pytest.raises(EffectUnknown):
        s.run(again(s))  # that approval was for the first run


def test_a_call_that_was_never_started_is_run_and_a_denied_one_is_not(log: AgentLog) -> None:
    with log.session("task") as s:
        _, denied = asked(s, Call("run_tests", {}), Call("run_tests", {}), tools=ODD)
        log.decide("task", s.ask(denied), allow=False, by="somebody")
    with log.session("task") as s:
        s.tools(ODD)
        plan = s.recover()
        [waits] = plan.not_started
        assert [action.call for action in plan.next] == [waits]
        assert s.run(waits).status == "ok"
        assert s.recover().next == ()
        with pytest.raises(ToolError, match="no open call"):
            s.run(waits)
        with pytest.raises(ToolError, match="give one of reply.tool_calls"):
            s.run(waits.event_id)


def test_what_the_model_was_told_was_not_run_is_not_run_behind_its_back(log: AgentLog) -> None:
    with log.session("task") as s:
        one(s)
        next_step(s, "openai-chat").send(talker("then not"))
        plan = s.recover()
        assert (plan.not_started, plan.next) == ((), ())


# --- what really happened -------------------------------------------------------------------------


def test_case_7_what_is_found_out_is_the_result_or_news_when_the_unknown_was_sent(
    any_log: AgentLog,
) -> None:
    log = any_log
    first = left(log)
    with log.session("task") as s:
        s.resolve(again(s), "it was done", by="somebody")
        s.resolve(first, "it was done", by="somebody")  # the same again is once
        assert results(s) == [("result", "ok", "it was done")]
    second = left(log)
    with log.session("task") as s:
        assert results(s)[1][:2] == ("result", "unknown")
        [unknown] = s.recover().unknown
        assert unknown.told and unknown.event_id == second.event_id
        s.resolve(unknown, {"failed": 7}, error=True, by="a check")
        s.user("well?")
        for _ in range(2):  # shown once, and it stays where it was shown
            shown = results(s)
            assert shown[1][:2] == ("result", "unknown") and len(shown) == 3
            assert shown[2][0] == "late" and '{"failed":7}' in shown[2][2]
            s.user("and?")
    said = [e for e in log.read("task").events() if isinstance(e.content, EffectReconciled)]
    assert [(e.content.outcome, e.content.by) for e in said] == [  # type: ignore[union-attr]
        ("done", "somebody"),
        ("failed", "a check"),
    ]
    assert [status for status, _ in told(log)] == ["ok", "error"]
    sound(log, "task")


def test_any_process_says_what_happened_while_another_drives(any_log: AgentLog) -> None:
    log = any_log
    call = left(log)
    code = """
import sys
import sawlog
with sawlog.open(sys.argv[1]) as log:
    s = log.session("task")
    [unknown] = s.recover().unknown
    s.resolve(unknown, "the bank says it was paid", by="the bank")
    s.resolve(unknown.event_id, "the bank says it was paid", by="the bank")
    try:
        s.resolve(unknown, "the bank says no", by="the bank")
    except sawlog.errors.Conflict as error:
        print(error)
"""
    with log.session("task", owner="the driver") as s:
        printed = finished(python(code, str(log.store.database.url)))
        assert "something else was said already" in printed
        assert results(s) == [("result", "ok", "the bank says it was paid")]
        assert s.recover().unknown == ()
    assert types(log.read("task")).count("tool.finished") == 1
    assert call.event_id in {r.call for r in _results(log)}
    sound(log, "task")


def _results(log: AgentLog) -> list[ToolFinished]:
    return [e.content for e in log.read("task").events() if isinstance(e.content, ToolFinished)]


def test_nothing_is_said_of_a_call_that_has_no_unknown_outcome(log: AgentLog) -> None:
    with log.session("task", owner="the driver") as s:
        waits, runs, done, denied = asked(s, *[Call("run_tests", {})] * 4)
        s.tool(runs).start()
        with s.tool(done) as run:
            run.result("done")
        log.decide("task", s.ask(denied), allow=False, by="somebody")
        head = log.find("task").head
        for call, why in (
            (waits, "was never started"),
            (runs, "this handle may be doing"),
            (done, "has its result already"),
            (denied, "was denied"),
            ("00" * 16, "has no call"),
            ("nonsense", "has no call"),
        ):
            with pytest.raises(ToolError, match=why):
                s.resolve(call, "it was done", by="somebody")
        with pytest.raises(ToolError, match="the driver may be doing"):
            log.session("task").resolve(runs, "it was done", by="somebody")
        assert log.find("task").head == head


def test_what_is_found_out_holds_no_secret(log: AgentLog) -> None:
    with log.session("task", secrets={"k": "s3cr3t-value"}) as s:
        call = one(s)
        run = s.tool(call)
        run.start()
        assert run.secret("k") == "s3cr3t-value"
        s.ended(call)
        s.resolve(call, "paid with s3cr3t-value", by="somebody")
    assert told(log) == [("ok", "paid with [secret:k]")]


def test_a_late_word_of_the_run_itself_is_a_duplicate(log: AgentLog) -> None:
    """The first result counts, whoever gave it."""
    call = left(log)
    with log.session("task") as s:
        s.resolve(call, "found out", by="somebody")
        late = ToolFinished(call.event_id, call.call_id, "breaks", parts=(TextPart("late"),))
        s.append(late, source="tool:breaks", step=call.step)
        assert results(s) == [("result", "ok", "found out")]


# --- several effects in one run -------------------------------------------------------------------


def test_the_next_run_of_a_call_does_again_only_what_was_not_done(any_log: AgentLog) -> None:
    """Each effect is in the log before it acts; what became of the cut one is found out."""
    log = any_log
    acted: list[str] = []

    def ship(run: ToolRun, *, dies: str = "") -> str:
        for name in ("charge", "pack", "mail"):
            with run.effect(name, what=f"{name} it") as effect:
                if effect.needed:
                    assert types(log.read("task"))[-1] == "effect.intended"
                    acted.append(effect.key)
                    if name == dies:
                        raise KeyboardInterrupt
                    effect.settle(f"receipt of {name}")
                assert effect.receipt == f"receipt of {name}"
        return "shipped"

    with log.session("task") as s:
        call = one(s, "run_tests", {}, tools=ODD)
        run = s.tool(call)
        run.start()
        with pytest.raises(KeyboardInterrupt):
            ship(run, dies="pack")
    with log.session("task") as s:
        plan = s.recover()
        whole, part = plan.unknown
        assert (whole.what, part.what, part.name) == ("", "pack it", "run_tests")
        assert part.key == f"{call.event_id}:pack" and not part.finished
        assert [(action.do, action.key) for action in plan.next] == [
            ("ask", call.event_id),
            ("ask", part.key),
        ]
        with pytest.raises(EffectUnknown, match="find out") as refused:
            s.run(again(s), ship)
        assert refused.value.key == part.key and len(acted) == 2
    with log.session("task") as s:
        s.reconcile(part.key, "done", by="the packer", receipt="receipt of pack")
        assert [action.do for action in s.recover().next] == ["run"]
        assert s.run(again(s), ship).status == "ok"
    assert acted == [f"{call.event_id}:{name}" for name in ("charge", "pack", "mail")]
    said = [
        type(e.content).__name__[6:]
        for e in log.read("task").events()
        if isinstance(e.content, EffectIntended | EffectSettled | EffectReconciled)
    ]
    assert said == ["Intended", "Settled", "Intended", "Reconciled", "Intended", "Settled"]
    assert told(log) == [("ok", "shipped")]
    sound(log, "task")


def test_an_effect_that_failed_or_may_be_repeated_is_tried_again(log: AgentLog) -> None:
    tries: list[str] = []

    def act(run: ToolRun) -> str:
        with run.effect("refused") as effect:
            tries.append("refused")
            if len(tries) == 1:
                effect.failed("the other side said no")
        with run.effect("keyed", effect="idempotent") as effect:
            tries.append("keyed")
            if tries.count("keyed") == 1:
                raise ToolError("cut off")
        return "done"

    with log.session("task") as s:
        call = one(s, "run_tests", {}, tools=ODD)
        with pytest.raises(ToolError, match="cut off"):
            s.run(call, act)
        plan = s.recover()
        assert [(one.key, one.effect) for one in plan.unknown] == [
            (call.event_id, "idempotent"),
            (f"{call.event_id}:keyed", "idempotent"),
        ]
        assert [action.do for action in plan.next] == ["run", "run"]
        assert s.run(plan.next[1], act).status == "ok"
        assert s.recover().unknown == ()
    assert tries == ["refused", "keyed", "refused", "keyed"]


def test_an_effect_stays_unknown_when_the_call_has_its_result(log: AgentLog) -> None:
    """An error inside leaves the call an error result, and the effect is to be found out."""
    with log.session("task") as s:
        call = one(s, "run_tests", {}, tools=ODD)
        with s.tool(call) as run, run.effect("mail"):
            raise TimeoutError("no answer")
        assert told(log) == [("error", "TimeoutError: no answer")]
        [unknown] = s.recover().unknown
        assert (unknown.call, unknown.finished, unknown.what) == (None, True, "mail")
        assert [action.do for action in s.recover().next] == ["ask"]
        s.reconcile(unknown.key, "not_done", by="somebody")
        assert s.recover().next == ()


def test_what_is_said_of_an_effect_is_said_once(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task") as s:
        call = one(s, "run_tests", {}, tools=ODD)
        run = s.tool(call)
        run.start()
        with pytest.raises(OSError, match="gone"), run.effect("mail"):
            raise OSError("gone")
        key = f"{call.event_id}:mail"
        with pytest.raises(ToolError, match="this handle may be doing"):
            s.reconcile(key, "done", by="somebody")
    head = log.find("task").head
    outside = log.session("task")
    for wrong, outcome, why in (
        ("no such key", "done", "nothing was begun under the key"),
        (key, "perhaps", "is no outcome"),
        (call.event_id, "done", "the key of a whole call"),
    ):
        with pytest.raises(ToolError, match=why):
            outside.reconcile(wrong, outcome, by="somebody")  # type: ignore[arg-type]
    assert log.find("task").head == head
    for _ in range(2):
        outside.reconcile(key, "done", by="somebody")
    with pytest.raises(Conflict, match="something else was said already"):
        outside.reconcile(key, "not_done", by="somebody")
    assert types(log.read("task")).count("effect.reconciled") == 1
    # Tried again it is another effect to find out: the run's own word counts before any other's.
    with log.session("task") as s:
        s.reconcile(call.event_id, "not_done", by="somebody")
        with s.tool(again(s)) as run:
            with run.effect("mail") as effect:
                assert not effect.needed
            with run.effect("post"):
                pass
            run.result("done")
        with pytest.raises(Conflict, match="is known already: done"):
            s.reconcile(f"{call.event_id}:post", "not_done", by="somebody")


def test_effects_are_asked_for_rightly(log: AgentLog) -> None:
    with log.session("task") as s:
        call = one(s, "run_tests", {}, tools=ODD)
        run = s.tool(call)
        with pytest.raises(ToolError, match="was not started"):
            run.effect("mail").start()
        run.start()
        for name, effect in (("", "side_effect"), ("x" * 201, "side_effect"), (7, "side_effect")):
            with pytest.raises(ToolError, match="no name of an effect"):
                run.effect(name, effect=effect).start()  # type: ignore[arg-type]
        for effect in ("read_only", "other"):
            with pytest.raises(ToolError, match="no class of an effect"):
                run.effect("mail", effect=effect).start()
        with pytest.raises(ToolError, match="no receipt"), run.effect("mail") as one_effect:
            one_effect.settle(7)  # type: ignore[arg-type]
        run.result("done")
        run.finish()
        with pytest.raises(ToolError, match="no open call"):
            run.effect("mail").start()
    with pytest.raises((NotEntered, ToolError)):
        run.effect("mail").start()


def test_a_long_receipt_and_a_secret_one(log: AgentLog) -> None:
    long = "r" * 10_000
    with log.session("task", secrets={"k": "s3cr3t-value"}) as s:
        call = one(s, "run_tests", {}, tools=ODD)
        run = s.tool(call)
        run.start()
        run.secret("k")
        with run.effect("mail", what="with s3cr3t-value") as effect:
            effect.settle(long + "s3cr3t-value")
    with log.session("task") as s, s.tool(again(s)) as run:
        with run.effect("mail") as effect:
            assert not effect.needed and effect.receipt == long + "[secret:k]"
        run.result("done")
    stored = b"".join(e.payload or b"" for e in log.store.read(log.find("task")))
    assert b"s3cr3t-value" not in stored and b"with [secret:k]" in stored


def test_a_rewind_takes_nothing_back_of_what_was_done(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        at = log.find("task").head
        call = one(s, "breaks", {"why": "no"}, tools=ODD)
        s.tool(call).start()
    with log.session("task") as s:
        s.rewind(to=at)
        plan = s.recover()
        [unknown] = plan.unknown
        assert (unknown.call, unknown.name, unknown.event_id) == (None, "breaks", call.event_id)
        assert [(action.do, action.key) for action in plan.next] == [("ask", call.event_id)]
        s.reconcile(unknown.key, "done", by="somebody")
        assert s.recover().next == ()
    sound(log, "task")


# --- in tasks -------------------------------------------------------------------------------------


def test_an_async_session_recovers_in_the_same_words(log: AgentLog) -> None:
    async def paid(run: AsyncToolRun) -> str:
        async with run.effect("pay", what="pay it") as effect:
            if effect.needed:
                await asyncio.sleep(0)
                effect.settle("receipt")
        return f"{run.status or 'new'} {effect.receipt} {effect.key == run.key + ':pay'}"

    async def work() -> None:
        async with log.asession("task") as s:
            first, second, third = await calls_of(s, 3)
            await s.run(first)
            cut = s.tool(second, effect="side_effect")
            await cut.__aenter__()
            with pytest.raises(asyncio.CancelledError):
                async with cut.effect("pay"):
                    raise asyncio.CancelledError
        async with log.asession("task") as s:
            await s.tools(TOOLS)
            plan = await s.recover()
            assert [action.do for action in plan.next] == ["ask", "run", "ask"]
            assert await s.apply(plan) == ()
            with pytest.raises(EffectUnknown):
                await s.run(plan.next[0], paid)
            await s.reconcile(f"{second.event_id}:pay", "not_done", by="somebody")
            await s.resolve(second, "not paid", by="somebody")
            assert (await s.run(third, paid)).status == "ok"
            assert await s.suspend() == ()
            with pytest.raises(NotEntered):
                await s.step("openai-chat", model="m")

    run_task(work())
    assert told(log) == [("ok", "text of 0"), ("ok", "not paid"), ("ok", "new receipt True")]
    sound(log, "task")


# --- suspended ------------------------------------------------------------------------------------


def test_a_session_is_suspended_with_its_waits_and_resumed_elsewhere(any_log: AgentLog) -> None:
    log = any_log
    with log.session("task") as s:
        first, second = asked(s, *[Call("run_tests", {})] * 2)
        approval = s.ask(first, "May I?")
        run = s.tool(second)
        run.start()
        with pytest.raises(ToolError, match="1 calls are running"):
            s.suspend()
        run.result("done")
        run.finish()
        [waits] = s.suspend()
        assert (waits.approval, waits.call.event_id) == (approval, first.event_id)
        assert log.find("task").owner is None
        code = """
import sys
import sawlog
from tests.session.agents import TOOLS
with sawlog.open(sys.argv[1]) as log:
    log.decide("task", sys.argv[2], allow=True, by="somebody")
    with log.session("task", owner="elsewhere") as s:
        s.tools(TOOLS)
        [call] = s.recover().not_started
        print(s.run(call).status)
        s.suspend()
"""
        assert finished(python(code, str(log.store.database.url), approval)) == "ok\n"
        for drives in (lambda: s.run(first), s.suspend, lambda: next_step(s, "openai-chat")):
            with pytest.raises((NotEntered, ToolError)):
                drives()
        s.acquire()
        assert [kind for kind, _, _ in results(s)] == ["result", "result"]
    sound(log, "task")


def test_a_call_whose_result_was_taken_back_is_resolved_each_time(log: AgentLog) -> None:
    with log.session("task") as s:
        one(s, "breaks", {"why": "no"}, tools=ODD)
        s.tool(again(s)).start()
        at = log.find("task").head
    for told_now in ("first", "second"):
        with log.session("task") as s:
            [action] = s.recover().next
            assert action.do == "ask"
            for _ in range(2):
                s.resolve(action, told_now, by="somebody")
            assert results(s) == [("result", "ok", told_now)]
            s.rewind(to=at)
    with log.session("task") as s:
        [action] = s.recover().next
        assert (action.do, action.why) == ("ask", "it was done, and its result left the history")
        with pytest.raises(EffectUnknown, match="its result left the history"):
            s.run(action)
    sound(log, "task")


def test_of_an_imported_call_nobody_knows_whether_it_was_begun(
    log: AgentLog, tmp_path: Path
) -> None:
    rows = lines(TURNS)
    at = next(at for at, row in enumerate(rows) if b'"function_call"' in row)
    (file,) = import_path(log, beginning(TURNS, tmp_path, at + 1))
    with log.resume(file.session) as s:
        plan = s.recover()
        assert (plan.not_started, plan.unknown) == ((), ())
        assert {action.do for action in plan.next} == {"ask"}
        assert "does not say whether it was begun" in plan.next[0].why
        for action in plan.next:
            s.resolve(action, "found out", by="somebody")
        assert s.recover().next == ()
        step = next_step(s, "openai-chat")
        assert {e.text for e in step.packet.entries if e.kind == "result"} >= {"found out"}
        step.abandon()
    assert log.read(file.session).verify().sound


# --- hostile events -------------------------------------------------------------------------------

CALLS = [
    "zz",
    "0",
    "ab cd",
    "AB" * 16,
    "0" * 31,
    "0" * 32,
    "\u0663\u0663",
    " " * 32,
    "x" * 9000,
    "-",
]
"""What an import may name as a call, and is none of this session's."""


def test_what_names_no_call_is_told_of_by_its_key(log: AgentLog, tmp_path: Path) -> None:
    """Each is one that a person decides, under its own key; nothing of it is a traceback."""
    with log.session("task") as s:
        s.user("go")
        said = [event.id for event in log.read("task").events()][-1]
        for at, call in enumerate([*CALLS, said]):
            s.append(EffectIntended(f"key {at}", call), source="import:other")
            s.append(ToolStarted(call, f"id {at}"), source="import:other")
            s.append(ApprovalRequested(call, f"approval {at}"), source="import:other")
            s.append(ToolFinished("", f"id {at}", "f", call), source="import:other")
        s.append(EffectIntended("k" * 5000, "zz", what="w" * 5000), source="import:other")
        plan = s.recover()
        keys = {f"key {at}" for at in range(len(CALLS) + 1)} | {"k" * 5000}
        assert keys <= {one.key for one in plan.unknown}
        assert {one.call for one in plan.unknown} == {None}
        assert {action.do for action in plan.next} == {"ask"}
        assert plan.waiting == () and s.open_calls() == []
        for action in plan.next:
            with pytest.raises(ToolError, match="no call"):
                s.resolve(action, "done")
        for one in plan.unknown:
            s.reconcile(one.key, "not_done", by="a person")
        assert s.recover().next == ()
        assert next_step(s, "openai-chat").send(talker()).text == "ok"
    sound(log, "task")
    copy = str(tmp_path / "copy.db")
    with opened(copy) as other:
        load(other.store, list(export(log.store, log.find("task"))))
        assert other.read("task").recover().next == ()
    done = command("--store", copy, "recover", "task", "--json")
    assert done.code == 0 and done.json["next"] == []

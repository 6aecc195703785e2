"""A run of five payments at once, killed between every two durable writes, and gone on with.

No payment is made twice without a decision, none that was made and said is lost, and every one of
which nobody knows is named.
"""

from __future__ import annotations

import signal
from itertools import count

import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.strict import check
from sawlog.store.errors import EffectUnknown
from sawlog.store.event import Event
from sawlog.store.events.conversation import ToolFinished, ToolRequested, ToolStarted
from sawlog.work.session import Session
from tests.forking import CONTEXT
from tests.session import paying
from tests.session.agents import next_step, opened, sound
from tests.session.paying import CALLS, Service, asks, serving, task


def killed(store: str, name: str, service: Service, at: int, behind: bool) -> bool:
    """Run the agent; False when it came to its end before that append."""
    child = CONTEXT.Process(target=paying.run, args=(store, name, service.url, at, behind))
    child.start()
    child.join(60)
    assert child.exitcode in (0, -signal.SIGKILL)
    service.settle()
    return child.exitcode != 0


def of(events: list[Event], kind: type[ToolStarted | ToolFinished]) -> set[str]:
    """The calls that events of a type name."""
    return {event.content.call for event in events if isinstance(event.content, kind)}


def go_on(s: Session, service: Service) -> None:
    """What a caller does: run what may be run; of the unknown ask the service, and say it."""
    plan = s.recover()
    assert plan.apply() == plan.apply()
    assert [one.do for one in s.recover().next] == [one.do for one in plan.next]
    run = paying.paying(service.url)
    for one in plan.next:
        if one.do == "run":
            assert s.run(one, run).status == "ok"
            continue
        before = service.paid.total()
        with pytest.raises(EffectUnknown, match="nobody knows whether it was done"):
            s.run(one, run)
        assert service.paid.total() == before
        if service.paid[one.key]:
            s.resolve(one, "the service says that it is paid", by="the service")
        else:
            s.reconcile(one.key, "not_done", by="the service")
            assert s.run(one, run).status == "ok"


def check_and_go_on(log: AgentLog, name: str, service: Service) -> tuple[int, int, int]:
    """How many calls the log left asked for and not started, unknown, finished."""
    before = list(log.read(name).events())
    asked = [event.id for event in before if isinstance(event.content, ToolRequested)]
    started, finished = of(before, ToolStarted), of(before, ToolFinished)
    paid = dict(service.paid)
    assert set(paid) <= started and finished <= set(paid)
    assert all(times == 1 for times in paid.values())
    with log.session(name, wait=20) as s:
        plan = s.recover()
        assert [one.event_id for one in plan.not_started] == [c for c in asked if c not in started]
        assert {one.event_id for one in plan.unknown} == started - finished
        assert all((one.effect, one.key) == ("side_effect", one.event_id) for one in plan.unknown)
        assert log.find(name).head == len(before)
        go_on(s, service)
        task(s)
        if not asked:
            for call in asks(s).tool_calls:
                s.run(call, paying.paying(service.url))
        s.user("Is that all?")
        step = next_step(s, "openai-chat")
        check("openai-chat", step.body, step.headers)
        shown = [(e.status, e.text) for e in step.packet.entries if e.kind == "result"]
        assert len(shown) == CALLS and all(status == "ok" for status, _ in shown)
        for at, one in enumerate(asked):
            if one in finished:
                assert shown[at] == ("ok", f"paid {at}")
        assert s.recover().next == ()
    assert len(service.paid) == CALLS and set(service.paid.values()) == {1}
    after = list(sound(log, name).events())
    assert after[: len(before)] == before
    return len(asked) - len(started), len(started - finished), len(finished)


def test_no_payment_is_made_twice_none_is_lost_and_every_unknown_is_named(store_url: str) -> None:
    met: set[tuple[int, int, int]] = set()
    with opened(store_url) as log:
        for at in count(1):
            for behind in (False, True):
                with serving() as service:
                    name = f"{at} {'behind' if behind else 'in front'}"
                    if not killed(store_url, name, service, at, behind):
                        assert at > 3 * CALLS
                        return _all_met(met)
                    if behind or at > 1:
                        met.add(check_and_go_on(log, name, service))


def _all_met(met: set[tuple[int, int, int]]) -> None:
    """Each kind of state was met: nothing asked, not started, unknown, finished, and mixtures."""
    assert (0, 0, 0) in met and (CALLS, 0, 0) in met and (0, 0, CALLS) in met
    assert any(unknown for _, unknown, _ in met)
    assert any(unknown and finished for _, unknown, finished in met)
    assert any(waits and unknown for waits, unknown, _ in met)

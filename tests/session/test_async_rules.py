"""The async face keeps the rules of the other: which clients, attempts, refusals, tools."""

from __future__ import annotations

import httpx
import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider, HttpError, Reply
from sawlog.store.errors import AttemptFailed, ConfigError, Refused, StepEnded
from sawlog.store.events.conversation import ApprovalDecided, ToolFinished
from sawlog.store.events.steps import PacketBuilt
from tests.session.agents import APIS, client_of, read_file, talker, types
from tests.session.tasks import begun, calls_of, run, step_of

apis = pytest.mark.parametrize("api", APIS)


def test_what_is_no_async_client_is_said_before_anything_leaves(log: AgentLog) -> None:
    async def work() -> None:
        with FakeProvider([]) as fake, client_of("anthropic", fake) as client:
            async with log.asession("task") as s:
                step = await begun(s)
                with httpx.Client(base_url="http://localhost") as other:
                    for wrong in (client, other):
                        with pytest.raises(ConfigError, match="would block the loop"):
                            await step.send(wrong)
                with pytest.raises(ConfigError, match="object is no client"):
                    await step.send(object())
                with pytest.raises(ConfigError, match="-1 retries"):
                    await step.send(talker(), retries=-1)
                assert types(log.read("task"))[-1] == "packet.built"
                assert (await step.send(talker())).text == "ok"
                with pytest.raises(StepEnded):
                    await step.send(talker())
                with pytest.raises(StepEnded):
                    await step.abandon()

    run(work())


def test_retries_are_attempts_and_pauses_are_awaited(log: AgentLog) -> None:
    soon = {"retry-after-ms": "1"}

    async def work() -> None:
        async with httpx.AsyncClient(base_url=fake.url) as client, log.asession("task") as s:
            step = await begun(s)
            assert (await step.send(client, retries=3)).text == "ok"
            with pytest.raises(AttemptFailed) as failed:
                await (await begun(s)).send(client, retries=1)
            assert failed.value.kind == "provider_error"
            with pytest.raises(Refused):
                async with log.asession("other") as other:
                    await step_of(other)
            fallback = await step_of(s, fallback_of=step)
            assert fallback.number == 3

    busy = [HttpError(529, headers=soon), HttpError(429, headers=soon)]
    with FakeProvider([*busy, Reply("ok"), *[HttpError(500, headers=soon)] * 2]) as fake:
        run(work())
    events = types(log.read("task"))
    assert events.count("attempt.refused") == 4
    assert events.count("step.failed") == 1
    last = [e.content for e in log.read("task").events() if isinstance(e.content, PacketBuilt)][-1]
    assert last.fallback_of


def test_the_rest_of_the_face_is_the_same(log: AgentLog) -> None:
    async def work() -> None:
        closed = log.asession("task")
        with pytest.raises(RuntimeError, match="enter the session first"):
            _ = closed.sync
        async with closed as s:
            await s.user([s.media(b"\x89PNG", "image/png")])
            seq = await s.append(ToolFinished(call_id="x", external=True), source="tool:x")
            assert seq == 3
            [call] = await calls_of(s, 1)
            approval = await s.ask(call, "may I?")
            with pytest.raises(Refused):
                await step_of(s)
            log.decide("task", approval, allow=True, by="me")
            assert [c.event_id for c in await s.open_calls()] == [call.event_id]
            async with s.tool(call, effect="read_only") as tool:
                assert tool.key == tool.call.event_id == call.event_id
                tool.saw("a")
                tool.result(read_file("a"), limit=1000)
            step = await step_of(s)
            assert step.body == step.sync.body
            await step.abandon("enough")

    run(work())
    assert types(log.read("task"))[-1] == "step.abandoned"
    assert any(isinstance(e.content, ApprovalDecided) for e in log.read("task").events())

"""The three routes behind one interface: by rules, by a summariser, at the provider (S3-20)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.compaction.blocks import with_beta
from sawlog.providers.fake import Call, FakeProvider, HttpError, Raw, Reply, Text
from sawlog.store.errors import ConfigError
from sawlog.store.events.compaction import (
    Checkpoint,
    CompactionAnswered,
    CompactionAsked,
    CompactionRefused,
    CompactionStarted,
)
from sawlog.work.compacting import Route
from sawlog.work.session import Session
from sawlog.work.summarising import Provider
from sawlog.work.triggers import Compaction
from tests.session.agents import SYSTEM, TOOLS, client_of, next_step, opened, params, sound

LONG = "a text of the task that is long enough to be worth a checkpoint. " * 12
APIS = ("anthropic", "openai-responses")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.setenv(name, "test")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


def answer(known: str) -> str:
    """What a good summariser writes: it keeps the lines that it is told of."""
    fields: dict[str, Any] = {
        "goal": "Mend it.",
        "constraints": [],
        "confirmed": [],
        "changed": [],
        "open": [{"id": "", "text": "whether the last test is flaky", "evidence": []}],
        "next": [{"id": "", "text": "look at the last test", "evidence": []}],
        "narrative": "The first idea did not work.",
    }
    return f"```json\n{json.dumps(fields)}\n```"


def worked(s: Session, api: str, fake: FakeProvider, turns: int = 3) -> None:
    s.system(SYSTEM)
    s.tools(TOOLS)
    with client_of(api, fake) as client:
        for turn in range(turns):
            s.user(f"turn {turn}: {LONG}")
            [call] = next_step(s, api, headers=headers(api)).send(client).tool_calls
            with s.tool(call) as run:
                run.result(f"content of f{turn}: {LONG}")
            next_step(s, api, headers=headers(api)).send(client)


def headers(api: str) -> dict[str, str]:
    return dict(with_beta(())) if api == "anthropic" else {}


def turn(n: int) -> list[Reply]:
    return [
        Reply(f"I look, {n}.", calls=[Call("read_file", {"path": f"f{n}.py"})]),
        Reply(f"Done with {n}. {LONG}"),
    ]


def provider(api: str, fake: FakeProvider) -> Provider:
    parameters = json.dumps(params(api))
    return Provider(
        api=api,
        model="test-model",
        base_url=fake.base_url(api),
        params=parameters,
        headers=tuple(headers(api).items()),
        retries=1,
    )


def payloads(log: AgentLog, kind: type[Any]) -> list[Any]:
    return [e.content for e in log.read("task").events() if isinstance(e.content, kind)]


@pytest.mark.parametrize("api", ["anthropic", "openai-chat", "openai-responses", "deepseek-chat"])
def test_a_model_writes_the_prose_and_all_of_it_is_in_the_log(log: AgentLog, api: str) -> None:
    script = [*turn(0), *turn(1), *turn(2), Reply(answer("")), Reply("Go on.")]
    with FakeProvider(script) as fake, log.session("task") as s:
        s.note("constraint", "no-push", "Never push to main.")
        worked(s, api, fake)
        done = s.compact(budget=2000, keep_user=0, summariser=provider(api, fake))
        assert done.refused == () and str(done.checkpoint.summariser) == "model@1"
        assert done.checkpoint.narrative == "The first idea did not work."
        assert "no-push" in [line.id for line in done.checkpoint.constraints]
        s.user("and now?")
        step = next_step(s, api)
        shown = "\n".join(entry.text for entry in step.packet.entries)
        assert "whether the last test is flaky" in shown and "Never push to main." in shown
        with client_of(api, fake) as client:
            step.send(client)
        sent = fake.bodies(api)[-2]
    [asked] = payloads(log, CompactionAsked)
    [answered] = payloads(log, CompactionAnswered)
    assert asked.size == len(sent) and asked.api == api and answered.status == 200
    assert answered.usage
    assert sound(log, "task").verify().paths["compaction"] == "ok"


def test_a_summariser_that_fails_leaves_it_to_code(log: AgentLog) -> None:
    """CASES 40: nothing is forgotten."""
    script: list[Reply | HttpError]
    script = [*turn(0), *turn(1), *turn(2), HttpError(500), HttpError(500), Reply("no json"),
              Reply("Go on.")]  # fmt: skip
    with FakeProvider(script) as fake, log.session("task") as s:
        s.note("open", "flaky", "test_b is flaky")
        worked(s, "openai-chat", fake)
        done = s.compact(budget=2000, keep_user=0, summariser=provider("openai-chat", fake))
        assert done.checkpoint.summariser is None
        assert [line.id for line in done.checkpoint.open] == ["flaky"]
        codes = [code for reasons in done.refused for code, _ in reasons]
        assert codes == ["summariser_failed", "not_json"]
    assert [one.attempt for one in payloads(log, CompactionAsked)] == [1, 2, 3]
    assert len(payloads(log, CompactionRefused)) == 2
    sound(log, "task")


def test_a_summariser_is_asked_again_when_it_says(log: AgentLog) -> None:
    """As long as its `retry-after` asks for, and each try is in the log."""
    busy = HttpError(429, headers={"retry-after": "1.2"})
    script: list[Reply | HttpError]
    script = [*turn(0), *turn(1), *turn(2), busy, Reply(answer(""))]
    with FakeProvider(script) as fake, log.session("task") as s:
        worked(s, "openai-chat", fake)
        began = time.monotonic()
        done = s.compact(budget=2000, keep_user=0, summariser=provider("openai-chat", fake))
        assert time.monotonic() - began > 1.2
        assert str(done.checkpoint.summariser) == "model@1" and done.refused == ()
    assert [one.status for one in payloads(log, CompactionAnswered)] == [429, 200]


def test_a_request_too_long_for_the_summariser_leaves_its_oldest_unit_out(log: AgentLog) -> None:
    """CONTRACTS S3-18: unit by unit, pairs whole, until it fits."""
    too_long = HttpError(400, "too long", code="context_length_exceeded")
    script: list[Reply | HttpError]
    script = [*turn(0), *turn(1), *turn(2), too_long, too_long, Reply(answer("")), Reply("Go on.")]
    with FakeProvider(script) as fake, log.session("task") as s:
        worked(s, "openai-chat", fake)
        done = s.compact(budget=2000, keep_user=0, summariser=provider("openai-chat", fake))
        assert str(done.checkpoint.summariser) == "model@1" and done.refused == ()
        sizes = [asked.size for asked in payloads(log, CompactionAsked)]
        assert len(sizes) == 3 and sizes[0] > sizes[1] > sizes[2]
        last: list[dict[str, Any]] = json.loads(fake.bodies("openai-chat")[-1])["messages"]
        asked: list[dict[str, Any]] = [c for m in last for c in m.get("tool_calls") or ()]
        calls = [c["id"] for c in asked]
        assert calls == [m["tool_call_id"] for m in last if m["role"] == "tool"]
    sound(log, "task")


@pytest.mark.parametrize("api", APIS)
def test_the_provider_s_own_block_heads_the_packet(log: AgentLog, api: str) -> None:
    script = [*turn(0), *turn(1), *turn(2), Reply("a summary of its own"), Reply("Go on.")]
    with FakeProvider(script) as fake, log.session("task") as s:
        s.note("constraint", "no-push", "Never push to main.")
        worked(s, api, fake)
        done = s.compact(budget=2000, keep_user=0, route="provider", summariser=provider(api, fake))
        assert done.refused == () and done.checkpoint.block is not None
        s.user("and now?")
        step = next_step(s, api, headers=headers(api))
        with client_of(api, fake) as client:
            assert step.send(client).text == "Go on."
        body = fake.bodies(api)[-1].decode()
        assert '"compaction"' in body and "Never push to main." in body
        # For every other model the data stands alone.
        s.user("and you?")
        other = next_step(s, "openai-chat")
        assert "Never push to main." in other.body.decode()
        assert '"compaction"' not in other.body.decode()
    [checkpoint] = payloads(log, Checkpoint)
    assert checkpoint.block.api == api
    sound(log, "task")


def test_every_route_compacts_the_same_session_and_replays(tmp_path: Path) -> None:
    bodies: dict[str, list[bytes]] = {}
    routes: tuple[Route, ...] = ("rules", "local", "provider")
    for route in routes:
        script = [*turn(0), *turn(1), *turn(2), Reply("a summary of its own"), Reply("Go on.")]
        if route != "provider":
            del script[6]
        with (
            opened(str(tmp_path / f"{route}.db")) as log,
            FakeProvider(script) as fake,
            log.session("task") as s,
        ):
            api = "openai-responses"
            worked(s, api, fake)
            given = provider(api, fake) if route == "provider" else None
            done = s.compact(budget=2000, keep_user=0, route=route, summariser=given)
            assert done.route == route
            s.user("and now?")
            step = next_step(s, api)
            with client_of(api, fake) as client:
                step.send(client)
            bodies[route] = fake.bodies(api)
            recorded = sound(log, "task")
            last = recorded.packet(len(recorded.steps)).request.body
            assert last == bodies[route][-1]
    assert bodies["rules"][:6] == bodies["local"][:6] == bodies["provider"][:6]


def test_the_route_provider_needs_to_know_whom_to_ask(log: AgentLog) -> None:
    with log.session("task") as s, pytest.raises(ConfigError, match="whom to ask"):
        s.compact(route="provider")


def test_what_a_provider_leaves_behind_unasked_gives_way(log: AgentLog) -> None:
    """Its block stays in the reply that it came with; code says what it stands for."""
    block = {"type": "compaction", "content": "They read three files."}
    parts: list[Raw | Text] = [Raw(block), Text("I go on from there. " + LONG)]
    script = [*turn(0), *turn(1), *turn(2), Reply(parts=parts), Reply("Go on.")]
    with (
        FakeProvider(script) as fake,
        client_of("anthropic", fake) as client,
        log.session("task", compaction=Compaction()) as s,
    ):
        s.note("constraint", "no-push", "Never push to main.")
        worked(s, "anthropic", fake)
        s.user("go on")
        next_step(s, "anthropic", headers=headers("anthropic")).send(client)
        s.user("and now?")
        step = next_step(s, "anthropic", headers=headers("anthropic"))
        assert step.send(client).text == "Go on."
        body = fake.bodies("anthropic")[-1].decode()
        assert "They read three files." in body and "Never push to main." in body
        assert "content of f0" not in body and "Checkpoint 1." in body
        s.user("once more")
        head = s.state.checkpoint
        next_step(s, "anthropic", headers=headers("anthropic"))
        assert s.state.checkpoint == head  # once is enough
    [begun] = payloads(log, CompactionStarted)
    assert (begun.trigger, begun.route) == ("provider", "rules")
    sound(log, "task")

"""Unmodified official clients, recorded: every byte that left is in the log, each thing once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.audit.recorded import Recorded
from sawlog.providers.fake import Call, FakeProvider, HttpError, Reply, Streamed
from sawlog.store.errors import ConfigError
from tests.recorder.programs import APIS, Program, script
from tests.session.agents import client_of, opened, sound
from tests.session.tasks import async_client

apis = pytest.mark.parametrize("api", APIS)
streams = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


def bodies(recorded: Recorded) -> list[bytes]:
    """The bodies of all steps, out of the log."""
    return [step.packet.body for step in recorded.steps]


def counts(recorded: Recorded) -> Counter[str]:
    return Counter(event.type for event in recorded.events())


@apis
@streams
def test_every_body_is_in_the_log_as_the_socket_received_it(
    log: AgentLog, api: str, stream: bool
) -> None:
    with FakeProvider(script(stream=stream)) as fake, log.session("task") as s:
        with client_of(api, fake) as client:
            assert sawlog.record(client, session=s) is client
            program = Program(api, client, stream=stream)
            for _ in range(4):
                program.turn()
        received = [request.body for request in fake.requests]
    recorded = sound(log, "task")
    assert bodies(recorded) == received and len(received) == 8
    assert [step.outcome for step in recorded.steps] == ["completed"] * 8
    assert {step.sent for step in recorded.steps} == {"exact"}
    found = counts(recorded)
    assert (found["message.user"], found["tool.finished"], found["tool.requested"]) == (4, 4, 4)
    assert found["tools.changed"] == found["message.system"] == 1
    assert "history.edited" not in found
    assert len(log.sessions()) == 1


@apis
def test_recorded_or_not_the_provider_receives_the_same(log: AgentLog, api: str) -> None:
    received: list[list[tuple[str, bytes, dict[str, str]]]] = []
    for record in (False, True):
        with FakeProvider(script()) as fake, log.session("task") as s:
            with client_of(api, fake) as client:
                program = Program(api, sawlog.record(client, session=s) if record else client)
                program.turn()
            host = fake.url.removeprefix("http://")
            received.append(
                [
                    (one.path, one.body, {k: v for k, v in one.headers.items() if v != host})
                    for one in fake.requests
                ]
            )
    assert received[0] == received[1]


@apis
@streams
def test_async_clients_are_recorded_alike(log: AgentLog, api: str, stream: bool) -> None:
    async def main(fake: FakeProvider) -> None:
        async with log.asession("task") as s, async_client(api, fake) as client:
            program = Program(api, sawlog.record(client, session=s), stream=stream)
            for _ in range(2):
                program.says("go on")
                for call_id, _ in program.take(await program.aask()):
                    program.result(call_id, "the text of a file")
                program.take(await program.aask())

    with FakeProvider(script(stream=stream)) as fake:
        asyncio.run(asyncio.wait_for(main(fake), 60))
        received = [request.body for request in fake.requests]
    recorded = sound(log, "task")
    assert bodies(recorded) == received and len(received) == 4
    assert counts(recorded)["tool.finished"] == 2


@apis
def test_a_recording_goes_on_in_another_process_of_the_same_program(
    log: AgentLog, api: str
) -> None:
    with FakeProvider(script()) as fake:
        messages: list[Any] = []
        for _ in range(3):
            with log.session("task") as s, client_of(api, fake) as client:
                program = Program(api, sawlog.record(client, session=s), seed=len(messages))
                program.messages = messages or program.messages
                program.turn()
                messages = program.messages
        received = [request.body for request in fake.requests]
    recorded = sound(log, "task")
    assert bodies(recorded) == received
    found = counts(recorded)
    assert found["message.user"] == found["tool.finished"] == 3
    assert found["tools.changed"] == found["message.system"] == 1
    assert "history.edited" not in found


def test_a_recorded_session_is_gone_on_with_by_sawlog(log: AgentLog) -> None:
    with FakeProvider(script()) as fake, client_of("anthropic", fake) as client:
        with log.session("task") as s:
            Program("anthropic", sawlog.record(client, session=s)).turn()
    with FakeProvider([Reply("Done.")]) as fake, client_of("openai-chat", fake) as client:
        with log.session("task") as s:
            s.user("and now?")
            assert s.step("openai-chat", model="test-model").send(client).text == "Done."
            [request] = fake.requests
    assert b"read_file" in request.body and b"and now?" in request.body
    sound(log, "task")


def test_an_edited_history_is_an_event_and_what_is_new_comes_once(log: AgentLog) -> None:
    with FakeProvider(script()) as fake, client_of("openai-chat", fake) as client:
        with log.session("task") as s:
            program = Program("openai-chat", sawlog.record(client, session=s))
            for _ in range(3):
                program.turn()
            # What agents do when a window is full: a summary in the place of what was said.
            program.messages[1:5] = [{"role": "user", "content": "So far: two files were read."}]
            program.turn()
        received = [request.body for request in fake.requests]
    recorded = sound(log, "task")
    assert bodies(recorded) == received
    [edited] = [event for event in recorded.events() if event.type == "history.edited"]
    types = {one.id: one.type for one in recorded.events()}
    gone = [types[id] for id in edited.content.gone]  # type: ignore[union-attr]
    assert gone == [
        "message.user", "message.assistant", "tool.requested", "tool.finished", "message.assistant",
    ]  # fmt: skip
    found = counts(recorded)
    assert found["message.user"] == 3 + 2 and found["tool.finished"] == 4
    with log.session("task") as s:
        s.user("and now?")
        body = s.step("openai-chat", model="test-model").body
    assert b"So far: two files" in body and received[0] not in body
    assert received[0].split(b'"user","content":"')[1][:60] not in body


def test_conversations_side_by_side_have_sessions_of_their_own(log: AgentLog) -> None:
    with FakeProvider(script()) as fake, client_of("openai-chat", fake) as client:
        with log.session("task") as s:
            sawlog.record(client, session=s)
            programs = [Program("openai-chat", client, seed=n) for n in range(3)]
            for _ in range(2):
                for program in programs:
                    program.turn()
    assert sorted(row.name or "" for row in log.sessions()) == ["task", "task/2", "task/3"]
    for row in log.sessions():
        recorded = sound(log, str(row.name))
        assert len(recorded.steps) == 4 and "history.edited" not in counts(recorded)


def test_threads_share_a_recorded_client(log: AgentLog) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with FakeProvider(script()) as fake, client_of("anthropic", fake) as client:
        with log.session("task") as s, ThreadPoolExecutor(8) as pool:
            sawlog.record(client, session=s)
            turns = [pool.submit(Program("anthropic", client, seed=n).turn) for n in range(8)]
            for turn in turns:
                turn.result()
        sent = sorted(request.body for request in fake.requests)
    stored = sorted(body for row in log.sessions() for body in bodies(sound(log, str(row.name))))
    # A client that was kept waiting may send again: that is a request like any other.
    assert stored == sent and len(set(sent)) == 16


def test_the_clients_own_retries_are_attempts_of_one_step(log: AgentLog) -> None:
    soon = {"retry-after-ms": "1"}
    refusals = [HttpError(429, headers=soon), HttpError(500, headers=soon)]
    with FakeProvider([*refusals, Reply("ok")]) as fake, log.session("task") as s:
        client = openai.OpenAI(api_key="test", base_url=fake.base_url("openai-chat"), max_retries=2)
        program = Program("openai-chat", sawlog.record(client, session=s))
        program.says("hello")
        program.take(program.ask())
        client.close()
    recorded = sound(log, "task")
    assert len(recorded.steps) == 1 and recorded.steps[1].outcome == "completed"
    found = counts(recorded)
    assert found["attempt.sent"] == 3 and found["attempt.refused"] == 2


def test_a_request_that_failed_for_good_ends_its_step_before_the_next(log: AgentLog) -> None:
    with FakeProvider([HttpError(500), Reply("ok")]) as fake, log.session("task") as s:
        with client_of("anthropic", fake) as client:
            client = sawlog.record(client.with_options(max_retries=0), session=s)
            program = Program("anthropic", client)
            program.says("hello")
            with pytest.raises(anthropic.InternalServerError):
                program.ask()
            program.messages[-1] = {"role": "user", "content": "hello again"}
            program.take(program.ask())
    recorded = sound(log, "task")
    assert [step.outcome for step in recorded.steps] == ["failed", "completed"]


def test_thinking_and_what_the_provider_runs_go_round_unharmed(log: AgentLog) -> None:
    call = Call("read_file", {"path": "a.py"})
    replies = [Reply(thinking="It is simple.", calls=[call]), Reply("Done.")]
    with FakeProvider(replies) as fake, client_of("anthropic", fake) as client:
        with log.session("task") as s:
            program = Program("anthropic", sawlog.record(client, session=s))
            program.says("hello")
            [(call_id, _)] = program.take(program.ask())
            program.result(call_id, "text")
            program.take(program.ask())
        assert all(request.status == 200 for request in fake.requests)
    recorded = sound(log, "task")
    assert counts(recorded)["message.assistant"] == 2
    assert "It is simple." in recorded.steps[2].packet.body.decode()


@apis
def test_a_stream_that_is_left_is_recorded_as_far_as_it_came(log: AgentLog, api: str) -> None:
    long = Streamed(Reply("word " * 500), chunk=20)
    with FakeProvider([long]) as fake, client_of(api, fake) as client, log.session("task") as s:
        program = Program(api, sawlog.record(client, session=s))
        program.says("hello")
        create, given = program.request()
        stream = create(**given, stream=True)
        for number, _ in enumerate(stream):
            if number == 5:
                break
        stream.close()
    recorded = sound(log, "task")
    [answered] = [e.content for e in recorded.events() if e.type == "attempt.answered"]
    assert answered.interrupted  # type: ignore[union-attr]


def test_what_is_no_exchange_with_a_model_is_not_recorded(log: AgentLog) -> None:
    with FakeProvider([]) as fake, client_of("openai-chat", fake) as client:
        with log.session("task") as s:
            sawlog.record(client, session=s)
            with pytest.raises(openai.NotFoundError):
                client.models.list()
    assert "packet.recorded" not in counts(log.read("task"))


def test_a_bare_http_client_is_recorded(log: AgentLog) -> None:
    with FakeProvider([Reply("ok")]) as fake, log.session("task") as s:
        with sawlog.record(httpx.Client(base_url=fake.url), session=s) as client:
            body = b'{ "model": "m", "messages": [ {"role":"user","content":"h\\u00e9"} ] }'
            assert client.post("/v1/chat/completions", content=body).status_code == 200
    assert bodies(sound(log, "task")) == [body]


@pytest.mark.parametrize("body", [b"", b"no json", b"[1]", b'{"messages": 3}', b"\xff\xfe{}"])
def test_a_body_that_is_no_request_is_kept_as_it_is(log: AgentLog, body: bytes) -> None:
    with FakeProvider([]) as fake, log.session("task") as s:
        with sawlog.record(httpx.Client(base_url=fake.url), session=s) as client:
            assert client.post("/v1/messages", content=body).status_code >= 400
    assert bodies(sound(log, "task")) == [body]


def test_a_client_is_recorded_once_and_must_be_one(log: AgentLog) -> None:
    with log.session("task") as s:
        client = sawlog.record(openai.OpenAI(api_key="k"), session=s)
        with pytest.raises(ConfigError, match="already"):
            sawlog.record(client, session=s)
        with pytest.raises(ConfigError, match="no client"):
            sawlog.record(object(), session=s)


def test_without_its_lease_nothing_leaves(log: AgentLog) -> None:
    with FakeProvider([Reply("ok")]) as fake, client_of("anthropic", fake) as client:
        with log.session("task") as s:
            sawlog.record(client, session=s)
        program = Program("anthropic", client)
        program.says("hello")
        with pytest.raises(anthropic.APIConnectionError) as failed:
            program.ask()
        assert isinstance(failed.value.__cause__, sawlog.errors.SawlogError)
        assert not fake.requests

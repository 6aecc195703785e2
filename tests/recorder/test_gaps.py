"""What cannot be recorded: it is not sent, or it is sent and the log says that there is a gap."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import openai
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider, HttpError, Reply
from sawlog.store.errors import Busy, Fenced, NotEntered, SawlogError, StoreError
from sawlog.store.events.lifecycle import ForeignRecord
from sawlog.store.events.steps import AttemptLost
from tests.postgres import PostgresServer
from tests.recorder.programs import Program
from tests.session.agents import client_of, next_step, opened, python, sound, stop, types

API = "openai-chat"


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


@contextlib.contextmanager
def refusing(log: AgentLog, *kinds: str) -> Generator[None]:
    """Let the store take no append with events of these types (none: of any)."""
    append = log.store.append

    def fails(*args: Any, **options: Any) -> Any:
        if not kinds or any(type(one.payload).__name__ in kinds for one in args[1]):
            raise Busy("another program writes")
        return append(*args, **options)

    log.store.append = fails  # type: ignore[method-assign]
    try:
        yield
    finally:
        log.store.append = append  # type: ignore[method-assign]


def gaps(log: AgentLog) -> list[str]:
    """What the log says of requests that it does not hold."""
    found = (event.content for event in sound(log, "task").events())
    return [str(one.kind) for one in found if isinstance(one, ForeignRecord)]


def asks(program: Program, text: str) -> None:
    """Say something and take the answer."""
    program.says(text)
    program.take(program.ask())


@pytest.fixture
def provider() -> Generator[tuple[FakeProvider, Any]]:
    """A provider that answers whatever it is asked, and a client of it."""
    with FakeProvider(lambda api, request, number: Reply(f"answer {number}")) as fake:
        with client_of(API, fake) as plain:
            yield fake, plain.with_options(max_retries=0)


def test_all_that_left_without_a_record_is_counted_and_the_conversation_stays_one(
    log: AgentLog, provider: tuple[FakeProvider, Any]
) -> None:
    fake, client = provider
    with log.session("task") as s:
        program = Program(API, sawlog.record(client, session=s, strict=False))
        asks(program, "one")
        with refusing(log):
            for text in ("two", "three", "four"):
                asks(program, text)
        asks(program, "five")
    assert len(fake.requests) == 5
    assert gaps(log) == ["gap: 3 requests left without a record"]
    assert [row.name for row in log.sessions()] == ["task"]
    recorded = sound(log, "task")
    assert [step.packet.body for step in recorded.steps] == [
        fake.requests[0].body,
        fake.requests[4].body,
    ]


def test_a_gap_is_marked_at_the_end_when_nothing_was_asked_behind_it(
    log: AgentLog, provider: tuple[FakeProvider, Any]
) -> None:
    _, client = provider
    with log.session("task") as s:
        program = Program(API, sawlog.record(client, session=s, strict=False))
        with refusing(log):
            asks(program, "one")
    assert gaps(log) == ["gap: 1 request left without a record"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_reply_that_cannot_be_written_reaches_the_program_all_the_same_when_not_strict(
    log: AgentLog, provider: tuple[FakeProvider, Any], stream: bool
) -> None:
    fake, client = provider
    with log.session("task") as s:
        recorded = sawlog.record(client, session=s, strict=False)
        program = Program(API, recorded, stream=stream)
        with refusing(log, "AttemptAnswered"):
            asks(program, "one")
        assert program.messages[-1] is not None
        asks(program, "two")
    assert len(fake.requests) == 2
    found = sound(log, "task")
    assert [step.outcome for step in found.steps] == ["abandoned", "completed"]
    lost = [e.content for e in found.events() if isinstance(e.content, AttemptLost)]
    assert lost == [AttemptLost(1, "no outcome was recorded")]
    # What it answered is known all the same: the next request says it.
    assert types(found).count("message.assistant") == 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_strict_a_reply_that_cannot_be_written_is_an_error_of_the_log(
    log: AgentLog, provider: tuple[FakeProvider, Any], stream: bool
) -> None:
    """The same again is another attempt, and the log says that the first one has no outcome."""
    _, client = provider
    with log.session("task") as s:
        program = Program(API, sawlog.record(client, session=s), stream=stream)
        program.says("one")
        with refusing(log, "AttemptAnswered"), pytest.raises((Busy, openai.APIError)):
            program.ask()
        assert types(s, log)[-1] == "attempt.sent"
        program.take(program.ask())
    found = sound(log, "task")
    assert [step.outcome for step in found.steps] == ["completed"]
    assert types(found)[-6:-3] == ["attempt.sent", "attempt.lost", "attempt.sent"]
    assert types(found)[-3:] == ["attempt.answered", "message.assistant", "step.completed"]


def test_a_step_that_sends_again_after_a_reply_that_could_not_be_written(log: AgentLog) -> None:
    with FakeProvider([Reply("lost"), Reply("ok")]) as fake, client_of(API, fake) as client:
        with log.session("task") as s:
            s.user("hello")
            step = next_step(s, API)
            with refusing(log, "AttemptAnswered"), pytest.raises(Busy):
                step.send(client)
            assert step.send(client).text == "ok"
    assert types(sound(log, "task")).count("attempt.lost") == 1


def test_the_bytes_of_a_step_that_was_overtaken_are_a_step_of_their_own(log: AgentLog) -> None:
    """Whichever conversation they are taken for; the step between was not refused by anybody."""
    with FakeProvider([HttpError(500), Reply("b")]) as fake, client_of(API, fake) as plain:
        with log.session("task") as s:
            program = Program(API, sawlog.record(plain.with_options(max_retries=0), session=s))
            program.says("one")
            with pytest.raises(openai.InternalServerError):
                program.ask()
            s.user("from beside")
            next_step(s, API)
            program.take(program.ask())  # the first request, to the byte
    steps = [step for row in log.sessions() for step in sound(log, str(row.name)).steps]
    same = [step.outcome for step in steps if step.packet.body == fake.requests[0].body]
    assert same == ["abandoned", "completed"]
    [between] = [step for step in steps if step.packet.body != fake.requests[0].body]
    assert between.outcome != "failed"


# --- the end of a recording -----------------------------------------------------------------------


def test_after_the_session_was_left_nothing_is_sent_and_no_other_session_begins(
    log: AgentLog, provider: tuple[FakeProvider, Any]
) -> None:
    fake, client = provider
    with log.session("task") as s:
        program = Program(API, sawlog.record(client, session=s))
        asks(program, "one")
    head = log.find("task").head
    for text in ("two", "another conversation"):
        other = Program(API, client, seed=9)
        other.says(text)
        with pytest.raises(NotEntered, match="enter it again"):
            other.ask()
    assert len(fake.requests) == 1 and log.find("task").head == head
    assert [(row.name, row.owner) for row in log.sessions()] == [("task", None)]


def test_the_leases_of_all_conversations_are_given_back_whatever_fails(
    log: AgentLog, provider: tuple[FakeProvider, Any]
) -> None:
    _, client = provider
    streams: list[Any] = []
    append = log.store.append
    with pytest.raises(Fenced), log.session("task") as s:
        sawlog.record(client, session=s)
        for n in range(3):
            program = Program(API, client, seed=n)
            program.says(f"conversation {n}")
            create, given = program.request()
            streams.append(create(**given, stream=True))  # read by nobody
        log.store.append = _fenced  # type: ignore[method-assign]
    log.store.append = append  # type: ignore[method-assign]
    for stream in streams:
        stream.close()
    names = ["task", "task/2", "task/3"]
    assert sorted((str(row.name), row.owner) for row in log.sessions()) == [
        (name, None) for name in names
    ]


def _fenced(*args: Any, **options: Any) -> Any:
    raise Fenced("another process took the session over")


TAKEN = """
import sys
import openai
import sawlog
from tests.recorder.programs import Program

store, url, strict = sys.argv[1:]
with sawlog.open(store) as log:
    try:
        with sawlog.recording(log, "task", ttl=0.3, strict=strict == "strict"):
            client = openai.OpenAI(api_key="test", base_url=url, max_retries=0)
            program = Program("openai-chat", client)
            program.says("one")
            program.take(program.ask())
            print("ready", flush=True)
            sys.stdin.readline()
            program.says("two")
            try:
                program.take(program.ask())
                print("sent", flush=True)
            except Exception as error:
                print(type(error).__name__, flush=True)
    except sawlog.errors.SawlogError as error:
        print("left with", type(error).__name__, flush=True)
"""


@pytest.mark.parametrize("strict", ["strict", "lenient"])
def test_a_recording_whose_session_another_process_took_over(log: AgentLog, strict: str) -> None:
    """It was stopped for longer than its lease lives: the other one drives, it writes nothing."""
    with FakeProvider(lambda api, request, number: Reply("ok")) as fake:
        process = python(TAKEN, str(log.store.database.url), fake.base_url(API), strict)
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        stop(process, log, "task")
        with log.session("task", wait=30) as s:
            s.user("I am the driver now")
            head = log.find("task").head
            os.kill(process.pid, signal.SIGCONT)
            out, err = process.communicate("go\n", timeout=60)
            assert log.find("task").head == head
        assert err == ""
        said = out.splitlines()
        assert said[0] == ("Fenced" if strict == "strict" else "sent")
        assert len(fake.requests) == (1 if strict == "strict" else 2)
    sound(log, "task")


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
def test_a_recording_whose_server_is_gone(
    postgres_server: PostgresServer, provider: tuple[FakeProvider, Any], strict: bool
) -> None:
    fake, client = provider
    name = postgres_server.create_store()
    with opened(postgres_server.url(name)) as log:
        with contextlib.suppress(StoreError), log.session("task") as s:
            program = Program(API, sawlog.record(client, session=s, strict=strict))
            asks(program, "one")
            postgres_server.drop_database(name)
            program.says("two")
            if strict:
                with pytest.raises(SawlogError):
                    program.ask()
            else:
                program.take(program.ask())
    assert len(fake.requests) == (1 if strict else 2)


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
def test_a_recording_whose_log_was_closed(
    log: AgentLog, provider: tuple[FakeProvider, Any], strict: bool
) -> None:
    fake, client = provider
    with contextlib.suppress(StoreError), log.session("task") as s:
        program = Program(API, sawlog.record(client, session=s, strict=strict))
        asks(program, "one")
        log.close()
        program.says("two")
        if strict:
            with pytest.raises(StoreError, match="closed"):
                program.ask()
        else:
            program.take(program.ask())
    assert len(fake.requests) == (1 if strict else 2)

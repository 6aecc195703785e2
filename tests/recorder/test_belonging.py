"""Which session a request is recorded in: that of the conversation which it goes on from."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openai
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider, Reply
from tests.recorder.programs import Program, script
from tests.session.agents import client_of, opened, sound


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


def names(log: AgentLog) -> list[str]:
    return sorted(str(row.name) for row in log.sessions())


def counts(log: AgentLog, name: str = "task") -> Counter[str]:
    return Counter(event.type for event in sound(log, name).events())


def say(client: Any, *texts: str) -> Any:
    """One request over messages of the user's and the model's in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    return client.chat.completions.create(model="m", messages=messages)


def test_words_that_two_conversations_share_make_them_no_one(log: AgentLog) -> None:
    replies = [Reply(text) for text in ("one", "two", "three", "four")]
    with FakeProvider(replies) as fake, client_of("openai-chat", fake) as client:
        with log.session("task") as s:
            sawlog.record(client, session=s)
            say(client, "hello", "well", "again")
            say(client, "something else", "indeed", "again")
            say(client, "hello", "well", "again", "one", "thanks")
            say(client, "something else", "indeed", "again", "two", "thanks")
    assert names(log) == ["task", "task/2"]
    for name in names(log):
        assert "history.edited" not in counts(log, name)
        assert len(log.read(name).steps) == 2


def test_the_same_start_again_is_another_conversation(log: AgentLog) -> None:
    with FakeProvider([Reply("a"), Reply("b"), Reply("c")]) as fake:
        with client_of("openai-chat", fake) as client, log.session("task") as s:
            sawlog.record(client, session=s)
            for _ in range(3):
                say(client, "draw a number")
    assert names(log) == ["task", "task/2", "task/3"]
    assert all("history.edited" not in counts(log, name) for name in names(log))


def test_an_answer_that_is_asked_for_again_is_an_edit(log: AgentLog) -> None:
    with FakeProvider([Reply("a"), Reply("b"), Reply("c")]) as fake:
        with client_of("openai-chat", fake) as client, log.session("task") as s:
            sawlog.record(client, session=s)
            say(client, "hello")
            say(client, "hello", "a", "more")
            say(client, "hello", "a", "more")
    assert names(log) == ["task"]
    assert counts(log)["history.edited"] == 1 and counts(log)["message.user"] == 2


def test_the_conversations_of_an_earlier_run_are_found_again(log: AgentLog) -> None:
    kept: list[list[Any]] = []
    with FakeProvider(script()) as fake:
        for run in range(2):
            with client_of("openai-chat", fake) as client, log.session("task") as s:
                sawlog.record(client, session=s)
                for number in (0, 1, 2):
                    program = Program("openai-chat", client, seed=number + 10 * run)
                    if run:
                        program.messages = kept[number]
                    else:
                        kept.append(program.messages)
                    program.turn()
    assert names(log) == ["task", "task/2", "task/3"]
    for name in names(log):
        assert len(log.read(name).steps) == 4 and "history.edited" not in counts(log, name)


class Keeping(BaseHTTPRequestHandler):
    """A server that keeps responses, as OpenAI does, and answers what goes on from one of them."""

    kept: set[str]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        previous = asked.get("previous_response_id")
        assert previous is None or previous in self.kept
        id = f"resp_{len(self.kept)}"
        self.kept.add(id)
        text: dict[str, Any] = {"type": "output_text", "text": f"answer to {asked['input']}"}
        item: dict[str, Any] = {
            "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [text | {"annotations": []}],
        }  # fmt: skip
        body = json.dumps(
            {"id": id, "status": "completed", "model": "m", "output": [item]}
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keeps silent."""


@pytest.fixture
def keeping() -> Iterator[str]:
    """The URL of such a server."""
    Keeping.kept = set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Keeping) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


def test_requests_that_lean_on_the_provider_go_on_from_what_it_keeps(
    log: AgentLog, keeping: str
) -> None:
    """The history is not told again, and is not gone for that."""
    last = ["", ""]
    for _ in range(2):
        client: Any = openai.OpenAI(api_key="k", base_url=keeping, max_retries=0)
        with client, log.session("task") as s:
            sawlog.record(client, session=s)
            for _ in range(2):
                for one in (0, 1):
                    options: Any = {"previous_response_id": last[one]} if last[one] else {}
                    told = f"say {one}, after {last[one]}"
                    last[one] = client.responses.create(model="m", input=told, **options).id
    assert names(log) == ["task", "task/2"]
    for name in names(log):
        recorded = sound(log, name)
        assert [step.sent for step in recorded.steps] == ["exact", "held", "held", "held"]
        found = counts(log, name)
        assert found["message.user"] == found["message.assistant"] == 4
        assert "history.edited" not in found


def test_a_recorded_program_that_is_through_leaves_nothing_to_do(log: AgentLog) -> None:
    with FakeProvider(script()) as fake, client_of("openai-chat", fake) as client:
        with log.session("task") as s:
            program = Program("openai-chat", sawlog.record(client, session=s))
            program.turn()
    assert not log.read("task").recover().news


def test_while_a_reply_is_written_its_session_takes_no_other_conversation(log: AgentLog) -> None:
    append = log.store.append
    writing = threading.Event()

    def slow(*args: Any, **options: Any) -> Any:
        if any(type(one.payload).__name__ == "AttemptAnswered" for one in args[1]):
            writing.set()
            until = time.monotonic() + 20
            while len(fake.requests) < 2 and time.monotonic() < until:
                time.sleep(0.01)
        return append(*args, **options)

    with FakeProvider([Reply("one"), Reply("two")]) as fake:
        with client_of("openai-chat", fake) as client, log.session("task") as s:
            sawlog.record(client, session=s)
            log.store.append = slow  # type: ignore[method-assign]
            first = threading.Thread(target=say, args=(client, "hello"))
            first.start()
            assert writing.wait(10)
            say(client, "something else")
            first.join()
            log.store.append = append  # type: ignore[method-assign]
    assert names(log) == ["task", "task/2"]
    for name in names(log):
        assert [step.outcome for step in sound(log, name).steps] == ["completed"]

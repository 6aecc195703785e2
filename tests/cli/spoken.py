"""Sessions over HTTP for the tests of the command: recorded programs, streams, the same unbuilt."""

from __future__ import annotations

import httpx

import sawlog as library
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call, FakeProvider, HttpError, Reply, Streamed
from tests.recorder.programs import Program, script
from tests.session.agents import TOOLS, client_of, next_step

ANSWERS = [Reply("I look.", calls=[Call("read_file", {"path": "a.py"})]), Reply("Done.")]
SUMMARY = "So far: two files were read."


def recorded(log: AgentLog, api: str, name: str = "program", *, turns: int = 2) -> list[bytes]:
    """Record a program that reads a file in each turn; gives the bodies that arrived."""
    with FakeProvider(script()) as fake, log.session(name) as s, client_of(api, fake) as client:
        program = Program(api, library.record(client, session=s))
        for _ in range(turns):
            program.turn()
        return fake.bodies()


def offered(log: AgentLog, text: str, name: str = "program") -> None:
    """Record a program while the session is offered an item, which the program knows nothing of."""
    with FakeProvider(script()) as fake, log.session(name) as s:
        with client_of("openai-chat", fake) as client:
            program = Program("openai-chat", library.record(client, session=s))
            program.turn()
            s.offer(text, source_id="port", channel="memory")
            program.turn()


def edited(log: AgentLog, name: str = "edited") -> list[bytes]:
    """The same, and in its last turn the program has put a summary in the place of the first."""
    with FakeProvider(script()) as fake, log.session(name) as s:
        with client_of("openai-chat", fake) as client:
            program = Program("openai-chat", library.record(client, session=s))
            program.turn()
            program.turn()
            program.messages[1:5] = [{"role": "user", "content": SUMMARY}]
            program.turn()
            return fake.bodies()


def twice(log: AgentLog, api: str) -> None:
    """A session `built` that sawlog built, and `recorded`: the same bytes as another program's."""
    with FakeProvider(ANSWERS) as fake, log.session("built") as s, client_of(api, fake) as client:
        s.system("You fix bugs.")
        s.tools(TOOLS[:1])
        s.user("hello")
        for call in next_step(s, api).send(client).tool_calls:
            with s.tool(call) as run:
                run.result(call.run())
        next_step(s, api).send(client)
        requests = fake.requests
    with FakeProvider(ANSWERS) as fake, log.session("recorded") as s:
        with library.record(httpx.Client(base_url=fake.url), session=s) as bare:
            for one in requests:
                headers = {key: value for key, value in one.headers.items() if key != "host"}
                bare.post(one.path, content=one.body, headers=headers)


def streamed(log: AgentLog, api: str, name: str = "streamed") -> list[bytes]:
    """Three steps: a stream that is left, a refusal, a reply; gives the bodies that arrived."""
    long = Streamed(Reply("word " * 300), chunk=20)
    with FakeProvider([long, HttpError(429), Reply("Done.")]) as fake, log.session(name) as s:
        with client_of(api, fake) as client:
            s.user("Talk.")
            for number, _ in enumerate(next_step(s, api, stream=True).stream(client)):
                if number == 6:
                    break
            for word in ("more", "and more"):
                s.user(word)
                try:
                    next_step(s, api).send(client)
                except library.errors.AttemptFailed as error:
                    assert error.kind == "rate_limit"
            return fake.bodies()

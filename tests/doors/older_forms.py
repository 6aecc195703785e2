"""The ways to use sawlog that the README shows, with whichever official clients are installed.

Run as a program, it goes through all of them against the strict fake provider over HTTP and writes
what came of each to a file, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import openai

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call, FakeProvider, Reply, Streamed

APIS = ("anthropic", "openai-responses", "openai-chat")
README = Path(__file__).parents[2] / "README.md"
FIX = [Reply("I look.", calls=[Call("read_file", {"path": "a.py"})]), Reply("Done.")]
STREAMED = [Streamed(reply, chunk=40) for reply in FIX]
PARAMS: dict[str, dict[str, Any]] = {"anthropic": {"max_tokens": 900}}


def read_file(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


def edit_file(path: str, old: str, new: str) -> str:
    """Replace a text in a file."""
    return f"{old} is {new} in {path}"


def run_tests() -> str:
    """Run the tests."""
    return "1 passed"


def client_of(api: str, fake: FakeProvider, *, tasks: bool = False) -> Any:
    """The official client of an API, unmodified but for where it is pointed at."""
    library: Any = anthropic if api == "anthropic" else openai
    name = ("Async" if tasks else "") + ("Anthropic" if api == "anthropic" else "OpenAI")
    return getattr(library, name)(api_key="any", base_url=fake.base_url(api))


# --- sawlog's own loop ----------------------------------------------------------------------------


def readme(log: AgentLog, api: str, fake: FakeProvider) -> None:
    """The example as it stands; for another API only its name and its client are others."""
    block = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[0]
    model = 's.step("anthropic", model="claude-sonnet-4-5", max_tokens=8000)'
    assert model in block and "anthropic.Anthropic()" in block
    if api != "anthropic":
        block = block.replace(model, f's.step("{api}", model="gpt-6")')
        block = block.replace("anthropic", "openai").replace("openai.Anthropic", "openai.OpenAI")
    os.environ["ANTHROPIC_API_KEY"] = os.environ["OPENAI_API_KEY"] = "any"
    library = "ANTHROPIC" if api == "anthropic" else "OPENAI"
    os.environ[f"{library}_BASE_URL"] = fake.base_url(api)
    block = block.replace('"agent.db"', repr(log.store.database.url)).replace("fix-refund", "task")
    names: dict[str, Any] = {"read_file": read_file, "edit_file": edit_file, "run_tests": run_tests}
    exec(compile(block, "README.md", "exec"), names)
    names["client"].close()
    names["log"].close()


def streamed(log: AgentLog, api: str, fake: FakeProvider) -> None:
    """The same loop over the client's own events."""
    with log.session("task") as s, client_of(api, fake) as client:
        s.tools([read_file])
        s.user("Fix it.")
        while True:
            step = s.step(api, model="gpt-6", stream=True, **PARAMS.get(api, {}))
            for event in step.stream(client):
                assert type(event).__module__.startswith(("anthropic", "openai"))
            assert step.reply is not None
            if not step.reply.tool_calls:
                break
            for call in step.reply.tool_calls:
                with s.tool(call) as run:
                    run.result(call.run())


def left(log: AgentLog, api: str, fake: FakeProvider) -> None:
    """A stream that is left at its third event; the next request shows what had come of it."""
    with log.session("task") as s, client_of(api, fake) as client:
        s.user("Talk.")
        step = s.step(api, model="gpt-6", stream=True, **PARAMS.get(api, {}))
        for number, _ in enumerate(step.stream(client)):
            if number == 2:
                break
        assert step.reply is not None and step.reply.interrupted
        s.user("Go on.")
        assert s.step(api, model="gpt-6", **PARAMS.get(api, {})).send(client).text == "Done."


def tasks(log: AgentLog, api: str, fake: FakeProvider) -> None:
    """The async form, calls in a task group, the last reply as a stream."""

    async def tool(s: Any, call: Any) -> None:
        async with s.tool(call) as run:
            run.result(call.run())

    async def main() -> None:
        async with log.asession("task") as s, client_of(api, fake, tasks=True) as client:
            await s.tools([read_file])
            await s.user("Fix it.")
            step = await s.step(api, model="gpt-6", **PARAMS.get(api, {}))
            reply = await step.send(client)
            async with asyncio.TaskGroup() as group:
                for call in reply.tool_calls:
                    group.create_task(tool(s, call))
            step = await s.step(api, model="gpt-6", stream=True, **PARAMS.get(api, {}))
            events = [event async for event in step.stream(client)]
            assert len(events) > 2 and step.reply is not None and step.reply.text == "Done."

    asyncio.run(main())


# --- programs that know nothing of sawlog ---------------------------------------------------------


def program(api: str, client: Any, **options: Any) -> Any:
    """One request as people write it; gives what the client gives, or what is to be awaited."""
    said: Any = [{"role": "user", "content": "Fix it."}]
    if api == "anthropic":
        return client.messages.create(model="m", max_tokens=900, messages=said, **options)
    if api == "openai-responses":
        return client.responses.create(model="gpt-6", input=said, store=False, **options)
    return client.chat.completions.create(model="gpt-6", messages=said, **options)


def record(log: AgentLog, api: str, fake: FakeProvider) -> None:
    """`sawlog.record`: a whole reply, and one as a stream."""
    with log.session("task") as s, client_of(api, fake) as plain:
        client = sawlog.record(plain, session=s)
        assert client is plain
        program(api, client)
        assert len(list(program(api, client, stream=True))) > 2


def record_tasks(log: AgentLog, api: str, fake: FakeProvider) -> None:
    """The same with an async client."""

    async def main() -> None:
        async with log.asession("task") as s, client_of(api, fake, tasks=True) as plain:
            client = sawlog.record(plain, session=s)
            await program(api, client)
            assert len([one async for one in await program(api, client, stream=True)]) > 2

    asyncio.run(main())


def recording(log: AgentLog, api: str, fake: FakeProvider) -> None:
    """`with sawlog.recording`: whoever makes the client in it."""
    with sawlog.recording(log, "task"):
        with client_of(api, fake) as client:
            program(api, client)
            assert len(list(program(api, client, stream=True))) > 2
    with client_of(api, fake) as client:
        program(api, client)


Form = Callable[[AgentLog, str, FakeProvider], None]
_TALK = Reply("word " * 200)
FORMS: dict[str, tuple[Form, list[Any], int]] = {
    "readme": (readme, [*FIX], 2),
    "streamed": (streamed, [*STREAMED], 2),
    "left": (left, [Streamed(_TALK, chunk=20), Reply("Done.")], 2),
    "tasks": (tasks, [FIX[0], STREAMED[1]], 2),
    "record": (record, [FIX[1], STREAMED[1]], 2),
    "record_tasks": (record_tasks, [FIX[1], STREAMED[1]], 2),
    "recording": (recording, [FIX[1], STREAMED[1], FIX[1]], 2),
}
"""Each form, what the provider answers, how many of the requests are in the log."""


def outcome(form: str, api: str, folder: Path) -> dict[str, Any]:
    """What came of one form: how many bodies arrived and were logged alike, whether it verifies."""
    run, replies, logged = FORMS[form]
    with FakeProvider(replies) as fake:
        with sawlog.open(str(folder / f"{form}-{api}.db")) as log:
            run(log, api, fake)
            names = [row.name for row in log.sessions()]
            found = [log.read(name or "") for name in names]
            bodies = [step.packet.body for one in found for step in one.steps]
            return {
                "received": len(fake.requests),
                "statuses": sorted({request.status for request in fake.requests}),
                "alike": bodies == [request.body for request in fake.requests[:logged]],
                "sent": sorted({step.sent for one in found for step in one.steps}),
                "sound": all(one.verify().sound for one in found),
            }


def main(folder: Path, out: Path) -> None:
    """Go through all forms, each on its own, and write what came of them."""
    found: dict[str, Any] = {
        "openai": openai.__version__,
        "anthropic": anthropic.__version__,
        "library": openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0],
    }
    for form in FORMS:
        for api in APIS:
            try:
                found[f"{form} {api}"] = outcome(form, api, folder)
            except Exception:
                found[f"{form} {api}"] = {"error": traceback.format_exc()}
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

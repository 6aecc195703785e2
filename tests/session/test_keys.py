"""The keys of clients: no byte of one is left behind a run, however a provider says it back."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anthropic
import httpx
import openai
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.contents import text_of
from sawlog.providers.fake import (
    At,
    Drop,
    ErrorEvent,
    FakeProvider,
    HttpError,
    Reply,
    Streamed,
)
from sawlog.store.errors import AttemptFailed, SawlogError
from sawlog.store.events.steps import AttemptLost, AttemptSent
from sawlog.store.exchange import export
from tests.cli.command import sawlog as command
from tests.recorder.programs import APIS, Program
from tests.session.agents import next_step, opened, sound
from tests.session.tasks import run

KEY = "sk-live/9f3c+71d0_4b6e'a8\"52"
"""Its characters are escaped by JSON, URLs and HTML alike."""


def spelled(key: str) -> list[bytes]:
    """The key as it is and as encoders write it."""
    raw = key.encode()
    inside = [base64.b64encode(b"x" * lead + raw)[4:-4] for lead in range(3)]
    return [
        raw,
        json.dumps(key)[1:-1].encode(),
        json.dumps(json.dumps(key)[1:-1])[1:-1].encode(),
        quote(key, safe="").encode(),
        *inside,
        *(one.translate(bytes.maketrans(b"+/", b"-_")) for one in inside),
    ]


def free(name: str, data: bytes | str, key: str = KEY) -> None:
    """Fail where the key is in it."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    for one in spelled(key):
        assert one not in raw, f"{name}: {raw[max(0, raw.find(one) - 80) :][:200]!r}"


def left_behind(log: AgentLog, folder: Path) -> None:
    """Look for the key in all that there is of the store: files, payloads, blobs, exports."""
    for row in log.sessions():
        sound(log, str(row.name))
        for stored in log.store.read(row):
            free(f"event {stored.seq}", stored.payload or b"")
        free("export", b"".join(export(log.store, row)))
        shown = command("--store", folder / "agent.db", "show", row.name, "--all", "--json")
        assert shown.code == 0, shown.err
        free("show", shown.out)
    for path in folder.rglob("*"):
        if path.is_file():
            free(path.name, path.read_bytes())


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


# --- where a key may be, and what says it back ----------------------------------------------------


def echo(api: str) -> list[Any]:
    """Refusals, breaks and failures that say the key back, in all the ways that there are."""
    said = f"wrong key {KEY}, in base64 {base64.b64encode(b'user:' + KEY.encode()).decode()}"
    error = {"type": "error", "error": {"message": said, "type": "authentication_error"}}
    return [
        HttpError(401, said),
        HttpError(401, body=json.dumps(error).encode()),
        HttpError(401, body=json.dumps({"error": json.dumps(error)}).encode()),
        HttpError(403, body=f"<html>no: {quote(KEY, safe='')} {KEY}</html>".encode()),
        HttpError(500, said, headers={"x-request-id": KEY, "request-id": KEY, "x-echo": KEY}),
        Drop(),
        Reply("ok"),
    ]


def official(api: str, fake: FakeProvider, **options: Any) -> Any:
    """The official client, its key the one that is looked for."""
    options = {"api_key": KEY, "base_url": fake.base_url(api), "max_retries": 0, **options}
    return (anthropic.Anthropic if api == "anthropic" else openai.OpenAI)(**options)


def in_headers(api: str, fake: FakeProvider) -> Any:
    """Another header holds it, too, one of an innocent name among them."""
    headers = {"x-team-token": KEY, "x-note": f"team of {KEY}"}
    return official(api, fake, api_key="another-key-0123", default_headers=headers)


def in_query(api: str, fake: FakeProvider) -> Any:
    """The query of each URL holds it."""
    return official(api, fake, api_key="another-key-0123", default_query={"key": KEY})


def in_url(api: str, fake: FakeProvider) -> Any:
    """The user information of the base URL holds it."""
    url = fake.base_url(api).replace("://", f"://user:{quote(KEY, safe='')}@")
    return httpx.Client(base_url=url)


def in_auth(api: str, fake: FakeProvider) -> Any:
    """An HTTP client sends it as a password, and as a cookie."""
    return httpx.Client(base_url=fake.base_url(api), auth=("user", KEY), cookies={"session": KEY})


PLACES: list[Callable[[str, FakeProvider], Any]] = [
    official, in_headers, in_query, in_url, in_auth,
]  # fmt: skip


def told(error: BaseException) -> str:
    """All that an error says: its text, its parts, its traceback."""
    shown = "".join(traceback.format_exception(error))
    parts = [str(getattr(error, name, "")) for name in ("kind", "request_id", "message", "body")]
    return "\n".join([str(error), repr(error), shown, *parts])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: str(place.__name__))
def test_a_step_leaves_no_byte_of_a_key(
    log: AgentLog, tmp_path: Path, api: str, place: Callable[[str, FakeProvider], Any]
) -> None:
    script = echo(api)
    with FakeProvider(script) as fake, place(api, fake) as client, log.session("task") as s:
        for _ in script:
            s.user("hello")
            try:
                next_step(s, api).send(client)
            except SawlogError as error:
                free("error", told(error))
            except (openai.APIConnectionError, anthropic.APIConnectionError, httpx.HTTPError):
                pass  # the client's own
        assert len(fake.requests) == len(script)
    left_behind(log, tmp_path)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("at", [0, 6])
def test_a_stream_that_fails_with_the_key_in_its_words_leaves_no_byte_of_it(
    log: AgentLog, tmp_path: Path, api: str, at: int
) -> None:
    broken = Streamed(Reply("word " * 20), [ErrorEvent(At(events=at), f"bad key {KEY}")])
    with FakeProvider([broken, broken]) as fake, official(api, fake) as client:
        with log.session("task") as s:
            for ask in ("stream", "send"):
                s.user("hello")
                step = next_step(s, api, stream=True)
                with pytest.raises(AttemptFailed) as failed:
                    list(step.stream(client)) if ask == "stream" else step.send(client)
                free("error", told(failed.value))
    left_behind(log, tmp_path)


@pytest.mark.parametrize("api", ["anthropic", "openai-responses"])
def test_a_step_of_a_task_leaves_no_byte_of_a_key(log: AgentLog, tmp_path: Path, api: str) -> None:
    broken = Streamed(Reply("word " * 20), [ErrorEvent(At(events=6), f"bad key {KEY}")])

    async def main(fake: FakeProvider) -> None:
        kind: Any = anthropic.AsyncAnthropic if api == "anthropic" else openai.AsyncOpenAI
        async with kind(api_key=KEY, base_url=fake.base_url(api), max_retries=0) as client:
            async with log.asession("task") as s:
                for stream in (False, True):
                    await s.user("hello")
                    more = {"max_tokens": 100} if api == "anthropic" else {}
                    step = await s.step(api, model="test-model", stream=stream, **more)
                    with pytest.raises(AttemptFailed) as failed:
                        await step.send(client)
                    free("error", told(failed.value))

    with FakeProvider([HttpError(401, f"wrong key {KEY}"), broken]) as fake:
        run(main(fake))
    left_behind(log, tmp_path)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("place", [official, in_headers, in_query], ids=lambda p: str(p.__name__))
@pytest.mark.parametrize("how", ["record", "recording"])
def test_a_recording_leaves_no_byte_of_a_key(
    log: AgentLog,
    tmp_path: Path,
    api: str,
    place: Callable[[str, FakeProvider], Any],
    how: str,
) -> None:
    failing = Streamed(Reply("word " * 20), [ErrorEvent(At(events=0), f"bad key {KEY}")])
    script = [*echo(api), failing]
    with contextlib.ExitStack() as stack:
        fake = stack.enter_context(FakeProvider(script))
        client = stack.enter_context(place(api, fake))
        if how == "record":
            sawlog.record(client, session=stack.enter_context(log.session("task")))
        else:
            stack.enter_context(sawlog.recording(log, "task"))
        program = Program(api, client)
        for number in range(len(script)):
            program.stream = number == len(script) - 1
            program.messages = program.messages[:1] if "chat" in api else []
            program.says(f"hello {number}")
            with contextlib.suppress(openai.APIError, anthropic.APIError, StopIteration):
                program.ask()
        assert len(fake.requests) == len(script)
    left_behind(log, tmp_path)


class Echoing(httpx.BaseTransport):
    """A connection that breaks, and whose error names all that it was given."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"no route to {request.url} with {dict(request.headers)!r}")


@pytest.mark.parametrize("how", ["send", "record"])
def test_the_words_of_an_exception_are_written_without_the_key(
    log: AgentLog, tmp_path: Path, how: str
) -> None:
    url = f"http://user:{quote(KEY, safe='')}@localhost:9/v1"
    with httpx.Client(base_url=url, transport=Echoing(), params={"key": KEY}) as client:
        with log.session("task") as s:
            s.user("hello")
            with pytest.raises(httpx.ConnectError):
                if how == "send":
                    next_step(s, "openai-chat").send(client)
                else:
                    sawlog.record(client, session=s)
                    client.post("/chat/completions", json={"model": "m", "messages": []})
    left_behind(log, tmp_path)
    recorded = log.read("task")
    found = [event.content for event in recorded.events()]
    [lost] = [one for one in found if isinstance(one, AttemptLost)]
    assert text_of(lost.reason, recorded.window).startswith("ConnectError: no route to http")
    [sent] = [one for one in found if isinstance(one, AttemptSent)]
    assert sent.url == "http://localhost:9/v1/chat/completions?key=…"


def test_a_key_of_the_environment_is_one(
    log: AgentLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FakeProvider([HttpError(401, f"wrong key {KEY}")] * 2) as fake, log.session("task") as s:
        url = fake.base_url("openai-chat")
        with openai.OpenAI(base_url=url) as one, sawlog.client("openai", base_url=url) as other:
            for client in (one, other):
                s.user("hello")
                with pytest.raises(AttemptFailed) as failed:
                    next_step(s, "openai-chat").send(client)
                free("error", told(failed.value))
    left_behind(log, tmp_path)


def test_a_key_that_the_client_asks_for_when_it_sends_is_one(log: AgentLog, tmp_path: Path) -> None:
    with FakeProvider([HttpError(401, f"wrong key {KEY}")]) as fake, log.session("task") as s:
        client = openai.OpenAI(
            api_key=lambda: KEY, base_url=fake.base_url("openai-chat"), max_retries=0
        )
        s.user("hello")
        with client, pytest.raises(AttemptFailed) as failed:
            next_step(s, "openai-chat").send(client)
        free("error", told(failed.value))
    left_behind(log, tmp_path)


@pytest.mark.parametrize("api", ["anthropic", "openai-chat"])
def test_the_libraries_log_no_key_because_of_sawlog(
    log: AgentLog, api: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At their most talkative: what is handed to a client names no key."""
    caplog.set_level(logging.DEBUG)
    with FakeProvider([Reply("a"), Reply("b"), Reply("c")]) as fake, official(api, fake) as client:
        with log.session("task") as s:
            s.user("hello")
            next_step(s, api).send(client)
            s.user("hello")
            next_step(s, api, stream=True).send(client)
        with sawlog.recording(log, "other"):
            program = Program(api, client)
            program.says("hello")
            program.ask()
    assert len(caplog.records) > 6
    free("logging", "\n".join(f"{one.getMessage()} {one.args!r}" for one in caplog.records))

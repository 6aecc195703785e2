"""A summariser is asked over real HTTP, and whatever goes wrong is an answer with its class."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sawlog.builder.packet import Request
from sawlog.compaction.answering import Answer, Refusal, merged, read_answer
from sawlog.compaction.asking import Asked, request_for
from sawlog.compaction.evidence import evidence_of
from sawlog.errors import ConfigError
from sawlog.providers.fake import (
    Call,
    Drop,
    FakeProvider,
    Hang,
    HttpError,
    Reply,
    Script,
    Step,
    Thinking,
)
from sawlog.work.summarising import Answered, Provider, ask
from tests.builder.memory import RENDERERS
from tests.compaction.pasts import known_of, past_of, work
from tests.fresh import imported_modules

GOOD: dict[str, Any] = {
    "goal": "Mend the parser.",
    "constraints": [{"id": "c-vendor", "text": "vendor/ stays", "evidence": ["k1.1"]}],
    "confirmed": [{"id": "", "text": "saw that 3 tests passed", "evidence": ["k1.3"]}],
    "changed": [],
    "open": [{"id": "o-printer", "text": "the printer", "evidence": []}],
    "next": [],
    "narrative": "",
}
KEYS = {
    "anthropic": "ANTHROPIC_API_KEY", "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY", "deepseek-chat": "DEEPSEEK_API_KEY",
}  # fmt: skip


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS.values():
        monkeypatch.setenv(name, "sk-secret")


class Asking:
    """A summariser behind a fake provider, asked for a checkpoint of the usual work."""

    def __init__(self, fake: FakeProvider, api: str) -> None:
        self.fake = fake
        self.api = api

    def provider(self, **options: object) -> Provider:
        fields = {"timeout": 20.0, "retries": 0, "base_url": self.fake.base_url(self.api)}
        return Provider(api=self.api, model="m-1", **{**fields, **options})  # type: ignore[arg-type]

    def asked(self) -> Asked:
        log = work(self.api)
        return request_for(past_of(log), known_of(log), self.provider().sending())

    def ask(self, **options: object) -> Answered:
        return self.provider(**options).ask(self.asked().request)


def asked_once(script: Script, api: str = "anthropic", **options: object) -> Answered:
    """What one asking gives under a script."""
    with FakeProvider(script) as fake:
        return Asking(fake, api).ask(**options)


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", RENDERERS)
def test_a_good_answer_of_each_api(api: str) -> None:
    with FakeProvider([Reply(json.dumps(GOOD))]) as fake:
        asking = Asking(fake, api)
        answered = asking.ask()
        assert fake.bodies(api) == [asking.asked().request.body], "the very bytes leave"
        headers = fake.requests[0].headers
    secret = headers["x-api-key"] if api == "anthropic" else headers["authorization"]
    assert secret.endswith("sk-secret")
    assert (answered.status, answered.error) == (200, "")
    assert json.loads(answered.text) == GOOD
    assert json.loads(answered.body) and json.loads(answered.usage)
    found = read_answer(answered.text)
    assert isinstance(found, Answer)
    log = work(api)
    past, known = past_of(log), known_of(log)
    made = merged(past, known, found, evidence_of(past, known))
    assert [one.text for one in made.confirmed] == ["ran read_file", "saw that 3 tests passed"]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(calls=[Call("read_file", {"path": "a"})]), "no_text"),
        (Reply("I would rather not."), "not_json"),
        (Reply(json.dumps({k: v for k, v in GOOD.items() if k != "open"})), "missing_section"),
    ],
)
def test_an_answer_without_its_form_is_refused_with_a_code(reply: Reply, code: str) -> None:
    answered = asked_once([reply])
    assert answered.error == "" and answered.status == 200
    found = read_answer(answered.text)
    assert isinstance(found, Refusal) and found.codes[0][0] == code


def test_unknown_evidence_is_not_guessed() -> None:
    wrong = {**GOOD, "confirmed": [{"id": "", "text": "saw it", "evidence": ["k9.9"]}]}
    found = read_answer(asked_once([Reply(json.dumps(wrong))]).text)
    assert isinstance(found, Answer)
    log = work()
    past, known = past_of(log), known_of(log)
    made = merged(past, known, found, evidence_of(past, known))
    assert made.confirmed[-1].refs == ("k9.9",)


def test_thinking_in_front_of_the_answer_is_no_part_of_it() -> None:
    reply = Reply(parts=[Thinking("hm")], text="")
    with FakeProvider([Reply(json.dumps(GOOD), thinking="hm"), reply]) as fake:
        asking = Asking(fake, "anthropic")
        assert json.loads(asking.ask().text) == GOOD
        assert asking.ask().text == ""


@pytest.mark.parametrize(
    ("api", "stop"),
    [
        ("anthropic", "max_tokens"), ("openai-chat", "length"),
        ("openai-responses", "max_output_tokens"), ("deepseek-chat", "length"),
    ],
)  # fmt: skip
def test_an_answer_without_its_end_is_cut_off(api: str, stop: str) -> None:
    """Also when what is there happens to be whole."""
    answered = asked_once([Reply(json.dumps(GOOD), stop=stop)], api)
    assert (answered.error, answered.message) == ("cut_off", f"it ended with {stop}")
    assert answered.usage


# --- what goes wrong ------------------------------------------------------------------------------

SOON = {"retry-after-ms": "1"}


@pytest.mark.parametrize("status", [429, 500, 529])
def test_what_passes_is_tried_again(status: int) -> None:
    with FakeProvider([HttpError(status, headers=SOON), Reply(json.dumps(GOOD))]) as fake:
        asking = Asking(fake, "anthropic")
        answered = asking.ask(retries=1)
        assert [one.status for one in fake.requests] == [status, 200]
        assert len({one.body for one in fake.requests}) == 1
    assert answered.error == ""


def test_tries_have_a_bound() -> None:
    script: list[Step] = [HttpError(429, headers=SOON)] * 9
    with FakeProvider(script) as fake:
        answered = Asking(fake, "anthropic").ask(retries=2)
        assert len(fake.requests) == 3
    assert (answered.error, answered.status) == ("rate_limit", 429)
    assert "rate_limit_error" in answered.body


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (HttpError(401), "auth"),
        (HttpError(403), "auth"),
        (HttpError(400), "invalid_request"),
        (HttpError(413), "context_overflow"),
        (HttpError(400, "prompt is too long: 210000 tokens > 200000 maximum"), "context_overflow"),
    ],
)
def test_what_stays_wrong_is_not_tried_again(error: HttpError, kind: str) -> None:
    script: list[Step] = [error] * 3
    with FakeProvider(script) as fake:
        answered = Asking(fake, "anthropic").ask(retries=2)
        assert len(fake.requests) == 1
    assert (answered.error, answered.status) == (kind, error.status)
    assert answered.overflowed is (kind == "context_overflow")
    assert "sk-secret" not in repr(answered)


def test_an_answer_that_says_the_window_was_too_small_is_an_overflow() -> None:
    answered = asked_once([Reply("{", stop="model_context_window_exceeded")])
    assert answered.overflowed


def test_a_timeout() -> None:
    answered = asked_once([Hang(5)], timeout=0.3)
    assert (answered.status, answered.error) == (0, "timeout")


class Dripping(BaseHTTPRequestHandler):
    """Sends a byte now and then, for ever."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b" ")
                time.sleep(0.05)

    def log_message(self, format: str, *args: object) -> None:
        """Keep silent."""


def test_a_server_that_drips_runs_into_the_same_time() -> None:
    """The bound is for the whole try, not for each of its reads."""
    with FakeProvider([]) as fake:
        request = Asking(fake, "anthropic").asked().request
    server = ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        provider = Provider(api="anthropic", model="m", base_url=url, timeout=0.4, retries=0)
        began = time.monotonic()
        assert provider.ask(request).error == "timeout"
        assert time.monotonic() - began < 60  # for ever, without the bound
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_reply_that_breaks_in_the_middle_is_tried_again() -> None:
    broken_off = Drop(Reply(json.dumps(GOOD)), sent=200)
    script: list[Step] = [broken_off, Drop(), Reply(json.dumps(GOOD))]
    with FakeProvider(script) as fake:
        answered = Asking(fake, "anthropic").ask(retries=2)
        assert len(fake.requests) == 3
    assert json.loads(answered.text) == GOOD
    broken = asked_once([broken_off])
    assert (broken.status, broken.error, broken.body) == (0, "connection", "")


def test_nobody_listens() -> None:
    with FakeProvider([]) as fake:
        asking = Asking(fake, "anthropic")
        provider, request = asking.provider(), asking.asked().request
    assert provider.ask(request).error == "connection"


# --- callables ------------------------------------------------------------------------------------


def body_of(text: str) -> bytes:
    """A reply of Chat Completions."""
    message = {"role": "assistant", "content": text}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


def test_a_callable_gets_the_request_and_gives_the_reply() -> None:
    seen: list[Request] = []

    def summarise(request: Request) -> bytes:
        seen.append(request)
        return body_of(json.dumps(GOOD))

    log = work("openai-chat")
    provider = Provider(api="openai-chat", model="m-1")
    asked = request_for(past_of(log), known_of(log), provider.sending())
    assert json.loads(ask(summarise, asked.request, "openai-chat").text) == GOOD
    assert seen == [asked.request]


def test_what_a_callable_raises_is_an_answer() -> None:
    def summarise(request: Request) -> bytes:
        raise RuntimeError("no model today")

    log = work("openai-chat")
    provider = Provider(api="openai-chat", model="m-1")
    request = request_for(past_of(log), known_of(log), provider.sending()).request
    answered = ask(summarise, request, "openai-chat")
    assert (answered.error, answered.message) == ("failed", "RuntimeError: no model today")
    assert ask(lambda _: b"<html>", request, "openai-chat").error == "malformed"


def test_a_callable_that_is_stopped_stops_the_caller() -> None:
    def summarise(request: Request) -> bytes:
        raise KeyboardInterrupt

    log = work("openai-chat")
    request = request_for(
        past_of(log), known_of(log), Provider(api="openai-chat", model="m").sending()
    ).request
    with pytest.raises(KeyboardInterrupt):
        ask(summarise, request, "openai-chat")


# --- the door -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "http://example.com"}, "no URL that a key may be sent to"),
        ({"base_url": "ftp://127.0.0.1"}, "no URL that a key may be sent to"),
        ({"base_url": "https://[::1"}, "no URL that a key may be sent to"),
        ({"base_url": "https://example.com", "key_variable": "NO_SUCH_KEY"}, "set NO_SUCH_KEY"),
        ({"retries": -1}, "retries are 0 or more"),
        ({"timeout": 0}, "timeout above 0"),
    ],
)
def test_a_door_that_cannot_be_is_told_before_anything_leaves(
    options: dict[str, object], message: str
) -> None:
    with FakeProvider([]) as fake:
        with pytest.raises(ConfigError, match=message):
            Asking(fake, "anthropic").ask(**options)
        assert fake.requests == []


def test_a_key_with_a_line_end_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk\n")
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY holds a character") as raised:
        asked_once([Reply("x")])
    assert "sk" not in str(raised.value)


def test_a_server_on_this_machine_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with FakeProvider([Reply("x")]) as fake:
        assert Asking(fake, "openai-chat").ask().text == "x"
        assert "authorization" not in fake.requests[0].headers


def test_an_unknown_api_is_told() -> None:
    with pytest.raises(ConfigError, match="no profile for the API 'smoke'"):
        Provider(api="smoke", model="m").sending()


def test_no_http_library_is_loaded_before_a_request() -> None:
    assert "httpx" not in imported_modules("import sawlog.work.summarising")

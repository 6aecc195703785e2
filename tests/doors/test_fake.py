"""The fake provider, driven with the official clients over HTTP."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import anthropic
import httpx2
import openai
import pytest

from sawlog.providers.fake import (
    At,
    Call,
    Cut,
    Drop,
    FakeProvider,
    Hang,
    HttpError,
    Raw,
    Reply,
    Script,
    ScriptError,
    Step,
    Streamed,
    main,
    read_script,
    storm,
    tool_use_failed,
)
from sawlog.providers.strict.reading import JsonObject
from tests.doors.provoke import STARTS, Clients, answered, as_bytes, connected, goes_on

apis = pytest.mark.parametrize("api", STARTS)


def test_what_was_received_is_kept_to_the_byte() -> None:
    """The way in which bytes leave a client unchanged, and the raw answer comes back."""
    body = b'{ "model":"claude-opus-5-5", "max_tokens":1e2\t, "messages":[] }'
    legal = b'{"messages":[{"content":"\\u00fc","role":"user"}],"max_tokens":10,"model":"m"}\n'
    with FakeProvider([Reply("ok")]) as fake:
        with anthropic.Anthropic(api_key="secret", base_url=fake.url, max_retries=0) as client:
            with pytest.raises(anthropic.BadRequestError) as caught:
                client.post("/v1/messages", content=body, cast_to=httpx2.Response)
            response = client.post("/v1/messages", content=legal, cast_to=httpx2.Response)
        first, second = fake.requests
        assert (first.body, second.body) == (body, legal)
        assert (first.api, first.method, first.path) == ("anthropic", "POST", "/v1/messages")
        assert first.headers["content-type"] == "application/json"
        assert first.refusal is not None and second.refusal is None
        assert caught.value.response.content == first.answer
        assert caught.value.request_id == caught.value.response.headers["request-id"]
        assert (response.status_code, response.content) == (200, second.answer)
        assert response.headers["request-id"].startswith("req_")
        assert fake.bodies() == fake.bodies("anthropic") == [legal]
        assert fake.bodies("openai-chat") == []


def test_a_body_in_chunks_is_put_together() -> None:
    body = as_bytes(STARTS["openai-chat"])
    with FakeProvider([Reply("ok")]) as fake, httpx2.Client() as client:
        chunks = (body[start : start + 7] for start in range(0, len(body), 7))
        assert client.post(f"{fake.url}/v1/chat/completions", content=chunks).status_code == 200
        assert fake.requests[0].body == body


def test_a_path_of_no_api_is_not_found() -> None:
    with FakeProvider([Reply("ok")]) as fake, httpx2.Client() as client:
        wrong = client.post(f"{fake.url}/v1/complete", content=b"{}")
        assert client.get(f"{fake.url}/v1/messages").status_code == 404
        assert wrong.status_code == 404
        assert wrong.json()["error"]["message"] == "Unknown request URL: POST /v1/complete."
        assert [request.api for request in fake.requests] == [None, None]


def test_refused_requests_take_no_answer_from_the_script() -> None:
    with connected(FakeProvider([Reply("first")])) as clients:
        assert clients.post("openai-chat", b"{}").status_code == 400
        reply = answered(clients, "openai-chat", STARTS["openai-chat"])
        assert reply["choices"][0]["message"]["content"] == "first"


@apis
def test_a_stream_is_asked_for_with_true(api: str) -> None:
    with connected(FakeProvider([Reply("ok")] * 2)) as clients:
        refused = clients.post(api, as_bytes(STARTS[api] | {"stream": "yes"}))
        assert refused.status_code == 400 and "stream: " in refused.text.replace("'", "")
        answered(clients, api, STARTS[api] | {"stream": False})
        stream = clients.post(api, as_bytes(STARTS[api] | {"stream": True}))
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.text.endswith("\n\n")


@pytest.mark.parametrize(
    ("api", "message"),
    [
        (
            "openai-chat",
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        ),
        ("deepseek-chat", "stream_options should be set along with stream = true"),
    ],
)
def test_options_of_a_stream_need_a_stream(api: str, message: str) -> None:
    body = STARTS[api] | {"stream_options": {"include_usage": True}}
    with connected(FakeProvider([Reply("ok")])) as clients:
        refused = clients.post(api, as_bytes(body))
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, message)
        assert clients.post(api, as_bytes(body | {"stream": True})).status_code == 200


@apis
def test_a_script_that_does_not_fit_is_a_server_error(api: str) -> None:
    """A script at its end, a part that the API cannot hold: named, and nothing is guessed."""

    def fails(api: str, request: JsonObject, number: int) -> Step:
        raise KeyError("no such file")

    scripts: list[tuple[Script, str]] = [
        ([], "it has 0 answers and this is request 1; add one"),
        (fails, "KeyError: 'no such file'"),
    ]
    if api == "anthropic":
        scripts.append(([Reply(calls=[Call("read", "{not json")])], "are not a JSON object"))
    if api in ("openai-chat", "deepseek-chat"):
        scripts.append(([Reply(parts=[Raw({"type": "x"})])], "have no place for a raw part"))
    for script, reason in scripts:
        with connected(FakeProvider(script)) as clients:
            response = clients.post(api, as_bytes(STARTS[api]))
            assert response.status_code == 500
            assert "the script of the fake provider failed: " in response.text
            assert reason in response.json()["error"]["message"]


def test_the_script_may_be_a_function() -> None:
    def script(api: str, request: JsonObject, number: int) -> Step:
        return HttpError(429) if number == 0 else Reply(f"{api} {request['model']} {number}")

    with connected(FakeProvider(script)) as clients:
        body = as_bytes(STARTS["deepseek-chat"])
        assert clients.post("deepseek-chat", body).status_code == 429
        reply = answered(clients, "deepseek-chat", STARTS["deepseek-chat"])
        assert reply["choices"][0]["message"]["content"] == "deepseek-chat deepseek-v4-pro 1"


@pytest.mark.parametrize(
    ("api", "status", "kind"),
    [
        ("anthropic", 429, "rate_limit_error"),
        ("anthropic", 500, "api_error"),
        ("anthropic", 529, "overloaded_error"),
        ("openai-chat", 429, "rate_limit_exceeded"),
        ("openai-responses", 500, "server_error"),
        ("deepseek-chat", 402, "invalid_request_error"),
    ],
)
def test_errors_have_the_form_of_their_api(api: str, status: int, kind: str) -> None:
    script = [HttpError(status, headers={"retry-after": "7"}), HttpError(status, "Busy.", "mine")]
    with connected(FakeProvider(script)) as clients:
        response = clients.post(api, as_bytes(STARTS[api]))
        assert (response.status_code, response.headers["retry-after"]) == (status, "7")
        assert response.json()["error"]["type"] == kind
        given = clients.post(api, as_bytes(STARTS[api])).json()["error"]
        assert (given["type"], given["message"]) == ("mine", "Busy.")


def test_groq_s_refusal_of_the_model_s_own_call() -> None:
    """The reply is only in the error, as recorded."""
    script = [tool_use_failed("Tool call validation failed: x", '{"name": "read"}')]
    with connected(FakeProvider(script)) as clients:
        response = clients.post("openai-chat", as_bytes(STARTS["openai-chat"]))
        assert response.status_code == 400
        assert response.json() == {
            "error": {
                "message": "Tool call validation failed: x",
                "type": "invalid_request_error",
                "code": "tool_use_failed",
                "failed_generation": '{"name": "read"}',
            }
        }


def test_dropped_connections_are_errors_of_the_connection() -> None:
    """At once, in the middle of a body, and after silence."""
    script: list[Step] = [Drop(), Drop(Reply("a long reply"), 20), Hang(0.1), Reply("ok")]
    body = as_bytes(STARTS["openai-chat"])
    with FakeProvider(script) as fake, httpx2.Client(base_url=fake.url) as client:
        for _ in range(3):
            with pytest.raises(httpx2.RemoteProtocolError):
                client.post("/v1/chat/completions", content=body)
        assert client.post("/v1/chat/completions", content=body).status_code == 200
        assert [request.status for request in fake.requests] == [0, 200, 0, 200]


def test_a_client_may_lose_patience() -> None:
    """Its timeout is its own; the fake ends without waiting for the answer that it owed."""
    start = time.monotonic()
    with FakeProvider([Hang(600, Reply("late")), Hang(0.05, Reply("in time"))]) as fake:
        client = openai.OpenAI(api_key="k", base_url=f"{fake.url}/v1", max_retries=0)
        body = as_bytes(STARTS["openai-chat"])
        with client:
            with pytest.raises(openai.APITimeoutError):
                hasty = client.with_options(timeout=0.2)
                hasty.post("/chat/completions", content=body, cast_to=httpx2.Response)
            response = client.post("/chat/completions", content=body, cast_to=httpx2.Response)
        assert b"in time" in response.content
    assert time.monotonic() - start < 300


def test_a_request_that_anthropic_finds_too_large() -> None:
    big = STARTS["anthropic"] | {"system": "x" * (32 * 1024 * 1024)}
    with connected(FakeProvider([Reply("ok")])) as clients:
        response = clients.post("anthropic", as_bytes(big))
    assert response.status_code == 413
    assert response.json()["error"]["type"] == "request_too_large"


def test_many_clients_at_once() -> None:
    """Each gets one answer of the script, none twice."""
    script = [Reply(str(number)) for number in range(60)]
    with connected(FakeProvider(script)) as clients, ThreadPoolExecutor(12) as pool:
        bodies = [as_bytes(STARTS["openai-chat"] | {"user": str(n)}) for n in range(60)]
        replies = list(pool.map(partial(clients.post, "openai-chat"), bodies))
    texts = [reply.json()["choices"][0]["message"]["content"] for reply in replies]
    assert sorted(texts, key=int) == [str(number) for number in range(60)]
    assert len({reply.json()["id"] for reply in replies}) == 60


def test_ended_twice_and_its_port_is_free() -> None:
    fake = FakeProvider([])
    with pytest.raises(RuntimeError, match="is not running"):
        _ = fake.url
    fake.start()
    port = int(fake.url.rpartition(":")[2])
    fake.close()
    fake.close()
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a fake in another process, and its log."""
    script = tmp_path / "script.json"
    script.write_text(
        '[{"text": "hi", "thinking": "hm", "calls": [{"name": "read", "arguments": {"p": 1}}]},'
        ' {"parts": [{"call": "read", "arguments": "{\\"p\\": 2}", "id": "c2"}, {"text": "x"}]},'
        ' {"error": {"status": 529}}, {"drop": true}]'
    )
    log = tmp_path / "log"
    command = [sys.executable, "-m", "sawlog.providers.fake", "--script", str(script)]
    with subprocess.Popen([*command, "--log", str(log)], stdout=subprocess.PIPE, text=True) as fake:
        assert fake.stdout is not None
        try:
            yield fake.stdout.readline().strip(), log
        finally:
            fake.send_signal(signal.SIGTERM)
            assert fake.wait(20) == 0


def test_served_from_another_process(served: tuple[str, Path]) -> None:
    url, log = served
    body = STARTS["anthropic"]
    clients = Clients(url)
    try:
        first = answered(clients, "anthropic", body)
        assert [block["type"] for block in first["content"]] == ["thinking", "text", "tool_use"]
        body, _ = goes_on("anthropic", body, first)
        second = answered(clients, "anthropic", body)
        call = {"type": "tool_use", "id": "c2", "name": "read", "input": {"p": 2}}
        assert second["content"] == [call, {"type": "text", "text": "x"}]
        refused = clients.post("openai-chat", b"{}")
        busy = clients.post("anthropic", as_bytes(STARTS["anthropic"]))
        assert (refused.status_code, busy.status_code) == (400, 529)
        with pytest.raises(anthropic.APIConnectionError):
            clients.post("anthropic", as_bytes(STARTS["anthropic"]))
    finally:
        clients.close()
    assert (log / "0002-anthropic.json").read_bytes() == as_bytes(body)
    lines = [json.loads(line) for line in (log / "received.jsonl").read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 200, 400, 529, 0]
    assert (log / "0003-openai-chat.json").read_bytes() == b"{}"


def test_the_help_shows_a_script_that_can_be_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    path = tmp_path / "replies.json"
    path.write_text(shown[shown.index("  [\n") : shown.index("\n  ]") + 4])
    call = Call("read_file", {"path": "a.py"})
    assert read_script(path) == [
        Reply("I look.", calls=[call]), HttpError(529), *storm(2, 1), Hang(2.5), Drop(),
        Streamed(Reply("I lo", calls=[]), [Cut(At(events=3))], 1.0),
        Reply("Done.", "It is simple.", []),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"text": "x"}', "is not a list of answers: Expected `array`, got `object`"),
        ('[{"txt": "x"}]', "is not a list of answers: .* unknown field `txt` - at `.*0.*`"),
        ("[", "is not a list of answers: Input data was truncated"),
        ('[{"parts": [{"redacted": true}]}]', "answer 0 of the script has an empty part"),
        ('[{"text": "x", "hang": 1, "stream": {}}]', "answer 0 of the script has both `hang` and"),
        ('[{"stream": {"faults": [{"events": 1}]}}]', "answer 0 of .* is not one thing at one"),
        ('[{"stream": {"faults": [{"cut": true}]}}]', "answer 0 of .* is not one thing at one"),
    ],
)
def test_a_wrong_script_file_is_named(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)
    with pytest.raises(ScriptError, match=reason):
        read_script(path)
    with pytest.raises(ScriptError, match="cannot read the script .*No such file"):
        read_script(tmp_path / "none.json")

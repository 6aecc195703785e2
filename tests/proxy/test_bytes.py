"""Bytes as they are: what a request and its answer may not lose on the way, and where none goes."""

from __future__ import annotations

import gzip
import json
import signal
import socket
from importlib import import_module
from pathlib import Path

import pytest
import zstandard

from sawlog.agentlog import open as open_log
from sawlog.providers.fake import FakeProvider
from sawlog.store.events.conversation import MessageAssistant
from tests.proxy.behind import Upstream, always, answer, headers_of, proxied, request, sent

REPLY = json.dumps(
    {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "hello there"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
).encode()  # fmt: skip
ASK = b'{"model": "m",  "max_tokens": 9, "messages": [{"role": "user", "content": "1e2"}]}'
KEY = "sk-this-is-nobodys-key-0123456789"


def test_a_request_arrives_with_its_bytes_its_query_and_its_names(tmp_path: Path) -> None:
    """Spelling, order, doubled headers and blanks stay; what holds for one connection goes."""
    with Upstream(lambda _: answer(REPLY)) as there, proxied(tmp_path / "s", there.url) as proxy:
        head = (
            "POST /anthropic/v1/messages?beta=true&x=%7e%2F HTTP/1.1\r\n"
            f"Host: localhost:{proxy.port}\r\nX-API-Key: {KEY}\r\nX-One: a\r\nx-one: b\r\n"
            "anthropic-version: 2023-06-01\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\n"
            "Keep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Authorization: Basic abc\r\n"
            f"X-Sawlog-Session: s\r\nContent-Length: {len(ASK)}\r\n\r\n"
        )
        sent(proxy.port, head.encode() + ASK)
        [got] = there.received
    authority = there.url.removeprefix("http://")
    lines, _, body = got.partition(b"\r\n\r\n")
    assert body == ASK
    assert lines.decode().split("\r\n") == [
        "POST /v1/messages?beta=true&x=%7e%2F HTTP/1.1",
        f"Host: {authority}",
        f"X-API-Key: {KEY}",
        "X-One: a",
        "x-one: b",
        "anthropic-version: 2023-06-01",
        f"Content-Length: {len(ASK)}",
    ]


def test_a_chunked_request_is_recorded_whole_and_sent_with_its_length(tmp_path: Path) -> None:
    chunks = (
        b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in (ASK[:7], ASK[7:])) + b"0\r\n\r\n"
    )
    store = tmp_path / "s.db"
    with Upstream(lambda _: answer(REPLY)) as there, proxied(store, there.url) as proxy:
        head = request("/anthropic/v1/messages", Transfer_Encoding="chunked", Expect="100-continue")
        got = sent(proxy.port, head + chunks)
    assert got.startswith(b"HTTP/1.1 100 ") and got.endswith(REPLY)
    assert there.received[0].partition(b"\r\n\r\n")[2] == ASK
    assert headers_of(there.received[0])[b"content-length"] == str(len(ASK)).encode()


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_an_encoded_answer_comes_back_as_it_is_and_is_read_for_the_log(
    tmp_path: Path, encoding: str
) -> None:
    coded = {
        "gzip": gzip.compress, "br": import_module("brotli").compress,
        "zstd": zstandard.ZstdCompressor().compress,
    }[encoding](REPLY)  # fmt: skip
    headers = (
        f"Content-Encoding: {encoding}",
        "X-Odd-Name: 1",
        "Set-Cookie: a=b",
        "Set-Cookie: c=d",
    )
    store = tmp_path / "s.db"
    with Upstream(lambda _: answer(coded, *headers)) as there, proxied(store, there.url) as proxy:
        got = sent(proxy.port, request("/anthropic/v1/messages", ASK))
        proxy.end()
    head, _, body = got.partition(b"\r\n\r\n")
    assert body == coded
    assert [line for line in head.decode().split("\r\n")[1:] if line != "Connection: close"] == [
        f"Content-Length: {len(coded)}", *headers,
    ]  # fmt: skip
    assert said(store) == ["hello there"]


def said(store: Path) -> list[str]:
    """What the model said in the session `s`."""
    with open_log(str(store)) as log:
        events = list(log.read("s").events())
    found = [one.content for one in events if isinstance(one.content, MessageAssistant)]
    return [str(getattr(part, "text", "")) for one in found for part in one.parts]


def test_an_encoding_that_nobody_reads_passes_and_the_log_says_so(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    odd = answer(b"????", "Content-Encoding: rot13")
    with Upstream(lambda _: odd) as there, proxied(store, there.url) as proxy:
        assert sent(proxy.port, request("/anthropic/v1/messages", ASK)).endswith(b"????")
        proxy.end()
    with open_log(str(store)) as log:
        last = list(log.read("s").events())[-1]
    assert last.type == "attempt.lost" and "rot13" in str(last.content)


@pytest.mark.parametrize(
    ("method", "target", "there"),
    [
        ("GET", "/openai/v1/models?limit=2", b"GET /v1/models?limit=2 "),
        ("POST", "/anthropic/v1/messages/count_tokens", b"POST /v1/messages/count_tokens "),
        ("DELETE", "/openai/v1/files/f%2F1", b"DELETE /v1/files/f%2F1 "),
        ("POST", "/openai/v1/threads/t1/messages", b"POST /v1/threads/t1/messages "),
        ("POST", "/openai/v1//odd//path", b"POST /v1//odd//path "),
        ("GET", "/anthropic//evil.example/v1", b"GET //evil.example/v1 "),
        ("GET", "/deepseek", b"GET / "),
    ],
)
def test_what_is_no_exchange_passes_and_is_not_recorded(
    tmp_path: Path, method: str, target: str, there: bytes
) -> None:
    store = tmp_path / "s.db"
    body = b"any\x00bytes" if method == "POST" else b""
    with Upstream(lambda _: answer(b"fine")) as upstream, proxied(store, upstream.url) as proxy:
        assert sent(proxy.port, request(target, body, method)).endswith(b"\r\n\r\nfine")
        told = proxy.end()
    [got] = upstream.received
    assert got.startswith(there) and got.endswith(body)
    assert (told["recorded"], told["passed"]) == (0, 1)


def test_a_path_that_is_spelled_oddly_is_recorded_all_the_same(tmp_path: Path) -> None:
    with Upstream(lambda _: answer(REPLY)) as there, proxied(tmp_path / "s", there.url) as proxy:
        sent(proxy.port, request("/anthropic/v1/mess%61ges", ASK))
        assert proxy.end()["recorded"] == 1
    assert there.received[0].startswith(b"POST /v1/mess%61ges ")


def test_a_redirect_is_passed_back_and_not_followed(tmp_path: Path) -> None:
    with Upstream(lambda _: answer(REPLY)) as evil:
        moved = answer(b"", f"Location: {evil.url}/v1/messages", status="307 Elsewhere")
        with Upstream(lambda _: moved) as there, proxied(tmp_path / "s", there.url) as proxy:
            got = sent(proxy.port, request("/anthropic/v1/messages", ASK))
    assert got.startswith(b"HTTP/1.1 307 Elsewhere\r\n") and evil.url.encode() in got
    assert len(there.received) == 1 and evil.received == []


def test_nothing_goes_to_a_host_that_was_not_named(tmp_path: Path) -> None:
    """Whole URLs, tunnels, names of others, paths that lead out: refused, and nobody is asked."""
    with (
        Upstream(lambda _: answer(b"evil")) as evil,
        Upstream(lambda _: answer(b"there")) as there,
        proxied(tmp_path / "s", there.url) as proxy,
    ):
        authority = evil.url.removeprefix("http://")
        own = f"127.0.0.1:{proxy.port}"
        for expected, asked in {
            403: [
                request(f"{evil.url}/v1/messages", ASK),
                request(f"{evil.url}/anthropic/v1/messages", ASK, host=authority),
                request(authority, method="CONNECT", host=authority),
                request("/anthropic/v1/messages", ASK, host="evil.example"),
                request("/anthropic/v1/messages", ASK, host="127.0.0.1.evil.example"),
                request("/anthropic/v1/messages", ASK, host="evil.example@127.0.0.1x"),
                request("*", method="OPTIONS", host=own),
            ],
            404: [
                request(f"//{authority}/v1/messages", ASK),
                request("/", method="GET", host=own),
                request("/v1/messages", ASK, host=f"LOCALHOST:{proxy.port}"),
                request(f"/anthropic@{authority}/v1/messages", ASK),
                request(f"/anthropic.{authority}/v1/messages", ASK),
                request(f"/openai/{authority}/v1/messages", ASK),
            ],
            400: [
                request("/anthropic/../v1/messages", ASK),
                request("/anthropic/%2e%2E/x", ASK),
                request("/anthropic/v1/..%5cx", ASK),
                request("/anthropic/v1/messages", ASK, X_Sawlog_Session="\x7f\x7f"),
                b"nonsense\r\n\r\n",
                b"GET / HTTP/1.1\r\n\r\n",
            ],
            501: [
                request("/openai/v1/realtime", method="GET", Upgrade="websocket"),
            ],
        }.items():
            for one in asked:
                got = sent(proxy.port, one)
                assert got.startswith(b"HTTP/1.1 %d " % expected), (one, got)
                error = json.loads(got.partition(b"\r\n\r\n")[2])["error"]
                assert error["message"].startswith("sawlog proxy: "), one
        assert proxy.end() == {
            "recorded": 0, "broke": 0, "passed": 0, "sessions": 1, "first": "s",
        }  # fmt: skip
    assert evil.received == [] and there.received == []


def test_requests_on_one_connection_are_answered_in_turn(tmp_path: Path) -> None:
    """Also when the client sends the second before it has the first answer."""
    store = tmp_path / "s.db"
    with FakeProvider(always("hi")) as fake, proxied(store, fake.url) as proxy:
        one = request("/anthropic/v1/messages", ASK, anthropic_version="2023-06-01", x_api_key=KEY)
        kept = one.replace(b"Connection: close\r\n", b"")
        got = sent(proxy.port, kept + kept.replace(b"1e2", b"1e3") + one)
        assert proxy.end()["recorded"] == 3
    assert got.count(b"HTTP/1.1 200 ") == 3
    assert [b"1e3" in body for body in fake.bodies()] == [False, True, False]


def test_it_listens_on_loopback_alone_unless_told(tmp_path: Path) -> None:
    """Other addresses of this machine are refused; with --listen there is a warning."""
    other = "127.0.0.2"  # loopback, too, and yet not the address that it listens on
    with Upstream(lambda _: answer(REPLY)) as there:
        with proxied(tmp_path / "s", there.url) as proxy:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((other, proxy.port), timeout=5)
            proxy.end()
        with proxied(tmp_path / "s", there.url, "--listen", other, "--name", "box") as proxy:
            assert proxy.told["url"] == f"http://{other}:{proxy.port}"
            with socket.create_connection((other, proxy.port), timeout=5) as connection:
                connection.sendall(request("/anthropic/v1/models", method="GET", host="box:1"))
                assert connection.recv(9999).startswith(b"HTTP/1.1 200 ")
            proxy.process.send_signal(signal.SIGTERM)
            err = proxy.process.ended()
    assert b"warning: whoever reaches 127.0.0.2" in err

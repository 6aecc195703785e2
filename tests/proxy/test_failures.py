"""What breaks: the upstream, the log, the client, the proxy itself. No attempt is forgotten."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import open as open_log
from sawlog.providers.fake import At, Cut, Drop, ErrorEvent, FakeProvider, Reply, Stall, Streamed
from sawlog.store.events.steps import AttemptLost
from tests.cli.command import sawlog
from tests.proxy.behind import Upstream, always, answer, proxied, request, sent
from tests.store.stores import expire

KEY = "sk-this-is-nobodys-key-0123456789"


def ask(text: str = "hi", *, stream: bool = False) -> bytes:
    """A request to the model."""
    body: dict[str, Any] = {"model": "m", "max_tokens": 9}
    body["messages"] = [{"role": "user", "content": text}]
    if stream:
        body["stream"] = True
    raw = json.dumps(body).encode()
    return request("/anthropic/v1/messages", raw, anthropic_version="2023-06-01", x_api_key=KEY)


def lost(store: Path, name: str = "s") -> list[str]:
    """The reasons of the lost attempts of a session."""
    with open_log(str(store)) as log:
        events = list(log.read(name).events())
    return [str(one.content.reason) for one in events if isinstance(one.content, AttemptLost)]


def error_of(got: bytes) -> dict[str, Any]:
    """The proxy's own error in an answer."""
    body = json.loads(got.partition(b"\r\n\r\n")[2])
    assert body["type"] == "error"  # where Anthropic's client looks; OpenAI's takes `error` alone
    return dict(body["error"])


def test_an_upstream_that_is_away_is_a_502_of_the_proxy_and_a_lost_attempt(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"http://127.0.0.1:{free.getsockname()[1]}"
    store = tmp_path / "s.db"
    with proxied(store, away) as proxy:
        got = sent(proxy.port, ask())
        assert sent(proxy.port, request("/openai/v1/models", method="GET")).startswith(
            b"HTTP/1.1 502 "
        )
        told = proxy.end()
    assert got.startswith(b"HTTP/1.1 502 ")
    assert error_of(got)["type"] == "sawlog_upstream_failed"
    assert away.removeprefix("http://") in error_of(got)["message"]
    assert len(lost(store)) == 1 and "ConnectError" in lost(store)[0]
    assert (told["recorded"], told["broke"]) == (1, 1)


def test_an_upstream_that_drops_the_line_is_told_without_the_key(tmp_path: Path) -> None:
    """A header that no server takes is in no error; what was dropped is lost."""
    store = tmp_path / "s.db"
    with FakeProvider([Drop(), Reply("hi")]) as fake, proxied(store, fake.url) as proxy:
        got = sent(proxy.port, ask())
        again = sent(proxy.port, ask())
        proxy.end()
    assert got.startswith(b"HTTP/1.1 502 ") and KEY.encode() not in got
    assert again.startswith(b"HTTP/1.1 200 ")
    assert len(lost(store)) == 1
    with open_log(str(store)) as log:  # the same bytes again are another attempt of the step
        assert len(log.read("s").steps) == 1


def test_a_stream_that_is_cut_reaches_the_client_cut_and_is_kept_so_far(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    cut = Streamed(Reply("one two three four"), faults=[Cut(At(events=4))])
    with FakeProvider([cut]) as fake, proxied(store, fake.url) as proxy:
        got = sent(proxy.port, ask(stream=True))
        proxy.end()
    assert got.startswith(b"HTTP/1.1 200 ") and not got.endswith(b"0\r\n\r\n")
    assert got.count(b"event: ") == 4
    with open_log(str(store)) as log:
        found = [(one.type, one.content) for one in log.read("s").events()]
    [message] = [content for kind, content in found if kind == "message.assistant"]
    assert getattr(message, "interrupted", False)


def test_an_error_in_mid_stream_passes_as_it_is(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    broken = Streamed(Reply("one two three four"), faults=[ErrorEvent(At(events=4))])
    with FakeProvider([broken, broken]) as fake, proxied(store, fake.url) as proxy:
        direct = sent(
            int(fake.url.rpartition(":")[2]), ask(stream=True).replace(b"/anthropic", b"")
        )
        got = sent(proxy.port, ask(stream=True))
        assert proxy.end()["broke"] == 0
    assert b"event: error" in direct and direct.count(b"event: ") == got.count(b"event: ")


def test_a_client_that_hangs_up_cancels_the_upstream(tmp_path: Path) -> None:
    """The provider sees that nobody listens, while it is silent still."""
    store = tmp_path / "s.db"
    stalled = Streamed(Reply("one two three four"), faults=[Stall(At(events=4), 50)])
    with FakeProvider([stalled]) as fake, proxied(store, fake.url) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
            connection.sendall(ask(stream=True))
            got = b""
            while got.count(b"event: ") < 4:
                got += connection.recv(65536)
        started = time.monotonic()
        while not fake.hung_up and time.monotonic() < started + 20:
            time.sleep(0.01)
        assert fake.hung_up == 1 and time.monotonic() < started + 20
        assert proxy.end()["broke"] == 1
    with open_log(str(store)) as log:
        assert "message.assistant" in [one.type for one in log.read("s").events()]


def test_what_cannot_be_recorded_does_not_leave(tmp_path: Path) -> None:
    """Another one drives the session that a client names: 503 that says so, and nothing is sent."""
    store = tmp_path / "s.db"
    taken = ask().replace(b"\r\n\r\n", b"\r\nx-sawlog-session: taken\r\n\r\n", 1)
    with FakeProvider(always("hi")) as fake:
        with open_log(str(store)) as log, log.session("taken"):
            with proxied(store, fake.url) as proxy:
                got = sent(proxy.port, taken)
                assert fake.requests == []
                assert got.startswith(b"HTTP/1.1 503 ")
                assert error_of(got)["type"] == "sawlog_record_failed"
                assert error_of(got)["code"] == "Leased"
                assert "session taken" in error_of(got)["message"]
                assert sent(proxy.port, ask()).startswith(b"HTTP/1.1 200 ")
                assert proxy.end()["recorded"] == 1
            with proxied(store, fake.url, "--no-strict") as proxy:
                assert sent(proxy.port, taken).startswith(b"HTTP/1.1 200 ")
                told = proxy.end()
    assert (told["recorded"], told["passed"]) == (0, 1)
    assert len(fake.requests) == 2


def test_an_answer_that_cannot_be_recorded_has_no_end_for_the_client(tmp_path: Path) -> None:
    """The lease went to another one meanwhile. What came is not taken for the whole."""
    store = tmp_path / "s.db"
    late = Streamed(Reply("one two three four"), faults=[Stall(At(events=4), 2)])
    with FakeProvider([late]) as fake, proxied(store, fake.url) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
            connection.sendall(ask(stream=True))
            got = connection.recv(65536)
            with contextlib.closing(sqlite3.connect(store)) as database, database:
                database.execute("UPDATE sessions SET fence = fence + 1, owner = 'another'")
            while piece := connection.recv(65536):
                got += piece
        proxy.process.send_signal(signal.SIGTERM)
        err = proxy.process.ended()
    assert b"message_stop" not in got and not got.endswith(b"0\r\n\r\n")
    assert b"an answer could not be recorded" in err


def test_it_ends_though_a_client_sends_half_a_request(tmp_path: Path) -> None:
    with proxied(tmp_path / "s.db", "http://127.0.0.1:9") as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
            connection.sendall(ask()[:-5])
            time.sleep(0.2)
            assert proxy.end()["recorded"] == 0


def test_killed_in_mid_stream_recovery_names_the_attempt(tmp_path: Path) -> None:
    """What was sent was logged before; the part that had come died with the process."""
    store = tmp_path / "s.db"
    stalled = Streamed(Reply("one two three four"), faults=[Stall(At(events=4), 50)])
    with FakeProvider([stalled]) as fake, proxied(store, fake.url) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
            connection.sendall(ask(stream=True))
            while b"event: " not in connection.recv(65536):
                pass
            proxy.process.send_signal(signal.SIGKILL)
            proxy.process.wait(20)
    plan = sawlog("--store", store, "recover", "s", "--json")
    assert plan.code == 1
    assert [one["step"] for one in plan.json["lost"]] == [1]
    assert sawlog("--store", store, "verify", "s").code == 0
    with open_log(str(store)) as log:
        expire(log.store, log.find("s").id)
    done = sawlog("--store", store, "recover", "s", "--apply")
    assert done.code in (0, 1), done.err
    assert len(lost(store)) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--openai", "ftp://there"), "openai is no URL"),
        (("--openai", "https://user:pass@there/v1"), "keys stay in the client's headers"),
        (("--anthropic", "https://there/x?y=1"), "a query"),
        (("--port", "70000"), "65535"),
        (("--port", "x"), "whole number"),
        (("--listen", "203.0.113.1"), "cannot listen on 203.0.113.1"),
        (("--session", " "), "no name of a session"),
    ],
)
def test_what_it_cannot_be_told_is_one_sentence(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    done = sawlog("--store", tmp_path / "s.db", "proxy", *options)
    assert done.code == 2 and words in done.err and "pass@" not in done.err


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = sawlog("--store", tmp_path / "s.db", "proxy", "--port", port)
    assert done.code == 2 and "give another --port, or 0 for a free one" in done.err


def test_a_session_that_another_one_drives_is_refused_at_the_start(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with open_log(str(store)) as log, log.session("mine"):
        done = sawlog("--store", store, "proxy", "--session", "mine")
    assert done.code == 3 and "mine" in done.err


def test_a_long_answer_waits_for_a_slow_client(tmp_path: Path) -> None:
    """Back-pressure: the proxy holds a bounded part of an answer that nobody takes."""
    body = b"x" * 64_000_000
    with Upstream(lambda _: answer(body)) as there, proxied(tmp_path / "s", there.url) as proxy:
        before = resident(proxy.process.pid)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
            connection.sendall(request("/openai/v1/files/f1/content", method="GET"))
            time.sleep(1.5)
            held = resident(proxy.process.pid) - before
            got = 0
            while piece := connection.recv(1 << 20):
                got += len(piece)
        after = resident(proxy.process.pid) - before
    assert got > len(body)
    assert held < 16_000_000 and after < 16_000_000


def resident(pid: int) -> int:
    """Bytes of a process that are in memory."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        pytest.skip("this system does not tell the memory of a process")
    return pages * 4096

"""Streams that break: errors, silence, dropped connections, nonsense, and clients that leave."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any, cast

import anthropic
import httpx2
import openai
import pytest
from pydantic import BaseModel

from sawlog.providers.fake import (
    At,
    Call,
    Cut,
    Drop,
    ErrorEvent,
    FakeProvider,
    Fault,
    Garbage,
    Hang,
    Raw,
    Reply,
    Stall,
    Step,
    Streamed,
    read_script,
    storm,
)
from tests.doors.provoke import STARTS, as_bytes, connected
from tests.doors.streams import GEMINI, KINDS, as_json, read, read_async, start_of

kinds = pytest.mark.parametrize("kind", KINDS)
CALLS = [Call("read", {"path": "a.py", "n": 1}), Call("read", {"path": "b.py", "n": 2})]
REPLY = Reply("I read both files.", calls=CALLS)
ROUNDS = 3
"""Tries to see what came early, on a machine that may stand still just then."""

# What a client raises when its connection drops in the middle of a stream: OpenAI's wraps it.
DROPPED = (httpx2.RemoteProtocolError, openai.APIConnectionError)


def events_until(
    fake: FakeProvider, kind: str, expected: type[Exception] | tuple[type[Exception], ...]
) -> tuple[list[BaseModel], Exception]:
    """What arrived before the stream broke, and what the client raised."""
    arrived: list[BaseModel] = []
    with pytest.raises(expected) as caught:
        for event in read(fake, kind, start_of(kind)):
            arrived.append(event)
    return arrived, caught.value


def shown(kind: str, count: int) -> int:
    """How many of so many sent events a client shows: Anthropic's hides the ping, the third."""
    return count - (kind == "anthropic" and count > 2)


def soon(claim: Any) -> bool:
    """Whether a claim comes true within some seconds; the fake learns of things in its threads."""
    until = time.monotonic() + 20
    while not claim() and time.monotonic() < until:
        time.sleep(0.01)
    return bool(claim())


@kinds
def test_a_stream_is_cut_behind_an_event(kind: str) -> None:
    script: list[Step] = [Streamed(REPLY, [Cut(At(events=5))]), REPLY]
    with FakeProvider(script) as fake:
        arrived, _ = events_until(fake, kind, DROPPED)
        whole = list(read(fake, kind, start_of(kind)))
        assert len(arrived) == shown(kind, 5)
        # The second request is another one to the fake, so ids differ, and the shape does not.
        assert [type(event) for event in arrived] == [
            type(event) for event in whole[: len(arrived)]
        ]
        assert fake.hung_up == 0


@kinds
def test_a_stream_is_cut_behind_a_byte(kind: str) -> None:
    """By a fault, or by a dropped connection as for a whole reply; inside an event nothing of that
    event arrives."""
    with FakeProvider([REPLY]) as fake:
        list(read(fake, kind, start_of(kind)))
        sent = fake.requests[0].answer
    first = sent.index(b"\n\n") + 2
    script: list[Step] = [
        Streamed(REPLY, [Cut(At(bytes=first + 9))]), Drop(REPLY, first + 9), Drop(REPLY),
        Drop(REPLY, 10**9),
    ]  # fmt: skip
    with FakeProvider(script) as fake:
        for bytes, events in ((first + 9, 1), (first + 9, 1), (0, 0)):
            arrived, _ = events_until(fake, kind, DROPPED)
            assert (len(arrived), len(fake.requests[-1].answer)) == (events, bytes)
        # All was sent but the end of the stream, which clients miss who do not stop at [DONE].
        if kind in ("anthropic", "openai-responses"):
            events_until(fake, kind, DROPPED)
        else:
            list(read(fake, kind, start_of(kind)))


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("call", [0, 1])
def test_a_stream_is_cut_inside_arguments(kind: str, call: int) -> None:
    with FakeProvider([Streamed(REPLY, [Cut(At(call=call))])] * 2) as fake:
        arrived, _ = events_until(fake, kind, DROPPED)
        text = ""
        for event in as_json(arrived):
            if kind == "anthropic" and event.get("index") == call + 1 and "delta" in event:
                text += event["delta"]["partial_json"]
            elif kind == "openai-responses" and event.get("output_index") == call + 1:
                text += event.get("delta", "")
            for choice in event.get("choices", []):
                for piece in choice["delta"].get("tool_calls", []):
                    text += piece["function"]["arguments"] if piece["index"] == call else ""
    source = CALLS[call].source
    assert source.startswith(text) and 0 < len(text) < len(source)


def test_a_call_in_one_piece_is_cut_in_front() -> None:
    with FakeProvider([Streamed(REPLY, [Cut(At(call=1))])]) as fake:
        arrived, _ = events_until(fake, GEMINI, DROPPED)
    calls = [
        piece["index"]
        for event in as_json(arrived)
        for choice in event["choices"]
        for piece in choice["delta"].get("tool_calls", [])
    ]
    assert calls == [0]


@pytest.mark.parametrize(
    ("kind", "fault", "said"),
    [
        ("anthropic", ErrorEvent(At(events=4)), "overloaded_error"),
        ("anthropic", ErrorEvent(At(events=4), type="api_error"), "api_error"),
        ("openai-chat", ErrorEvent(At(events=4)), "server_error"),
        (
            "deepseek-chat",
            ErrorEvent(At(events=4), type="rate_limit_reached"),
            "rate_limit_reached",
        ),
    ],
)
def test_an_error_comes_in_mid_stream(kind: str, fault: ErrorEvent, said: str) -> None:
    """And the stream has its end behind it: nothing was dropped."""

    async def again(fake: FakeProvider) -> list[BaseModel]:
        found: list[BaseModel] = []
        with pytest.raises((anthropic.APIStatusError, openai.APIError)):
            async for event in read_async(fake, kind, start_of(kind)):
                found.append(event)
        return found

    broken = Streamed(REPLY, [fault])
    with FakeProvider([broken, broken]) as fake:
        arrived, error = events_until(fake, kind, (anthropic.APIStatusError, openai.APIError))
        assert len(arrived) == shown(kind, 4)
        body = cast(Any, error).body
        assert (body["error"] if kind == "anthropic" else body)["type"] == said
        if kind == "anthropic":
            assert body["request_id"] == cast(Any, error).request_id
        assert len(asyncio.run(again(fake))) == shown(kind, 4)
        assert fake.requests[0].answer.count(b"error") and fake.hung_up == 0


def test_responses_tell_of_an_error_in_two_ways() -> None:
    faults = [
        ErrorEvent(At(events=6), "Busy."),
        ErrorEvent(At(events=6), "Busy.", code="rate_limit_exceeded", failed=True),
    ]
    script: list[Step] = [Streamed(REPLY, [fault]) for fault in faults]
    script.append(Streamed(Reply(stop="failed")))
    with FakeProvider(script) as fake:
        told = [
            as_json(list(read(fake, "openai-responses", STARTS["openai-responses"])))
            for _ in script
        ]
    assert told[0][6:] == [
        {
            "type": "error",
            "code": "server_is_overloaded",
            "message": "Busy.",
            "param": None,
            "sequence_number": 6,
        }
    ]
    (failed,) = told[1][6:]
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 6)
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": "rate_limit_exceeded", "message": "Busy."}
    assert failed["response"]["id"] == told[1][0]["response"]["id"]
    assert told[2][-1]["type"] == "response.failed"


@kinds
def test_a_line_that_is_no_json(kind: str) -> None:
    """What the clients raise, and a reader that goes on finds the rest."""
    script: list[Step] = [Streamed(REPLY, [Garbage(At(events=4))]), REPLY]
    with FakeProvider(script) as fake:
        arrived, _ = events_until(fake, kind, json.JSONDecodeError)
        assert len(arrived) == shown(kind, 4)
        list(read(fake, kind, start_of(kind)))
        broken, whole = (request.answer.split(b"\n\n") for request in fake.requests)
    assert len(broken) == len(whole) + 1
    assert broken.pop(4).endswith(b'data: {"type": ')
    assert list(map(len, broken)) == list(map(len, whole))


@kinds
def test_silence_in_mid_stream_and_behind_the_headers(kind: str) -> None:
    """Events stay where they are; the time passes before the first one, and behind the third."""
    faults: list[Fault] = [Stall(At(events=3), 0.2), Stall(At(events=3), 0.1)]
    silent = shown(kind, 3)
    gaps: list[float] = []
    for _ in range(ROUNDS):
        with FakeProvider([REPLY, Streamed(REPLY, faults, wait=0.2)]) as fake:
            whole = list(read(fake, kind, start_of(kind)))
            times = [time.monotonic()]
            for _event in read(fake, kind, start_of(kind)):
                times.append(time.monotonic())
        assert len(times) == len(whole) + 1
        assert times[1] - times[0] > 0.2
        assert times[silent + 1] - times[0] > 0.5
        gaps.append(times[silent + 1] - times[silent])
        if gaps[-1] > 0.25:
            return
    raise AssertionError(f"the third event came no sooner than the fourth: {gaps}")


def test_silence_before_the_headers_and_behind_them() -> None:
    """A client that waits for the headers alone tells one from the other."""
    body = as_bytes(STARTS["openai-chat"] | {"stream": True})
    url = "/v1/chat/completions"
    script: list[Step] = [Hang(0.4, Reply("a")), Streamed(Reply("a"), wait=0.4)]
    for _ in range(ROUNDS):
        waits: list[tuple[bool, bool]] = []
        with FakeProvider(script) as fake, httpx2.Client(base_url=fake.url) as client:
            for _step in script:
                start = time.monotonic()
                with client.stream("POST", url, content=body) as response:
                    headers = time.monotonic() - start
                    assert b"".join(response.iter_bytes()) == fake.requests[-1].answer
                waits.append((headers > 0.4, time.monotonic() - start > 0.4))
        assert waits[0] == (True, True) and waits[1][1]
        if not waits[1][0]:
            return
    raise AssertionError("the headers came no sooner than the body")


@kinds
def test_a_client_that_hangs_up_is_noticed(kind: str) -> None:
    """In a silence, and while more is written than the wires hold; who reads to the end is not
    counted."""
    with FakeProvider([REPLY]) as fake:
        list(read(fake, kind, start_of(kind)))
        assert fake.hung_up == 0
        first = fake.requests[0].answer.partition(b"\n\n")[0] + b"\n\n"
    endless = Reply(raw=first + b": and on\n\n" * 3_000_000)
    script: list[Step] = [Streamed(REPLY, [Stall(At(events=3), 60)]), endless, REPLY]
    with FakeProvider(script) as fake:
        for number in range(2):
            stream = read(fake, kind, start_of(kind))
            next(stream)
            cast(Any, stream).close()
            assert soon(lambda number=number: fake.requests[number].hung_up)
        list(read(fake, kind, start_of(kind)))
        assert fake.hung_up == 2
    assert [request.hung_up for request in fake.requests] == [True, True, False]


def test_a_client_that_loses_patience_is_noticed() -> None:
    """Before the headers, too; and one that the fake itself drops when it ends is not counted."""
    body = as_bytes(STARTS["openai-chat"] | {"stream": True})
    script: list[Step] = [Hang(60, REPLY), Streamed(REPLY, wait=60), Streamed(REPLY, wait=60)]
    url = "/v1/chat/completions"
    with FakeProvider(script) as fake:
        for number in range(2):
            with httpx2.Client(base_url=fake.url, timeout=0.3) as client:
                with pytest.raises(httpx2.ReadTimeout):
                    client.post(url, content=body)
            assert soon(lambda number=number: fake.requests[number].hung_up)
        waiting = httpx2.Client(base_url=fake.url)
        with waiting.stream("POST", url, content=body):
            fake.close()
    waiting.close()
    assert [request.hung_up for request in fake.requests] == [True, True, False]


def test_a_storm_of_refusals() -> None:
    """Each with the seconds to wait, which the official client does by itself."""
    with FakeProvider([*storm(2, 0), Reply("ok")]) as fake:
        url = fake.base_url("openai-chat")
        with openai.OpenAI(api_key="k", base_url=url, max_retries=2) as client:
            stream = client.chat.completions.create(**STARTS["openai-chat"], stream=True)
            assert sum(1 for _ in stream) > 2
        assert [request.status for request in fake.requests] == [429, 429, 200]
    with connected(FakeProvider(storm(1, 30))) as clients:
        refused = clients.post("anthropic", as_bytes(STARTS["anthropic"]))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")


@pytest.mark.parametrize(
    ("kind", "step", "reason"),
    [
        ("anthropic", Streamed(REPLY, [Cut(At(events=1000))]), "is no place in a stream of"),
        ("anthropic", Streamed(REPLY, [Cut(At(bytes=-1))]), "is no place in a stream of"),
        ("anthropic", Streamed(REPLY, [Cut(At())]), "give one of events, bytes and call"),
        ("anthropic", Streamed(REPLY, [Cut(At(1, 1))]), "give one of events, bytes and call"),
        ("openai-chat", Streamed(REPLY, [Stall(At(call=2), 1)]), "no arguments of a call 2"),
        ("openai-chat", Streamed(REPLY, [Garbage(At(bytes=3))]), "byte 3 is inside an event"),
        ("openai-chat", Streamed(REPLY, chunk=0), "a chunk has at least one byte"),
        ("anthropic", Streamed(REPLY, [ErrorEvent(At(1), failed=True)]), "has no failed response"),
        (
            "openai-responses",
            Streamed(Reply(stop="queued")),
            "ends completed, incomplete or failed",
        ),
        ("openai-chat", Streamed(Reply(raw="x"), [Cut(At(1))]), "this raw text has none"),
        ("openai-chat", Reply(parts=[Raw({})]), "have no place for a raw part"),
    ],
)
def test_a_fault_that_does_not_fit_is_a_server_error(kind: str, step: Step, reason: str) -> None:
    with connected(FakeProvider([step])) as clients:
        response = clients.post(kind, as_bytes(STARTS[kind] | {"stream": True}))
        assert response.status_code == 500
        assert reason in response.json()["error"]["message"]


def test_faults_of_a_stream_need_a_stream() -> None:
    with connected(FakeProvider([Streamed(REPLY)])) as clients:
        response = clients.post("anthropic", as_bytes(STARTS["anthropic"]))
        assert response.status_code == 500
        assert "need a request with `stream`: true" in response.json()["error"]["message"]


def test_a_script_file_breaks_streams(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(
        """[
        {"text": "a", "stream": {"wait": 0.5, "chunk": 3, "faults": [
            {"events": 3, "stall": 2.5}, {"bytes": 40, "cut": true}]}},
        {"calls": [{"name": "read"}], "stream": {"faults": [
            {"call": 0, "error": {"message": "m", "type": "t", "code": "c", "failed": true}},
            {"events": 0, "garbage": "{"}]}},
        {"hang": 1, "text": "late"},
        {"error": {"status": 429, "headers": {"retry-after": "9"}, "times": 3}}
        ]"""
    )
    assert read_script(path) == [
        Streamed(Reply("a", calls=[]), [Stall(At(3), 2.5), Cut(At(bytes=40))], 0.5, 3),
        Streamed(
            Reply(calls=[Call("read")]),
            [ErrorEvent(At(call=0), "m", "t", "c", True), Garbage(At(0), "{")],
        ),
        Hang(1, Reply("late", calls=[])),
        *storm(3, 9),
    ]

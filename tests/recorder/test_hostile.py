"""Requests as nobody should send them, and transports that answer from memory: the bytes are kept,
the program never meets an error of the recorder's own, and the session stays sound."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.requests.spans import written
from sawlog.recorder.alike import pairs
from sawlog.store.events.steps import Quote
from sawlog.testing.answering import replay
from tests.session.agents import opened, sound, types
from tests.timing import growth

LISTS = {
    "/v1/messages": "messages",
    "/v1/chat/completions": "messages",
    "/v1/responses": "input",
    "/chat/completions": "messages",
}
paths = pytest.mark.parametrize("path", LISTS)

REPLY = {
    "/v1/messages": {"type": "message", "content": [{"type": "text", "text": "hi"}]},
    "/v1/responses": {
        "status": "completed",
        "output": [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "hi"}],
            }
        ],
    },
}
CHAT = {"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


def answering(library: Any) -> Any:
    """A transport that answers from memory, for clients of either kind."""

    def answer(request: Any) -> Any:
        return library.Response(200, json=REPLY.get(request.url.path, CHAT))

    return library.MockTransport(answer)


def post(log: AgentLog, path: str, bodies: Sequence[bytes]) -> None:
    """Send bodies through a recorded client; each of them is kept to the byte."""
    with httpx.Client(transport=answering(httpx), base_url="http://model.test") as client:
        with log.session("task") as s:
            sawlog.record(client, session=s)
            for body in bodies:
                assert client.post(path, content=body).status_code == 200
    kept = [step.packet.body for row in log.sessions() for step in sound(log, str(row.name)).steps]
    assert sorted(kept) == sorted(bodies)


def last(log: AgentLog) -> str:
    """The type of the newest event."""
    return types(sound(log, "task"))[-1]


# --- transports that answer from memory -----------------------------------------------------------


@pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda one: one.__name__)
def test_an_answer_from_memory_is_recorded_when_it_is_given(log: AgentLog, library: Any) -> None:
    """A body that came with the head is not read from a stream, and a client may be sync though
    its transport is both."""
    messages = [{"role": "user", "content": "hello"}]
    ask = {"model": "m", "messages": messages}
    with library.Client(transport=answering(library), base_url="http://model.test") as client:
        with log.session("task") as s:
            sawlog.record(client, session=s)
            client.post("/v1/messages", json=ask)
            assert last(log) == "step.completed"
            messages += [
                {"role": "assistant", "content": "hi"},
                {"role": "user", "content": "go on"},
            ]
            client.post("/v1/messages", json=ask)
    assert [row.name for row in log.sessions()] == ["task"]
    assert len(sound(log, "task").steps) == 2


@pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda one: one.__name__)
def test_an_answer_from_memory_is_recorded_in_a_task_too(log: AgentLog, library: Any) -> None:
    async def main() -> None:
        transport = answering(library)
        async with library.AsyncClient(transport=transport, base_url="http://model.test") as client:
            async with log.asession("task") as s:
                sawlog.record(client, session=s)
                await client.post("/v1/chat/completions", json={"model": "m", "messages": []})

    asyncio.run(main())
    assert last(log) == "step.completed"


def test_an_answer_from_memory_that_was_packed_is_unpacked_once(log: AgentLog) -> None:
    import gzip

    def answer(request: httpx.Request) -> httpx.Response:
        packed = gzip.compress(json.dumps(CHAT).encode())
        return httpx.Response(200, content=packed, headers={"content-encoding": "gzip"})

    transport = httpx.MockTransport(answer)
    with httpx.Client(transport=transport, base_url="http://model.test") as client:
        with log.session("task") as s:
            sawlog.record(client, session=s)
            assert client.post("/v1/chat/completions", json={"messages": []}).json() == CHAT
    assert types(sound(log, "task"))[-2:] == ["message.assistant", "step.completed"]


def test_a_client_whose_transport_is_both_is_answered_from_a_recording(log: AgentLog) -> None:
    ask = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    with httpx.Client(transport=answering(httpx), base_url="http://model.test") as client:
        with log.session("task") as s:
            sawlog.record(client, session=s)
            client.post("/v1/chat/completions", json=ask)

    def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    recorded = log.read("task")
    transport = httpx.MockTransport(never)
    with httpx.Client(transport=transport, base_url="http://model.test") as client:
        replay(client, session=recorded)
        found = client.post("/v1/chat/completions", json=ask).json()
    assert found["choices"][0]["message"]["content"] == "hi"


# --- bodies ---------------------------------------------------------------------------------------


def nested(depth: int) -> str:
    """Lists in lists."""
    return "[" * depth + "]" * depth


@paths
def test_however_deep_a_request_nests_it_is_kept(log: AgentLog, path: str) -> None:
    """Also where it is just within what Python reads, from where it is called."""
    name = LISTS[path]
    bodies: list[bytes] = []
    for depth in (100, 128, 129, 300, 460, 480, *range(900, 1000, 9), 2000, 100_000):
        deep = nested(depth)
        arguments = json.dumps('{"a":' + deep + "}")
        call = f'{{"id":"c","type":"function","function":{{"name":"n","arguments":{arguments}}}}}'
        for item in (
            deep,
            f'{{"role":"user","content":{deep}}}',
            f'{{"role":"user","content":[{{"type":"odd","x":{deep}}}]}}',
            f'{{"role":"assistant","tool_calls":[{call}]}}',
            f'{{"type":"function_call","call_id":"c","name":"n","arguments":{arguments}}}',
        ):
            bodies.append(f'{{"model":"m","{name}":[{item}]}}'.encode())
        bodies.append(f'{{"model":"m","tools":[{deep}],"x":{deep},"{name}":[]}}'.encode())
    post(log, path, bodies)


ODD: list[Any] = [
    5, None, "text", [], {}, 10**400,
    {"role": "user", "content": 5},
    {"role": "user", "content": {}},
    {"role": "user", "content": ["a", 5, None, []]},
    {"role": "user", "content": [{"type": "image", "source": 5}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": 5, "content": 5}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": ["a"]}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:;base64,%"}}]},
    {"role": "user", "content": "\x00 \ud800 \u2028"},
    {"role": "assistant", "content": 5},
    {"role": "assistant", "content": [5]},
    {"role": "assistant", "tool_calls": [{"id": 5, "function": 5}]},
    {"role": "tool", "tool_call_id": {}, "content": 5},
    {"role": "system", "content": {}},
    {"role": "nobody", "content": "x"},
    {"type": "function_call", "call_id": 5, "name": [], "arguments": {}},
    {"type": "function_call_output", "call_id": "t", "output": 5},
    {"type": "reasoning", "summary": 5},
]  # fmt: skip


@paths
def test_what_is_no_message_is_kept_as_it_is(log: AgentLog, path: str) -> None:
    """In every place of a list, which ends with a proper message."""
    ends = {"role": "user", "content": "and now?"}
    lists: list[Any] = [5, None, "text", {}, [], *([one, ends] for one in ODD), [*ODD, ends]]
    bodies = [json.dumps({"model": "m", LISTS[path]: one}).encode() for one in lists]
    post(log, path, bodies)


@paths
def test_bytes_that_are_hardly_json_are_kept(log: AgentLog, path: str) -> None:
    name = LISTS[path].encode()
    item = b'[{"role":"user","content":"one"}]'
    post(
        log,
        path,
        [
            b"",
            b"null",
            b"\xff\xfe\x00",
            b'\xef\xbb\xbf{"model":"m","' + name + b'":' + item + b"}",
            b'{"' + name + b'":' + item + b',"' + name + b'":[],"model":"m","model":5}',
            b'{"model":"m","' + name + b'":[{"role":"user","content":"\xed\xa0\x80\xff"}]}',
            b'{"model":"m","n":' + b"9" * 5000 + b',"' + name + b'":' + item + b"}",
            b'{"model":"m","n":1e999,"' + name + b'":' + item + b"}",
            b'{"model":NaN,"' + name + b'":' + item + b"}",
            b' { "' + name + b'" : ' + item + b' , "model" : "\\ud800" }\r\n',
        ],
    )


# --- what is said over and over -------------------------------------------------------------------


def test_thousands_of_equal_messages_are_told_apart_in_no_time() -> None:
    """A history of nothing but `go on` and `ok` whose front changed took seconds."""

    def tell_apart(count: int) -> dict[int, int]:
        said = [b"go on", b"ok"] * (count // 2)
        return pairs([b"first", *said], [b"summary", b"and more", *said[count // 10 :], b"new"])

    assert growth(tell_apart, 10_000) < 9
    said = [b"go on", b"ok"] * 5000
    found = tell_apart(10_000)
    assert len(found) == 9000 and len(set(found.values())) == 9000
    told = [b"summary", b"and more", *said[1000:], b"new"]
    known = [b"first", *said]
    assert all(known[there] == told[here] for here, there in found.items())


def test_a_common_end_is_the_same_end_when_all_is_alike() -> None:
    said = [b"go on", b"ok"] * 1000
    found = pairs([b"x", *said, b"last"], [b"y", *said, b"last"])
    assert found == {at: at for at in range(1, 2002)}


# --- what is large --------------------------------------------------------------------------------


def test_a_long_text_is_cut_in_as_much_memory_as_it_has() -> None:
    """A text of 50 MB took 6.8 GB and half a minute, in the way that strings were looked for."""
    text = '{"role":"user","content":"' + "c" * 4_000_000 + '\\n"}'
    tracemalloc.start()
    try:
        spans, _, _ = written(
            [text], 2, None, {"some other text of at least forty characters": (1, 1)}
        )
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(spans) == 1 and most < 8 * len(text)


def test_a_history_of_many_calls_is_looked_through_once() -> None:
    """Each of its arguments was looked for in each of its messages."""

    def look_through(count: int) -> list[Quote]:
        said = (f'"command":"cd /srv/agent && python -m pytest -q","n":{at}' for at in range(count))
        sources = ["{" + one + "}" for one in said]
        known = {source: (at + 1, 1) for at, source in enumerate(sources)}
        texts = [f'{{"role":"assistant","content":[{{"input":{source}}}]}}' for source in sources]
        spans, _, _ = written(texts, count + 1, None, known)
        return [span for span in spans if isinstance(span, Quote)]

    assert growth(look_through, 1000) < 9
    count = 4000
    quotes = look_through(count)
    assert [(one.seq, one.part, one.spelling) for one in quotes] == [
        (at, 1, "raw") for at in range(1, count + 1)
    ]


@paths
def test_a_request_of_many_megabytes_is_kept(log: AgentLog, path: str) -> None:
    item = {"role": "user", "content": 'long "text", quoted\n' * 500_000}
    post(log, path, [json.dumps({"model": "m", LISTS[path]: [item]}).encode()])

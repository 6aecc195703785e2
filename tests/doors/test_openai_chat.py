"""Message arrays of the Chat Completions API: what each message becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sawlog.formats import openai_chat
from sawlog.formats.base import ForeignSession
from sawlog.formats.lines import Bounds
from sawlog.store.content import BoundPart, MediaPart, RawPart, TextPart
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import TooLarge, UnknownFormat
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import ForeignRecord
from sawlog.store.events.steps import StepCompleted
from sawlog.store.events.world import ToolsChanged
from sawlog.store.jsonslices import elements, fields
from tests.doors.foreign import (
    FIXTURES,
    bare,
    check_session,
    corpus,
    corpus_params,
    events,
    payloads,
)
from tests.doors.junk import spoiled

FOLDER = FIXTURES / "openai-chat"
FILES = sorted(FOLDER.glob("*.json"))
API = "openai-chat"


def session(name: str) -> ForeignSession:
    (only,) = openai_chat.read(FOLDER / f"{name}.json")
    check_session(only)
    return only


def kinds(only: ForeignSession) -> list[tuple[str, int]]:
    return [(type(event.payload).__name__, event.step) for event in events(only)]


def test_a_bare_array_is_typed_in_order() -> None:
    only = session("array")
    assert kinds(only) == [
        ("MessageSystem", 0),
        ("MessageSystem", 0),
        ("MessageUser", 0),
        ("MessageAssistant", 1),
        ("ToolRequested", 1),
        ("ToolRequested", 1),
        ("StepCompleted", 1),
        ("ToolFinished", 1),
        ("ToolFinished", 1),
        ("ToolRequested", 2),
        ("StepCompleted", 2),
        ("ToolFinished", 2),
        ("MessageAssistant", 3),
        ("StepCompleted", 3),
        ("MessageSystem", 0),
        ("MessageUser", 0),
        ("ToolRequested", 4),
        ("StepCompleted", 4),
    ]
    counts = only.counts
    assert (counts.records, counts.steps, counts.calls, counts.unanswered) == (12, 4, 4, 1)
    assert (only.api, only.window, only.parent) == (API, 0, "")


def test_records_are_the_messages_own_bytes() -> None:
    only = session("array")
    text = (FOLDER / "array.json").read_text()
    for record in only.records:
        noted = record.events[0].payload.record
        assert noted is not None and str(noted.line) in text
    assert {event.occurred_at for event in events(only)} == {UNKNOWN_TIME}


def test_roles_and_parts() -> None:
    only = session("array")
    systems = [one for one in payloads(only) if isinstance(one, MessageSystem)]
    assert [one.role for one in systems] == ["system", "developer", "system"]
    event = only.records[2].events[0]
    assert isinstance(event.payload, MessageUser)
    text, image, url, audio = event.payload.parts
    assert isinstance(text, TextPart) and isinstance(image, MediaPart)
    assert (image.media, event.blobs) == ("image/png", ((b"\x89PNG\r\n\x1a\n", "image/png"),))
    assert url == MediaPart(media="image/*", url="https://example.org/b.png")
    assert audio == RawPart(
        API, '{"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}}'
    )


def test_calls_keep_their_arguments_and_results_find_them() -> None:
    only = session("array")
    calls = [event for event in events(only) if isinstance(event.payload, ToolRequested)]
    requested = [one for one in payloads(only) if isinstance(one, ToolRequested)]
    assert [(one.name, one.kind, one.arguments) for one in requested] == [
        ("size", "json", '{"path": "a.txt", "n": -0.0}'),
        ("size", "json", '{"path": "b.txt"}'),
        ("patch", "text", "*** Begin\n-a\n+b\n"),
        ("size", "json", ""),
    ]
    results = [one for one in payloads(only) if isinstance(one, ToolFinished)]
    assert [one.call for one in results] == [calls[at].id.hex() for at in (1, 0, 2)]
    assert [one.parts for one in results] == [
        (TextPart("20"),),
        (TextPart("10"),),
        (TextPart(""),),
    ]
    assert results[0].name == "size"


def test_who_speaks_is_said_to_be_lost() -> None:
    assert session("array").counts.anomalies == (
        "record 10: the name of who speaks is kept with the record and not shown",
    )


def test_a_log_is_its_request_and_then_its_response() -> None:
    only = session("log")
    assert only.window == 200000
    assert kinds(only)[-3:] == [
        ("MessageAssistant", 2),
        ("ToolRequested", 2),
        ("StepCompleted", 2),
    ]
    last = only.records[-1]
    reply, call, end = last.events
    assert bare(reply.payload) == MessageAssistant(
        parts=(
            BoundPart("reasoning_content", API, '"They may want both."', "They may want both."),
            TextPart("Ten. And b.txt?"),
        ),
        model="model-a",
    )
    assert isinstance(call.payload, ToolRequested)
    assert call.payload.arguments == '{"path":"b.txt"}'
    assert bare(end.payload) == StepCompleted(stop_reason="tool_calls", reconstructed=True)
    assert {event.occurred_at for event in last.events} == {1_757_015_025_972_323}
    assert only.counts.anomalies == ("record 5: 2 choices; the first is the reply",)
    assert only.counts.unanswered == 1


def test_tools_are_the_first_record() -> None:
    only = session("log")
    (event,) = only.records[0].events
    assert isinstance(event.payload, ToolsChanged)
    assert [(tool.name, tool.source) for tool in event.payload.tools] == [
        (
            "size",
            '{"name":"size","description":"Bytes of a file.","parameters":{"type": "object", '
            '"properties": {"path": {"type": "string"}}, "required": ["path"]},"strict":true}',
        ),
        ("patch", '{"name":"patch","type":"custom","format":{"type": "text"}}'),
        ("now", '{"name":"now","parameters":{}}'),
        ("web_search", '{"type": "web_search"}'),
    ]


def test_what_is_odd_is_kept_and_named() -> None:
    only = session("odd")
    assert only.counts.anomalies == (
        "record 0: tools that do not read, kept as they are (a tool without a name)",
        "record 3: a call of the old form without an id, kept as a bound part",
        "record 4: a message of the role 'function', kept as it is",
        "record 5: a call that no result can name, kept with the record",
        "record 5: a call that no result can name, kept with the record",
        "record 7: a second result for call call_a",
        "record 8: a result for call 'call_x', which was not made before it",
        "record 9: a message of the role 'critic', kept as it is",
        "record 10: a message of the role None, kept as it is",
        "record 13: a response without a message, kept as it is",
    )
    counts = only.counts
    assert (counts.calls, counts.unanswered, counts.orphans) == (1, 0, 1)
    assert [one.kind for one in payloads(only) if isinstance(one, ForeignRecord)] == [
        "tools",
        "role/function",
        "role/critic",
        "role/None",
        "response",
    ]


def test_fields_without_a_word_stand_in_the_reply() -> None:
    reply = payloads(session("odd"))[2]
    assert reply == MessageAssistant(
        parts=(
            TextPart("No."),
            BoundPart("refusal", API, '"I will not."', "I will not."),
            RawPart(API, '{"type": "later", "x": 1e2}'),
            BoundPart("refusal", API, '"Not that."', "Not that."),
            BoundPart("message.audio", API, '{"id": "audio_1"}'),
            BoundPart("message.name", API, '"helper"', "helper"),
        )
    )


def test_arguments_that_are_no_string_keep_their_source() -> None:
    (call,) = [one for one in payloads(session("odd")) if isinstance(one, ToolRequested)]
    assert call.arguments == '{"n" : 1.0}'


# --- identity -------------------------------------------------------------------------------------


def test_a_named_session_keeps_its_name() -> None:
    # The id of a completion names one reply.
    assert session("odd").source_id == "run-7"


def test_an_array_is_known_by_what_it_begins_with(tmp_path: Path) -> None:
    whole = session("array").source_id
    assert whole.startswith("sha256:")
    messages = json.loads((FOLDER / "array.json").read_text())
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"messages": messages[:4]}))
    assert openai_chat.read(path)[0].source_id == whole
    # The same texts in parts are the same beginning; another text is another.
    messages[0]["content"] = [{"type": "text", "text": messages[0]["content"]}]
    path.write_text(json.dumps(messages))
    assert openai_chat.read(path)[0].source_id == whole
    messages[1]["content"] = "Be verbose."
    path.write_text(json.dumps(messages))
    assert openai_chat.read(path)[0].source_id != whole


# --- laws -----------------------------------------------------------------------------------------


def _shorter(path: Path, count: int, scratch: Path) -> ForeignSession:
    """The file with its first messages only, each spelled as it stands there."""
    text = path.read_text()
    short = scratch / "short.json"
    if text.lstrip().startswith("["):
        short.write_text("[" + ",\n".join(elements(text)[:count]) + "]")
    else:
        given = fields(text)
        given["messages"] = "[" + ", ".join(elements(given["messages"])[:count]) + "]"
        given.pop("response", None)
        inner = ", ".join(f"{json.dumps(key)}: {source}" for key, source in given.items())
        short.write_text("{" + inner + "}")
    return openai_chat.read(short)[0]


@pytest.mark.parametrize("path", [*FILES, *corpus_params("openai-chat")])
def test_a_longer_array_only_adds(path: Path, tmp_path: Path) -> None:
    (whole,) = openai_chat.read(path)
    text = path.read_text()
    messages = (
        elements(text) if text.lstrip().startswith("[") else elements(fields(text)["messages"])
    )
    first = next(at for at, one in enumerate(messages) if '"user"' in one) + 1
    for count in range(first, len(messages) + 1):
        short = _shorter(path, count, tmp_path)
        check_session(short)
        assert short.source_id == whole.source_id
        records = list(short.records)
        assert records == list(whole.records)[: len(records)]


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_value_in_a_message_breaks_the_reader(data: st.DataObject, tmp_path: Path) -> None:
    value = json.loads(data.draw(st.sampled_from(FILES)).read_text())
    for _ in range(data.draw(st.integers(1, 4))):
        value = spoiled(data, value)
    path = tmp_path / "file.json"
    path.write_text(json.dumps(value))
    try:
        (only,) = openai_chat.read(path)
    except UnknownFormat:
        assert not openai_chat.sniff(path)
        return
    check_session(only)


# --- other files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_fixture_is_recognized(path: Path) -> None:
    assert openai_chat.sniff(path)


OTHERS: list[Any] = [
    [],
    {},
    7,
    "text",
    [{"a": 1}],
    {"messages": []},
    {"messages": [{"type": "human", "content": "x"}]},
    {"system": "s", "messages": [{"role": "user", "content": "x"}]},
    [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}],
    [{"role": "assistant", "tool_calls": [{"id": "a", "function": "f", "arguments": {}}]}],
]


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: json.dumps(value)[:30])
def test_no_chat(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps(value))
    assert not openai_chat.sniff(path)
    with pytest.raises(UnknownFormat, match="no array of chat messages"):
        openai_chat.read(path)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b'[{"role":"user"', b'{"role":"user"}\n{}']
)
def test_no_document(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert not openai_chat.sniff(path)
    with pytest.raises(UnknownFormat):
        openai_chat.read(path)


def test_bounds_hold_for_an_array(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(TooLarge, match="nests deeper"):
        openai_chat.read(path)
    path.write_text(json.dumps([{"role": "user", "content": "x"}] * 4))
    with pytest.raises(TooLarge, match="more than 3 messages"):
        openai_chat.read(path, Bounds(records=3))


# --- real files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", corpus_params("openai-chat"))
def test_real_file_agrees_with_an_independent_count(path: Path) -> None:
    assert openai_chat.sniff(path)
    (only,) = openai_chat.read(path)
    check_session(only)
    value: Any = json.loads(path.read_text())
    logged = not path.name.startswith("oh-fncall")
    messages: list[Any] = list(value["messages"] if logged else value)
    if logged:
        messages.append(value["response"]["choices"][0]["message"])
    none: list[Any] = []
    calls = [call["id"] for one in messages for call in one.get("tool_calls") or none]
    results = [one["tool_call_id"] for one in messages if one["role"] == "tool"]
    counts = only.counts
    assert counts.records == len(messages) + logged
    assert counts.steps == sum(one["role"] == "assistant" for one in messages)
    assert counts.calls == len(calls)
    assert counts.unanswered == len(set(calls) - set(results))
    assert counts.orphans == len(set(results) - set(calls))
    assert counts.anomalies == ()


def test_logs_of_one_run_have_one_source_id() -> None:
    files = corpus("openai-chat")
    if not files:
        pytest.skip("no real openai-chat transcripts beside the checkout")
    assert len({openai_chat.read(path)[0].source_id for path in files}) == 1


def test_lone_surrogates_are_read() -> None:
    (event,) = session("odd").records[1].events
    assert bare(event.payload) == MessageUser(parts=(TextPart("Go \ud83d on."),))

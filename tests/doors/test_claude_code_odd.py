"""Claude Code transcripts in which something goes wrong or is not as it should be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sawlog.formats.claude_code import read
from sawlog.store.content import BoundPart, MediaPart, RawPart, TextPart, WithheldPart
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import ForeignRecord
from tests.doors.foreign import events
from tests.doors.transcripts import at, kinds, one, prompt, says, write


def test_odd_records_are_all_kept_and_named() -> None:
    session = one("odd-lines")
    assert session.counts.records == 30 == len(session.records)
    assert session.counts.events == len(events(session))
    for sentence in (
        "line 4: 2 objects on one line",
        "line 5: no JSON object, kept as it is",
        "line 30: torn tail of 63 bytes, not imported; a longer file adds it",
        "a call has a second result (record 9)",
        "a call's result stands before the call (record 11)",
        "a block of a reply stands after the reply's end (record 17)",
        "a reply's record holds no content (record 19)",
        "a user record holds no content (records 20, 21)",
        "a result names no call (record 26)",
        "a record repeats the uuid of an earlier one: it is an echo (record 28)",
        "has other contents and counts, too (record 29)",
        "a result has no call (records 1, 25, 26)",
        "a record's parent is not in the file (record 1)",
        "a record stands before its parent; file order is kept (record 6)",
    ):
        assert says(session, sentence), sentence
    assert says(session, "record's parent is not in the file (record 1)")


def test_results_go_to_the_nearest_preceding_unanswered_call_of_their_id() -> None:
    session = one("odd-lines")
    calls = {
        e.id.hex(): r.position
        for r in session.records
        for e in r.events
        if isinstance(e.payload, ToolRequested)
    }
    found = [
        (r.position, calls.get(e.payload.call), e.step, e.payload.status)
        for r in session.records
        for e in r.events
        if isinstance(e.payload, ToolFinished)
    ]
    assert found == [
        (1, None, 0, "ok"),
        (8, 7, 1, "ok"),
        (9, 7, 1, "error"),  # a second result of the same call
        (10, None, 0, "ok"),  # before its call
        (16, 15, 3, "ok"),  # the id once more
        (25, None, 0, "ok"),
        (26, None, 0, "ok"),
    ]
    counts = session.counts
    assert (counts.calls, counts.unanswered, counts.orphans) == (3, 0, 3)


def test_blocks_of_server_tools_stay_their_source_and_are_no_calls() -> None:
    session = one("odd-lines")
    parts = [
        part
        for position in (12, 13, 14)
        for event in at(session, position)
        if isinstance(event.payload, MessageAssistant)
        for part in event.payload.parts
    ]
    assert [type(part) for part in parts] == [RawPart, RawPart, BoundPart]
    assert isinstance(parts[0], RawPart) and str(parts[0].source).startswith(
        '{"type":"server_tool_use"'
    )


def test_what_the_harness_wrote_in_the_models_place_is_no_reply() -> None:
    (event,) = at(one("odd-lines"), 18)
    assert isinstance(event.payload, ForeignRecord)
    assert event.payload.kind == "assistant/synthetic"


def test_unknown_records_and_unreadable_lines_are_kept() -> None:
    session = one("odd-lines")
    found = {
        record.position: event.payload.kind
        for record in session.records
        for event in record.events
        if isinstance(event.payload, ForeignRecord)
    }
    assert [found[at] for at in (5, 22, 23, 24)] == [
        "unreadable",
        "queue-operation/enqueue",
        "never-seen-before",
        "unknown",
    ]
    (event,) = at(session, 5)
    assert event.payload.record is not None
    assert event.payload.record.line == (
        '{"type":"user","message":{"role":"user","content":"a broken \\escape"}}'
    )


def test_text_beside_results_comes_behind_them_and_ends_no_step() -> None:
    assert kinds(at(one("odd-lines"), 25)) == [ToolFinished, MessageUser]


def test_a_lone_surrogate_stays() -> None:
    (event,) = at(one("odd-lines"), 2)
    assert isinstance(event.payload, MessageUser)
    assert event.payload.parts == (TextPart("Try everything \ud83d."),)


def test_text_of_skills_and_hooks_is_the_harness() -> None:
    # It is no prompt: the reply that stands open may go on behind it.
    (event,) = at(one("compaction-odd"), 10)
    assert isinstance(event.payload, MessageUser) and event.payload.origin == "harness"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            MediaPart(media="image/*", url="https://example.org/a.png"),
        ),
        (
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            MediaPart(media="image/*", file="file_1"),
        ),
        (
            {"type": "image", "source": {"type": "base64", "data": "not base64"}},
            WithheldPart("image", "the file does not hold its bytes"),
        ),
        (
            {"type": "image", "source": {"type": "new"}},
            RawPart("anthropic", '{"type":"image","source":{"type":"new"}}'),
        ),
        ({"type": "text"}, RawPart("anthropic", '{"type":"text"}')),
        ("bare", RawPart("anthropic", '"bare"')),
    ],
)
def test_other_blocks_of_a_user(tmp_path: Path, content: object, part: object) -> None:
    record = prompt("")
    record["message"] = {"role": "user", "content": [content]}
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")
    (event,) = events(read(path)[0])
    assert isinstance(event.payload, MessageUser) and event.payload.parts == (part,)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "name": "Read", "input": {}},
        {"type": "tool_use", "id": "toolu_1", "input": {}},
        {"type": "tool_use", "id": "toolu_1", "name": "Read"},
        {"type": "text", "text": 1},
        None,
    ],
)
def test_a_block_that_is_none_of_its_kind_stays_its_source(tmp_path: Path, block: object) -> None:
    record = prompt("", type="assistant", message={"id": "m", "content": [block]})
    (event,) = events(read(write(tmp_path / "f.jsonl", record))[0])
    assert event.payload == MessageAssistant(
        parts=(RawPart("anthropic", json.dumps(block)),), record=event.payload.record
    )


def test_a_reply_without_a_message_id_is_a_step_by_its_record(tmp_path: Path) -> None:
    def reply(uuid: str) -> dict[str, object]:
        return prompt("", uuid, type="assistant", message={"content": "hi"})

    session = read(write(tmp_path / "f.jsonl", reply("1"), reply("2")))[0]
    assert session.counts.steps == 2

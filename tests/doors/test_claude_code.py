"""Claude Code transcripts as events: replies and results, and which files are no transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sawlog.formats.claude_code import read, sniff
from sawlog.formats.lines import Bounds
from sawlog.store.content import BoundPart, MediaPart, TextPart, WithheldPart
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import TooLarge, UnknownFormat
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import ForeignRecord
from sawlog.store.events.steps import StepCompleted
from sawlog.store.ids import foreign_id
from tests.doors.foreign import events
from tests.doors.transcripts import FOLDER, SESSION, at, kinds, one, prompt, says, write

# --- replies and results --------------------------------------------------------------------------


def test_records_of_one_message_id_are_one_step_with_results_between_them() -> None:
    session = one("split-reply")
    steps = [(type(e.payload), e.step) for e in events(session) if e.step]
    assert steps == [
        (MessageAssistant, 1),
        (MessageAssistant, 1),
        (ToolRequested, 1),
        (ToolFinished, 1),
        (ToolRequested, 1),
        (ToolFinished, 1),
        (StepCompleted, 1),
        (MessageAssistant, 2),
        (StepCompleted, 2),
    ]
    assert session.counts.steps == 2


def test_thinking_is_kept_as_its_exact_block() -> None:
    (event,) = at(one("split-reply"), 2)
    assert isinstance(event.payload, MessageAssistant)
    (part,) = event.payload.parts
    assert part == BoundPart(
        kind="thinking",
        api="anthropic",
        source='{"type":"thinking","thinking":"I should look at the tree.","signature":"c2lnbmVk"}',
        text="I should look at the tree.",
    )
    assert event.payload.model == "claude-sonnet-4-5"


def test_arguments_are_the_source_of_the_input() -> None:
    (event,) = at(one("split-reply"), 7)
    assert isinstance(event.payload, ToolRequested)
    assert event.payload.arguments == (
        '{"b": -0.0, "a":12345678901234567890,"path":"src\\/parser.py"}'
    )


def test_a_result_names_its_call_and_carries_its_images() -> None:
    session = one("split-reply")
    (call,), (event,) = at(session, 7), at(session, 8)
    result = event.payload
    assert isinstance(result, ToolFinished)
    assert (result.call, result.call_id, result.status) == (call.id.hex(), "toolu_2", "ok")
    text, image = result.parts
    assert text == TextPart("def parse(): ...")
    ((raw, media),) = event.blobs
    assert raw == b"\x89PNG\r\n\x1a\n" and media == "image/png"
    assert isinstance(image, MediaPart) and image.media == "image/png"
    assert image.blob == "4c4b6a3be1314ab86138bef4314dde022e600960d8689a2c8f8631802d20dab6"


def test_a_step_ends_with_the_record_that_shows_it_and_when_its_last_block_came() -> None:
    session = one("split-reply")
    end, reply = at(session, 9)
    assert end.payload == StepCompleted(
        stop_reason="tool_use",
        reconstructed=True,
        record=reply.payload.record,
    )
    (last,) = at(session, 7)
    assert end.step == 1 and end.occurred_at == last.occurred_at < reply.occurred_at
    # The end of the turn shows it, too.
    assert kinds(at(session, 10)) == [StepCompleted, ForeignRecord]


def test_every_event_carries_its_record_and_an_id_of_its_place() -> None:
    session = one("split-reply")
    lines = (FOLDER / "split-reply.jsonl").read_text(encoding="utf-8").splitlines()
    for position, record in enumerate(session.records):
        assert record.position == position
        for part, event in enumerate(record.events):
            found = event.payload.record
            assert found is not None
            assert (found.format, found.position) == ("claude-code", position)
            assert (found.digest, found.line) == (record.digest, lines[position])
            assert event.id == foreign_id(SESSION, str(position), str(part))


def test_records_that_no_model_saw_are_ignorable_and_say_what_they_are() -> None:
    session = one("split-reply")
    found = [
        (record.position, event.payload.kind)
        for record in session.records
        for event in record.events
        if isinstance(event.payload, ForeignRecord)
    ]
    assert found == [
        (0, "file-history-snapshot"),
        (5, "progress/hook_progress"),
        (10, "system/stop_hook_summary"),
        (11, "system/turn_duration"),
    ]
    assert all(e.ignorable == isinstance(e.payload, ForeignRecord) for e in events(session))
    assert at(session, 0)[0].occurred_at == UNKNOWN_TIME


def test_an_image_whose_bytes_were_redacted_is_withheld() -> None:
    session = one("split-reply")
    (event,) = at(session, 12)
    assert isinstance(event.payload, MessageUser)
    assert event.payload.parts[1] == WithheldPart("image", "the file does not hold its bytes")
    assert event.blobs == () and says(session, "a block of type image holds no such bytes")


def test_an_interrupt_is_a_message_of_the_harness() -> None:
    (event,) = at(one("split-reply"), 13)
    assert isinstance(event.payload, MessageUser) and event.payload.origin == "harness"


# --- files of other kinds -------------------------------------------------------------------------


def test_it_knows_its_files() -> None:
    assert all(sniff(path) for path in sorted(FOLDER.rglob("*.jsonl")))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x01",
        b'{"type":"session_meta","payload":{"id":"x"}}\n',
        b'{"type":"user","id":"1","content":"hi"}\n',
        b'[{"role":"user","content":"hi"}]',
        b'{"type":"user","uuid":"cut',
    ],
)
def test_files_of_other_kinds_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(content)
    assert not sniff(path)
    with pytest.raises(UnknownFormat):
        read(path)


def test_a_bound_that_is_passed_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", prompt("long" * 100))
    with pytest.raises(TooLarge, match="line 1 is longer"):
        read(path, Bounds(line=200))
    with pytest.raises(TooLarge, match="line 1 is longer"):
        sniff(path, Bounds(line=200))

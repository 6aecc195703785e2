"""Claude Code transcripts as events: replies, results, cuts, sub-agents, what goes wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import sawlog.fixtures
from sawlog.formats.base import ForeignEvent, ForeignSession
from sawlog.formats.claude_code import read, sniff
from sawlog.formats.lines import Bounds
from sawlog.store.content import BoundPart, MediaPart, RawPart, TextPart, WithheldPart
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import TooLarge, UnknownFormat
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import (
    CompactionCompleted,
    CompactionStarted,
    ForeignRecord,
    HistoryRewound,
    HistoryTrimmed,
)
from sawlog.store.events.steps import StepCompleted
from sawlog.store.ids import foreign_id

FOLDER = Path(next(iter(sawlog.fixtures.__path__))) / "foreign" / "claude-code"
SESSION = "5f0c1a52-8d1e-4b7a-9c3f-2a6d10e4b001"


def one(name: str) -> ForeignSession:
    return read(FOLDER / f"{name}.jsonl")[0]


def at(session: ForeignSession, position: int) -> tuple[ForeignEvent, ...]:
    (found,) = (record for record in session.records if record.position == position)
    return found.events


def events(session: ForeignSession) -> list[ForeignEvent]:
    return [event for record in session.records for event in record.events]


def kinds(found: tuple[ForeignEvent, ...]) -> list[type[Payload]]:
    return [type(event.payload) for event in found]


def texts(session: ForeignSession) -> list[str]:
    """The texts of a session's user and assistant messages, in order."""
    return [
        str(part.text)
        for event in events(session)
        if isinstance(event.payload, MessageUser | MessageAssistant)
        for part in event.payload.parts
        if isinstance(part, TextPart)
    ]


def says(session: ForeignSession, what: str) -> bool:
    return any(what in sentence for sentence in session.counts.anomalies)


def write(path: Path, *lines: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def prompt(text: str, uuid: str = "u", **more: object) -> dict[str, object]:
    message = {"role": "user", "content": text}
    base = {"type": "user", "uuid": uuid, "parentUuid": None, "sessionId": SESSION}
    return {**base, "message": message, **more}


# --- replies and results -------------------------------------------------------------------------


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


# --- rewinds -------------------------------------------------------------------------------------


def test_a_second_prompt_with_the_same_parent_goes_back_to_before_the_first() -> None:
    session = one("rewind")
    end_of_1, first = at(session, 2)
    assert isinstance(first.payload, MessageUser)
    end_of_2, rewound, second = at(session, 4)
    assert kinds(at(session, 4)) == [StepCompleted, HistoryRewound, MessageUser]
    assert (end_of_1.step, end_of_2.step) == (1, 2)
    assert rewound.rewind_to == end_of_1.id
    assert second.rewind_to is None
    # A third prompt of that parent goes back to the same place.
    assert [e.rewind_to for e in at(session, 10) if isinstance(e.payload, HistoryRewound)] == [
        end_of_1.id
    ]


def test_a_command_that_shares_its_parent_with_a_prompt_is_no_rewind() -> None:
    session = one("rewind")
    assert kinds(at(session, 9)) == [MessageUser]
    assert says(session, "no rewind, both stay (record 9)")


def test_the_first_prompt_of_a_file_can_be_rewound() -> None:
    session = one("rewind-first")
    assert [e.rewind_to for e in events(session) if isinstance(e.payload, HistoryRewound)] == [b""]


def test_prompts_without_a_parent_are_new_roots_and_no_rewind(tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", prompt("a", "1"), prompt("b", "2"))
    assert not any(isinstance(e.payload, HistoryRewound) for e in events(read(path)[0]))


# --- compactions ---------------------------------------------------------------------------------


def shown(session: ForeignSession) -> dict[str, str]:
    """For each event that a model saw: its id, and where it stands."""
    return {
        event.id.hex(): f"{record.position}:{type(event.payload).__name__}"
        for record in session.records
        for event in record.events
        if not isinstance(event.payload, ForeignRecord)
    }


def histories(session: ForeignSession) -> list[list[str]]:
    names = shown(session)
    return [
        [names[id] for id in event.payload.history]
        for event in events(session)
        if isinstance(event.payload, CompactionCompleted)
    ]


def test_a_compaction_is_one_batch_on_its_summary() -> None:
    session = one("compaction-preserved")
    assert kinds(at(session, 28)) == [ForeignRecord]
    end, started, summary, completed = at(session, 29)
    assert end.step == 3
    assert isinstance(started.payload, CompactionStarted)
    assert (started.payload.trigger, started.payload.foreign) == ("manual", True)
    assert isinstance(summary.payload, MessageUser) and summary.payload.origin == "summary"
    assert isinstance(completed.payload, CompactionCompleted) and completed.payload.foreign
    assert completed.payload.summary == "The project was linted: three warnings."


def test_preserved_messages_stand_behind_the_summary() -> None:
    assert histories(one("compaction-preserved")) == [
        ["29:MessageUser", "24:MessageUser", "26:ToolRequested", "27:ToolFinished"]
    ]


def test_a_preserved_stretch_anchored_at_the_boundary_stands_before_the_summary() -> None:
    assert histories(one("compaction-segment")) == [
        ["0:MessageUser", "1:MessageAssistant", "5:MessageUser"]
    ]


def test_a_boundary_without_a_summary_compacts_nothing_and_a_summary_alone_does() -> None:
    session = one("compaction-odd")
    assert histories(session) == [
        ["5:MessageUser"],
        ["11:MessageUser", "7:MessageAssistant"],
    ]
    assert says(session, "no summary behind it: no compaction (records 2, 13)")
    assert says(session, "a summary has no boundary before it (record 5)")
    assert says(session, "preserves 1 records that the file does not hold before it (record 8)")
    assert says(session, "name an anchor that is not its summary")
    # A second record of the same summary is no second compaction.
    (more,) = at(session, 6)
    assert isinstance(more.payload, MessageUser) and more.payload.origin == "summary"


def test_a_micro_compaction_trims_the_results_that_it_names() -> None:
    session = one("microcompact")
    assert kinds(at(session, 6)) == [HistoryTrimmed]
    (trimmed,) = at(session, 6)
    assert isinstance(trimmed.payload, HistoryTrimmed)
    assert (trimmed.payload.calls, trimmed.payload.form) == (("toolu_1",), "stub")
    assert says(session, "a micro-compaction names calls that were not read (record 7)")
    assert kinds(at(session, 8)) == [ForeignRecord]
    assert session.counts.unanswered == 1


def test_attachments_and_side_facts_are_kept_and_never_rendered() -> None:
    session = one("compaction-preserved")
    found = [e.payload.kind for e in events(session) if isinstance(e.payload, ForeignRecord)]
    assert found[:7] == [
        "mode",
        "permission-mode",
        "ai-title",
        "custom-title",
        "agent-name",
        "last-prompt",
        "pr-link",
    ]
    assert sum(str(kind).startswith("attachment/") for kind in found) == 15
    assert says(session, "does not say how the model was shown an attachment")
    assert texts(session) == [
        "Lint the project.",
        "Three warnings.",
        "Mend the first.",
        "The project was linted: three warnings.",
        "Go on.",
        "Done.",
    ]


def test_thinking_without_text_counts_as_opaque() -> None:
    assert one("compaction-preserved").counts.opaque == 1
    assert one("split-reply").counts.opaque == 0


# --- whose file it is ----------------------------------------------------------------------------


def test_the_first_message_names_the_session_where_the_file_does_not() -> None:
    session = one("two-sessions")
    assert session.source_id == SESSION
    assert says(session, "a record names another session, 5f0c1a52-8d1e-4b7a-9c3f-2a6d10e4b0ff")


def test_the_name_of_the_file_decides(tmp_path: Path) -> None:
    name = "11111111-2222-4333-8444-555555555555"
    path = tmp_path / f"{name}.jsonl"
    shutil.copy(FOLDER / "split-reply.jsonl", path)
    (session,) = read(path)
    assert session.source_id == name and says(session, f"another session, {SESSION}")
    assert at(session, 1)[0].id == foreign_id(name, "1", "0")


def test_a_file_that_names_no_session_is_named_by_its_first_record(tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", {"type": "summary", "summary": "s", "leafUuid": "x"})
    (session,) = read(path)
    assert session.source_id == f"record-{session.records[0].digest[:32]}"
    assert says(session, "no record names its session")


def test_inline_sub_agents_are_sessions_of_their_own() -> None:
    main, left, right, up = read(FOLDER / "inline-sidechains.jsonl")
    assert texts(main) == ["Ask two agents.", "A door on the left."]
    assert [e.payload.kind for e in events(main) if isinstance(e.payload, ForeignRecord)] == [
        *["sidechain/user", "sidechain/assistant"] * 4
    ]
    assert (main.counts.steps, main.counts.calls, main.counts.unanswered) == (2, 2, 0)
    assert texts(left) == ["Look left.", "A door."]
    assert texts(right) == ["Look right.", "Nothing there."]
    assert texts(up) == ["Look up.", "The sky."]
    assert [s.source_id for s in (left, right, up)] == [
        f"{SESSION}/00000000-0000-4000-8000-000000000003",
        f"{SESSION}/00000000-0000-4000-8000-000000000006",
        f"{SESSION}/c0ffee1",
    ]
    assert [s.parent for s in (main, left, right, up)] == ["", SESSION, SESSION, SESSION]
    assert [record.position for record in left.records] == [2, 3, 7, 8]
    first = events(right)[0].payload
    assert isinstance(first, MessageUser) and first.origin == "parent"
    assert right.counts.anomalies == ()


def test_sub_agent_files_beside_a_session_are_its_children() -> None:
    main, summariser, agent = read(FOLDER / f"{SESSION}.jsonl")
    assert [s.source_id for s in (main, summariser, agent)] == [
        SESSION,
        f"{SESSION}/acompact-0a",
        f"{SESSION}/beef01",
    ]
    assert [s.parent for s in (main, summariser, agent)] == ["", SESSION, SESSION]
    assert texts(agent) == ["Read the notes.", "They are empty."]
    first = events(agent)[0].payload
    assert isinstance(first, MessageUser) and first.origin == "parent"
    assert says(summariser, "the run that wrote a compaction's summary")
    assert not says(summariser, "parent is not in the file")
    # What the parent was shown of the running sub-agent is an echo.
    assert kinds(at(main, 2)) == [ForeignRecord]


def test_a_sub_agent_file_read_alone_is_the_same_session() -> None:
    beside = read(FOLDER / f"{SESSION}.jsonl")
    alone = read(FOLDER / SESSION / "subagents" / "agent-beef01.jsonl")
    assert alone == beside[2:]


def test_sub_agents_are_found_beside_a_renamed_file(tmp_path: Path) -> None:
    shutil.copy(FOLDER / f"{SESSION}.jsonl", tmp_path / "kept.jsonl")
    shutil.copytree(FOLDER / SESSION / "subagents", tmp_path / "kept.subagents")
    write(tmp_path / "kept.subagents" / "agent-empty.jsonl")
    found = read(tmp_path / "kept.jsonl")
    assert [s.source_id for s in found] == [s.source_id for s in read(FOLDER / f"{SESSION}.jsonl")]
    assert says(found[0], "a sub-agent's file was not read")


# --- what goes wrong -----------------------------------------------------------------------------


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


# --- files of other kinds ------------------------------------------------------------------------


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

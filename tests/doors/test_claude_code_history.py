"""Claude Code transcripts whose history does not only grow: rewinds, compactions."""

from __future__ import annotations

from pathlib import Path

from sawlog.formats.base import ForeignSession
from sawlog.formats.claude_code import read
from sawlog.store.events.compaction import (
    CompactionCompleted1,
    CompactionStarted1,
)
from sawlog.store.events.conversation import MessageUser
from sawlog.store.events.lifecycle import (
    ForeignRecord,
    HistoryRewound1,
    HistoryTrimmed,
)
from sawlog.store.events.steps import StepCompleted
from tests.doors.foreign import events
from tests.doors.transcripts import at, kinds, one, prompt, says, texts, write

# --- rewinds --------------------------------------------------------------------------------------


def test_a_second_prompt_with_the_same_parent_goes_back_to_before_the_first() -> None:
    session = one("rewind")
    end_of_1, first = at(session, 2)
    assert isinstance(first.payload, MessageUser)
    end_of_2, rewound, second = at(session, 4)
    assert kinds(at(session, 4)) == [StepCompleted, HistoryRewound1, MessageUser]
    assert (end_of_1.step, end_of_2.step) == (1, 2)
    assert rewound.rewind_to == end_of_1.id
    assert second.rewind_to is None
    # A third prompt of that parent goes back to the same place.
    assert [e.rewind_to for e in at(session, 10) if isinstance(e.payload, HistoryRewound1)] == [
        end_of_1.id
    ]


def test_a_command_that_shares_its_parent_with_a_prompt_is_no_rewind() -> None:
    session = one("rewind")
    assert kinds(at(session, 9)) == [MessageUser]
    assert says(session, "no rewind, both stay (record 9)")


def test_the_first_prompt_of_a_file_can_be_rewound() -> None:
    session = one("rewind-first")
    assert [e.rewind_to for e in events(session) if isinstance(e.payload, HistoryRewound1)] == [b""]


def test_prompts_without_a_parent_are_new_roots_and_no_rewind(tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", prompt("a", "1"), prompt("b", "2"))
    assert not any(isinstance(e.payload, HistoryRewound1) for e in events(read(path)[0]))


# --- compactions ----------------------------------------------------------------------------------


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
        if isinstance(event.payload, CompactionCompleted1)
    ]


def test_a_compaction_is_one_batch_on_its_summary() -> None:
    session = one("compaction-preserved")
    assert kinds(at(session, 28)) == [ForeignRecord]
    end, started, summary, completed = at(session, 29)
    assert end.step == 3
    assert isinstance(started.payload, CompactionStarted1)
    assert (started.payload.trigger, started.payload.foreign) == ("manual", True)
    assert isinstance(summary.payload, MessageUser) and summary.payload.origin == "summary"
    assert isinstance(completed.payload, CompactionCompleted1) and completed.payload.foreign
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

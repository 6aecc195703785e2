"""Codex rollouts: what each record becomes, in every version."""

from __future__ import annotations

from collections import Counter

from sawlog.store.content import BoundPart, MediaPart, RawPart, TextPart
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import (
    ForeignRecord,
)
from sawlog.store.events.steps import StepAbandoned, StepCompleted, StepFailed
from sawlog.store.events.world import ToolsChanged
from tests.doors.foreign import bare, events, payloads
from tests.doors.rollouts import (
    API,
    by_position,
    call_of,
    session,
    texts,
)

# --- plain turns ----------------------------------------------------------------------------------


def test_a_turn_is_typed_in_file_order() -> None:
    only = session("turns")
    assert only.source_id == "00000000-0000-7000-8000-000000000001"
    assert only.api == API
    assert only.window == 258400
    assert only.parent == ""
    assert only.counts.anomalies == ()
    kinds = [
        (type(event.payload).__name__, event.step)
        for event in events(only)
        if not isinstance(event.payload, ForeignRecord)
    ]
    assert kinds == [
        ("MessageSystem", 0),
        ("MessageSystem", 0),
        ("MessageUser", 0),
        ("MessageUser", 0),
        ("MessageAssistant", 1),
        ("MessageAssistant", 1),
        ("ToolRequested", 1),
        ("ToolRequested", 1),
        ("StepCompleted", 1),
        ("ToolFinished", 1),
        ("ToolFinished", 1),
        ("MessageAssistant", 2),
        ("MessageAssistant", 2),
        ("StepCompleted", 2),
        ("MessageUser", 0),
        ("ToolRequested", 3),
        ("StepCompleted", 3),
        ("ToolFinished", 3),
        ("ToolRequested", 4),
    ]


def test_counts_of_a_turn() -> None:
    counts = session("turns").counts
    assert (counts.records, counts.steps, counts.calls) == (26, 4, 4)
    assert (counts.unanswered, counts.orphans, counts.opaque) == (1, 0, 1)


def test_roles_and_origins() -> None:
    only = session("turns")
    first, developer = by_position(only, 0)[0].payload, by_position(only, 2)[0].payload
    assert isinstance(first, MessageSystem) and first.role == "system"
    assert isinstance(developer, MessageSystem) and developer.role == "developer"
    harness, person = by_position(only, 3)[0].payload, by_position(only, 5)[0].payload
    assert isinstance(harness, MessageUser) and harness.origin == "harness"
    assert len(harness.parts) == 2
    assert isinstance(person, MessageUser) and person.origin == ""


def test_sources_are_kept_as_they_stand() -> None:
    only = session("turns")
    (reasoning,) = by_position(only, 7)
    assert bare(reasoning.payload) == MessageAssistant(
        parts=(
            BoundPart(
                "reasoning",
                API,
                '{"type":"reasoning","summary":[{"type":"summary_text","text":"**Counting**"},'
                '{"type":"summary_text","text":"Two files."}],"encrypted_content":"b3BhcXVl"}',
                "**Counting**\n\nTwo files.",
            ),
        ),
        model="gpt-5.4",
    )
    (call,) = by_position(only, 10)
    assert isinstance(call.payload, ToolRequested)
    assert call.payload.arguments == '{"cmd":"wc -l todo.txt", "n": -0.0}'
    (patch,) = by_position(only, 23)
    assert isinstance(patch.payload, ToolRequested)
    assert (patch.payload.kind, patch.payload.name) == ("text", "apply_patch")
    assert str(patch.payload.arguments).startswith("*** Begin Patch\n")


def test_results_name_their_calls_in_any_order() -> None:
    only = session("turns")
    end, b = by_position(only, 13)
    (a,) = by_position(only, 14)
    assert isinstance(end.payload, StepCompleted) and end.payload.reconstructed
    assert [call_of(a), call_of(b)] == [
        by_position(only, 10)[0].id.hex(),
        by_position(only, 11)[0].id.hex(),
    ]


def test_echoes_and_bookkeeping_are_kept_and_not_shown() -> None:
    only = session("turns")
    kinds = [one.kind for one in payloads(only) if isinstance(one, ForeignRecord)]
    assert Counter(kinds) == {
        "event_msg/agent_message": 2,
        "event_msg/exec_command_end": 1,
        "event_msg/task_complete": 1,
        "event_msg/task_started": 1,
        "event_msg/token_count": 2,
        "event_msg/user_message": 1,
        "turn_context": 2,
    }
    shown = [
        text for event in events(only) if hasattr(event.payload, "parts") for text in texts(event)
    ]
    assert shown.count("I look at both.") == 1


def test_times_and_model_come_from_the_file() -> None:
    only = session("turns")
    # 10:00:00.100 UTC on 4 May 2026.
    assert by_position(only, 0)[0].occurred_at == 1_777_888_800_100_000
    models = [one.model for one in payloads(only) if isinstance(one, MessageAssistant)]
    assert set(models) == {"gpt-5.4"}


def test_the_last_step_stays_open_until_a_record_ends_it() -> None:
    only = session("turns")
    ended = [event.step for event in events(only) if isinstance(event.payload, StepCompleted)]
    assert ended == [1, 2, 3]
    # The end of step 2 is shown by the event that completes its turn, and was before it.
    end = by_position(only, 20)[0]
    assert end.step == 2
    assert end.occurred_at == by_position(only, 17)[0].occurred_at


# --- interrupts, pairs ----------------------------------------------------------------------------


def test_what_was_broken_off_without_a_reply_is_abandoned() -> None:
    ends = [
        (event.step, type(event.payload))
        for event in events(session("aborts"))
        if isinstance(event.payload, StepCompleted | StepAbandoned | StepFailed)
    ]
    assert ends == [
        (1, StepCompleted),
        (2, StepCompleted),  # the event stood before the reasoning and the call of its turn
        (3, StepAbandoned),
        (4, StepAbandoned),  # shown by the message that tells the model of it
        (5, StepFailed),
        (6, StepCompleted),
        (7, StepCompleted),
    ]


def test_a_result_goes_to_the_nearest_call_of_its_id_that_waits() -> None:
    only = session("aborts")
    first, second = by_position(only, 24)[0], by_position(only, 25)[0]
    assert isinstance(first.payload, ToolRequested) and isinstance(second.payload, ToolRequested)
    assert first.payload.call_id == second.payload.call_id
    assert [call_of(by_position(only, at)[-1]) for at in (26, 27, 28)] == [
        second.id.hex(),
        first.id.hex(),
        first.id.hex(),
    ]
    assert only.counts.anomalies == ("line 29: a second result for call call_a",)
    assert (only.counts.calls, only.counts.unanswered, only.counts.orphans) == (4, 0, 0)


def test_a_result_says_of_itself_only_what_its_record_says() -> None:
    only = session("aborts")
    results = [one for one in payloads(only) if isinstance(one, ToolFinished)]
    assert {one.status for one in results} == {"ok"}
    (failed,) = [one for one in payloads(session("bare")) if isinstance(one, ToolFinished)]
    assert failed.status == "error"
    assert failed.parts == (TextPart("no such file"),)


# --- versions -------------------------------------------------------------------------------------


def test_bare_lines_of_the_first_releases() -> None:
    only = session("bare")
    assert only.source_id == "00000000-0000-4000-8000-000000000006"
    assert only.counts.anomalies == ()
    assert {event.occurred_at for record in only.records[1:] for event in record.events} == {
        UNKNOWN_TIME
    }
    (call,) = [one for one in payloads(only) if isinstance(one, ToolRequested)]
    assert (call.name, call.call_id) == ("local_shell", "call_l")
    assert call.arguments == '{"type":"exec","command":["ls"],"timeout_ms":null}'
    (reasoning,) = by_position(only, 4)
    assert isinstance(reasoning.payload, MessageAssistant)
    part, record = reasoning.payload.parts[0], reasoning.payload.record
    assert isinstance(part, BoundPart) and record is not None
    assert part.source == record.line


def test_records_of_0_146() -> None:
    only = session("v0146")
    assert only.source_id == "00000000-0000-7000-8000-000000000008"
    assert only.parent == "00000000-0000-7000-8000-000000000001"
    assert only.window == 400000
    tools = by_position(only, 0)[1].payload
    assert isinstance(tools, ToolsChanged)
    assert [(tool.name, tool.source) for tool in tools.tools] == [
        (
            "look_up",
            '{"name":"look_up","description":"Looks a word up.",'
            '"parameters":{"type":"object","properties":{"word":{"type":"string"}}}}',
        ),
        (
            "mcp__index__find",
            '{"name":"mcp__index__find","description":"Finds.","parameters":{"type":"object"}}',
        ),
        ("mcp__index_open", '{"name":"mcp__index_open","parameters":{}}'),
    ]
    # Another agent's message is an input; a snapshot of the harness belongs to no step yet.
    assert [by_position(only, at)[0].step for at in (4, 5, 6, 7, 8)] == [0, 0, 1, 1, 1]
    search = by_position(only, 8)[0].payload
    assert isinstance(search, ToolRequested)
    assert (search.kind, search.arguments) == ("search", '{"query":"index","limit":8}')
    found = by_position(only, 9)[1].payload
    assert isinstance(found, ToolFinished)
    assert found.parts == (TextPart('[{"type":"function","name":"find"}]'),)
    call = by_position(only, 10)[0].payload
    assert isinstance(call, ToolRequested)
    assert (call.namespace, call.item) == ("mcp__index", "fc_1")
    # What the provider ran needs no answer and stays in the reply, as does the snapshot.
    assert [by_position(only, at)[0].step for at in (14, 15, 16, 17, 18, 21)] == [3] * 6
    assert (only.counts.calls, only.counts.unanswered) == (2, 0)


def test_result_lists_keep_text_images_and_what_has_no_word() -> None:
    only = session("v0146")
    event = by_position(only, 13)[1]
    assert isinstance(event.payload, ToolFinished)
    text, image, url, broken, raw = event.payload.parts
    assert text == TextPart("Here it is.")
    assert isinstance(image, MediaPart)
    assert (image.media, event.blobs) == ("image/png", ((b"\x89PNG\r\n\x1a\n", "image/png"),))
    assert url == MediaPart(media="image/*", url="https://example.org/a.png")
    assert broken == MediaPart(media="image/png", url="data:image/png;base64,REDACTED=")
    assert raw == RawPart(API, '{"type":"encrypted_content","encrypted_content":"eA=="}')


def test_payload_fields_at_the_top() -> None:
    only = session("v0146")
    flat = by_position(only, 22)[1].payload
    assert isinstance(flat, MessageUser) and flat.parts == (TextPart("Flat."),)
    (reasoning,) = by_position(only, 26)
    assert isinstance(reasoning.payload, MessageAssistant)
    assert reasoning.payload.model == "gpt-5.5"
    assert reasoning.payload.parts[0] == BoundPart(
        "reasoning", API, '{"type":"reasoning","summary":[],"encrypted_content":"eQ=="}'
    )
    kinds = [one.kind for one in payloads(only) if isinstance(one, ForeignRecord)]
    assert kinds[-4:] == [
        "event_msg/token_count",
        "response_item without a payload",
        "turn_context",
        "thread_extra",
    ]


def test_ordinals_are_a_hint_only() -> None:
    anomalies = session("v0146").counts.anomalies
    assert "1 ordinals do not grow; the order of the file was kept" in anomalies


def test_unknown_items_are_kept_and_named() -> None:
    only = session("v0146")
    assert "line 20: a response item of an unknown kind (configuration_update), kept as it is" in (
        only.counts.anomalies
    )
    assert bare(by_position(only, 19)[0].payload) == ForeignRecord(
        kind="response_item/configuration_update"
    )

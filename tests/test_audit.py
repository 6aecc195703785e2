"""Why a decision was wrong: the packet of a call, where a text was, what two packets differ in.

The session `wrong-decision`: a file is read twice, the newer reading is trimmed away by an agent
that tidies up, and the model decides by the older one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.auditing import diff, why
from sawlog.audit.findings import Change, Why
from sawlog.audit.recorded import Recorded
from sawlog.store.content import TextPart
from sawlog.store.errors import NoStep
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.exchange import load
from tests.session.agents import next_step, one, opened, talker

GOLDEN = Path(__file__).parents[1] / "fixtures" / "sessions"
OLD, NEW = "refund_days = 30", "refund_days = 14"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    """A store with golden sessions in it."""
    with opened(str(tmp_path / "store.db")) as log:
        yield log


def golden(log: AgentLog, name: str) -> Recorded:
    """A golden session, loaded."""
    with (GOLDEN / f"{name}.jsonl").open("rb") as lines:
        return log.read(load(log.store, lines, name=name).id.hex())


@pytest.fixture
def wrong(log: AgentLog) -> Recorded:
    """The session with the wrong decision."""
    return golden(log, "wrong-decision")


def version(text: str) -> str:
    """The version of a content."""
    return hashlib.sha256(text.encode()).hexdigest()


def told(found: list[Why]) -> list[tuple[str, bool, str, str]]:
    """Type, presence, form and reason of each part found."""
    return [(each.type, each.present, each.form, each.reason) for each in found]


# --- the packet of a call -------------------------------------------------------------------------


def test_a_call_leads_to_the_packet_on_which_it_was_decided(wrong: Recorded) -> None:
    step = wrong.step_of_call("call_wrong")
    assert step == 4
    packet = wrong.steps[step].packet
    assert OLD.encode() in packet.body and NEW.encode() not in packet.body
    [event] = [e for e in wrong.events() if e.type == "tool.requested" and e.step == step]
    assert wrong.step_of_call(event.id) == step  # the log's own name of the call will do
    with pytest.raises(NoStep, match="no call 'call_nowhere' was asked for"):
        wrong.step_of_call("call_nowhere")


# --- why ------------------------------------------------------------------------------------------


def test_the_fact_that_mattered_was_trimmed_and_an_old_version_was_there(wrong: Recorded) -> None:
    """The whole story of the wrong decision, from two questions."""
    step = wrong.steps[4]
    new = step.why(NEW)[0]
    assert (new.candidate, new.present, new.form, new.reason) == (True, False, "stub", "trimmed")
    assert (new.seen_first, new.seen_until, new.out_at) == (0, 0, 0)
    assert new.version == version(f"{NEW}\n")
    old, again = step.why(OLD)
    assert (old.candidate, old.present, old.form, old.reason) == (True, True, "full", "")
    assert (old.seen_first, old.seen_until, old.out_at) == (2, 4, 0)
    assert old.version == version(f"{OLD}\n") != new.version
    assert step.packet.entries[old.entry].text == f"{OLD}\n"
    assert (again.present, again.reason) == (False, "duplicate")
    assert again.version == version(f"{OLD}\n# read twice")
    assert {each.source for each in (old, again, new)} == {"tool:read_file"}
    assert [each.seq for each in (old, again, new)] == sorted(
        each.seq for each in (old, again, new)
    )


def test_what_was_recorded_later_is_not_yet_there(wrong: Recorded) -> None:
    found = wrong.steps[3].why(NEW)
    assert told(found)[0] == ("tool.finished", False, "", "not_yet")
    assert not found[0].candidate
    assert {each.reason for each in found} == {"not_yet"}
    later = wrong.steps[4].why("it is 14")
    assert [(each.type, each.reason) for each in later] == [("message.user", "not_yet")]


def test_what_was_rewound_was_in_no_packet(wrong: Recorded) -> None:
    [green] = wrong.steps[7].why("Paint it green")
    assert (green.candidate, green.present, green.reason) == (True, False, "rewound")
    assert (green.seen_first, green.out_at) == (0, 0)


def test_what_a_compaction_replaced_was_there_until_then(wrong: Recorded) -> None:
    last = wrong.last_step()
    [said] = wrong.steps[last].why("That is wrong")
    assert (said.present, said.reason) == (False, "compacted")
    assert (said.seen_first, said.seen_until, said.out_at) == (6, last - 1, last)
    [before] = wrong.steps[last - 1].why("That is wrong")
    assert (before.present, before.seen_until, before.out_at) == (True, last - 1, 0)


def test_what_stood_in_the_header_and_was_replaced(wrong: Recorded) -> None:
    edit = [each for each in wrong.steps[7].why("edit_file") if each.type == "tools.changed"]
    assert [(each.present, each.reason, each.seen_until) for each in edit] == [
        (False, "header_changed", 6)
    ]


def test_what_a_preview_leaves_out_is_not_shown_by_it(wrong: Recorded) -> None:
    """A text that begins in the part left out; the beginning of the same result is there."""
    step = wrong.steps[8]
    long = [each for each in step.why(NEW) if each.form == "preview"]
    assert [(each.present, each.reason) for each in long] == [(True, "")]
    middle = "\n".join([NEW] * 60)
    [hidden] = step.why(middle)
    assert (hidden.present, hidden.form, hidden.reason) == (False, "preview", "other_form")
    assert (hidden.seen_first, hidden.seen_until) == (0, 0)


def test_what_the_policys_cut_left_behind(log: AgentLog) -> None:
    cuts = golden(log, "cuts")
    last = cuts.last_step()
    [task] = cuts.steps[last].why("Read all files.")
    assert (task.candidate, task.present, task.reason) == (True, False, "block_cut")
    assert task.seen_first == 1 and task.seen_until + 1 == task.out_at < last
    assert cuts.steps[task.seen_until].why("Read all files.")[0].present
    assert not cuts.steps[task.out_at].why("Read all files.")[0].present


def test_a_result_that_no_call_asked_for(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        s.append(ToolFinished(call_id="ghost", parts=(TextPart("from nowhere"),)), source="tool:x")
        next_step(s, "openai-chat").send(talker())
    [ghost] = log.read("task").steps[1].why("from nowhere")
    assert (ghost.candidate, ghost.present, ghost.reason) == (True, False, "no_call")


def test_a_late_result_is_there_as_news(log: AgentLog) -> None:
    with log.session("task") as s:
        call = one(s)
        run = s.tool(call)
        run.start()
        next_step(s, "openai-chat").send(talker())
        run.result("at last")
        run.finish()
        next_step(s, "openai-chat")
    [late] = log.read("task").steps[3].why("at last")
    assert (late.present, late.form, late.seen_first) == (True, "late", 3)
    [synthetic] = [e for e in log.read("task").steps[2].packet.entries if e.kind == "result"]
    assert synthetic.status == "unknown"


def test_what_the_log_does_not_hold_has_no_answer(wrong: Recorded) -> None:
    assert wrong.steps[4].why("refund_days = 15") == []
    assert why(wrong, 4, "refund_days = 15") == []


def test_an_excerpt_shows_the_text_where_it_stands(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("a" * 200 + " needle " + "b" * 200)
        next_step(s, "openai-chat")
    [found] = log.read("task").steps[1].why("needle")
    assert found.excerpt == "a" * 59 + " needle " + "b" * 59


# --- diff -----------------------------------------------------------------------------------------


def in_short(changes: list[Change]) -> list[tuple[str, list[str], list[str]]]:
    """Each change with the kinds and names of what it is about."""
    return [
        (
            change.op,
            [f"{each.kind} {each.name}".strip() for each in change.old],
            [f"{each.kind} {each.name}".strip() for each in change.new],
        )
        for change in changes
    ]


def test_two_packets_differ_in_what_was_added(wrong: Recorded) -> None:
    changes = wrong.steps[4].diff(3)
    assert in_short(changes) == [
        ("added", [], ["assistant", "call read_file", "result read_file"]),
    ]
    [added] = changes
    assert added.new[-1].excerpt == "[The old result of this call is no longer shown.]"
    assert in_short(wrong.steps[3].diff(4)) == [
        ("removed", ["assistant", "call read_file", "result read_file"], []),
    ]
    assert wrong.steps[4].diff(4) == []


def test_two_packets_differ_in_their_header(log: AgentLog) -> None:
    switches = golden(log, "switches")
    changed = [c for c in switches.steps[3].diff(1) if c.old and c.old[0].kind == "header"]
    assert changed == []
    changed = [c for c in switches.steps[2].diff(1) if c.old and c.old[0].kind == "header"]
    names = [c.old[0].name for c in changed]
    assert names == ["api", "model", "params", "profile", "renderer"]
    [model] = [c for c in changed if c.old[0].name == "model"]
    assert (model.op, model.old[0].excerpt, model.new[0].excerpt) == ("changed", "deep", "wide")


def test_a_cut_shows_as_what_was_removed_and_the_notice_in_its_place(log: AgentLog) -> None:
    cuts = golden(log, "cuts")
    [task] = cuts.steps[cuts.last_step()].why("Read all files.")
    first, *rest = diff(cuts.steps[task.out_at - 1], cuts.steps[task.out_at])
    assert first.op == "changed"
    assert [each.kind for each in first.new] == ["notice"]
    assert first.old[0].excerpt == "Read all files."
    assert [change.op for change in rest] == ["added"]


def test_entries_are_told_by_digest_and_length(wrong: Recorded) -> None:
    [added] = wrong.steps[2].diff(1)
    call = next(each for each in added.new if each.kind == "call")
    assert (call.name, len(call.digest), call.size > 50) == ("read_file", 64, True)
    assert {len(each.digest) for each in added.new} == {64}

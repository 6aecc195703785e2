"""A compacted session read again: why, what-if, cache, stale and show know of the compaction."""

from __future__ import annotations

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.audit.findings import Why
from sawlog.audit.staleness import beliefs
from sawlog.cli.lines import Teller
from sawlog.store.events.compaction import CompactionRefused
from sawlog.work.session import Session
from tests.session.agents import TOOLS, next_step, sound, talker
from tests.session.branches import stepped

RULE = "Never touch vendor/."
PORT = "the port of service2 is 4721"


def worked(s: Session, *, compact: bool = True) -> None:
    """Six readings, a file that changed, an item; a compaction in front of step 8; two steps."""
    s.system("You read.")
    s.tools([*TOOLS, s.read_output])
    s.user(f"Find the ports. {RULE} " + "So it is. " * 60)
    for at in range(6):
        [call] = stepped(s, f"look{at}", "read_file")
        with s.tool(call) as run:
            run.result(f"the port of service{at} is 47{at}1. " + "x " * 300)
            run.saw(f"look{at}.py", content=f"version {at}")
    s.file_changed("look1.py", "another")
    s.offer("the moon is full", channel="tool_observation", source_id="moon")
    s.user("more")
    stepped(s, "look9")
    s.user("and on")
    if compact:
        s.compact(keep_user=0)
    stepped(s, "look10")
    s.user("and more")
    stepped(s, "look11")


@pytest.fixture
def recorded(log: AgentLog) -> sawlog.Recorded:
    """The session, read again."""
    with log.session("task", window=20_000) as s:
        worked(s)
    return sound(log, "task")


def gone(found: list[Why]) -> Why:
    """The one part that a compaction took away."""
    [one] = [one for one in found if not one.present]
    return one


# --- why ------------------------------------------------------------------------------------------


def test_a_fact_lost_in_a_compaction_is_named_as_that(recorded: sawlog.Recorded) -> None:
    """S2-03: from trace and log alone; which steps had it, since when not, and how to read it."""
    [before] = recorded.steps[7].why(PORT)
    assert before.present and before.cause == "" and before.fetch == ""
    [after] = recorded.steps[8].why(PORT)
    assert not after.present and after.candidate
    assert (after.reason, after.cause, after.changed_by) == (
        "compacted", "lost_in_compression", "compacted",
    )  # fmt: skip
    assert (after.seen_first, after.seen_until, after.out_at) == (4, 7, 8)
    assert after.fetch.startswith("k1.") and after.version == before.version
    # It stays so at every later step.
    [later] = recorded.steps[9].why(PORT)
    assert (later.out_at, later.fetch) == (8, after.fetch)


def test_the_name_that_why_gives_fetches_it(log: AgentLog) -> None:
    """Cited or not: k1.3 is evidence, k1@21 the place that a search finds."""
    kinds: set[str] = set()
    with log.session("task", window=20_000) as s:
        worked(s)
        read = s.read_output.function
        assert read is not None
        for at in range(6):
            for said in (f"service{at} is", f'"look{at}.py"', f"look{at}"):
                for one in log.read("task").steps[9].why(said):
                    if one.cause == "lost_in_compression":
                        assert said in read(one.fetch), one
                        kinds.add(one.fetch[2])
    assert kinds == {".", "@"}


def test_what_the_checkpoint_says_is_seen(recorded: sawlog.Recorded) -> None:
    """The message is gone, and its rule is not."""
    found = recorded.steps[8].why(RULE)
    assert gone(found).type == "message.user" and gone(found).cause == "lost_in_compression"
    [told] = [one for one in found if one.present]
    assert (told.type, told.form, told.zone) == ("compaction.checkpoint", "checkpoint", "fixed")
    assert RULE in told.excerpt
    assert recorded.packet(8).entries[told.entry].kind == "checkpoint"
    # And in front of the compaction there was one place.
    [one] = recorded.steps[7].why(RULE)
    assert one.present and one.form == "full"


def test_what_a_compaction_kept_is_seen(log: AgentLog) -> None:
    with log.session("task", window=20_000) as s:
        worked(s, compact=False)
        s.user("and so on")
        s.compact(keep_user=1_000)
        stepped(s, "look12")
    recorded = sound(log, "task")
    kept = [one for one in recorded.steps[10].why(RULE) if one.type == "message.user"]
    assert [one.present for one in kept] == [True] and kept[0].out_at == 0


def test_other_causes_stay_what_they_are(recorded: sawlog.Recorded) -> None:
    assert recorded.steps[8].why("nobody ever said this") == []
    [moon] = [one for one in recorded.steps[8].why("moon") if one.form == "item"]
    assert moon.present
    [late] = recorded.steps[8].why("and more")
    assert (late.reason, late.cause) == ("not_yet", "not_recalled")


def test_two_compactions_name_the_one_that_took_it(log: AgentLog) -> None:
    with log.session("task", window=20_000) as s:
        worked(s)
        [call] = stepped_after(s)
        with s.tool(call) as run:
            run.result("the port of the cellar is 7. " + "y " * 900)
        stepped(s, "look13")
        s.user("on and on")
        s.compact(keep_user=0)
        stepped(s, "look14")
    recorded = sound(log, "task")
    last = max(step.number for step in recorded.steps)
    [first] = [one for one in recorded.steps[last].why(PORT) if not one.present]
    [second] = [one for one in recorded.steps[last].why("port of the cellar") if not one.present]
    assert (first.out_at, second.out_at) == (8, last)
    assert first.fetch.startswith("k2") and second.fetch.startswith("k2.")


def stepped_after(s: Session) -> tuple[sawlog.Call, ...]:
    """A step behind a message."""
    s.user("look again")
    return tuple(stepped(s, "look12", "read_file"))


# --- the others -----------------------------------------------------------------------------------


def test_cache_names_the_compaction_and_nothing_else(recorded: sawlog.Recorded) -> None:
    found = recorded.stability()
    broken = [one for one in found.steps if one.causes]
    assert [(one.before, one.step, one.causes) for one in broken] == [(7, 8, ("compacted",))]
    assert broken[0].units > 1_000 and broken[0].kept_entries == 1 + len(TOOLS) + 1
    trace = recorded.steps[8].trace()
    assert trace is not None and [one.cause for one in trace.breaks] == ["compacted"]


def test_another_system_text_beside_a_compaction_is_named_too(log: AgentLog) -> None:
    with log.session("task", window=20_000) as s:
        worked(s, compact=False)
        s.user("on")
        s.compact(keep_user=0)
        s.tools(TOOLS[:1])
        stepped(s, "look12")
    [broken] = [one for one in sound(log, "task").stability().steps if one.causes]
    assert broken.causes == ("header_changed", "compacted")


def test_what_if_rebuilds_around_the_compaction(recorded: sawlog.Recorded) -> None:
    """The checkpoint of the log stands in every run; the same rules give the same bytes."""
    same = recorded.what_if()
    assert same.differing == () and same.same_bytes == same.steps == 9
    # Where the checkpoint stands, less room makes no difference: it took less already.
    half = recorded.what_if(budget=1_100)
    assert half.refused == 0
    assert {one.step for one in half.differing} and max(s.step for s in half.differing) < 8
    other = recorded.what_if(api="anthropic", model="m")
    assert other.steps == 9 and other.refused == 0


def test_stale_knows_what_is_no_longer_shown(recorded: sawlog.Recorded) -> None:
    """The text of the file that changed has left, and the checkpoint says what to do about it."""
    assert beliefs(recorded).stale == ()
    [entry] = [one for one in recorded.packet(8).entries if one.kind == "checkpoint"]
    of_it = [line for line in entry.text.split("\n") if line.startswith('- "look1.py"')]
    assert len(of_it) == 2 and of_it[0].startswith('- "look1.py", version another')
    assert "changed since: read it again" in of_it[1]


def test_diff_and_show_tell_of_it(log: AgentLog, recorded: sawlog.Recorded) -> None:
    teller = Teller(log.store, recorded.row)
    told = {
        event.type: teller.tell(event) for event in recorded.events() if "compaction" in event.type
    }
    assert told["compaction.started"].startswith("manual: events up to ")
    assert told["compaction.checkpoint"].startswith("checkpoint 1 by extractive@1, ")
    assert "give way to the checkpoint" in told["compaction.completed"]
    with log.session("task") as s:
        s.append(CompactionRefused(1, (("larger", "9 of 8 units"), ("larger", "x"))))
        s.note("open", "flaky", "test_b is flaky")
        s.settle("flaky", reason="it was mended")
    last = [teller.tell(event) for event in log.read("task").events(s.state.seq - 3)]
    assert last == [
        "draft 1 does not count: larger", "open flaky: test_b is flaky", "flaky: it was mended",
    ]  # fmt: skip


def test_a_fork_behind_a_compaction_answers_as_its_parent(log: AgentLog) -> None:
    with log.session("task", window=20_000) as s:
        worked(s)
        s.user("go")
    with log.fork("task", name="other") as fork:
        next_step(fork, "openai-chat").send(talker())
    [one] = log.read("other").steps[10].why(PORT)
    assert (one.cause, one.out_at) == ("lost_in_compression", 8) and one.fetch.startswith("k1.")

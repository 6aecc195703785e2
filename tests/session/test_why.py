"""Five questions over one fact (CONTRACTS S3-23), and the five causes of a forgotten one (S2-03).

Was it a candidate, where did it fall out, why was another preferred, which version went out, did a
cut change it: each answered from the log and from the trace that is computed again.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec

from sawlog.agentlog import AgentLog
from sawlog.audit.findings import Ended, Why
from sawlog.store.content import TextPart
from sawlog.store.events.conversation import MessageUser
from sawlog.store.events.world import FileChanged, ObservationRecorded, Saw
from sawlog.work.session import Session
from tests.session.agents import next_step, opened, talker


def step(s: Session, says: str = "ok") -> None:
    """One step with a reply, so that the next one can be built."""
    next_step(s, "openai-chat", allow_missing=True).send(talker(says))


def ask(log: AgentLog, at: int, what: str) -> list[Why]:
    """The answers at a step of the session `task`."""
    return log.read("task").steps[at].why(what)


def fact(s: Session, id: str, text: str, **options: object) -> None:
    """Offer a fact."""
    options.setdefault("channel", "memory")
    s.offer(text, source_id=id, **options)  # type: ignore[arg-type]


# --- the five causes ------------------------------------------------------------------------------


def test_not_recalled_because_the_log_does_not_hold_it(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("What is the port?")
        step(s)
    assert ask(log, 1, "8443") == []


def test_not_recalled_because_it_came_too_late(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("What is the port?")
        step(s)
        fact(s, "port", "The port is 8443.")
        s.user("And now?")
        step(s)
    [late] = ask(log, 1, "8443")
    assert (late.candidate, late.present, late.reason, late.cause) == (
        False,
        False,
        "not_yet",
        "not_recalled",
    )
    [now] = ask(log, 2, "8443")
    assert (now.candidate, now.present, now.form, now.stage) == (True, True, "item", "selected")


def test_filtered_by_a_gate(log: AgentLog) -> None:
    with log.session("task") as s:
        s.task("Find the port", repository="shop")
        fact(s, "port", "The port is 8443.", repository="another")
        s.user("go")
        step(s)
    [other] = ask(log, 1, "port")[-1:]
    assert (other.candidate, other.present) == (True, False)
    assert (other.stage, other.reason, other.cause) == ("scope", "out_of_scope", "filtered")


def test_ranked_low_names_the_winner_and_the_signal(log: AgentLog) -> None:
    with log.session("task", window=150) as s:
        fact(s, "wrong", "The port is 80. " + "x" * 300, relevance=900)
        fact(s, "right", "The port is 8443. " + "x" * 300, relevance=700)
        s.user("What is the port?")
        step(s)
    [right] = ask(log, 1, "8443")
    assert (right.stage, right.reason, right.cause) == ("budget", "budget_exceeded", "ranked_low")
    [winner] = right.preferred
    assert (winner.source, winner.source_id) == ("memory", "wrong")
    assert (winner.because, winner.mine, winner.theirs) == ("relevance", 700, 900)
    assert dict(right.scores)["relevance"] == 700 and dict(winner.scores)["relevance"] == 900
    assert right.units > 80 and right.zone == "retrieved"
    [wrong] = ask(log, 1, "The port is 80.")
    assert wrong.present and dict(wrong.scores)["relevance"] == 900


def test_out_of_budget_is_what_would_not_have_fitted_alone(log: AgentLog) -> None:
    with log.session("task", window=200) as s:
        fact(s, "long", "The port is 8443. " + "x" * 2000, relevance=900)
        fact(s, "short", "The host is db.", relevance=100)
        s.user("What is the port?")
        step(s)
    [long] = ask(log, 1, "8443")
    assert (long.reason, long.cause) == ("budget_exceeded", "out_of_budget")
    [fits] = long.preferred
    assert (fits.source_id, fits.because) == ("short", "fits")


def test_lost_in_compression_by_the_block_cut(log: AgentLog) -> None:
    with log.session("task", window=300) as s:
        s.user("The port is 8443.")
        step(s)
        for at in range(6):
            s.user(f"{at} " + "y" * 250)
            step(s)
    last = log.read("task").last_step()
    [said] = ask(log, last, "8443")
    assert (said.candidate, said.present, said.reason) == (True, False, "block_cut")
    assert (said.cause, said.changed_by) == ("lost_in_compression", "block_cut")
    assert said.seen_first == 1 and said.seen_until + 1 == said.out_at


# --- the five questions, on items -----------------------------------------------------------------


def test_an_item_is_found_by_its_source_its_event_and_its_text(log: AgentLog) -> None:
    with log.session("task") as s:
        fact(s, "notes/port", "The port is 8443.", version="3", locator="notes.md:4")
        s.user("go")
        step(s)
    [by_text], [by_source] = ask(log, 1, "8443"), ask(log, 1, "notes/port")
    [by_event] = ask(log, 1, by_text.id)
    assert (by_text.seq, by_text.part) == (by_source.seq, by_source.part)
    assert by_event.seq == by_text.seq
    assert (by_text.source, by_text.source_id, by_text.named) == ("memory", "notes/port", "3")
    assert by_text.locator == "notes.md:4"
    assert dict(by_text.labels)["trust"] == "unverified"


def test_which_version_went_out(log: AgentLog) -> None:
    with log.session("task") as s:
        fact(s, "port", "The port is 80.", version="1")
        fact(s, "port", "The port is 8443.", version="2")
        s.user("go")
        step(s)
    old, new = ask(log, 1, "The port is")
    assert (old.present, old.stage, old.reason) == (False, "supersession", "superseded")
    assert [(v.version, v.form) for v in old.went_out] == [("2", "item")]
    assert [(p.source_id, p.version, p.because) for p in old.preferred] == [
        ("port", "2", "supersession")
    ]
    assert new.present and new.went_out[0].entry == new.entry
    assert old.version == hashlib.sha256(b"The port is 80.").hexdigest() != new.version


def test_which_reading_of_a_file_went_out(log: AgentLog) -> None:
    with log.session("task") as s:
        for version in ("a1", "b2"):
            s.append(
                ObservationRecorded(
                    (TextPart(f"port is {version}"),), saw=(Saw("conf.py", "1-3", version),)
                ),
                source="hook:look",
            )
        s.user("go")
        step(s)
    first, second = ask(log, 1, "port is")
    assert [(v.seq, v.version) for v in first.went_out] == [
        (first.seq, "a1"),
        (second.seq, "b2"),
    ]
    assert (first.source_id, first.named, first.locator) == ("conf.py", "a1", "conf.py:1-3")


def test_a_cut_took_an_item_and_it_was_weighed_again(log: AgentLog) -> None:
    """The item had its place until the block cut; behind it something else took the room."""
    with log.session("task", window=420) as s:
        fact(s, "port", "The port is 8443. " + "x" * 900, relevance=100)
        s.user("What is the port?")
        step(s)
        assert ask(log, 1, "8443")[0].present
        for at in range(5):
            s.user(f"{at} " + "y" * 300)
            step(s)
    last = log.read("task").last_step()
    [now] = ask(log, last, "8443")
    assert not now.present and now.seen_until >= 1 and now.out_at == now.seen_until + 1
    assert (now.stage, now.reason, now.changed_by) == ("budget", "budget_exceeded", "block_cut")


def test_a_text_that_gave_way_to_a_stand_in(log: AgentLog) -> None:
    with log.session("task", window=420) as s:
        s.user("What is the port? " + "z" * 1000)
        step(s)
        s.append(
            ObservationRecorded((TextPart("port is 80"),), saw=(Saw("conf.py", "", "a1"),)),
            source="hook:look",
        )
        s.append(FileChanged("conf.py", "b2"), source="watch")
        for at in range(7):
            s.user(f"{at} " + "y" * 120)
            step(s)
    forms = {one.form: one for n in range(2, 9) for one in ask(log, n, "port is 80")}
    assert forms["full"].present
    stand_in = forms["outdated"]
    assert (stand_in.present, stand_in.reason, stand_in.stage) == (False, "outdated", "freshness")
    assert stand_in.cause == "lost_in_compression"


def test_a_secret_tells_neither_size_nor_digest(log: AgentLog) -> None:
    with log.session("task") as s:
        s.offer(channel="secret_fixture", source_id="token", handle="vault/token")
        s.user("go")
        step(s)
    [secret] = ask(log, 1, "token")
    assert (secret.stage, secret.reason, secret.cause) == ("sensitivity", "sensitive", "filtered")
    assert (secret.version, secret.units, secret.excerpt) == ("", 0, "")
    assert dict(secret.labels)["sensitivity"] == "secret"


def test_a_policy_that_weighs_no_items_says_so(log: AgentLog) -> None:
    from sawlog.builder.policy import HISTORY_ALONE, Rules

    with log.session("task", rules=Rules(HISTORY_ALONE)) as s:
        fact(s, "port", "The port is 8443.")
        s.user("go")
        step(s)
    [item] = ask(log, 1, "8443")
    assert (item.present, item.stage, item.reason) == (False, "policy", "no_selection")


def test_the_trace_of_a_step_is_computed_again(log: AgentLog) -> None:
    """It is the one that the packet was built with, and holds a verdict for each candidate."""
    with log.session("task", window=150) as s:
        fact(s, "a", "first " + "x" * 300)
        fact(s, "b", "second " + "x" * 300)
        s.user("go")
        made = next_step(s, "openai-chat")
        trace = log.read("task").steps[1].trace()
        assert trace == made.packet.trace
    assert trace is not None
    assert {one.seq: one.outcome for one in trace.verdicts if one.seq in (2, 3)} == {
        2: "selected_as_data",
        3: "dropped",
    }
    packet = log.read("task").steps[1]
    assert packet.case()["input"]["conflict_contract"] == {"must_select": ["a"]}


# --- what is neither history nor item -------------------------------------------------------------


def test_the_world_and_the_goal_are_found(log: AgentLog) -> None:
    with log.session("task") as s:
        s.task("Close the books")
        s.world(cwd="/srv/shop")
        s.user("go")
        step(s)
        s.world(cwd="/srv/other")
        s.user("on")
        step(s)
    [goal] = ask(log, 2, "Close the books")
    assert (goal.type, goal.present, goal.form) == ("task.set", True, "world")
    [cwd] = ask(log, 2, "/srv/other")
    assert (cwd.type, cwd.source_id, cwd.present) == ("world.changed", "cwd", True)
    assert ask(log, 1, "/srv/other")[0].reason == "not_yet"


def test_a_message_waits_in_the_inbox_until_a_step_claims_it(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        s.inject("The port is 80", target="next-turn")
        s.inject("The port is 8443", target="next-turn")
        s.inject("The port is 9999", target="next-turn")
        step(s)
        s.cancel(s.pending()[1])
        s.user("on")
        step(s)
    [claimed] = ask(log, 1, "port is 80")[:1]
    assert (claimed.type, claimed.present) == ("message.user", True)
    [waits] = ask(log, 1, "8443")[:1]
    assert (waits.type, waits.candidate, waits.reason) == ("inbox.injected", False, "waiting")
    assert (waits.stage, waits.cause) == ("inbox", "not_recalled")
    [now] = ask(log, 2, "8443")
    assert (now.type, now.present) == ("message.user", True)
    [gone] = ask(log, 2, "9999")
    assert (gone.present, gone.reason, gone.cause) == (False, "cancelled", "filtered")


def test_what_only_a_notice_says(log: AgentLog) -> None:
    with log.session("task") as s:
        s.task("Find it", requirements=["port"])
        s.user("go")
        step(s)
    [notice] = ask(log, 1, "could not be provided")
    assert (notice.present, notice.form, notice.seq) == (True, "missing", 0)


# --- items that hold no longer --------------------------------------------------------------------

CLAIM = "A claim from the web"


def claimed(log: AgentLog, ends: Callable[[Session], None], **options: object) -> None:
    """A claim that ends in the second of eight steps; the window cuts it off later."""
    with log.session("task", window=1500) as s:
        fact(s, "forum", CLAIM, channel="web_content", **options)
        for at in range(8):
            s.user(f"Question {at}")
            if at == 1:
                ends(s)
            step(s, "w" * 1000)


def taken_back(s: Session) -> None:
    """The source takes the claim back."""
    s.withdraw("web_content", "forum", "hoax")


def said_anew(s: Session) -> None:
    """The source says another thing."""
    fact(s, "forum", "Another claim", channel="web_content", version="2")


def test_the_cut_that_drops_what_holds_no_longer_is_explained(log: AgentLog) -> None:
    """Such an item is no candidate of that step any more: nothing is to be compared with it."""
    claimed(log, taken_back)
    answers = [ask(log, at, CLAIM)[0] for at in range(1, 9)]
    assert {one.present for one in answers} == {True, False}
    gone = next(one for one in answers if not one.present)
    assert gone.out_at == gone.seen_until + 1 and gone.preferred == ()


def whys(log: AgentLog) -> list[Why]:
    """The claim at each step."""
    return [ask(log, at, CLAIM)[0] for at in range(1, 9)]


def test_what_was_taken_back_is_out_for_that_and_not_for_the_cut(log: AgentLog) -> None:
    claimed(log, taken_back)
    answers = whys(log)
    [event] = [one.seq for one in log.read("task").events() if one.type == "item.withdrawn"]
    taken = Ended("withdrawn", event, "harness", "hoax")
    assert answers[0].ended is None
    assert all(one.ended == taken for one in answers[1:])
    out = [one for one in answers if not one.present]
    assert len(out) >= 2, "the cut and a step behind it"
    for one in out:
        assert (one.stage, one.reason, one.cause) == ("freshness", "withdrawn", "filtered")
        assert one.changed_by == "block_cut" and one.out_at == out[0].out_at


def test_what_a_newer_version_followed_names_it(log: AgentLog) -> None:
    claimed(log, said_anew, version="1")
    out = [one for one in whys(log) if not one.present]
    assert len(out) >= 2
    for one in out:
        assert (one.stage, one.reason, one.cause) == ("supersession", "superseded", "filtered")
        assert one.ended is not None and one.ended.text == "2"
        [newer] = one.preferred
        assert (newer.seq, newer.version, newer.because) == (one.ended.seq, "2", "supersession")


def test_what_ended_at_a_time_has_expired(tmp_path: Path) -> None:
    hours = itertools.count(1_800_000_000_000_000, 3_600_000_000)
    with opened(str(tmp_path / "hours.db"), clock=lambda: next(hours)) as log:
        claimed(log, lambda s: None, ttl=timedelta(hours=24))
        answers = whys(log)
    assert answers[0].present and answers[0].ended is None
    out = [one for one in answers if not one.present]
    assert len(out) >= 2
    for one in out:
        assert (one.stage, one.reason, one.cause) == ("validity", "expired", "filtered")
        assert one.ended == Ended("expired") and one.preferred == ()


def test_what_was_taken_back_before_it_was_shown_names_who_did_so(log: AgentLog) -> None:
    with log.session("task") as s:
        fact(s, "forum", CLAIM, channel="web_content")
        s.withdraw("web_content", "forum", "hoax")
        for _ in range(3):
            s.user("go")
            step(s)
    [event] = [one for one in log.read("task").events() if one.type == "item.withdrawn"]
    for at in (1, 2, 3):
        [one] = ask(log, at, CLAIM)
        assert (one.stage, one.reason, one.cause) == ("freshness", "withdrawn", "filtered")
        assert one.ended == Ended("withdrawn", event.seq, event.source, "hoax")


def test_an_item_of_a_changed_file_names_the_change(log: AgentLog) -> None:
    with log.session("task") as s:
        fact(s, "notes", CLAIM, channel="web_content", saw=(Saw("notes.md", "", "a1"),))
        s.append(FileChanged("notes.md", "b2"), source="watch")
        s.user("go")
        step(s)
    [event] = [one for one in log.read("task").events() if one.type == "file.changed"]
    [one] = ask(log, 1, CLAIM)
    assert (one.stage, one.reason) == ("freshness", "file_changed")
    assert one.ended == Ended("file_changed", event.seq, "watch", "notes.md")


def test_what_waits_for_a_cut_is_told_as_it_was_weighed(log: AgentLog) -> None:
    """Between cuts only what is new is weighed: why it is out, the earlier step says."""
    with log.session("task", window=2000) as s:
        fact(s, "wrong", "The port is 80. " + "x" * 4000, relevance=900)
        fact(s, "right", "The port is 8443. " + "x" * 4000, relevance=700)
        fact(s, "host", "The host is a.", version="1")
        fact(s, "host", "The host is b.", version="2")
        for _ in range(4):
            s.user("What is the port?")
            step(s)
    first, last = (ask(log, at, "8443")[0] for at in (1, 4))
    assert (first.reason, first.cause, first.weighed_at) == ("budget_exceeded", "ranked_low", 0)
    assert [one.source_id for one in first.preferred][0] == "wrong"
    assert last == msgspec.structs.replace(first, weighed_at=1)
    old = ask(log, 4, "host is a")[0]
    assert (old.stage, old.reason, old.weighed_at) == ("supersession", "superseded", 1)
    assert [one.version for one in old.preferred] == ["2"]


def test_what_was_meant_for_one_step_is_not_called_cut(log: AgentLog) -> None:
    """At a cut it goes from among what stays; what stands in front of the cut goes with it."""
    with log.session("task", window=420) as s:
        s.user("What is the port? " + "z" * 1000)
        step(s)
        s.append(MessageUser((TextPart("Only now: 8443."),), once=True), source="user")
        for at in range(7):
            s.user(f"{at} " + "y" * 120)
            step(s)
    answers = [ask(log, at, "8443")[0] for at in range(2, 9)]
    assert answers[0].present
    gone = next(one for one in answers if not one.present)
    assert (gone.reason, gone.stage, gone.changed_by) == ("once", "freshness", "block_cut")


# --- what a signal and a note say -----------------------------------------------------------------


def test_a_signal_that_nobody_gave_has_no_value(log: AgentLog) -> None:
    with log.session("task", window=150) as s:
        fact(s, "a", "first " + "x" * 300, updated_at="2026-07-29")
        fact(s, "b", "second " + "x" * 300)
        s.user("go")
        step(s)
    [second] = ask(log, 1, "second")
    assert dict(second.scores)["relevance"] is None and dict(second.scores)["freshness"] is None
    [first] = second.preferred
    assert (first.because, first.mine) == ("freshness", None)
    assert first.theirs == dict(first.scores)["freshness"] == 1785283200000000


def test_a_note_names_others_by_event_and_source(log: AgentLog) -> None:
    with log.session("task") as s:
        fact(s, "port", "The port is 80.", version="1")
        fact(s, "port", "The port is 8443.", version="2")
        s.user("go")
        step(s)
    old, new = ask(log, 1, "The port is")
    assert old.note == f"by event {new.seq} (memory port)"


def test_an_excerpt_is_the_line_that_holds_the_text(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("Hello.\nThe port\n is 8443.\nGood bye.")
        fact(s, "notes", "\nFirst line.\nSecond line.")
        step(s)
    assert ask(log, 1, "8443")[0].excerpt == " is 8443."
    assert ask(log, 1, "port\n is")[0].excerpt == "The port\n is 8443."
    assert ask(log, 1, "notes")[0].excerpt == "First line."

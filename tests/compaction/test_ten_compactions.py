"""Ten compactions in a row: nothing that must stay is lost, and nothing is told twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sawlog.compaction.facts import known
from sawlog.compaction.wording import asks_for_work
from sawlog.store.content import Part, TextPart
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import Checkpoint
from sawlog.store.events.conversation import MessageSystem, MessageUser, ToolFinished
from sawlog.store.text import preview
from tests.builder.memory import text, told
from tests.compaction.working import Working

SYSTEM = "You mend programs."
SAID = "Round {0}: you must keep rule {0}.\n- [ ] box {0}\n- [ ] tick {0}"


def plain(value: dict[str, object]) -> str:
    return json.dumps(value)


def turned(value: dict[str, object]) -> str:
    """The same JSON object with its members in the other order, read back into a dict first."""
    return json.dumps(dict(sorted(value.items(), reverse=True)), sort_keys=True)


def story(
    after: Callable[[Working, int, Checkpoint], None] | None = None,
    spell: Callable[[dict[str, object]], str] = plain,
    earlier: int = 0,
) -> list[str]:
    """Ten rounds with a compaction behind each; gives the checkpoints as packets show them."""
    work = Working()
    for _ in range(earlier):
        work.log.append(ToolFinished(call_id="none", name="x"), source="tool:x")
    work.log.append(MessageSystem(text(SYSTEM)), source="system")
    work.task("Mend all.", requirements=("source",))
    shown: list[str] = []
    for n in range(10):
        work.user(SAID.format(n))
        work.packet(allow_missing=True)
        work.spoke(f"I begin round {n}.\nPlan:\n- mend file {n}\n- test it")
        work.ran("edit_file", spell({"new": "x" * 200, "path": f"f{n % 4}.py"}))
        work.changed(f"f{n % 4}.py", f"v{n}")
        work.ran("run_tests", "{}", "error")
        work.looked(f"r{n}.py", f"w{n}")
        lost = work.asked("deploy", spell({"round": n}))
        work.began(lost)
        work.note("open", f"note{n}", f"open note {n}")
        work.note("constraint", "style", f"style as of {n}")
        if n:
            work.settle(f"note{n - 1}", reason="told")
        work.user(f"Go on {n}.\n- [x] tick {n - 1}" if n else "Go on.")
        work.packet(allow_missing=True)
        work.says(f"Round {n} is over. " * 5)
        work.user(f"Next {n}.")
        made = work.compact(keep_user=0)
        shown.append(work.text(made))
        if after is not None:
            after(work, n, made)
    return shown


def test_nothing_that_must_stay_is_lost_and_nothing_is_told_twice() -> None:
    before: list[Checkpoint] = []

    def holds(work: Working, n: int, made: Checkpoint) -> None:
        assert made.number == n + 1
        # Every constraint since the first round, each once, and the newest word of the note.
        rules = [f"Round {k}: you must keep rule {k}." for k in range(n + 1)]
        texts = [str(line.text) for line in made.constraints]
        assert [one for one in texts if one in rules] == rules
        assert [one for one in texts if one.startswith("style")] == [f"style as of {n}"]
        # What is open: each box that nobody ticked, the requirement, the newest note.
        opened = {str(line.text) for line in made.open}
        assert {f"box {k}" for k in range(n + 1)} <= opened
        assert {f"tick {n}", f"open note {n}", "requirement not met: source"} <= opened
        assert not {f"tick {k}" for k in range(n)} & opened
        # What went was settled, and that is cited and fetched under its name.
        if before:
            for field in ("constraints", "open"):
                for line in getattr(before[-1], field):
                    there = [one for one in getattr(made, field) if one.id == line.id]
                    closed = [one for one in made.closed if one.id == line.id]
                    assert len(there) + len(closed) == 1, line
                    assert all(one.refs and set(one.refs) <= set(made.evidence) for one in closed)
        # Finished work: each once, told in the past; what failed or is unknown never.
        done = [str(line.text) for line in made.confirmed]
        assert len(set(done)) == len(done) == min(n + 1, 4)
        assert all(one.startswith("ran edit_file with") for one in done)
        assert not any(map(asks_for_work, done))
        lines = (*made.constraints, *made.confirmed, *made.open, *made.next)
        assert len({line.id for line in lines}) == len(lines)
        newest = {k % 4: k for k in range(n + 1)}
        versions = {str(file.path): file.version for file in made.changed}
        assert versions == {f"f{k}.py": f"v{newest[k]}" for k in newest}
        assert {str(file.path) for file in made.files} == {f"r{k}.py" for k in range(n + 1)}
        assert [call.state for call in made.calls] == ["unknown"] * (n + 1)
        # The system text stands in front of it, to the letter (CASES 69).
        packet = work.packet(allow_missing=True)
        assert told(packet.entries[:1]) == SYSTEM
        assert [entry.text for entry in packet.entries if entry.kind == "checkpoint"] == [
            work.text(made)
        ]
        work.says()
        before.append(made)

    story(holds)
    assert len(before) == 10


def test_the_bytes_are_those_of_the_story_alone() -> None:
    """Not of ids, places in the log, or the order in which a dict was filled."""
    first = story()
    assert len(set(first)) == 10
    assert story() == first
    assert story(earlier=9) == first
    assert story(spell=turned) == first


def test_the_same_bytes_under_another_hash_seed() -> None:
    code = "from tests.compaction.test_ten_compactions import story; import sys, json; "
    code += "sys.stdout.write(json.dumps(story()))"
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] == json.dumps(story())


def test_a_message_that_goes_on_being_shown_is_read_once() -> None:
    """Taken up by the compaction that covers it, so that what settles it later is not missed when
    it goes at last."""
    work = Working()
    said = work.user("You must stay.\n- [ ] stay open\n- [ ] to tick")
    found: list[Checkpoint] = []
    for words in ("word " * 100, "- [x] to tick\n" + "word " * 100, "word " * 100):
        work.packet()
        work.spoke(words)
        work.user("on")
        found.append(work.compact(keep_user=1000 if len(found) < 2 else 0))
    first, second, third = found
    assert [line.text for line in first.open] == ["stay open", "to tick"]
    assert first.open[0].refs == (said.id,)
    assert [len(one.closed) for one in found] == [0, 1, 0]
    for one in (second, third):
        assert [line.text for line in one.constraints] == ["You must stay."]
        assert [line.text for line in one.open] == ["stay open"]


def test_a_box_that_was_ticked_and_opened_again_is_open() -> None:
    work = Working()
    work.user("- [x] box")
    work.packet()
    work.spoke("- [ ] box\n" + "word " * 100)
    work.user("on")
    assert len(work.compact(keep_user=1000).open) == 1
    work.packet()
    work.spoke("word " * 100)
    work.user("on")
    assert [line.text for line in work.compact(keep_user=0).open] == ["box"]


def closings(work: Working, found: Checkpoint) -> dict[str, tuple[EventId, ...]]:
    assert work.against(found) == []
    return {one.id: one.refs for one in found.closed}


def test_what_closes_a_line() -> None:
    """A note, a box, an item, another task, a call that finished, a source that took it back."""
    work = Working()
    task = work.task("g", requirements=("a", "b"))
    work.user("- [ ] box")
    rule = work.offer("Use tabs.", "repository_rule", source_id="r")
    style = work.offer("Two spaces.", "repository_rule", source_id="s")
    work.packet(allow_missing=True)
    work.spoke("ok " * 40)
    call = work.asked("deploy")
    work.began(call)
    work.note("open", "deployed", "it is deployed", call.id)
    work.note("open", "told", "tell them")
    work.note("open", "sure", "be sure")
    work.user()
    work.packet(allow_missing=True)
    work.spoke("ok " * 40)
    work.user()
    first = work.compact()
    ids = {str(line.text): line.id for line in (*first.open, *first.constraints)}
    assert len(ids) == 8 and {rule.id, style.id} <= set(first.evidence)
    work.packet(allow_missing=True)
    work.spoke("- [x] box")
    result = work.ended(call, "yes " * 40)
    closed = work.settle("told", result.id, reason="by mail")
    noted = work.note("confirmed", "sure", "be sure")
    item = work.offer("def f(): ...", "repository_file", required_for=("a",))
    task = work.task("g", requirements=("a",))
    taken = work.withdraw("r", "repository_rule")
    newer = work.offer("Four spaces.", "repository_rule", source_id="s", version="2")
    work.user("w " * 100)
    work.packet()
    work.spoke("ok " * 40)
    work.user()
    second = known(work.past())
    ticked = next(event for event in work.log.events if "- [x] box" in str(event.content))
    assert closings(work, second) == {
        ids["box"]: (ticked.id,),
        "deployed": (result.id,),
        "told": (closed.id, result.id),
        "sure": (noted.id,),
        ids["requirement not met: a"]: (item.id,),
        ids["requirement not met: b"]: (task.id,),
        ids["Use tabs."]: (taken.id,),
    }
    [now] = second.constraints
    assert (now.id, now.text, now.refs) == (ids["Two spaces."], "Four spaces.", (newer.id,))
    assert [line.id for line in second.confirmed if line.id == "sure"] == ["sure"]


@pytest.mark.parametrize("status", ["error", "interrupted"])
def test_a_call_that_failed_closes_nothing(status: str) -> None:
    work = Working()
    work.user()
    work.packet()
    call = work.asked("deploy")
    work.began(call)
    work.note("open", "deployed", "it is deployed", call.id)
    work.user("w " * 100)
    work.packet()
    work.spoke("ok " * 40)
    work.user()
    work.compact()
    work.packet()
    work.spoke("hm")
    work.ended(call, "no " * 40, status)
    work.user()
    work.packet()
    work.spoke("ok " * 40)
    work.user()
    found = work.compact()
    assert [line.id for line in found.open] == ["deployed"] and found.closed == ()
    assert found.confirmed == ()


def test_a_region_longer_than_a_preview() -> None:
    """CASES 70: constraints of what was shown; what a preview left out is not needed, even gone."""
    work = Working()
    long = "You must see the head. " + "z" * 8000 + " You must see the tail."
    shown, blob = preview(long, 1000)
    assert blob is not None
    part: tuple[Part, ...] = (TextPart(shown),)
    work.log.append(MessageUser(part))
    work.packet()
    work.ran("edit_file", plain({"path": "a.py", "new": "y" * 6000}))
    work.user()
    assert blob.digest.hex() not in work.log.blobs
    found = known(work.past())
    assert found.constraints[0].text == "You must see the head."
    assert "must see the tail" in str(found.constraints[-1].text)
    assert [file.path for file in found.changed] == ["a.py"]
    assert max(len(str(line.text)) for line in (*found.constraints, *found.confirmed)) <= 300


def test_an_erased_checkpoint_is_none() -> None:
    """Nothing of it can be carried: the next one begins with what the log still says."""
    work = Working()
    work.user("You must a.")
    work.packet()
    work.spoke("ok " * 60)
    work.user()
    work.compact()
    work.packet()
    work.spoke("ok " * 60)
    work.user("You must b.")
    past = replace(work.past(), previous=None, previous_id="")
    assert known(past).number == 1

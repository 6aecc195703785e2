"""Text of files that goes out of date: said once, behind it; gone at the next cut (45, 47, 48)."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sawlog.builder.build import Built, bindings_of
from sawlog.builder.manifest import encode as manifest
from sawlog.builder.manifest import known_parts
from sawlog.builder.policy import Rules
from sawlog.builder.profiles import profile_named
from sawlog.builder.projector import fold
from sawlog.builder.replay import replayed
from sawlog.builder.snapshot import decode, encode, state_digest
from sawlog.builder.state import State
from sawlog.providers.strict import check
from sawlog.store.content import TextPart
from sawlog.store.events.conversation import MessageSystem, MessageUser, ToolFinished
from sawlog.store.events.lifecycle import HistoryRewound, HistoryTrimmed
from sawlog.store.events.steps import PacketBuilt
from sawlog.store.events.world import FileObserved, ObservationRecorded, Saw
from tests.builder.memory import RENDERERS, text
from tests.builder.surroundings import Told, new, texts

CHANGED = (
    'The file "a.py" changed after it was read. What is shown of it above is out of date: '
    "read it again before relying on it."
)
REMOVED = 'The file "a.py" is gone. What is shown of it above is out of date.'
NEWER = 'The file "a.py" was read anew: what is shown of it above from before is out of date.'
RESTORED = 'The file "a.py" is again as it was read: what is shown of it above holds.'
MIXED = (
    'What is shown above of the file "a.py" is of different times, and some of it is out of date: '
    "read it again before relying on it."
)
BACK = 'The file "a.py" is there again, and is not as it was: read it before relying on it.'
STUB = '[What this showed of the file "a.py" is out of date and is no longer shown.]'


def read(version: str = "v1", rules: Rules | None = None) -> Told:
    """A session that has read a file and was shown it."""
    told = Told(rules)
    told.user("go")
    told.packet()
    told.read("a.py", version)
    told.packet()
    return told


def noticed(told: Told) -> list[str]:
    """What the next packet says of stale text."""
    told.user()
    return new(told.packet(), "notice")


# --- case 45 --------------------------------------------------------------------------------------


def test_case_45_a_change_is_said_once_at_the_end_and_the_text_stays() -> None:
    told = read()
    told.changed("a.py", "v2")
    assert noticed(told) == [CHANGED]
    assert texts(told.built[-1])[-1] == CHANGED
    assert "text of a.py v1" in texts(told.built[-1])
    assert noticed(told) == []
    assert not told.built[-1].trace.breaks


def test_case_45_at_the_next_cut_the_text_is_a_stub_and_the_pair_whole() -> None:
    told = read(rules=Rules(window=900))
    told.user("u" * 1800)
    told.packet()
    told.read("a.py", "v1", "text that goes")
    told.packet()
    told.changed("a.py", "v2")
    told.user("n" * 1700)
    built = told.packet()
    assert [one.cause for one in built.trace.breaks] == ["block_cut"]
    assert STUB in texts(built)
    assert "text that goes" not in texts(built)
    assert CHANGED not in texts(built), "nothing shown is out of date any more"
    stub = next(one for one in built.entries if one.text == STUB)
    assert (stub.kind, stub.status, stub.trust) == ("result", "ok", "untrusted")
    assert any(one.kind == "call" and one.call_id == stub.call_id for one in built.entries)
    for api in RENDERERS:
        again = told.log.build(told.rules, api)
        assert isinstance(again, Built)
        check(api, again.request.body, dict(again.request.headers))
    [verdict] = [one for one in built.trace.verdicts if one.reason == "outdated"]
    assert (verdict.stage, verdict.outcome) == ("freshness", "selected")


def test_case_45_the_log_keeps_the_text_and_old_packets_do_not_change() -> None:
    told = read(rules=Rules(window=500))
    told.changed("a.py", "v2")
    for n in range(6):
        told.user(f"{n}" * 600)
        told.packet()
    results = [e.content for e in told.log.events if isinstance(e.content, ToolFinished)]
    assert [one.parts for one in results] == [text("text of a.py v1")]
    replays(told)


# --- change and change back -----------------------------------------------------------------------


def test_change_and_change_back_before_a_packet_is_nothing() -> None:
    told = read()
    told.changed("a.py", "v2")
    told.changed("a.py", "v1")
    assert noticed(told) == []


def test_change_and_change_back_after_a_packet_is_said_to_hold_again() -> None:
    told = read()
    told.changed("a.py", "v2")
    assert noticed(told) == [CHANGED]
    told.changed("a.py", "v1")
    assert noticed(told) == [RESTORED]
    assert noticed(told) == []
    told.changed("a.py", "v3")
    assert noticed(told) == [CHANGED]


def test_the_same_version_again_is_no_change() -> None:
    told = read()
    told.changed("a.py", "v1")
    assert noticed(told) == []


def test_a_change_of_unknown_version_is_a_change_each_time() -> None:
    told = read()
    told.changed("a.py")
    assert noticed(told) == [CHANGED]
    told.changed("a.py")
    assert noticed(told) == []
    told.read("a.py", "")
    told.packet()
    told.changed("a.py")
    assert noticed(told) == [CHANGED]


def test_a_text_of_no_known_version_is_out_of_date_at_the_first_change() -> None:
    told = read("")
    assert noticed(told) == []
    told.changed("a.py", "v1")
    assert noticed(told) == [CHANGED]
    told.read("a.py", "")
    assert noticed(told) == []


def test_a_text_that_is_right_again_beside_one_that_is_not() -> None:
    told = read("v1")
    told.changed("a.py", "v2")
    assert noticed(told) == [CHANGED]
    told.read("a.py", "v2")
    assert noticed(told) == []
    told.changed("a.py", "v1")
    assert noticed(told) == [MIXED], "to say that what is above holds would be wrong of the second"
    assert noticed(told) == []
    told.changed("a.py", "v3")
    assert noticed(told) == [CHANGED]


# --- case 47: absent, unreadable ------------------------------------------------------------------


def test_case_47_a_file_that_is_gone_is_said_to_be_gone() -> None:
    told = read()
    told.changed("a.py", state="absent")
    assert noticed(told) == [REMOVED]
    told.changed("a.py", state="absent")
    assert noticed(told) == []


def test_case_47_a_file_that_cannot_be_read_says_nothing_of_its_content() -> None:
    told = read()
    told.changed("a.py", state="unreadable")
    assert noticed(told) == []
    told.changed("a.py", "v1")
    assert noticed(told) == []
    told.changed("a.py", "v2")
    told.changed("a.py", state="unreadable")
    assert noticed(told) == [CHANGED], "what was known last holds"


def test_case_47_a_file_that_changed_and_then_went_is_said_to_be_gone_too() -> None:
    told = read()
    told.changed("a.py", "v2")
    assert noticed(told) == [CHANGED]
    told.changed("a.py", state="absent")
    assert noticed(told) == [REMOVED]


def test_a_file_that_is_there_again_is_as_it_was_or_is_not() -> None:
    told = read()
    told.changed("a.py", state="absent")
    assert noticed(told) == [REMOVED]
    told.changed("a.py", "v1")
    assert noticed(told) == [RESTORED]
    told.changed("a.py", state="absent")
    assert noticed(told) == [REMOVED]
    told.changed("a.py", "v2")
    assert noticed(told) == [BACK]
    assert noticed(told) == []
    told.changed("a.py", "v1")
    assert noticed(told) == [RESTORED]


def test_a_file_that_is_read_again_is_there_whatever_was_said() -> None:
    told = read()
    told.changed("a.py", state="absent")
    assert noticed(told) == [REMOVED]
    told.read("a.py", "", "it is there")
    assert noticed(told) == [], "the text says it, and a notice behind it would speak of it, too"
    told.changed("a.py", "v9")
    assert noticed(told) == [CHANGED]


# --- S3-08: overturned by a newer read ------------------------------------------------------------


def test_s3_08_a_newer_read_overturns_the_older() -> None:
    told = read("v1")
    told.read("a.py", "v2")
    assert noticed(told) == [NEWER]
    assert noticed(told) == []


def test_s3_08_a_change_and_the_newer_read_of_one_step_do_not_spoil_the_read() -> None:
    """The notice stands behind both texts: it must not say that the new one is out of date."""
    told = read("v1")
    told.changed("a.py", "v2")
    told.read("a.py", "v2")
    assert noticed(told) == [NEWER]


def test_the_same_version_read_again_says_nothing() -> None:
    told = read("v1")
    told.read("a.py", "v1")
    assert noticed(told) == []
    told.changed("a.py", "v2")
    assert noticed(told) == [CHANGED]


def test_a_read_that_ran_beside_a_change_is_not_taken_for_the_newer_one() -> None:
    """Parallel calls: the read was started before the change and may have seen what was before."""
    told = Told()
    told.user("go")
    told.packet()
    reads, edits = told.ask("read"), told.ask("edit")
    told.start(reads)
    told.start(edits)
    told.changed("a.py", "v2")
    told.finish(edits, "edited")
    told.finish(reads, "text of v1", Saw("a.py", "", "v1"))
    assert noticed(told) == [CHANGED]


def test_a_call_started_after_the_change_of_its_own_reply_saw_what_is_now() -> None:
    told = Told()
    told.user("go")
    told.packet()
    edits, reads = told.ask("edit"), told.ask("read")
    told.start(edits)
    told.changed("a.py")
    told.finish(edits, "edited")
    told.start(reads)
    told.finish(reads, "text of v2", Saw("a.py"))
    assert noticed(told) == []


def test_a_result_that_comes_late_with_an_old_version_is_labelled() -> None:
    """A result with a version that is out of date when it arrives."""
    told = Told()
    told.user("go")
    told.packet()
    call = told.ask("read")
    told.start(call)
    told.user("and?")
    told.packet()
    told.changed("a.py", "v2")
    told.finish(call, "text of v1", Saw("a.py", "", "v1"))
    told.packet()
    assert new(told.built[-1])[-1] == CHANGED
    assert noticed(told) == []
    told.changed("a.py", "v1")
    assert noticed(told) == [RESTORED]


# --- who shows text -------------------------------------------------------------------------------


def test_an_observation_shows_text_of_files_too() -> None:
    told = Told()
    seen = ObservationRecorded(text("a hit"), "search", (Saw("a.py", "1-9", "v1"),))
    told.user()
    told.log.append(seen, source="retrieval")
    told.packet()
    told.changed("a.py", "v2")
    assert noticed(told) == [CHANGED]


def test_one_text_of_many_files_has_a_notice_for_each_that_changed() -> None:
    told = Told()
    told.user()
    told.packet()
    call = told.ask()
    told.finish(call, "hits", *(Saw(f"{name}.py", "", "v1") for name in "abc"))
    told.packet()
    told.changed("c.py", "v2")
    told.changed("a.py", state="absent")
    assert sorted(noticed(told)) == sorted([CHANGED.replace("a.py", "c.py"), REMOVED])


def test_what_was_read_of_a_commit_holds_always() -> None:
    told = Told()
    told.user()
    told.packet()
    call = told.ask()
    told.finish(call, "at 1f2e", Saw("a.py", "", "1f2e", "always"))
    told.packet()
    told.changed("a.py", "v2")
    assert noticed(told) == []


def test_a_result_may_be_said_later_to_have_seen_a_file() -> None:
    told = Told()
    told.user()
    told.packet()
    call = told.ask()
    result = told.finish(call, "text")
    told.log.append(FileObserved("a.py", "v1", of=result.id), source="harness")
    told.packet()
    told.log.append(FileObserved("a.py", "v2"), source="harness")
    assert noticed(told) == [CHANGED]


def test_a_result_that_no_packet_shows_has_no_notice() -> None:
    told = Told()
    told.user()
    told.packet()
    call = told.ask()
    told.finish(call, "text")
    told.finish(call, "again", Saw("a.py", "", "v1"))  # a second result
    told.log.append(ToolFinished(call_id="ghost", saw=(Saw("a.py", "", "v1"),)), source="tool:x")
    told.changed("a.py", "v2")
    assert noticed(told) == []


def test_an_item_taken_from_a_file_goes_out_of_date_with_it() -> None:
    told = Told(Rules(window=700))
    told.offer("what a.py is about", saw=(Saw("a.py", "", "v1"),))
    told.step("u" * 900)
    assert "what a.py is about" in texts(told.built[-1])
    told.changed("a.py", "v2")
    assert noticed(told) == [CHANGED]
    told.offer("of a version that is gone", saw=(Saw("a.py", "", "v1"),))
    built = told.step()
    assert "of a version that is gone" not in texts(built)
    [verdict] = [one for one in built.trace.verdicts if one.stage == "freshness"]
    assert (verdict.outcome, verdict.reason) == ("dropped", "stale")
    while not (built := told.step("n" * 900)).trace.breaks:
        pass
    assert "what a.py is about" not in texts(built)


def test_an_item_is_dropped_at_a_cut_that_its_place_would_stay_behind() -> None:
    told = Told(Rules(window=900))
    told.step("u" * 2000)
    item = told.offer("what a.py is about", saw=(Saw("a.py", "", "v1"),))
    told.step("v" * 400)
    told.changed("a.py", "v2")
    built = told.step("n" * 1400)
    assert built.trace.breaks
    assert "v" * 400 in texts(built)
    assert "what a.py is about" not in texts(built)
    [verdict] = [one for one in built.trace.verdicts if one.seq == item.seq]
    assert (verdict.stage, verdict.outcome, verdict.reason) == ("freshness", "dropped", "stale")


# --- case 48 --------------------------------------------------------------------------------------


def test_case_48_a_notice_that_left_is_given_again_while_its_text_is_there() -> None:
    """The notice is compacted away and what it is about stays: it is armed again."""
    told = read()
    told.user()
    told.changed("a.py", "v2")
    told.packet()
    assert new(told.built[-1], "notice") == [CHANGED]
    state = told.log.state
    kept = [ref for ref in state.sent if ref.form != "stale"]
    # Another release, or another policy, sends a packet that shows the text without the notice.
    parts = manifest(kept, (), known_parts(state, older=True), state.gaps)
    told.user()
    built = told.build()
    assert isinstance(built, Built)
    event = replace(built.event(), base=0, parts=parts)
    told.log.append(event, step=told.log.state.step + 1, source="harness")
    told.built.clear()
    assert noticed(told) == [CHANGED]
    assert noticed(told) == []


@pytest.mark.parametrize("how", ["rewind", "trim"])
def test_a_text_that_left_is_not_spoken_of(how: str) -> None:
    told = Told()
    told.user("go")
    told.packet()
    result = told.read("a.py", "v1")
    assert isinstance(result.content, ToolFinished)
    if how == "rewind":
        told.log.append(HistoryRewound(told.log.state.sent_at), source="harness")
    else:
        told.packet()
        told.log.append(HistoryTrimmed((result.content.call_id,)), source="harness")
    told.changed("a.py", "v2")
    assert noticed(told) == []


# --- once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["user", "system", "observation"])
def test_once_stays_where_it_was_sent_and_is_left_out_at_the_next_cut(kind: str) -> None:
    told = Told(Rules(window=900))
    told.step("u" * 2000)
    once = {
        "user": MessageUser(text("for now"), once=True),
        "system": MessageSystem(text("for now"), "developer", once=True),
        "observation": ObservationRecorded(text("for now"), once=True),
    }[kind]
    told.user("keep this")
    told.log.append(once, source="user" if kind == "user" else "harness")
    assert "for now" in texts(told.packet())
    told.says()
    assert "for now" in texts(told.step())
    built = told.step("n" * 1700)
    assert built.trace.breaks
    assert "keep this" in texts(built)
    assert "for now" not in texts(built)


def test_once_is_shown_once_even_when_a_cut_comes_first() -> None:
    told = Told(Rules(window=900))
    told.step("u" * 2000)
    told.log.append(MessageUser((TextPart("for"), TextPart("now")), once=True))
    built = told.step("n" * 2000)
    assert built.trace.breaks
    assert {"for", "now"} <= set(texts(built))


# --- random histories ---

HISTORIES = int(os.environ.get("SAWLOG_TEST_LOGS", "10000")) // 10
PATHS = ("a.py", "b.py")
ACT = st.tuples(
    st.sampled_from(
        ["read", "read", "read", "edit", "edit", "packet", "packet", "packet", "grep", "beside"]
        + ["gone", "unknown", "unreadable", "long", "rewind", "trim", "item", "observe", "kill"]
    ),
    st.integers(0, 1),
    st.integers(1, 4),
)


class Editing:
    """Edits and reads at random, and a plain account of what is true of each text."""

    def __init__(self, window: int) -> None:
        self.told = Told(Rules(window=window))
        self.now: dict[str, str] = {}
        self.texts: dict[str, list[tuple[str, str]]] = {}
        self.results: list[str] = []
        self.told.user("go")
        self.check()

    def play(self, kind: str, at: int, version: int) -> None:
        told, path, v = self.told, PATHS[at], f"v{version}"
        if kind in ("read", "beside"):
            seen = self.now.get(path) or v
            if seen == "gone":
                seen = v
            call = told.ask("read")
            told.start(call)
            if kind == "beside":  # an edit that nobody waits for, while it reads
                told.changed(path, v)
                self.now[path] = v
                seen = f"v{version % 4 + 1}"
            else:
                self.now[path] = seen
            self._shown(told.finish(call, self._text(), Saw(path, "", seen)).seq, (path, seen))
        elif kind == "grep":
            call = told.ask("grep")
            told.start(call)
            for one in PATHS:
                self.now[one] = self.now.get(one, "v1").replace("gone", "v1")
            saw = [(one, self.now[one]) for one in PATHS]
            result = told.finish(call, self._text(), *(Saw(p, "", w) for p, w in saw))
            self._shown(result.seq, *saw)
        elif kind == "edit":
            self.now[path] = v
            told.changed(path, v)
        elif kind == "gone":
            self.now[path] = "gone"
            told.changed(path, state="absent")
        elif kind == "unknown":
            self.now[path] = f"unknown {told.log.state.seq}"
            told.changed(path)
        elif kind == "unreadable":
            told.changed(path, state="unreadable")
        elif kind == "item":
            saw = [(path, self.now.get(path, v))]
            if not saw[0][1].startswith("v"):
                return
            said = self._text()
            told.offer(said, saw=[Saw(path, "", saw[0][1])])
            self.now.setdefault(path, "")  # an item does not say what the file is now
            self.texts[said] = saw
            if not self.now[path]:
                del self.now[path]
        elif kind == "observe":
            seen = self.now.get(path) or v
            seen = seen if seen.startswith("v") else v
            self.now[path] = seen
            scan = ObservationRecorded(text(self._text()), "scan", (Saw(path, "", seen),))
            self._shown(told.log.append(scan, source="hook:scan").seq, (path, seen))
        elif kind == "long":
            told.user("long " * 60)
        elif kind == "rewind":
            told.log.append(HistoryRewound(told.log.state.sent_at), source="harness")
        elif kind == "trim" and self.results:
            gone = self.results[version % len(self.results)]
            told.log.append(HistoryTrimmed((gone,)), source="harness")
        elif kind == "kill":
            told.cold()
        elif kind == "packet":
            told.user()
            self.check()

    def _text(self) -> str:
        self.told.serial += 1
        return f"text number {self.told.serial}" + " x" * 40

    def _shown(self, seq: int, *saw: tuple[str, str]) -> None:
        content = self.told.log.event(seq).content
        assert isinstance(content, ToolFinished | ObservationRecorded)
        part = content.parts[0]
        assert isinstance(part, TextPart) and isinstance(part.text, str)
        self.texts[part.text] = list(saw)
        if isinstance(content, ToolFinished):
            self.results.append(str(content.call_id))

    def check(self) -> None:
        """No text of a packet is out of date and unlabelled, none is right and called stale."""
        built = self.told.build()
        if not isinstance(built, Built):
            assert built.reason == "cannot_fit"
            return
        self.told.packet()
        for api in RENDERERS:
            again = self.told.log.build(self.told.rules, api)
            if isinstance(again, Built):
                check(api, again.request.body, dict(again.request.headers))
        labels: dict[tuple[int, str], bool] = {}
        open_calls: list[str] = []
        for at, one in enumerate(built.entries):
            for path, version in self.texts.get(one.text, ()):
                labels[at, path] = False
                assert version
            self._spoken_of(at, one.text, built, labels)
            if one.kind == "call":
                open_calls.append(one.call_id)
            elif one.kind == "result":
                assert open_calls.pop(0) == one.call_id
        assert not open_calls
        for (at, path), stale in labels.items():
            version = dict(self.texts[built.entries[at].text])[path]
            assert stale == (self.now.get(path, version) != version), (path, version, self.now)

    def _spoken_of(
        self, at: int, said: str, built: Built, labels: dict[tuple[int, str], bool]
    ) -> None:
        """What a model that reads the notice takes each text above it for."""
        for path in PATHS:
            above = [key for key in labels if key[1] == path]
            ours = said.replace(path, "a.py")
            if path not in said:
                continue
            if ours in (CHANGED, REMOVED, BACK):
                labels.update(dict.fromkeys(above, True))
            elif ours == RESTORED:
                labels.update(dict.fromkeys(above, False))
            elif ours == NEWER:
                last = self._version(max(above), built)
                labels.update((key, self._version(key, built) != last) for key in above)
            elif ours == MIXED:
                # It tells to read again, and leaves open what is true of each text.
                for key in above:
                    del labels[key]

    def _version(self, key: tuple[int, str], built: Built) -> str:
        return dict(self.texts[built.entries[key[0]].text])[key[1]]


@settings(
    max_examples=HISTORIES,
    deadline=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
@given(acts=st.lists(ACT, min_size=4, max_size=30), window=st.sampled_from([0, 0, 260, 400]))
def test_must_show_6_no_packet_shows_stale_text_without_a_word(
    acts: list[tuple[str, int, int]], window: int
) -> None:
    editing = Editing(window)
    for act in acts:
        editing.play(*act)
    editing.told.user("the end")
    editing.check()
    replays(editing.told)


def replays(told: Told) -> None:
    """Old steps replay to their digests from the log alone, and every snapshot goes on alike."""
    state = State()
    built = iter(told.built)
    for at, event in enumerate(told.log.events):
        state = fold(state, event)
        if at % 11 == 5:
            again = decode(encode(state))
            for later in told.log.events[at + 1 :]:
                again = fold(again, later)
            assert state_digest(again) == state_digest(told.log.state)
        content = event.content
        if isinstance(content, PacketBuilt):
            assert next(built).semantic == content.semantic
            profile = profile_named(content.profile)
            out = replayed(content, state.sent[:], told.log, profile, bindings_of(state))
            assert (out.semantic, out.request.digest) == (content.semantic, content.request)
    assert state_digest(state) == state_digest(told.log.state)

"""Laws 6 and 10 on what nobody should write: code writes a checkpoint of any log that folds.

What it writes counts by its own rules, can be shown, and carries into the next one.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sawlog.builder.build import build
from sawlog.builder.contents import Held
from sawlog.builder.draft import Refusal
from sawlog.builder.forms import checkpoint_entry
from sawlog.builder.policy import Rules
from sawlog.builder.projector import fold
from sawlog.builder.state import State
from sawlog.compaction.bounds import MEASURE
from sawlog.compaction.checking import check
from sawlog.compaction.extractive import extract
from sawlog.compaction.facts import known
from sawlog.compaction.history import history_of
from sawlog.compaction.past import Past, surviving
from sawlog.compaction.region import CannotCompact, choose
from sawlog.store.content import TextPart
from sawlog.store.event import Event
from sawlog.store.events.base import Payload
from sawlog.store.events.compaction import (
    Checkpoint,
    CompactionCompleted,
    NoteClosed,
    NoteRecorded,
)
from sawlog.store.events.conversation import (
    ApprovalDecided,
    ApprovalRequested,
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolDenied,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.store.events.registry import type_of
from sawlog.store.events.steps import StepCompleted
from sawlog.store.events.world import Tool, ToolsChanged
from sawlog.store.text import seal
from tests.builder.test_odd_events import EVENTS, GO, SAW, SENDING, TEXTS

ids = st.sampled_from([f"{number:032x}" for number in range(1, 25)])
SPOKEN = st.sampled_from(
    ("You must not.\n- [ ] a", "- [x] a", "Plan:\n- a\n- b", "", "\ud800 never", "x" * 5000)
).map(lambda one: (TextPart(seal(one)[0]),) if len(one) < 4096 else (TextPart("y" * 4000),))
CALLS = st.sampled_from(("", "c1", "c2"))
NAMES = st.sampled_from(("", "a", "x]\n", "\u00e9", "api"))
REFS = st.lists(st.one_of(ids, st.just("none")), max_size=3).map(tuple)
ARGUMENTS = st.sampled_from(
    ('{"path":"a.py"}', '{"path":["\\ud800",1e999]}', "[", "null", '{"files":{"a/b":"c"}}',
     "*** Begin Patch\n*** Add File: b", "[" * 200)
)  # fmt: skip
TALK: st.SearchStrategy[Payload] = st.one_of(
    st.builds(MessageUser, SPOKEN, st.booleans(), st.sampled_from(("", "harness", "x"))),
    st.builds(MessageAssistant, SPOKEN, copy=st.booleans()),
    st.builds(MessageSystem, SPOKEN, st.sampled_from(("system", "developer")), once=st.booleans()),
    st.builds(ToolRequested, CALLS, TEXTS, ARGUMENTS, st.sampled_from(("json", "text", "search"))),
    st.builds(ToolStarted, st.one_of(ids, st.just("")), CALLS, st.sampled_from(("read_only", ""))),
    st.builds(
        ToolFinished,
        st.one_of(ids, st.just("")),
        CALLS,
        TEXTS,
        st.sampled_from(("ok", "error", "interrupted", "odd")),
        SPOKEN,
        st.booleans(),
        SAW,
    ),
    st.builds(ToolDenied, st.one_of(ids, st.just("")), CALLS),
    st.builds(ApprovalRequested, ids, TEXTS),
    st.builds(ApprovalDecided, TEXTS, st.booleans()),
    st.builds(ToolsChanged, st.lists(st.builds(Tool, TEXTS, st.just("{}")), max_size=2).map(tuple)),
    st.builds(
        NoteRecorded,
        st.sampled_from(("constraint", "open", "next", "confirmed", "odd")),
        NAMES,
        TEXTS,
        REFS,
    ),
    st.builds(NoteClosed, NAMES, REFS, TEXTS),
    st.builds(HistoryRewound, st.integers(-1, 20)),
)


class Odd:
    """A log of anything, its state, and the checkpoint that stands."""

    def __init__(self) -> None:
        self.events: dict[int, Event] = {}
        self.state = State()
        self.previous: Checkpoint | None = None
        self.previous_id = ""
        self.covered = 0

    def put(self, content: Payload, source: str, step: int = 0) -> Event:
        seq = self.state.seq + 1
        event = Event(
            seq=seq,
            id=f"{seq:032x}",
            type=type_of(type(content)).name,
            version=1,
            source=source,
            step=step,
            occurred_at=seq,
            content=content,
            shown=True,
            ignorable=False,
        )
        self.events[seq] = event
        self.state = fold(self.state, event)
        return event

    def send(self) -> None:
        built = build(
            self.state, Rules(), SENDING, 10**15, Held(self.events),
            allow_waiting=True, allow_missing=True,
        )  # fmt: skip
        if not isinstance(built, Refusal):
            self.put(built.event(), "harness", self.state.step + 1)
            self.put(StepCompleted(), "provider:openai-chat", self.state.step)

    def compact(self, border: int) -> None:
        contents = Held(self.events)
        history = history_of(self.state, MEASURE, contents)
        places = [*history.borders, len(history.refs)]
        region = choose(history, contents, at=places[border % len(places)], keep_user=0)
        if isinstance(region, CannotCompact):
            return
        if not self.state.checkpoint:  # there is none, or a rewind went back behind it
            self.previous, self.previous_id, self.covered = None, "", 0
        events = [event for seq, event in self.events.items() if seq > self.covered]
        past = Past(
            self.state,
            region,
            tuple(surviving(events)),
            contents,
            "ab" * 16,
            self.previous,
            self.previous_id,
        )
        code = known(past)
        made = extract(past, code)
        small = known(past, 50)
        for one in (code, made, small):
            assert check(past, one, 0) == (() if 0 < region.units else (("larger", ""),))
            assert "\n- [] " not in checkpoint_entry(one, contents).text
        assert small.units <= code.units
        began = replace(made, started=self.put(GO, "hook:x").id)
        event = self.put(began, "harness")
        done = CompactionCompleted(checkpoint=event.seq, through=region.through, kept=region.kept)
        self.put(done, "harness")
        self.previous, self.previous_id = began, event.id
        self.covered = region.through


STEPS = st.tuples(
    st.one_of(TALK, EVENTS), st.sampled_from(("", "send", "compact")), st.integers(0, 9)
)


@given(st.lists(STEPS, max_size=20))
def test_code_writes_a_checkpoint_of_any_log(story: list[tuple[Payload, str, int]]) -> None:
    odd = Odd()
    odd.put(GO, "user")
    for content, then, border in story:
        odd.put(content, ("user", "retrieval", "harness")[border % 3], border % 3)
        if odd.state.blocked:
            return
        if then == "send":
            odd.send()
        elif then == "compact":
            odd.compact(border)
